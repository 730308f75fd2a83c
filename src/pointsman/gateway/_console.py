"""Mounts the console with the state of this gateway. Loaded for the first browser that asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from pointsman.gateway._live_state import open_circuits

if TYPE_CHECKING:
    from pointsman.console import Console, GatewayView
    from pointsman.gateway._live_state import LiveState, Peers
    from pointsman.gateway._metrics import Metrics

__all__ = ["ConsoleMount"]

CONSOLE_PATH: Final = b"/console"
_MS: Final = 1e3


class ConsoleMount:
    """The place of the console among the paths of a gateway."""

    def __init__(self, state: Callable[[], LiveState], active: Callable[[], int], metrics: Metrics) -> None:
        self._state = state
        self._active = active
        self._metrics = metrics
        self._console: Console | None = None
        #: The other processes of this gateway; None where it is the only one.
        self.peers: Peers | None = None

    def serves(self, path: bytes) -> bool:
        """Whether a path is the console's, and it is on."""
        if not path.startswith(CONSOLE_PATH) or path[len(CONSOLE_PATH) :][:1] not in {b"", b"/"}:
            return False
        return self._state().config.console.enabled

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if self._console is None:
            from pointsman.console import Console  # templates take 60 ms to load

            self._console = Console(self._view)
        path = unquote(scope["raw_path"].decode("ascii", "replace"))
        scope["path"] = path.rstrip("/")  # as a person types it; no page's path ends with a slash
        await self._console(scope, receive, send)

    def close(self) -> None:
        """End what makes pages."""
        if self._console is not None:
            self._console.close()

    def _view(self) -> GatewayView:
        from pointsman.console import GatewayView

        state = self._state()
        runtime, config = state.runtime, state.config
        overhead = self._metrics.overhead
        counts, active = list(overhead.counts), self._active()
        broken, faults = set(open_circuits(state)), dict(state.faults)
        for told in self.peers.others() if self.peers else ():
            broken.update(told.open_circuits)
            faults = {**told.faults, **faults}
            active += told.active
            counts = [one + other for one, other in zip_longest(counts, told.overhead, fillvalue=0)]
        return GatewayView(
            config,
            runtime.engine,
            runtime.ledger,
            faults,
            sorted(broken),
            active,
            (_quantile(0.5, overhead.bounds, counts), _quantile(0.99, overhead.bounds, counts)),
            state.access,
        )


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
