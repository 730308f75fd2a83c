"""Two providers: which of equal models serves, what ids mean, and how a session comes down again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.config.draft import draft, find_providers
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS
from support.requests_by_format import PATHS, post, request
from support.servers import gateway

pytestmark = pytest.mark.integration

PROOF = "prove the theorem step by step please"
CLAUDE = {"user-agent": "claude-cli/2.1.197 (external, sdk-cli)"}
CODEX = {"user-agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64)"}
TIERS = """
[server]
port = 0
[tiers]
simple = "small"
medium = "mid"
complex = "big"
reasoning = "deep"
[upstreams.main]
base_url = "demo:"
[models]
small = {{ upstream = "main", id = "s"{0} }}
mid = {{ upstream = "main", id = "m"{0} }}
big = {{ upstream = "main", id = "b"{0} }}
deep = {{ upstream = "main", id = "d"{1} }}
"""
DEAR = ", input_per_million = 10, output_per_million = 50"
CHEAP = ", input_per_million = 0.1, output_per_million = 0.5"


class Asking:
    """Asks a gateway, and returns who answered."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(
        self, text: str | list[Any], wire: WireFormat = WireFormat.CHAT, **more: Any
    ) -> httpx.Headers:
        said: Any = text
        if isinstance(text, str) and wire is not WireFormat.RESPONSES:
            said = [{"role": "user", "content": text}]
        asked = {"x-pointsman-debug": "1", **more.pop("headers", {})}
        body = request(wire, **{FORMATS[wire].items: said}, **more)
        answer = post(self.url + PATHS[wire], json=body, headers=asked)
        answer.raise_for_status()
        return answer.headers

    def model(self, text: str | list[Any], wire: WireFormat = WireFormat.CHAT, **more: Any) -> str:
        return str(self(text, wire, **more)["x-pointsman-model"])


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[str], Asking]]:
    """Serve a configuration from a file."""
    with ExitStack() as stack:

        def start(text: str) -> Asking:
            file = tmp_path / "pointsman.toml"
            file.write_text(f'{text}\n[ledger]\npath = "ledger.sqlite"\n', encoding="utf-8")
            return Asking(stack.enter_context(gateway(file, {})).url)

        yield start


@pytest.fixture
def two_keys(serve: Callable[[str], Asking]) -> Asking:
    """What `config init` writes for two keys; the demo answers in the place of both."""
    found = find_providers({"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b"})
    text = draft([each._replace(base_url="demo:", variable="") for each in found])
    assert 'simple    = ["gpt-luna", "haiku"]' in text  # of equal prices: the order of PROVIDERS
    prices = "input_per_million = {}, output_per_million = {}"
    for id_, price in (
        ("gpt-6-luna", (0.1, 0.5)),
        ("claude-haiku-5-5", (0.1, 0.5)),
        ("gpt-6.1-sol", (2, 10)),
        ("claude-sonnet-5-5", (2, 10)),
    ):
        text = text.replace(f'id = "{id_}"', f'id = "{id_}", {prices.format(*price)}')
    text = text.replace("port = 4747", "port = 0").partition("[ledger]")[0]
    return serve(text)


@pytest.mark.parametrize(
    ("wire", "headers", "model", "simple", "hard"),
    [
        (WireFormat.MESSAGES, CLAUDE, "claude-opus-4-8", "haiku", "sonnet"),
        (WireFormat.MESSAGES, {}, "auto", "haiku", "sonnet"),
        (WireFormat.RESPONSES, CODEX, "gpt-6.1-sol", "gpt-luna", "gpt-sol"),
        (WireFormat.RESPONSES, {}, "auto", "gpt-luna", "gpt-sol"),
        (WireFormat.CHAT, {}, "auto", "gpt-luna", "gpt-sol"),  # neither speaks it: the order of the list
    ],
)
def test_of_equal_prices_the_native_format_wins(
    two_keys: Asking, wire: WireFormat, headers: dict[str, str], model: str, simple: str, hard: str
) -> None:
    assert two_keys.model("hello", wire, headers=headers, model=model) == simple
    assert two_keys.model(PROOF, wire, headers=headers, model=model) == hard


