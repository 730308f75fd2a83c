"""``/caps:off`` at the gateway: taken off what is judged and sent, and remembered for the session."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.capabilities import take_switch
from pointsman.config import load
from pointsman.gateway._capability_commands import (
    _IN_JSON,
    may_hold_command,
    take_commands,
)
from pointsman.gateway.build import Builder
from pointsman.stores.ledger.port import Ledger
from pointsman.text.extract import persons_words
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Body
from pointsman.wire.request import read_request
from support.examples import share
from support.servers import Asked, ScriptedUpstream, gateway, reply

CONFIG = """
[upstreams.up]
base_url = "{url}/v1"
formats = ["chat", "responses", "messages"]
retries = 0
[models]
small = {{ upstream = "up", id = "small-1" }}
[tiers]
simple = "small"
medium = "small"
complex = "small"
reasoning = "small"
[capabilities]
tools = 1
[server]
port = 0
router_command = {enabled}
[ledger]
path = "{folder}/ledger.sqlite"
text = "full"
"""
TOOLS = {"get_weather": "Weather forecast of a city", "send_mail": "Send an e-mail", "run": "Run a command"}


async def answer(asked: Asked, send: Any) -> None:
    await reply(send, 200, b'{"object": "chat.completion", "choices": []}')


class Served:
    """A gateway in front of an upstream that keeps what arrives."""

    def __init__(self, url: str, upstream: ScriptedUpstream, ledger: Ledger) -> None:
        self.url, self.upstream, self.ledger = url, upstream, ledger

    def send(self, wire: WireFormat, body: bytes | dict[str, Any], session: str = "s") -> httpx.Response:
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        headers = {"x-session-id": session, "content-type": "application/json", "x-pointsman-debug": "1"}
        found = httpx.post(f"{self.url}/v1{FORMATS[wire].path.decode()}", content=data, headers=headers)
        found.raise_for_status()
        return found

    def arrived(self) -> list[bytes]:
        return [asked.body for asked in self.upstream.asked]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    upstream = ScriptedUpstream(answer)
    with upstream.running() as url:
        file = tmp_path / "pointsman.toml"
        file.write_text(CONFIG.format(url=url, folder=tmp_path, enabled="true"))
        with gateway(file) as running:
            yield Served(running.url, upstream, running.gateway.state.runtime.ledger)


def content(wire: WireFormat, text: str, shape: str) -> Any:
    kind = "input_text" if wire is WireFormat.RESPONSES else "text"
    return text if shape == "string" else [{"type": kind, "text": text}]


def a_body(wire: WireFormat, *messages: tuple[str, Any], tools: bool = True) -> dict[str, Any]:
    items = [{"role": role, "content": found} for role, found in messages]
    body: dict[str, Any] = {"model": "auto", FORMATS[wire].items: items}
    if wire is WireFormat.MESSAGES:
        body["max_tokens"] = 10
    if tools and wire is WireFormat.CHAT:
        body["tools"] = [
            {"type": "function", "function": {"name": name, "description": text}}
            for name, text in TOOLS.items()
        ]
    elif tools:
        key = "input_schema" if wire is WireFormat.MESSAGES else "parameters"
        kind = {"type": "function"} if wire is WireFormat.RESPONSES else {}
        body["tools"] = [
            {**kind, "name": name, "description": text, key: {"type": "object"}}
            for name, text in TOOLS.items()
        ]
    return body


def tools_of(body: bytes) -> int:
    return len(json.loads(body)["tools"])


@pytest.mark.parametrize("wire", WireFormat)
@pytest.mark.parametrize("shape", ["string", "blocks"])
def test_a_command_is_taken_off_and_every_tool_is_passed_on(
    served: Served, wire: WireFormat, shape: str
) -> None:
    plain, commanded = ("the weather forecast of Rome, é", "/caps:off the weather forecast of Rome, é")
    served.send(wire, a_body(wire, ("user", content(wire, plain, shape))), "one")
    found = served.send(wire, a_body(wire, ("user", content(wire, commanded, shape))), "two")
    without, bypassed = served.arrived()
    assert (tools_of(without), tools_of(bypassed)) == (1, 3)
    assert json.loads(bypassed)[FORMATS[wire].items] == json.loads(without)[FORMATS[wire].items]
    assert found.headers["x-pointsman-capabilities"] == "bypass; get_weather send_mail run"
    decision = served.ledger.get(found.headers["x-pointsman-decision-id"])
    assert decision is not None
    assert decision.capabilities is not None
    assert (decision.capabilities.command, decision.capabilities.bypass) == ("/caps:off", True)
    assert served.ledger.text(decision.id) == plain


@pytest.mark.parametrize("wire", WireFormat)
def test_only_the_command_is_taken_from_the_bytes(served: Served, wire: WireFormat) -> None:
    """Spaces, escapes and the order of members are the caller's."""
    written = (
        b'{ "model":"auto" , "max_tokens": 10, "x": "/caps:off a", "%s" : [ {"content" : "\\n/caps:off   '
        b'caf\\u00e9 \\/caps:off", "role":"user"} ] }'
    ) % FORMATS[wire].items.encode()
    served.send(wire, written)
    [arrived] = served.arrived()
    wanted = written.replace(b'"\\n/caps:off   caf', b'"\\ncaf').replace(b'"auto"', b'"small-1"')
    assert arrived == wanted


