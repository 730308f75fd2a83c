"""What reaches the upstream, and what comes back."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from support.scripted_formats import REPLY, SPOKEN, Spoken
from support.servers import Answering, Asked, ScriptedUpstream, gateway, reply, state_for

pytestmark = pytest.mark.integration


async def echo(asked: Asked, send: Any) -> None:
    """Answer well in whichever format was asked."""
    spoken = next(s for s in SPOKEN.values() if asked.path.startswith(s.path))
    await reply(send, 200, spoken.whole, ("content-type", "application/json"), ("x-ratelimit-left", "7"))


@pytest.fixture(scope="module")
def upstream() -> ScriptedUpstream:
    return ScriptedUpstream(echo)


@pytest.fixture(scope="module")
def client(upstream: ScriptedUpstream) -> Iterator[httpx.Client]:
    with (
        upstream.running() as url,
        gateway(state_for(f"{url}/v1")) as running,
        httpx.Client(base_url=running.url) as made,
    ):
        yield made


@pytest.fixture
def answering(upstream: ScriptedUpstream) -> Iterator[Any]:
    """Set how the upstream answers, for one test."""

    def change(new: Answering) -> None:
        upstream.answering = new

    upstream.asked.clear()
    upstream.closed.clear()
    yield change
    upstream.answering = echo


def post(client: httpx.Client, spoken: Spoken, body: bytes | None = None, **headers: str) -> httpx.Response:
    sent = {
        "content-type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return client.post(spoken.path, content=body or spoken.body(), headers=sent)


def test_the_answer_comes_back_as_it_was(client: httpx.Client, spoken: Spoken, answering: Any) -> None:
    answer = post(client, spoken)
    assert answer.content == spoken.whole
    assert answer.headers["x-ratelimit-left"] == "7"


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_paths_with_and_without_the_version(client: httpx.Client, spoken: Spoken, prefix: str) -> None:
    path = prefix + spoken.path.removeprefix("/v1")
    answer = client.post(path, content=spoken.body(), headers={"content-type": "application/json"})
    assert answer.status_code == 200


def test_headers_on_the_way_up(
    client: httpx.Client, upstream: ScriptedUpstream, spoken: Spoken, answering: Any
) -> None:
    post(
        client,
        spoken,
        anthropic_version="2023-06-01",
        anthropic_beta="context-1m",
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        authorization="Bearer sk-caller",
        x_api_key="sk-caller",
        cookie="session=1",
        x_forwarded_for="10.0.0.1",
        x_pointsman_tier="SIMPLE",
    )
    got = upstream.asked[-1].headers
    assert got["anthropic-version"] == "2023-06-01"
    assert got["anthropic-beta"] == "context-1m"
    assert got["traceparent"].startswith("00-4bf9")
    assert "sk-upstream" in (got.get("authorization", "") + got.get("x-api-key", ""))
    assert "sk-caller" not in str(got)
    assert not {"cookie", "x-forwarded-for", "x-pointsman-tier"} & got.keys()


def test_each_format_carries_the_key_its_own_way(
    client: httpx.Client, upstream: ScriptedUpstream, spoken: Spoken
) -> None:
    post(client, spoken)
    name = "x-api-key" if spoken.path == "/v1/messages" else "authorization"
    assert "sk-upstream" in upstream.asked[-1].headers[name]


def test_what_is_told_back(client: httpx.Client, spoken: Spoken) -> None:
    answer = post(client, spoken, x_request_id="mine-1", x_pointsman_debug="1", x_session_id="s-1")
    assert answer.headers["x-pointsman-tier"] == "SIMPLE"
    assert answer.headers["x-pointsman-model"] == "m0"
    assert answer.headers["x-pointsman-attempts"] == "1"
    assert float(answer.headers["x-pointsman-overhead-ms"]) > 0
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["x-pointsman-session"] == "s-1"
    assert answer.headers["x-pointsman-stage"] == "rules"
    decision = client.get(f"/v1/decisions/{answer.headers['x-pointsman-decision-id']}").json()
    assert decision["decision"]["input"]["session"] == "s-1"
    assert [attempt["status"] for attempt in decision["attempts"]] == [200]
    assert decision["attempts"][0]["input_tokens"] == 3


def test_nobody_else_sets_our_headers(client: httpx.Client, spoken: Spoken, answering: Any) -> None:
    async def forging(asked: Asked, send: Any) -> None:
        await reply(
            send,
            200,
            spoken.whole,
            ("content-type", "application/json"),
            ("x-pointsman-tier", "FORGED"),
            ("set-cookie", "a=1"),
        )

    answering(forging)
    answer = post(client, spoken)
    assert answer.headers.get_list("x-pointsman-tier") == ["SIMPLE"]
    assert "set-cookie" not in answer.headers


def test_events_pass_one_by_one(client: httpx.Client, spoken: Spoken, answering: Any) -> None:
    """Each event is with the caller before the upstream sends the next."""
    go = threading.Semaphore(0)

    async def stepwise(asked: Asked, send: Any) -> None:
        await start_stream(send)
        for event in spoken.events:
            await asyncio.to_thread(go.acquire)
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    answering(stepwise)
    go.release()
    headers = {"content-type": "application/json"}
    with client.stream("POST", spoken.path, content=spoken.body(stream=True), headers=headers) as answer:
        seen = []
        for chunk in answer.iter_raw():
            seen.append(chunk)
            go.release()
    assert seen == spoken.events
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["x-pointsman-model"] == "m0"


async def start_stream(send: Any) -> None:
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
    )


def test_a_stream_that_ends_early_and_politely_is_cut_as_well(
    client: httpx.Client, spoken: Spoken, answering: Any
) -> None:
    async def early(asked: Asked, send: Any) -> None:
        await start_stream(send)
        await send({"type": "http.response.body", "body": b"".join(spoken.events[:2])})

    answering(early)
    answer = post(client, spoken, spoken.body(stream=True))
    assert b"before the answer was whole" in answer.content
    assert spoken.closing not in answer.content


def test_usage_of_a_stream_is_written_down(client: httpx.Client, spoken: Spoken, answering: Any) -> None:
    async def streaming(asked: Asked, send: Any) -> None:
        await start_stream(send)
        for event in spoken.wire.answer_events(replace(REPLY, wants_usage=True)):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    answering(streaming)
    answer = post(client, spoken, spoken.body(stream=True))
    attempt = client.get(f"/v1/decisions/{answer.headers['x-pointsman-decision-id']}").json()["attempts"][0]
    assert (attempt["input_tokens"], attempt["output_tokens"], attempt["error"]) == (3, 4, "")


def test_what_fills_a_silence_hides_no_usage(client: httpx.Client, spoken: Spoken, answering: Any) -> None:
    """A gateway sends pings before the first event, and after the last while its own upstream hangs up."""

    async def streaming(asked: Asked, send: Any) -> None:
        await start_stream(send)
        reply = replace(REPLY, wants_usage=True, text="one two three four five six")
        for event in (spoken.wire.keep_alive, *spoken.wire.answer_events(reply), *[b": bye\n\n"] * 6):
            if b'"message_delta"' in event:  # Anthropic's own repeats the input there, others do not
                event = re.sub(rb'"\w*input_tokens":\d+,', b"", event)
            await send({"type": "http.response.body", "body": event, "more_body": True})
            await asyncio.sleep(0.01)
        await send({"type": "http.response.body", "body": b""})

    answering(streaming)
    answer = post(client, spoken, spoken.body(stream=True))
    attempt = client.get(f"/v1/decisions/{answer.headers['x-pointsman-decision-id']}").json()["attempts"][0]
    assert answer.content.endswith(b": bye\n\n" * 6)
    assert (attempt["input_tokens"], attempt["output_tokens"], attempt["error"]) == (3, 4, "")


@pytest.mark.parametrize("reported", [-5, 10**30])
def test_an_impossible_number_of_tokens_is_written_down_as_not_reported(
    client: httpx.Client, spoken: Spoken, answering: Any, reported: int
) -> None:
    """A negative count would lower the costs of the day, and SQLite takes no larger integer than 64 bits."""
    counts = dict.fromkeys(("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens"), reported)
    odd = json.dumps({**json.loads(spoken.whole), "usage": counts}).encode()

    async def wrong(asked: Asked, send: Any) -> None:
        await reply(send, 200, odd)

    answering(wrong)
    answer = post(client, spoken)
    assert (answer.status_code, answer.content) == (200, odd)
    attempt = client.get(f"/v1/decisions/{answer.headers['x-pointsman-decision-id']}").json()["attempts"][0]
    assert (attempt.get("input_tokens"), attempt.get("output_tokens"), attempt["error"]) == (None, None, "")


def test_what_the_caller_did_wrong_is_returned_and_not_retried(
    client: httpx.Client, upstream: ScriptedUpstream, spoken: Spoken, answering: Any
) -> None:
    theirs = b'{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens is too large"}}'

    async def refuse(asked: Asked, send: Any) -> None:
        await reply(send, 400, theirs)

    answering(refuse)
    answer = post(client, spoken)
    assert (answer.status_code, answer.content) == (400, theirs)
    assert len(upstream.asked) == 1
