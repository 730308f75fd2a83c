"""An upstream with as many connections as it may have: another model, or 503; never an open circuit."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from pointsman.upstreams.port import Timeouts
from support.servers import Asked, ScriptedUpstream, gateway, reply, state_for
from support.waiting import until

pytestmark = pytest.mark.integration

HEADERS = {"content-type": "application/json"}
BODY = b'{"model":"auto","messages":[{"role":"user","content":"hi"}]}'
REPLY = b'{"choices":[{"message":{"content":"hi"}}]}'
#: The second upstream serves six requests over one connection, however slowly.
TIMES = [Timeouts(connect=2.0, first_byte=60, total=60), Timeouts(connect=60, first_byte=60, total=60)]


class Holding:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()

    async def __call__(self, asked: Asked, send: Any) -> None:
        while not self.may_answer.is_set():  # noqa: ASYNC110 - the event is another thread's
            await asyncio.sleep(0.01)
        await reply(send, 200, REPLY)


async def well(_: Asked, send: Any) -> None:
    await reply(send, 200, REPLY)


def post(client: httpx.Client) -> httpx.Response:
    return client.post("/v1/chat/completions", content=BODY, headers=HEADERS)


@pytest.mark.parametrize("others", [0, 1], ids=["alone", "another model"])
def test_all_connections_are_in_use(others: int) -> None:
    holding = Holding()
    upstream, other = ScriptedUpstream(holding), ScriptedUpstream(well)
    with upstream.running() as url, other.running() as other_url, ThreadPoolExecutor(7) as pool:
        urls = [f"{url}/v1", f"{other_url}/v1"][: 1 + others]
        state = state_for(*urls, timeouts=TIMES[: len(urls)], connections=1, retries=2)
        with gateway(state) as running, httpx.Client(base_url=running.url, timeout=60) as client:
            first = pool.submit(post, client)
            until(lambda: upstream.asked)
            answers = list(pool.map(post, [client] * 6))  # more failures than open a circuit
            ready = client.get("/health/ready").json()
            holding.may_answer.set()
            assert first.result(60).status_code == 200
    assert ready["open_circuits"] == []
    assert len(other.asked) == 6 * others
    assert [answer.status_code for answer in answers] == [200 if others else 503] * 6
    if not others:
        error = answers[0].json()["error"]
        assert error["code"] == "upstream_busy"
        assert error["message"] == 'all connections to the upstream are in use (upstream "up0")'
