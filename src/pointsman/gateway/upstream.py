"""An upstream at run time: its client, its circuit breaker, and its credentials."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from pointsman.gateway._circuit_breaker import CircuitBreaker
from pointsman.gateway._trouble import Trouble
from pointsman.upstreams.port import UpstreamClient, UpstreamSpec, credentials
from pointsman.upstreams.relayed_headers import HeaderNames
from pointsman.vocabulary import ModelSpec, WireFormat

__all__ = ["Target", "Upstream", "connected", "printable", "targets"]


class Upstream:
    """One configured provider. Lives as long as its part of the configuration stays the same."""

    def __init__(self, spec: UpstreamSpec, client: UpstreamClient) -> None:
        self.spec = spec
        self.client = client
        self.breaker = CircuitBreaker()
        self.trouble = Trouble(spec.name)
        self.secrets = spec.secrets
        self.forwards_auth = spec.forward_auth
        #: Headers of callers that it takes, and of its own that it returns, besides those of every upstream.
        self.taken = HeaderNames.taken(spec.pass_headers, forward_auth=spec.forward_auth) or None
        self.returned = HeaderNames(name.encode() for name in spec.return_headers) or None
        #: Models whose tokens it does not count, by id, and until when: seconds of ``time.monotonic``.
        self.uncounted: dict[bytes, float] = {}
        #: The headers that every request of a format carries.
        self.headers = {
            wire: [(b"content-type", b"application/json"), *credentials(spec, wire)] for wire in WireFormat
        }

    def failed(self, why: str) -> None:
        """It did not answer, or with an error of its own; ``why`` is told in the log, once."""
        now = time.monotonic()
        self.breaker.record_failure(now)
        self.trouble.failed(why, now)
        if self.breaker.is_open:
            self.trouble.opened(why, self.breaker.failures, self.breaker.pause)

    def worked(self) -> None:
        """It answered."""
        self.breaker.record_success()
        if self.trouble.is_told:
            self.trouble.worked()


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
