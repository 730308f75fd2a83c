"""What ``pointsman serve`` makes of ended requests: lines of a terminal or a log, spans, and a summary."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Final, TextIO

from pointsman.cli._listening import REQUESTS, LogFormat
from pointsman.cli.output import echo
from pointsman.cli.terminal import FAILED, HINTED, TIERS, coloured, has_colour, is_terminal
from pointsman.config import Config
from pointsman.errors import PointsmanError
from pointsman.gateway.build import Builder
from pointsman.gateway.parts import Metrics
from pointsman.gateway.request_feed import RequestFeed
from pointsman.prices import dollars
from pointsman.printable import Column, printable
from pointsman.stores.ledger.port import Search
from pointsman.stores.ledger.reading import MOST_ROWS, DecisionFilter, DecisionRow, Position, totals_of
from pointsman.stores.ledger.reading import Totals as LedgerTotals
from pointsman.stores.ledger.turns import answered
from pointsman.telemetry import Models, RequestRecord, ServedRequest, request_record, spent
from pointsman.telemetry.tracing import is_configured, open_tracing

#: Sessions that are told apart when stuck ones are counted.
_MOST_SESSIONS: Final = 10_000
_REFUSED: Final = 400
#: Columns of a terminal below which a line has the fields that a person looks at alone.
_WIDE: Final = 180


_COLUMNS: Final = (
    Column("time", least=8),
    Column("level", least=7),
    Column("decision", least=22),
    Column("session", least=16),
    Column("tier", least=9),
    Column("model", least=20),
    Column("status", least=6),
    Column("attempts", least=8, right=True),
    Column("first ms", least=8, right=True),
    Column("total ms", least=8, right=True),
    Column("in", least=8, right=True),
    Column("out", least=7, right=True),
    Column("cost", least=9, right=True),
    Column("added"),
)
#: Columns that the line of a narrow terminal does not have.
_LONG: Final = frozenset({"level", "decision", "session", "attempts", "first ms"})
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
    return (cell for cell, column in zip(cells, _COLUMNS, strict=True) if wide or column.heading not in _LONG)


def _cell(text: str, column: Column) -> str:
    if column.least and len(text) > column.least and not column.right:
        text = text[: column.least - 1] + "…"
    return text.rjust(column.least) if column.right else text.ljust(column.least)


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
        self._feed.put(served)

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


log = logging.getLogger("pointsman.gateway.telemetry")

#: Seconds; the ledger sums by whole hours.
_HOUR: Final = 3_600.0

#: Is told of each request at its end, on the event loop.
Tell = Callable[[ServedRequest], object]


@contextmanager
def told_requests(
    builder: Builder,
    metrics: Metrics,
    *,
    requests: bool | None,
    log_format: LogFormat,
    demo: bool,
    summed: Callable[[Totals], None] | None = None,
) -> Iterator[Tell | None]:
    """Yield the listener of requests; None without one. At the end, print the summary.

    Args:
        builder: Knows the configuration in effect.
        metrics: Count spans, and show the traces of requests.
        requests: Whether each request gets a line; None: on a terminal, and in a log in JSON.
        log_format: Of the log; in JSON it has the lines.
        demo: Whether the demo is served.
        summed: Takes the sums at the end, in place of a printed summary.
    """
    is_json = log_format is LogFormat.JSON
    has_lines = wants_lines(requests, log_format)
    tells: list[Tell] = []
    with ExitStack() as stack:
        if has_lines:
            # Of the log, the reason of a refusal; its line says it too.
            refusals = logging.getLogger("pointsman.gateway._local_replies")
            stack.callback(refusals.setLevel, refusals.level)
            refusals.setLevel(logging.WARNING)
            summed = summed or _printed(builder, demo=demo)
            tells.append(_log(builder, stack) if is_json else _lines(builder, stack, summed))
        if is_configured(builder.config.telemetry) and (tell := _spans(builder.config, metrics, stack)):
            tells.append(tell)
        yield _all(tells)


def wants_lines(requests: bool | None, log_format: LogFormat) -> bool:
    """Whether each request gets a line; ``requests`` is the option."""
    return (log_format is LogFormat.JSON or is_terminal()) if requests is None else requests


def print_summary(
    config: Config,
    totals: Totals,
    since: float,
    *,
    demo: bool = False,
    sessions: Collection[str] | None = None,
) -> None:
    """Print the sums over all requests, and the savings.

    Args:
        config: In effect.
        totals: Of this process.
        since: When it began to serve, seconds since the epoch.
        demo: Whether the demo was served.
        sessions: Count the savings of these sessions alone, exactly from ``since`` on; None: of all requests,
            from the whole hour before.
    """
    saved = _saved(config, since, sessions, demo=demo)
    echo("\n" + "\n".join([*totals.lines(config.ledger.place, demo=demo), *saved]))


def _saved(config: Config, since: float, sessions: Collection[str] | None, *, demo: bool) -> Iterator[str]:
    """The saving by the ledger, which knows the baseline's cache too. A database is not asked."""
    from pointsman.cli.ledger import open_file
    from pointsman.factory import build_policy
    from pointsman.reports.savings import SavingsCalculator

    path = config.ledger.path
    if config.ledger.place != str(path):
        return
    hour = since // _HOUR * _HOUR
    with suppress(PointsmanError), closing(open_file(path)) as store:
        money = SavingsCalculator.of(build_policy(config))
        totals = store.totals(since=hour) if sessions is None else _totals_of(store, since, sessions)
        found = money.total(totals)
        if found.turns:
            began = f"Since {time.strftime('%H:%M', time.localtime(hour))}"
            report = "pointsman report savings" + (" --demo" if demo else "")
            yield f"{began if sessions is None else 'This session'}: {found.headline()} ({report})"


