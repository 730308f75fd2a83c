"""A client may name items of translated answers by their ids, as the Vercel AI SDK does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pointsman.gateway._conversation_memory import ConversationMemory
from pointsman.vocabulary import AgentRequest, WireFormat
from pointsman.wire import FORMATS, Body
from pointsman.wire.request import read_request
from pointsman.wire.translate import translated_formats
from support.deciders import ScriptedDecider
from support.servers import Asked, Running, ScriptedUpstream, gateway, reply, state_for
from support.translation import CHAT, MESSAGES, RESPONSES, SAMPLES, TEXT, payloads

CALLS = True  # whether an answer calls tools
USER = {"role": "user", "content": "hello"}


def body(**members: Any) -> Body:
    raw = json.dumps({"model": "auto", "input": [USER], **members}).encode()
    return Body(FORMATS[RESPONSES], raw)


def request(session: str = "s", at: float = 1_000.0) -> AgentRequest:
    return read_request(RESPONSES, body(), session=session, arrived_at=at)


def answer(name: str = "msg_1", size: int = 0) -> list[bytes]:
    item = {"type": "message", "id": name, "role": "assistant", "content": "x" * size}
    return [json.dumps({"id": "resp_1", "output": [item]}).encode()]


def knows(kept: ConversationMemory, name: str = "msg_1", session: str = "s", at: float = 1_000.0) -> bool:
    asked = body(input=[USER, {"type": "item_reference", "id": name}])
    return (
        bool(kept.items_weight(request(session, at))) and kept.put_back(request(session), asked) is not asked
    )


def test_an_item_is_known_in_its_session_for_a_day() -> None:
    kept = ConversationMemory()
    kept.keep_items(request(), body(), answer(), translated=True)
    assert knows(kept)
    assert not knows(kept, "msg_2")
    assert not knows(kept, session="t")
    assert knows(kept, at=86_000)
    assert not knows(kept, at=90_000)
    assert kept.held == 0


def test_what_an_upstream_stores_is_put_in_for_another_one_alone() -> None:
    kept = ConversationMemory()
    assert kept.stored_items(request()) is None
    kept.keep_items(request(), body(), answer(), translated=False)
    assert not knows(kept), "the upstream that stores it may be asked"
    find = kept.stored_items(request())
    assert find is not None
    assert json.loads(find("msg_1") or b"")["id"] == "msg_1"
    assert find("msg_2") is None


def test_nothing_is_kept_where_nothing_is_to_be_stored() -> None:
    kept = ConversationMemory()
    kept.keep_items(request(), body(store=False), answer(), translated=True)
    kept.keep_items(request(), body(), [b"data: [DONE]"], translated=True)
    assert kept.held == 0


def test_the_session_unused_longest_makes_room() -> None:
    kept = ConversationMemory(size=20_000)
    for number in range(9):
        kept.keep_items(request(f"s{number}"), body(), answer(size=3_000), translated=True)
        assert kept.held <= 20_000
    assert [knows(kept, session=f"s{number}") for number in range(9)] == [False] * 5 + [True] * 4
    kept.keep_items(request("s8"), body(), answer("msg_2", size=30_000), translated=True)
    assert not knows(kept, session="s8")
    assert kept.held <= 20_000


@pytest.fixture(params=[CHAT, MESSAGES])
def running(request: pytest.FixtureRequest) -> Iterator[tuple[Running, ScriptedUpstream]]:
    upstream: WireFormat = request.param
    spoken = SAMPLES[upstream]

    async def answering(asked: Asked, send: Any) -> None:
        if not json.loads(asked.body).get("stream"):
            await reply(send, 200, json.dumps(spoken.answer(not CALLS)).encode())
            return
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for event in spoken.events(not CALLS):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    server = ScriptedUpstream(answering)
    formats = frozenset({upstream})
    with (
        server.running() as url,
        gateway(
            state_for(
                f"{url}/v1",
                decider=ScriptedDecider("m0"),
                formats=formats,
                translated=translated_formats(formats),
            )
        ) as gate,
    ):
        yield gate, server


@pytest.mark.integration
@pytest.mark.parametrize("stream", [False, True])
def test_the_next_request_may_name_the_items_of_an_answer(
    running: tuple[Running, ScriptedUpstream], stream: bool
) -> None:
    gate, upstream = running

    def ask(*items: Any) -> list[dict[str, Any]]:
        asked = {"model": "auto", "input": items, "stream": stream}
        got = httpx.post(f"{gate.url}/v1/responses", json=asked, timeout=60)
        assert got.status_code == 200, got.text
        whole = payloads(got.content)[-1]["response"] if stream else got.json()
        output: list[dict[str, Any]] = whole["output"]
        return output

    first = ask(USER)
    references = [{"type": "item_reference", "id": item["id"]} for item in first]
    second = ask(USER, *references, USER)
    said = json.loads(upstream.asked[-1].body)["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "user"]
    assert TEXT in json.dumps(said[1], ensure_ascii=False)
    assert {item["id"] for item in first}.isdisjoint(item["id"] for item in second), (
        "the server's id is the same"
    )
    unknown = {"model": "auto", "input": [USER, {"type": "item_reference", "id": "msg_other"}]}
    refused = httpx.post(f"{gate.url}/v1/responses", json=unknown, timeout=60)
    assert refused.status_code == 400
    assert "stored by another provider" in refused.text


def test_a_compaction_is_put_back_as_words_even_where_nothing_is_stored() -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "pointsman-summary:aGVsbG8="}
    kept = ConversationMemory()
    done = json.dumps({"id": "resp_1", "output": [item]}).encode()
    kept.keep_items(request(), body(store=False), [done], translated=True)
    asked = body(input=[item, USER], store=False)
    whole = kept.put_back(request(), asked)
    assert json.loads(whole.raw)["input"][0]["content"].endswith("hello")
    assert kept.put_back(request("t"), asked) is asked


def test_one_session_keeps_a_quarter_at_most() -> None:
    kept = ConversationMemory(40_000)
    kept.keep_items(request("other"), body(), answer("msg_other"), translated=True)
    for number in range(30):
        kept.keep_items(request(), body(), answer(f"msg_{number}", 1_000), translated=True)
    assert knows(kept, "msg_other", session="other")
    assert kept.held <= 40_000 / 4 + 5_000