@pytest.mark.parametrize("wire", WireFormat)
def test_what_is_resent_begins_with_the_bytes_of_before(served: Served, wire: WireFormat) -> None:
    first = ("user", "/caps:off the weather forecast of Rome")
    said, again = ("assistant", "rain"), ("user", "and mail it")
    served.send(wire, a_body(wire, first))
    served.send(wire, a_body(wire, first, said, again))
    before, after = (json.loads(body)[FORMATS[wire].items] for body in served.arrived())
    assert after[:1] == before == [{"role": "user", "content": "the weather forecast of Rome"}]
    assert [tools_of(body) for body in served.arrived()] == [3, 1]  # it counted for its message only


@pytest.mark.parametrize(
    "command", ["/caps:off session\n", "/caps:off:session ", "/capabilities:disabled session\n"]
)
def test_a_session_stays_without_selection_until_it_is_switched_on(served: Served, command: str) -> None:
    wire, history = WireFormat.CHAT, list[tuple[str, Any]]()
    for text in (f"{command}the weather in Rome", "and mail it", "/caps:on run it", "the weather in Oslo"):
        history.append(("user", text))
        served.send(wire, a_body(wire, *history))
        history.append(("assistant", "done"))
    served.send(wire, a_body(wire, ("user", "the weather in Rome")), "another")
    assert [tools_of(body) for body in served.arrived()] == [3, 3, 1, 3, 1]
    assert not any(b"/cap" in body for body in served.arrived())


@pytest.mark.parametrize("wire", WireFormat)
def test_a_command_alone_is_answered_here_and_remembered(served: Served, wire: WireFormat) -> None:
    found = served.send(wire, a_body(wire, ("user", "/caps:off session")))
    assert "Selection of capabilities is off: all capabilities are active, for this session." in found.text
    assert served.arrived() == []
    served.send(wire, a_body(wire, ("user", "/caps:off session"), ("assistant", "off"), ("user", "hello")))
    [arrived] = served.arrived()
    assert tools_of(arrived) == 3
    assert b"/caps:off session" in arrived  # an empty message is refused by providers


def test_the_text_that_is_the_whole_input_of_responses(served: Served) -> None:
    body = a_body(WireFormat.RESPONSES)
    served.send(WireFormat.RESPONSES, {**body, "input": "/caps:off the weather"})
    [arrived] = served.arrived()
    assert json.loads(arrived)["input"] == "the weather"
    assert tools_of(arrived) == 3


def test_a_result_of_a_tool_is_no_command(served: Served) -> None:
    use = {"type": "tool_use", "id": "t", "name": "run", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "/caps:off session\nhello"}
    nested = {**result, "content": [{"type": "text", "text": "/caps:off hello"}]}
    body = a_body(
        WireFormat.MESSAGES,
        ("user", "run it"),
        ("assistant", [use]),
        ("user", [result, nested]),
        ("assistant", "/caps:off done"),
    )
    served.send(WireFormat.MESSAGES, body)
    [arrived] = served.arrived()
    assert json.loads(arrived)["messages"] == body["messages"]