def _totals_of(store: Search, since: float, sessions: Collection[str]) -> LedgerTotals:
    def rows() -> Iterator[DecisionRow]:
        before: Position | None = None
        while True:
            page = store.search(DecisionFilter(since=since), before=before, limit=MOST_ROWS)
            yield from (row for row in page.rows if row.session in sessions)
            before = page.next
            if before is None:
                return

    return totals_of(rows())


def _log(builder: Builder, stack: ExitStack) -> Tell:
    feed = log_requests(lambda: builder.config.models, logging.getLogger(REQUESTS))
    stack.callback(feed.close)
    return feed.put


def _printed(builder: Builder, *, demo: bool) -> Callable[[Totals], None]:
    began = time.time()

    def summed(totals: Totals) -> None:
        builder.flush()
        print_summary(builder.config, totals, began, demo=demo)

    return summed


def _lines(builder: Builder, stack: ExitStack, summed: Callable[[Totals], None]) -> Tell:
    lines = RequestLines(lambda: builder.config.models)

    def close() -> None:
        lines.close()
        summed(lines.totals)

    stack.callback(close)
    return lines.tell


def _spans(config: Config, metrics: Metrics, stack: ExitStack) -> Tell | None:
    """Return the sender of spans; None, with a log line, if there cannot be one."""

    def recorded(ended: ServedRequest, trace: str) -> None:
        good = answered(ended.attempts)
        if ended.decision is not None:
            metrics.recorded(good.model if good else "", ended.status, ended.total, trace, ended.ended_at)

    try:
        tracing = open_tracing(config, recorded)
    except PointsmanError as error:
        log.error("%s; no spans are sent", error)  # noqa: TRY400 - no traceback
        return None
    feed = RequestFeed(tracing.write, name="spans", size=config.telemetry.queue)
    metrics.watch("spans", lambda: {"sent": tracing.sent, "lost": tracing.lost + feed.lost})
    stack.callback(tracing.close)
    stack.callback(feed.close)  # first: what waits is sent
    return feed.put


def _all(tells: list[Tell]) -> Tell | None:
    if len(tells) <= 1:
        return tells[0] if tells else None

    def tell(served: ServedRequest) -> None:
        for each in tells:
            each(served)

    return tell
