"""What ``pointsman serve`` prints while it serves: one line per request, and a summary at its end."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TextIO

from pointsman.cli.terminal import FAILED, HINTED, TIERS, coloured, has_colour, is_terminal
from pointsman.gateway.request_feed import RequestFeed
from pointsman.gateway.request_log import ServedRequest
from pointsman.prices import dollars
from pointsman.printable import printable
from pointsman.telemetry import Models, RequestRecord, request_record, spent

__all__ = ["RequestLines", "Totals", "log_requests", "request_line"]

#: Sessions that are told apart when stuck ones are counted.
_MOST_SESSIONS: Final = 10_000
_REFUSED: Final = 400
#: Columns of a terminal below which a line has the fields that a person looks at alone.
_WIDE: Final = 180


class _Column(NamedTuple):
    heading: str
    width: int
    right: bool = False
    is_short: bool = True  # it is on the line of a narrow terminal too


_COLUMNS: Final = (
    _Column("time", 8),
    _Column("level", 7, is_short=False),
    _Column("decision", 22, is_short=False),
    _Column("session", 16, is_short=False),
    _Column("tier", 9),
    _Column("model", 20),
    _Column("status", 6),
    _Column("attempts", 8, right=True, is_short=False),
    _Column("first ms", 8, right=True, is_short=False),
    _Column("total ms", 8, right=True),
    _Column("in", 8, right=True),
    _Column("out", 7, right=True),
    _Column("cost", 9, right=True),
    _Column("added", 0),
)
_TIER, _STATUS, _ADDED = 4, 6, 13  # of the columns


def request_line(record: RequestRecord, *, colour: bool = False, wide: bool = True) -> str:
    """Return one request as a line, in the columns of ``heading``."""
    tier, used = record.tier or "-", record.spent
    added = [f"+{each}" for each in record.added]
    texts = (
        time.strftime("%H:%M:%S", time.localtime(record.ended_at)),
        record.level_name,
        record.decision or "-",
        record.session or "-",
        tier,
        record.model,
        str(record.status) if record.status else "left",
        str(record.attempts),
        "-" if record.first_byte_ms is None else f"{record.first_byte_ms:.1f}",
        f"{record.total_ms:.1f}",
        _count(used.input),
        _count(used.output),
        dollars(used.cost),
        ", ".join([*added, record.refusal] if record.refusal else added),
    )
    cells = [_cell(printable(text), column) for text, column in zip(texts, _COLUMNS, strict=True)]
    if colour:
        cells[_TIER] = coloured(cells[_TIER], TIERS.get(tier, ""))
        cells[_STATUS] = coloured(cells[_STATUS], "" if 0 < record.status < _REFUSED else FAILED)
        cells[_ADDED] = coloured(cells[_ADDED], HINTED) if cells[_ADDED] else ""
    return "  ".join(_shown(cells, wide=wide)).rstrip()


def heading(*, wide: bool = True) -> str:
    """Return the names of the columns."""
    return "  ".join(_shown([_cell(column.heading, column) for column in _COLUMNS], wide=wide))


def _shown(cells: Sequence[str], *, wide: bool) -> Iterator[str]:
    return (cell for cell, column in zip(cells, _COLUMNS, strict=True) if wide or column.is_short)


def _cell(text: str, column: _Column) -> str:
    if column.width and len(text) > column.width and not column.right:
        text = text[: column.width - 1] + "…"
    return text.rjust(column.width) if column.right else text.ljust(column.width)


def _count(tokens: int | None) -> str:
    return "-" if tokens is None else f"{tokens:,}"


class Totals:
    """Sums over all requests since the start."""

    def __init__(self) -> None:
        self.requests = self.failed = self.input = self.output = self.unpriced = 0
        self.cost = 0.0
        self._stuck: dict[str, tuple[str, str]] = {}  # session -> classifier and decision that saw it first

    def add(self, served: ServedRequest, models: Models) -> None:
        """Count one request."""
        self.requests += 1
        self.failed += not 0 < served.status < _REFUSED
        used = spent(served, models)
        self.input += used.input or 0
        self.output += used.output or 0
        self.cost += used.cost or 0.0
        self.unpriced += used.input is not None and used.cost is None
        decision = served.decision
        if decision and decision.guidance and decision.guidance.firing and len(self._stuck) < _MOST_SESSIONS:
            seen = (decision.guidance.firing.classifier, decision.id)
            self._stuck.setdefault(decision.input.session or decision.id, seen)

    def add_all(self, other: Totals) -> None:
        """Count what another process has counted."""
        for name in ("requests", "failed", "input", "output", "unpriced", "cost"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._stuck |= other._stuck

    def lines(self, ledger: str, *, demo: bool = False) -> Iterator[str]:
        """Yield the summary, a line for each sum."""
        failed = f", {self.failed:,} of them failed or refused" if self.failed else ""
        yield f"Requests: {self.requests:,}{failed}"
        unpriced = f" ({self.unpriced:,} requests without a price)" if self.unpriced else ""
        yield f"Tokens: {self.input:,} in, {self.output:,} out; cost {dollars(self.cost)}{unpriced}"
        listed = "pointsman decisions list" + (" --demo" if demo else "")
        yield f"Stuck sessions: {len(self._stuck):,}{self._where(demo=demo)}"
        yield f"Ledger: {ledger} ({listed})"

    def _where(self, *, demo: bool) -> str:
        """Return what saw the stuck sessions, and the command that shows the first."""
        if not self._stuck:
            return ""
        seen = ", ".join(dict.fromkeys(classifier for classifier, _ in self._stuck.values()))
        _, first = next(iter(self._stuck.values()))
        return f" ({seen}); where: pointsman decisions show {first}" + (" --demo" if demo else "")


class RequestLines:
    """Counts requests, and writes a line for each in a separate thread.

    A terminal that is stopped (Ctrl-S) blocks that thread and no request.
    """

    def __init__(self, models: Callable[[], Models], stream: TextIO | None = None) -> None:
        """Take the configured models, which a reload may change, and where lines go: standard output."""
        self.totals = Totals()
        self._models = models
        self._stream = stream or sys.stdout
        self._feed = RequestFeed(self._write, name="request-lines")
        self._is_headed = self._is_gone = False
        self._told = 0  # requests left out that a line tells of

    def tell(self, served: ServedRequest) -> None:
        """Take one request that has ended. Never blocks."""
        self.totals.add(served, self._models())
        self._feed.tell(served)

    def close(self) -> None:
        """Write what waits, for as long as the terminal takes it."""
        self._feed.close()

    def _write(self, batch: Sequence[ServedRequest], left_out: int) -> None:
        if self._is_gone:
            return
        models, colour = self._models(), has_colour(self._stream)
        wide = not is_terminal(self._stream) or shutil.get_terminal_size().columns >= _WIDE
        lines = [] if self._is_headed else [heading(wide=wide)]
        lines += [request_line(request_record(each, models), colour=colour, wide=wide) for each in batch]
        if left_out > self._told:
            lines.append(f"{left_out - self._told:,} more requests were not shown")
        self._is_headed, self._told = True, left_out
        try:
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone; who serves goes on
            self._is_gone = True


def log_requests(models: Callable[[], Models], logger: logging.Logger) -> RequestFeed:
    """Return a feed that writes a record of the log for each request, with its fields as ``request``."""
    told = 0

    def write(batch: Sequence[ServedRequest], left_out: int) -> None:
        nonlocal told
        known = models()
        for served in batch:
            record = request_record(served, known)
            fields = {"request": record.as_fields(), "at": record.ended_at}
            status = record.status or "left"
            logger.log(record.level, "%s %s %s", record.method, record.path, status, extra=fields)
        if left_out > told:
            logger.warning("%d more requests have no line: the log was too slow", left_out - told)
            told = left_out

    return RequestFeed(write, name="request-log", size=10_000)
