"""A caller who leaves ends the upstream's work within a second, in every format, streamed or not."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from pointsman.testing import MemoryLedger, ScriptedDecider
from pointsman.vocabulary import WireFormat
from support.requests_by_format import PATHS, events, format_of, request, start_stream
from support.servers import Asked, ScriptedUpstream, gateway, state_for
from support.waiting import until

pytestmark = pytest.mark.integration

WITHIN = 1.0  # seconds


async def endless(asked: Asked, send: Any) -> None:
    """Think for ever; when streaming, after the first event."""
    if json.loads(asked.body).get("stream"):
        await start_stream(send, events(format_of(asked.path))[0])
    await asyncio.sleep(60)


async def leave(url: str, wire: WireFormat, upstream: ScriptedUpstream, *, stream: bool) -> float:
    """Ask, leave when the upstream is at work, and return when that was."""
    async with httpx.AsyncClient(trust_env=False) as client:
        sent = client.build_request("POST", url + PATHS[wire], json=request(wire, stream=stream))
        asking = asyncio.create_task(client.send(sent, stream=True))
        await asyncio.to_thread(until, lambda: upstream.asked)
        if stream:
            got = await asking
            await anext(got.aiter_raw())
        left = time.monotonic()
        asking.cancel()
    return left


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WireFormat)
def test_the_upstream_learns_that_the_caller_left(wire: WireFormat, stream: bool) -> None:
    upstream, ledger = ScriptedUpstream(endless), MemoryLedger()
    decider = ScriptedDecider("m0", ledger=ledger)
    with upstream.running() as url, gateway(state_for(f"{url}/v1", decider=decider)) as running:
        left = asyncio.run(leave(running.url, wire, upstream, stream=stream))
        assert upstream.closed.wait(WITHIN - (time.monotonic() - left))
        until(lambda: ledger.attempts("d-1"))
        until(lambda: "pointsman_disconnects_total 1" in httpx.get(f"{running.url}/metrics").text)
        assert "pointsman_requests_in_progress 0" in httpx.get(f"{running.url}/metrics").text
    assert [attempt.error for attempt in ledger.attempts("d-1")] == ["disconnect"]
    assert len(upstream.asked) == 1
