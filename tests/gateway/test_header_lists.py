"""Headers on the wire, in both directions: what is relayed, what stops, and what can be configured."""

from __future__ import annotations

from typing import Any

import pytest
import uvloop

from pointsman.config import Config
from pointsman.gateway._live_state import build_live_state
from pointsman.gateway.app import Gateway
from pointsman.testing import MemoryLedger
from pointsman.upstreams.connections import Connections
from pointsman.upstreams.port import Call, Exchange, Headers, Secret, ServerSpec, UpstreamSpec, hash_key
from pointsman.vocabulary import ModelSpec, WireFormat
from support.deciders import ScriptedDecider
from support.in_process import Received, ask
from support.requests_by_format import PATHS, answer, request

SENT = {
    "anthropic-beta": "context-1m", "openai-beta": "x", "x-stainless-lang": "python", "traceparent": "00-1",
    "user-agent": "agent", "x-acme-tenant": "t1", "openai-organization": "org-1", "x-goog-api-key": "AIza",
    "x-api-key": "sk-other", "cookie": "a=b", "x-forwarded-for": "10.0.0.1", "x-unknown": "1",
    "connection": "keep-alive, x-stainless-os", "x-stainless-os": "Linux",
}  # fmt: skip
RETURNED: Headers = [
    (b"content-type", b"application/json"), (b"x-ratelimit-remaining-tokens", b"7"),
    (b"openai-version", b"1"), (b"x-request-id", b"theirs"),
    (b"access-control-allow-origin", b"*"), (b"set-cookie", b"a=b"),
    (b"x-accel-redirect", b"/etc"), (b"refresh", b"0; url=/"), (b"x-acme-cost", b"3"), (b"openai-hop", b"1"),
    (b"connection", b"openai-hop"), (b"x-unknown", b"1"), (b"openai-echo", b"sk-upstream"),
]  # fmt: skip
GO = {"anthropic-beta", "openai-beta", "x-stainless-lang", "traceparent", "user-agent"}
COME = {"content-type", "x-ratelimit-remaining-tokens", "openai-version", "x-pointsman-upstream-request-id"}
#: With what is passed on, so that a browser runs nothing of it at the gateway's address.
NO_PAGE = {"content-security-policy", "cross-origin-resource-policy"}


class Answering:
    """An ``UpstreamClient`` and its own ``Exchange``; keeps what it was sent."""

    def __init__(self) -> None:
        self.status, self.headers = 200, RETURNED
        self.calls: list[Call] = []
        self._left: list[bytes] = []

    async def send(self, call: Call) -> Exchange:
        self.calls.append(call)
        wire = next((wire for wire in WireFormat if PATHS[wire] == f"/v1{call.path.decode()}"), None)
        self._left = [answer(wire) if wire else b"{}"]
        return self

    async def read(self) -> bytes:
        return self._left.pop()

    async def next(self) -> bytes:
        return self._left.pop() if self._left else b""

    def close(self) -> None: ...


def relayed(path: str, body: Any, **spec: Any) -> tuple[set[str], Received]:
    """The names that reach the upstream, but for those set by the gateway, and what the caller gets."""
    upstream = UpstreamSpec("up0", "http://x/v1", **({"api_key": Secret("sk-upstream")} | spec))
    client = Answering()
    state = build_live_state(
        ScriptedDecider("m0", ledger=MemoryLedger()),
        Config(
            models={"m0": ModelSpec("m0", "up0", "model-0", formats=frozenset(WireFormat))},
            upstreams={"up0": upstream},
            server=ServerSpec(passthrough="up0"),
        ),
        connections=Connections({upstream: client}),
    )
    got = uvloop.run(ask(Gateway(state), path, body, SENT))
    sent = dict(client.calls[0].headers)
    assert b"sk-other" not in sent.values() or spec
    ours = {b"content-type", b"authorization", b"x-api-key", b"anthropic-version"}
    return {name.decode() for name in sent.keys() - ours}, got


@pytest.mark.parametrize("path", [PATHS[WireFormat.CHAT], "/v1/embeddings"])
@pytest.mark.parametrize("spec", [{}, {"pass_headers": ("x-acme-*",)}])
def test_equal_idempotency_keys_of_two_callers_are_two_to_the_upstream(path: str, spec: Any) -> None:
    """Once, an upstream that honours the key would have given one caller the other's answer."""
    upstream, client = UpstreamSpec("up0", "http://x/v1", **spec), Answering()
    state = build_live_state(
        ScriptedDecider("m0", ledger=MemoryLedger()),
        Config(
            models={"m0": ModelSpec("m0", "up0", "model-0", formats=frozenset(WireFormat))},
            upstreams={"up0": upstream},
            server=ServerSpec(passthrough="up0", keys=(hash_key("alice"), hash_key("bob"))),
        ),
        connections=Connections({upstream: client}),
    )

    async def run() -> list[bytes]:
        served = Gateway(state)
        for key, user in (("alice", "a"), ("bob", "a"), ("alice", "b")):
            sent = {"authorization": f"Bearer {key}", "idempotency-key": "k-1"}
            await ask(served, path, request(WireFormat.CHAT, user=user), sent | {"x-session-id": user})
            if path != "/v1/embeddings":
                break
        sent = {"authorization": "Bearer bob", "idempotency-key": "k-1"}
        await ask(served, path, request(WireFormat.CHAT), sent)
        return [dict(call.headers)[b"idempotency-key"] for call in client.calls]

    first, *others = uvloop.run(run())
    assert first != b"k-1"
    assert len(first) == 32
    assert others[-1] not in {first, b"k-1"}
    if path == "/v1/embeddings":
        assert others == [others[-1], first, others[-1]]


def own(got: Received) -> set[str]:
    """The names a caller gets, but for the gateway's own."""
    kept = {"x-pointsman-upstream-request-id"}
    names = {name for name in got.headers if not name.startswith("x-pointsman-") or name in kept}
    return names - {"content-length", "x-request-id"}


@pytest.mark.parametrize("wire", WireFormat)
def test_of_a_decided_request(wire: WireFormat) -> None:
    went, got = relayed(PATHS[wire], request(wire))
    assert went == GO
    assert own(got) == COME


def test_of_a_request_that_is_passed_on() -> None:
    went, got = relayed("/v1/embeddings", {"model": "m0", "input": "x"})
    assert went == GO
    assert own(got) == COME | NO_PAGE


@pytest.mark.parametrize("path", [PATHS[WireFormat.CHAT], "/v1/embeddings"])
def test_what_an_upstream_takes_and_returns_besides(path: str) -> None:
    given = {"pass_headers": ("X-Acme-*", "x-goog-api-key"), "return_headers": ("x-acme-cost",)}
    went, got = relayed(path, request(WireFormat.CHAT), **given)
    assert went == GO | {"x-acme-tenant", "x-goog-api-key"}
    assert own(got) == COME | {"x-acme-cost"} | (NO_PAGE if path == "/v1/embeddings" else set())


@pytest.mark.parametrize("path", [PATHS[WireFormat.MESSAGES], "/v1/embeddings"])
def test_the_callers_account_goes_with_its_credential(path: str) -> None:
    went, _ = relayed(path, request(WireFormat.MESSAGES), api_key=None, forward_auth=True)
    assert went == GO | {"openai-organization"}
