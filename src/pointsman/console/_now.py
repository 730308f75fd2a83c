"""The page Now: decisions as they come, by server-sent events, and the load of the gateway.

One look at the ledger a second serves all browsers. Nothing is called on the path of a request: the look
finds new decisions (docs/notebook/0162).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.responses import StreamingResponse

from pointsman.console._filters import newest
from pointsman.console._names import names_of
from pointsman.console._render import render
from pointsman.console._view import GatewayView, Page, Visit
from pointsman.diagnostics.clients import CallerKey, judge_clients, lines_to_copy
from pointsman.errors import Overloaded, PointsmanError
from pointsman.printable import TextTable
from pointsman.reports.usage import Minute
from pointsman.reports.usage import now as summarise
from pointsman.stores.ledger.reading import DecisionRow

log = logging.getLogger(__name__)

#: Decisions shown, and read for the figures of the last minute.
SHOWN: Final = 50
_READ: Final = 500
_MINUTE: Final = 60.0
_HOUR: Final = 3_600.0


def now(visit: Visit) -> Page:
    """Show the newest decisions; scripts then update them."""
    view = visit.view
    rows = newest(view, SHOWN)
    context = {
        "figures": figures(view),
        "rows": rows,
        "names": names_of(view.ledger, (row.session for row in rows)),
        "clients": [] if rows else client_lines(visit),
    }
    return Page("now.html", context)


def last_hour(visit: Visit) -> Page:
    """Return requests, tokens and cost of each minute of the last hour, for the chart and for programs."""
    view, at = visit.view, time.time()
    found = summarise(view.ledger, view.config.models, at)
    begin = max(found.since, at - _HOUR) // _MINUTE
    minutes = {minute.at // _MINUTE: minute for minute in found.minutes}
    shown = [minutes.get(number) for number in _numbers(begin, at)]
    series = {
        "requests / min": [each.requests if each else 0 for each in shown],
        "tokens / min, thousands": [(each.input + each.output) / 1e3 if each else 0 for each in shown],
    }
    data = {
        "now": found,
        "x": [number * _MINUTE for number in _numbers(begin, at)],
        "series": [{"name": name, "values": values} for name, values in series.items()],
    }
    rows = [msgspec.structs.astuple(minute) for minute in found.minutes]
    return Page("now.html", {}, data, TextTable.of(Minute.__struct_fields__, rows))


def _numbers(begin: float, at: float) -> range:
    return range(int(begin), int(at // _MINUTE) + 1)


def figures(view: GatewayView) -> dict[str, object]:
    """Return the tiles above the list: the last minute, extrapolated where not all of it was read."""
    at = time.time()
    found = summarise(view.ledger, view.config.models, at, period=_MINUTE, most=_READ)
    factor = 1.0 if found.is_all else _MINUTE / max(at - found.since, 0.001)
    p50, p99 = view.overhead  # milliseconds, since the start
    return {
        "active": view.active,
        "requests": round(factor * found.requests),
        "tokens": round(factor * sum(each.input + each.output for each in found.minutes)),
        "cost": factor * sum(each.cost for each in found.minutes),
        "unpriced": round(factor * sum(each.unpriced for each in found.minutes)),  # answers
        "stuck": round(factor * found.stuck),
        "p50": p50,
        "p99": p99,
        "open_circuits": sorted(view.open_circuits),
        "faults": view.faults,
        "lost": view.ledger.lost,  # entries
    }


def client_lines(visit: Visit) -> list[dict[str, object]]:
    """Return the line to copy for each client, and why others do not work."""
    config = visit.view.config
    verdicts = judge_clients(config)
    working = [verdict for verdict in verdicts if verdict.fits]
    lines = lines_to_copy(config, working, visit.address, CallerKey(is_asked=bool(config.server.keys)))
    return [
        {
            "name": verdict.client.name,
            "fits": verdict.fits,
            "line": lines.get(verdict.client.name, ""),
            "detail": verdict.warning or ("" if verdict.fits else verdict.detail),
            "hint": "" if verdict.fits else verdict.hint,
        }
        for verdict in verdicts
    ]


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
    ) -> None:
        self._view = view
        self._in_thread = in_thread
        self._viewers: set[asyncio.Queue[bytes | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._shown: dict[str, DecisionRow] = {}  # the newest, as they were sent last

    def stream(self, is_signed_in: Callable[[], bool]) -> StreamingResponse:
        """Return the stream of one more browser, for as long as it is signed in.

        Raises:
            Overloaded: as many watch as may.
        """
        if len(self._viewers) >= MOST_VIEWERS:
            raise Overloaded(f"{MOST_VIEWERS} browsers watch already", hint="close one")
        return StreamingResponse(
            self._events(is_signed_in), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    def close(self) -> None:
        """End all streams: a shutdown waits for open responses."""
        for queue in self._viewers:
            while queue.full():
                queue.get_nowait()
            queue.put_nowait(None)

    async def _events(self, is_signed_in: Callable[[], bool]) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
        self._viewers.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            yield b"retry: 2000\n\n"
            async with asyncio.timeout(_LONGEST):
                while (event := await queue.get()) is not None and is_signed_in():
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
            await asyncio.sleep(_EVERY)

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
                    {"id": row.id, "html": render("_row.html", {"rows": [row], "names": names})}
                    for row in reversed(changed)
                ],
            },
        )


def _event(name: str, value: Mapping[str, object]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value) + b"\n\n"
