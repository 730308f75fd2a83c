"""A key that an upstream repeats in an error, on its way to the caller, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from pointsman.vocabulary import WireFormat
from support.deciders import ScriptedDecider
from support.servers import Asked, ScriptedUpstream, gateway, reply, state_for

pytestmark = pytest.mark.integration

SAID = b'{"error":{"message":"wrong key: Bearer \\u0073k-upstream, sk-upstream","type":"api_error"}}'
DELTA = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'


async def refusing(asked: Asked, send: Any) -> None:
    if not json.loads(asked.body).get("stream"):
        await reply(send, 400, SAID)
        return
    headers: Any = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for event in (DELTA, b"data: " + SAID + b"\n\n"):
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_no_caller_is_told_the_key(path: str, stream: bool) -> None:
    body = {"model": "m0", "max_tokens": 9, "stream": stream, "messages": [{"role": "user", "content": "a"}]}
    with ScriptedUpstream(refusing).running() as url:
        formats = [frozenset({WireFormat.CHAT})]
        with gateway(state_for(f"{url}/v1", decider=ScriptedDecider("m0"), formats=formats)) as running:
            got = httpx.post(f"{running.url}{path}", json=body)
    assert "wrong key: Bearer ***, ***" in got.text
    assert "k-upstream" not in got.text