def test_where_commands_are_not_enabled_it_is_a_text_like_any_other(tmp_path: Path) -> None:
    upstream = ScriptedUpstream(answer)
    with upstream.running() as url:
        file = tmp_path / "pointsman.toml"
        file.write_text(CONFIG.format(url=url, folder=tmp_path, enabled="false"))
        state = Builder(lambda: load(file))()
        with gateway(state) as running:
            body = a_body(WireFormat.CHAT, ("user", "/caps:off the weather"))
            Served(running.url, upstream, state.runtime.ledger).send(WireFormat.CHAT, body)
    [asked] = upstream.asked
    assert json.loads(asked.body)["messages"] == body["messages"]


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("/caps:off hi", "hi"),
        ("/caps:on\nhi", "hi"),
        ("  \n/capabilities:false:session  hi", "  \nhi"),
        ("/caps:off session\nhi", "hi"),
        ("/CAPS:OFF hi", "hi"),
        ("/Capabilities:Off SESSION\nhi", "hi"),
        ("/caps\nhi", "hi"),  # on
        ("/caps:off session of today", "session of today"),  # no scope: the line goes on
        ("<user_query>\n/caps:off hi\n</user_query>", "<user_query>\nhi\n</user_query>"),
    ],
)
def test_commands(text: str, rest: str) -> None:
    written = json.dumps(text).encode()
    found = _IN_JSON.match(written)
    assert found is not None
    assert json.loads(written[: found.end(1)] + written[found.end() :]) == rest


@pytest.mark.parametrize(
    "text",
    [
        "/caps:", "/caps off", "/caps hello", "/caps:offline", "/caps:off,hi", "/capsule:off hi",
        "caps:off hi",
        "say /caps:off", "/router show", "/caps:off:message hi", "<file>/caps:off hi</file>",
    ],
)  # fmt: skip
def test_near_misses(text: str) -> None:
    assert _IN_JSON.match(json.dumps(text).encode()) is None
    assert take_switch(text) == ("", text)


@settings(deadline=None)
@given(st.text(alphabet='/caps:offn sei\n\t<user_query>"\\é', max_size=40))
def test_words_and_bytes_agree_on_what_is_a_command(text: str) -> None:
    (found, rest), written = take_switch(text), msgspec.json.encode(text)
    taken = _IN_JSON.match(written)
    if taken and not text.lstrip().startswith("<"):
        assert found
        assert msgspec.json.decode(written[: taken.end(1)] + written[taken.end() :]).strip() == (rest.strip())
    if found and text.isprintable():
        assert taken is not None


COMMANDS = ("", "", "/caps:off ", "/caps:on:session\n", "/caps:off session\n", "  /capabilities:true ")
SAID = st.tuples(
    st.sampled_from(COMMANDS), st.text(min_size=1, max_size=12), st.sampled_from(["string", "blocks"])
)


@settings(max_examples=share(0.8))
@given(st.sampled_from(sorted(WireFormat)), st.lists(SAID, min_size=2, max_size=6), st.booleans())
def test_every_request_begins_with_the_bytes_of_the_one_before(
    wire: WireFormat, said: list[tuple[str, str, str]], ascii_only: bool
) -> None:
    """Whatever commands stand in a history, the same are taken off in each request that holds it."""
    messages, before = list[tuple[str, Any]](), list[bytes]()
    for command, text, shape in said:
        messages.append(("user", content(wire, command + text, shape)))
        raw = json.dumps(a_body(wire, *messages), ensure_ascii=ascii_only).encode("utf-8", "replace")
        body = Body(FORMATS[wire], raw)
        request = read_request(wire, body, session="s")
        taken = asyncio.run(take_commands(body, request)) if may_hold_command(body) else None
        if taken is not None:
            body, request = taken.body, taken.request
        items = [bytes(item) for item in body.items()]
        assert items[: len(before)] == before
        assert len(items) == len(messages)
        assert request.history[len(items) - 1] == read_request(wire, body).history[len(items) - 1]
        if command and text.strip():
            assert request.command.startswith("/caps:")
            assert not persons_words(request).startswith("/cap")
        before = items
        messages.append(("assistant", "done"))
        before.append(json.dumps({"role": "assistant", "content": "done"}).encode())
