"""A caller who leaves ends the upstream's work within a second, in every format, streamed or not."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from pointsman.gateway._inbound import DisconnectWatches
from pointsman.testing import MemoryLedger, ScriptedDecider
from pointsman.vocabulary import WireFormat
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


def test_a_watch_begins_soon_enough() -> None:
    assert 2 * DisconnectWatches._EVERY < WITHIN
