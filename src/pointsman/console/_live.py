"""Server-sent events of the page Now: one look at the ledger a second, however many browsers watch.

Nothing is called on the path of a request: the look finds what is new (docs/notebook/0162).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.responses import StreamingResponse

from pointsman.console._names import names_of
from pointsman.console._now import SHOWN, figures
from pointsman.console._reading import newest
from pointsman.console._render import render
from pointsman.console._view import GatewayView
from pointsman.errors import Overloaded, PointsmanError
from pointsman.stores.ledger.reading import DecisionRow

__all__ = ["Live"]

log = logging.getLogger(__name__)

#: Seconds between two looks.
_EVERY: Final = 1.0
#: Browsers that watch at once, and events that wait for a slow one.
MOST_VIEWERS: Final = 32
_WAITING: Final = 4
#: Seconds after which a stream ends; the browser opens another, and is then asked who it is again.
_LONGEST: Final = 900.0


class Live:
    """Sends new and changed decisions to all open pages."""

    def __init__(
        self,
        view: Callable[[], GatewayView],
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
        *,
        every: float = _EVERY,
    ) -> None:
        self._view = view
        self._in_thread = in_thread
        self._every = every
        self._viewers: set[asyncio.Queue[bytes | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._shown: dict[str, DecisionRow] = {}  # the newest, as they were sent last

    def stream(self) -> StreamingResponse:
        """Return the stream of one more browser.

        Raises:
            Overloaded: as many watch as may.
        """
        if len(self._viewers) >= MOST_VIEWERS:
            raise Overloaded(f"{MOST_VIEWERS} browsers watch already", hint="close one")
        return StreamingResponse(
            self._events(), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    def close(self) -> None:
        """End all streams: a shutdown waits for open responses."""
        for queue in self._viewers:
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(None)

    async def _events(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
        self._viewers.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            yield b"retry: 2000\n\n"
            async with asyncio.timeout(_LONGEST):
                while (event := await queue.get()) is not None:
                    yield event
        except TimeoutError:
            return
        finally:
            self._viewers.discard(queue)

    async def _look(self) -> None:
        """Look while a page is open."""
        self._shown = {}
        while self._viewers:
            try:
                event = await self._in_thread(self._changes)
            except PointsmanError as error:
                event = _event("trouble", {"message": error.message})
            except Exception:
                log.exception("the console cannot look for new decisions")
                event = _event("trouble", {"message": "the console failed; its log says why"})
            for queue in self._viewers:
                if not queue.full():  # a slow browser misses looks; the next one shows it everything
                    queue.put_nowait(event)
            await asyncio.sleep(self._every)

    def _changes(self) -> bytes:
        view = self._view()
        rows = newest(view, SHOWN)
        shown = {row.id: row for row in rows}
        changed = [row for row in rows if self._shown.get(row.id) != row]
        self._shown = shown
        names = names_of(view.ledger, (row.session for row in changed))
        return _event(
            "now",
            {
                "figures": render("_figures.html", {"figures": figures(view)}),
                "rows": [
                    {"id": row.id, "html": render("_row.html", {"row": row, "names": names})}
                    for row in reversed(changed)
                ],
            },
        )


def _event(name: str, value: Mapping[str, object]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
