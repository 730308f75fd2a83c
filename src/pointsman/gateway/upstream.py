"""An upstream while serving: its client and its breaker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pointsman.gateway.breaker import Breaker
from pointsman.gateway.client import HttpClient
from pointsman.gateway.demo import DemoClient
from pointsman.types import ModelSpec
from pointsman.upstreams import DEMO_URL, UpstreamClient, UpstreamSpec

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
