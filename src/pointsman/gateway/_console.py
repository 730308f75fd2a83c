"""Mounts the console: what it is told of this gateway. Loaded by the first browser that asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from pointsman.console import Console, GatewayView
from pointsman.runtime import Runtime

if TYPE_CHECKING:
    from pointsman.gateway._live_state import LiveState
    from pointsman.gateway._metrics import Metrics

__all__ = ["build_console"]

_MS: Final = 1e3


def build_console(
    state: Callable[[], LiveState], active: Callable[[], int], metrics: Metrics
) -> Console | None:
    """Return the console of a gateway; None where its state was not built from a configuration."""

    def view() -> GatewayView:
        now = state()
        if now.config is None or not isinstance(now.runtime, Runtime):
            raise TypeError("the console needs a configuration")
        broken = {t.upstream.spec.name for t in now.targets.values() if t.upstream.breaker.is_open}
        bounds, counts = metrics.overhead.bounds, list(metrics.overhead.counts)
        return GatewayView(
            now.config,
            now.runtime.engine,
            now.runtime.ledger,
            now.runtime.faults,
            sorted(broken),
            active(),
            (_quantile(0.5, bounds, counts), _quantile(0.99, bounds, counts)),
        )

    found = state()
    return Console(view) if found.config is not None and isinstance(found.runtime, Runtime) else None


def _quantile(part: float, bounds: Sequence[float], counts: Sequence[int]) -> float | None:
    """Return a quantile of a histogram in milliseconds, interpolated within its bucket as Prometheus does."""
    rank, below, low = part * sum(counts), 0, 0.0
    if not sum(counts):
        return None
    for bound, count in zip(bounds, counts, strict=False):
        if count and below + count >= rank:
            return (low + (bound - low) * (rank - below) / count) * _MS
        below, low = below + count, bound
    return bounds[-1] * _MS
