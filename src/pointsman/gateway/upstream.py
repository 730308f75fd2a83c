"""An upstream while serving: its client, its breaker, and the header that carries its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pointsman.gateway.breaker import Breaker
from pointsman.gateway.client import HttpClient, UpstreamClient
from pointsman.gateway.demo import DemoClient
from pointsman.types import ModelSpec, WireFormat
from pointsman.upstreams import DEMO_URL, UpstreamSpec

__all__ = ["Connect", "Target", "Upstream", "connect", "targets"]

Connect = Callable[[UpstreamSpec], UpstreamClient]


def connect(spec: UpstreamSpec) -> UpstreamClient:
    """Return the client for an upstream."""
    return DemoClient() if spec.base_url == DEMO_URL else HttpClient(spec)


class Upstream:
    """One configured provider. Lives as long as its part of the configuration stays the same."""

    def __init__(self, spec: UpstreamSpec, client: UpstreamClient) -> None:
        self.spec = spec
        self.client = client
        self.breaker = Breaker()
        self.secret = spec.key.reveal() if spec.key else ""

    def credentials(self, wire: WireFormat) -> list[tuple[str, str]]:
        """Return the headers that prove who we are."""
        if not self.secret:
            return []
        scheme = self.spec.auth or ("x-api-key" if wire is WireFormat.MESSAGES else "bearer")
        return [
            ("authorization", f"Bearer {self.secret}") if scheme == "bearer" else ("x-api-key", self.secret)
        ]


class Target(NamedTuple):
    """A configured model and where it is served."""

    model: ModelSpec
    upstream: Upstream


def targets(
    models: Mapping[str, ModelSpec],
    specs: Mapping[str, UpstreamSpec],
    connect: Connect,
    known: Mapping[str, Upstream],
) -> dict[str, Target]:
    """Return every model with its upstream; an upstream that did not change keeps connections and breaker."""
    upstreams = {
        name: known[name] if name in known and known[name].spec == spec else Upstream(spec, connect(spec))
        for name, spec in specs.items()
    }
    return {name: Target(model, upstreams[model.upstream]) for name, model in models.items()}
