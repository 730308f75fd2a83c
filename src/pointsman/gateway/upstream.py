"""An upstream while serving: its client, its breaker, and the headers that prove who we are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import msgspec

from pointsman.gateway import headers
from pointsman.gateway.breaker import Breaker
from pointsman.upstreams.demo import DemoClient
from pointsman.upstreams.http import HttpClient
from pointsman.upstreams.port import DEMO_URL, UpstreamClient, UpstreamSpec, credentials
from pointsman.vocabulary import ModelSpec, WireFormat

__all__ = ["Connections", "Target", "Upstream", "targets"]


class Connections:
    """One client for each upstream, shared by callers' requests and questions of our own."""

    def __init__(self) -> None:
        self._clients: dict[UpstreamSpec, UpstreamClient] = {}

    def __call__(self, spec: UpstreamSpec) -> UpstreamClient:
        """Return the client of an upstream."""
        client = self._clients.get(spec)
        if client is None:
            client = self._clients[spec] = DemoClient() if spec.base_url == DEMO_URL else HttpClient(spec)
        return client

    def keep_only(self, specs: Collection[UpstreamSpec]) -> None:
        """Close the clients of upstreams that are configured no more, or otherwise."""
        for spec in self._clients.keys() - set(specs):
            self._clients.pop(spec).close()

    def close(self) -> None:
        """Close all clients."""
        self.keep_only(())


class Upstream:
    """One configured provider. Lives as long as its part of the configuration stays the same."""

    def __init__(self, spec: UpstreamSpec, client: UpstreamClient) -> None:
        self.spec = spec
        self.client = client
        self.breaker = Breaker()
        self.secret = spec.api_key.reveal().encode() if spec.api_key else b""
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


def targets(
    models: Mapping[str, ModelSpec],
    specs: Mapping[str, UpstreamSpec],
    connect: Callable[[UpstreamSpec], UpstreamClient],
    known: Mapping[str, Upstream],
) -> dict[str, Target]:
    """Return every model with its upstream; an upstream that did not change keeps connections and breaker."""
    upstreams = {name: Upstream(spec, connect(spec)) for name, spec in specs.items()}
    for name, upstream in upstreams.items():
        if name in known and known[name].client is upstream.client:
            upstreams[name] = known[name]
    return {
        name: Target(
            model, upstreams[model.upstream], msgspec.json.encode(model.id), headers.printable(model.name)
        )
        for name, model in models.items()
    }
