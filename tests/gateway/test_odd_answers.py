"""Answers that cannot be read, as a provider, or something between it and us, may send them."""

from typing import Any

import httpx
import pytest

from pointsman.testing import MemoryLedger
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Ending, Fault, sse
from support.deciders import ScriptedDecider
from support.requests_by_format import PATHS, answer, events, request, start_stream
from support.servers import Asked, ScriptedUpstream, gateway, reply, state_for

DEEP = b"[" * 100_000 + b"]" * 100_000
ODD = {
    "bytes": b'{"type": "\xff", "model": "\xff"}',
    "deep": b'{"type": "error", "error": ' + DEEP + b', "usage": ' + DEEP + b"}",
    "half": b'{"type": "mess',
    "number": b'{"type": 7, "usage": 7, "choices": 7, "response": 7, "message": 7}',
    "null": b"null",
    "list": b"[]",
    "nothing": b"",
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("wire", WireFormat)
def test_an_event_that_cannot_be_read_says_nothing(wire: WireFormat, odd: bytes) -> None:
    spoken, event = FORMATS[wire], b"data: " + odd + b"\n\n"
    assert spoken.end([event, *events(wire)]).ending is Ending.COMPLETE
    assert spoken.end([*events(wire)[:2], event]).ending is Ending.CUT
    assert spoken.refusal(event) is None
    assert not spoken.is_error(odd)


@pytest.mark.integration
@pytest.mark.parametrize("odd", [ODD["bytes"], ODD["deep"]], ids=["bytes", "deep"])
@pytest.mark.parametrize("wire", WireFormat)
def test_such_an_event_passes_and_the_stream_goes_on(wire: WireFormat, odd: bytes) -> None:
    sent = [*events(wire)[:2], b"data: " + odd + b"\n\n", *events(wire)[2:]]

    async def answering(asked: Asked, send: Any) -> None:
        await start_stream(send, *sent)
        await send({"type": "http.response.body", "body": b""})

    upstream = ScriptedUpstream(answering)
    with upstream.running() as url, gateway(state_for(f"{url}/v1")) as running:
        got = httpx.post(running.url + PATHS[wire], json=request(wire, stream=True), trust_env=False)
    assert got.content == b"".join(sent)


@pytest.mark.integration
@pytest.mark.parametrize("wire", WireFormat)
def test_a_stream_that_ends_in_such_an_event_is_cut(wire: WireFormat) -> None:
    async def answering(asked: Asked, send: Any) -> None:
        await start_stream(send, *events(wire)[:2], b"data: " + ODD["bytes"] + b"\n\n")
        await send({"type": "http.response.body", "body": b""})

    upstream = ScriptedUpstream(answering)
    with upstream.running() as url, gateway(state_for(f"{url}/v1")) as running:
        got = httpx.post(running.url + PATHS[wire], json=request(wire, stream=True), trust_env=False)
    last = list(sse.events(got.content))[-1]
    assert b"before the answer was whole" in last
    assert b"error" in last


@pytest.mark.integration
@pytest.mark.parametrize("wire", WireFormat)
def test_a_whole_answer_nested_too_deep_is_none(wire: WireFormat) -> None:
    """As when a proxy answers in the provider's place; what can be read passes as it is."""

    async def answering(asked: Asked, send: Any) -> None:
        await reply(send, 200, answer(wire)[:-1] + b',"x":' + DEEP + b"}")

    upstream = ScriptedUpstream(answering)
    with upstream.running() as url, gateway(state_for(f"{url}/v1")) as running:
        got = httpx.post(running.url + PATHS[wire], json=request(wire), trust_env=False)
    assert got.status_code == 502
    assert "not JSON" in got.json()["error"]["message"]


def _with_half(part: bytes) -> bytes:
    return part.replace(b"of course", rb"of course \ud83d")


@pytest.mark.integration
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", WireFormat)
def test_an_answer_with_half_a_surrogate_pair_is_relayed_as_it_came(
    wire: WireFormat, *, stream: bool
) -> None:
    """JavaScript writes one where it cuts a text inside an emoji."""
    whole, parts = _with_half(answer(wire)), list(map(_with_half, events(wire)))
    if wire is WireFormat.CHAT:  # some servers write the last words, the reason and the usage in one event
        usage = b'"usage":{"prompt_tokens":7,"completion_tokens":4}'
        last = rb'{"choices":[{"delta":{"content":"\ud83d"},"finish_reason":"stop"}],%b}' % usage
        parts[1:-1] = [b"data: %b\n\n" % last]

    async def answering(asked: Asked, send: Any) -> None:
        if not stream:
            await reply(send, 200, whole)
            return
        await start_stream(send, *parts)
        await send({"type": "http.response.body", "body": b""})

    upstream, ledger = ScriptedUpstream(answering), MemoryLedger()
    decider = ScriptedDecider("m0", ledger=ledger)
    with upstream.running() as url, gateway(state_for(f"{url}/v1", decider=decider)) as running:
        got = httpx.post(running.url + PATHS[wire], json=request(wire, stream=stream), trust_env=False)
    assert got.content == (b"".join(parts) if stream else whole)
    [attempt] = ledger.attempts("d-1")
    assert (attempt.error, attempt.output_tokens) == ("", 4)


@pytest.mark.integration
@pytest.mark.parametrize("status", [400, 200])
@pytest.mark.parametrize("spoken", WireFormat)
@pytest.mark.parametrize("wire", WireFormat)
def test_an_error_with_half_a_surrogate_pair_keeps_its_words(
    wire: WireFormat, spoken: WireFormat, status: int
) -> None:
    """A provider repeats the words of a prompt, and clients shorten a prompt by the code of the error."""
    error = FORMATS[spoken].error(Fault(400, "too long: HALF", "context_length_exceeded", "messages"))
    body = error.replace(b"HALF", rb"caf\ud83d")

    async def answering(asked: Asked, send: Any) -> None:
        await reply(send, status, body)

    upstream = ScriptedUpstream(answering)
    with upstream.running() as url, gateway(state_for(f"{url}/v1", formats=[frozenset({spoken})])) as running:
        got = httpx.post(running.url + PATHS[wire], json=request(wire), trust_env=False)
    if wire is spoken:
        assert (got.status_code, got.content) == (status, body)
        return
    told = got.json()["error"]
    assert (got.status_code, told["message"]) == (400 if status == 400 else 502, "too long: caf\ufffd")
    if WireFormat.MESSAGES not in (wire, spoken):
        assert told["code"] == "context_length_exceeded"


@pytest.mark.integration
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("spoken", WireFormat)
@pytest.mark.parametrize("wire", WireFormat)
def test_an_answer_with_half_a_surrogate_pair_is_translated(
    wire: WireFormat, spoken: WireFormat, *, stream: bool
) -> None:
    """One of Responses was a 502, or a stream that broke off."""

    def with_half(part: bytes) -> bytes:
        return part.replace(b"course", rb"course \ud83d")

    async def answering(asked: Asked, send: Any) -> None:
        if not stream:
            await reply(send, 200, with_half(answer(spoken)))
            return
        await start_stream(send, *map(with_half, events(spoken)))
        await send({"type": "http.response.body", "body": b""})

    upstream, ledger = ScriptedUpstream(answering), MemoryLedger()
    with upstream.running() as url:
        decider = ScriptedDecider("m0", ledger=ledger)
        state = state_for(f"{url}/v1", decider=decider, formats=[frozenset({spoken})])
        with gateway(state) as running:
            got = httpx.post(running.url + PATHS[wire], json=request(wire, stream=stream), trust_env=False)
    assert got.status_code == 200
    assert b"course" in got.content
    assert [attempt.error for attempt in ledger.attempts("d-1")] == [""]
