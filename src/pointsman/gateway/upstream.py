"""An upstream at run time: its client, its circuit breaker, and its credentials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from pointsman.gateway._circuit_breaker import CircuitBreaker
from pointsman.upstreams.demo import DemoClient
from pointsman.upstreams.http import HttpClient
from pointsman.upstreams.own_fields import with_own_fields
from pointsman.upstreams.port import DEMO_URL, UpstreamClient, UpstreamSpec, credentials
from pointsman.vocabulary import ModelSpec, WireFormat

__all__ = ["Connections", "Target", "Upstream", "connected", "printable", "targets"]


class Connections:
    """One client for each upstream, shared by callers' requests and questions of our own."""

    def __init__(self, clients: Mapping[UpstreamSpec, UpstreamClient] | None = None) -> None:
        self._clients = dict(clients or {})

    def __call__(self, spec: UpstreamSpec) -> UpstreamClient:
        """Return the client of an upstream."""
        client = self._clients.get(spec)
        if client is None:
            plain = DemoClient() if spec.base_url == DEMO_URL else HttpClient(spec)
            client = self._clients[spec] = with_own_fields(spec, plain)
        return client

    def carried_over(self, specs: Iterable[UpstreamSpec]) -> Connections:
        """Return the connections of another configuration: unchanged upstreams keep their client."""
        return Connections({spec: self._clients[spec] for spec in specs if spec in self._clients})

    def close(self, *, but: Connections | None = None) -> None:
        """Close the clients, but those that ``but`` has taken over."""
        kept = set(but._clients.values()) if but else set()
        for spec in [spec for spec, client in self._clients.items() if client not in kept]:
            self._clients.pop(spec).close()


class Upstream:
    """One configured provider. Lives as long as its part of the configuration stays the same."""

    def __init__(self, spec: UpstreamSpec, client: UpstreamClient) -> None:
        self.spec = spec
        self.client = client
        self.breaker = CircuitBreaker()
        self.secrets = spec.secrets
        self.forwards_auth = spec.forward_auth
        #: The headers that every request of a format carries.
        self.headers = {
            wire: [(b"content-type", b"application/json"), *credentials(spec, wire)] for wire in WireFormat
        }


class Target(NamedTuple):
    """A configured model and where it is served."""

    model: ModelSpec
    upstream: Upstream
    id: bytes  # what the upstream calls it, as JSON
    shown: bytes  # its name as a header's value


def connected(
    specs: Mapping[str, UpstreamSpec],
    connect: Callable[[UpstreamSpec], UpstreamClient],
    known: Mapping[str, Upstream],
) -> dict[str, Upstream]:
    """Return every upstream by name; an unchanged one keeps its connections and circuit breaker."""
    upstreams = {name: Upstream(spec, connect(spec)) for name, spec in specs.items()}
    for name, upstream in upstreams.items():
        if name in known and known[name].client is upstream.client:
            upstreams[name] = known[name]
    return upstreams


def targets(models: Mapping[str, ModelSpec], upstreams: Mapping[str, Upstream]) -> dict[str, Target]:
    """Return every model with its upstream."""
    return {
        name: Target(model, upstreams[model.upstream], msgspec.json.encode(model.id), printable(model.name))
        for name, model in models.items()
    }


def printable(text: str, limit: int = 200) -> bytes:
    """Return text as a header value: printable ASCII, other characters replaced, cut at ``limit``."""
    if text.isascii() and text.isprintable():
        return text[:limit].encode("ascii")
    return "".join(c if " " <= c <= "~" else "?" for c in text[:limit]).encode("ascii")