@pytest.mark.parametrize(
    ("headers", "model", "served", "reason"),
    [
        ({}, "claude-sonnet-5-5", "sonnet", "routing.id"),
        (CLAUDE, "claude-sonnet-5-5", "sonnet", "routing.id"),
        ({}, "gpt-6.1-sol", "gpt-sol", "routing.id"),
        (CODEX, "gpt-6.1-sol", "haiku", "routing.alias"),  # Codex sends it unless told otherwise
        (CLAUDE, "gpt-6.1-sol", "gpt-sol", "routing.id"),  # Claude Code does not
        (CLAUDE, "claude-sonnet-5-5[1m]", "haiku", "routing.alias"),  # near miss: another name
        (CLAUDE, "claude-auto", "haiku", "routing.alias"),
    ],
)
def test_an_exact_id_is_the_model(
    two_keys: Asking, headers: dict[str, str], model: str, served: str, reason: str
) -> None:
    found = two_keys("hello", WireFormat.MESSAGES, headers=headers, model=model)
    assert (found["x-pointsman-model"], found["x-pointsman-reasons"].split("; ")[0]) == (served, reason)


def test_claude_auto_is_listed(two_keys: Asking) -> None:
    listed = httpx.get(two_keys.url + "/v1/models", trust_env=False, verify=False).json()["data"]
    assert "claude-auto" in [each["id"] for each in listed]


@pytest.mark.parametrize("price", ["", DEAR])
def test_a_session_comes_down_again(serve: Callable[[str], Asking], price: str) -> None:
    """Without prices the order of the tiers counts; with them a short conversation costs nothing to move."""
    ask = serve(TIERS.format(CHEAP if price else "", price))
    session = {"x-session-id": "s"}
    texts = ("What is 2+2?", PROOF, "What is 3+3?", "hello", "thanks", "What is the capital of Peru?")
    assert [ask.model(text, headers=session) for text in texts] == ["small", "deep", *["small"] * 4]


@pytest.mark.parametrize("switching", ["session", "weighed"])
def test_the_tier_is_decided_at_the_start_of_a_session(
    serve: Callable[[str], Asking], switching: str
) -> None:
    ask = serve(TIERS.format(CHEAP, DEAR).replace("[tiers]", f'[tiers]\nswitching = "{switching}"'))
    easy, hard = {"x-session-id": "easy"}, {"x-session-id": "hard"}
    assert [ask.model(text, headers=easy) for text in ("What is 2+2?", PROOF, "hello")] == ["small"] * 3
    assert "routing.session" in ask(PROOF, headers=easy)["x-pointsman-reasons"]
    assert "routing.starts" in (first := ask(PROOF, headers=hard))["x-pointsman-reasons"]
    assert first["x-pointsman-model"] == "deep"
    assert ask.model("What is 2+2?", headers=hard) == ("deep" if switching == "session" else "small")


@pytest.mark.parametrize("price", ["", DEAR])
@pytest.mark.parametrize("forced", ["reasoning", "complex", "medium", "deep"])
def test_a_forced_tier_ends_with_its_request(serve: Callable[[str], Asking], price: str, forced: str) -> None:
    ask = serve(TIERS.format(CHEAP if price else "", price))
    text = "What is the capital of Peru?"
    assert ask.model(text, model=forced) != "small"
    assert ask.model(text) == "small"


def test_an_equal_text_is_no_tool_loop(serve: Callable[[str], Asking]) -> None:
    """The same words once more are weighed; the results of tools behind them go on with the model."""
    ask = serve(TIERS.format("", ""))
    words = {"role": "user", "content": PROOF}
    call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    loop = [
        words,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "a.py"},
    ]
    session = {"x-session-id": "s"}
    assert ask.model([words], headers=session) == "deep"
    again = ask([words], headers=session)
    assert "routing.tool-loop" not in again["x-pointsman-reasons"]
    goes_on = ask(loop, headers=session)
    assert goes_on["x-pointsman-model"] == "deep"


def test_a_forced_request_within_a_loop_leaves_the_loop_its_model(serve: Callable[[str], Asking]) -> None:
    ask = serve(TIERS.format("", ""))
    session = {"x-session-id": "s"}
    hello = {"role": "user", "content": "hello"}
    assert ask.model([hello], headers=session) == "small"
    assert ask.model([hello], headers=session, model="reasoning") == "deep"
    call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    loop = [
        hello,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "a.py"},
    ]
    assert ask.model(loop, headers=session) == "small"
