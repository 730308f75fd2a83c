"""A caller who leaves ends the upstream's work within a second, in every format, streamed or not."""

import asyncio
import json
import socket
from typing import Any

import httpx
import pytest

from pointsman.gateway._inbound import DisconnectWatches
from pointsman.gateway._streaming import usage_so_far
from pointsman.testing import MemoryLedger
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Usage
from support.deciders import ScriptedDecider
from support.raw_http import ASKED, JSON, head
from support.requests_by_format import PATHS, events, format_of, request, start_stream
from support.servers import Asked, ScriptedUpstream, gateway, state_for
from support.waiting import until

pytestmark = pytest.mark.integration

WITHIN = 1.0  # seconds in which a watch begins, on a machine that is not busy


async def endless(asked: Asked, send: Any) -> None:
    """Think for ever; when streaming, after the first event."""
    if json.loads(asked.body).get("stream"):
        await start_stream(send, events(format_of(asked.path))[0])
    await asyncio.sleep(60)


async def leave(url: str, wire: WireFormat, upstream: ScriptedUpstream, *, stream: bool) -> None:
    """Ask, and leave when the upstream is at work."""
    async with httpx.AsyncClient(trust_env=False) as client:
        sent = client.build_request("POST", url + PATHS[wire], json=request(wire, stream=stream))
        asking = asyncio.create_task(client.send(sent, stream=True))
        await asyncio.to_thread(until, lambda: upstream.asked)
        if stream:
            got = await asking
            await anext(got.aiter_raw())
        asking.cancel()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WireFormat)
def test_the_upstream_learns_that_the_caller_left(wire: WireFormat, stream: bool) -> None:
    upstream, ledger = ScriptedUpstream(endless), MemoryLedger()
    decider = ScriptedDecider("m0", ledger=ledger)
    with upstream.running() as url, gateway(state_for(f"{url}/v1", decider=decider)) as running:
        asyncio.run(leave(running.url, wire, upstream, stream=stream))
        assert upstream.closed.wait(60)
        until(lambda: ledger.attempts("d-1"))
        until(lambda: "pointsman_disconnects_total 1" in httpx.get(f"{running.url}/metrics").text)
        assert "pointsman_requests_in_progress 0" in httpx.get(f"{running.url}/metrics").text
    assert [attempt.error for attempt in ledger.attempts("d-1")] == ["disconnect"]
    assert len(upstream.asked) == 1


def test_who_leaves_with_another_request_behind_the_first_is_no_failure_of_the_upstream() -> None:
    """What came meanwhile was written to a closed connection, and the upstream was said not to speak HTTP."""

    async def talkative(asked: Asked, send: Any) -> None:
        event = events(format_of(asked.path))[0]
        await start_stream(send, event)
        while not asked.disconnected.is_set():
            await asyncio.sleep(0.005)
            await send({"type": "http.response.body", "body": event, "more_body": True})

    asked = ASKED[:-1] + b',"stream":true}'
    upstream, ledger = ScriptedUpstream(talkative), MemoryLedger()
    decider = ScriptedDecider("m0", ledger=ledger)
    with upstream.running() as url, gateway(state_for(f"{url}/v1", decider=decider)) as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
            connection.sendall(2 * (head(JSON, length=len(asked)) + asked))
            assert b"200 OK" in connection.recv(1 << 16)
        until(lambda: ledger.attempts("d-1"))
        assert "pointsman_requests_in_progress 0" in httpx.get(f"{running.url}/metrics").text
    assert [attempt.error for attempt in ledger.attempts("d-1")] == ["disconnect"]
    assert len(upstream.asked) == 1


def test_a_watch_begins_soon_enough() -> None:
    assert 2 * DisconnectWatches._EVERY < WITHIN


#: Usage that a caller leaves behind after 20 pieces of the answer; a request has 70 to 100 bytes.
LEFT = {WireFormat.CHAT: (15, 30), WireFormat.RESPONSES: (10, 30), WireFormat.MESSAGES: (7, 7)}


@pytest.mark.parametrize("wire", WireFormat)
def test_what_was_used_until_the_caller_left_is_kept(wire: WireFormat) -> None:
    """The provider bills it. It was written down as nothing."""
    pieces = 20

    async def half(asked: Asked, send: Any) -> None:
        parts = events(format_of(asked.path))
        piece = next(part for part in parts if b"Paris" in part)
        await start_stream(send, *parts[: parts.index(piece)], *[piece] * pieces)
        await asked.disconnected.wait()

    async def read_a_part(url: str) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            sent = client.build_request("POST", url + PATHS[wire], json=request(wire, stream=True))
            parts = (await client.send(sent, stream=True)).aiter_raw()
            got = b""
            while got.count(b"Paris") < pieces:
                got += await anext(parts)

    upstream, ledger = ScriptedUpstream(half), MemoryLedger()
    decider = ScriptedDecider("m0", ledger=ledger)
    with upstream.running() as url, gateway(state_for(f"{url}/v1", decider=decider)) as running:
        asyncio.run(read_a_part(running.url))
        until(lambda: ledger.attempts("d-1"))
    [attempt] = ledger.attempts("d-1")
    assert (attempt.error, attempt.estimated) == ("disconnect", True)
    least, most = LEFT[wire]
    assert attempt.input_tokens is not None
    assert least <= attempt.input_tokens <= most
    assert attempt.output_tokens is not None
    assert pieces <= attempt.output_tokens <= 2 * pieces  # a piece is 7 bytes of text


def test_usage_that_was_reported_is_no_estimate() -> None:
    stream = events(WireFormat.MESSAGES)
    usage, is_estimated = usage_so_far(FORMATS[WireFormat.MESSAGES], 400, stream, 1_000)
    assert (usage.input, usage.output, is_estimated) == (7, 4, False)


def test_nothing_but_a_request_is_input_alone() -> None:
    assert usage_so_far(FORMATS[WireFormat.CHAT], 400, [], 0) == (Usage(100, None, 0), True)
