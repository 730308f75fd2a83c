"""What ``pointsman serve`` makes of requests that have ended: lines of a terminal or a log, and spans."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Final

from pointsman.cli.log_format import REQUESTS, LogFormat
from pointsman.cli.output import echo
from pointsman.cli.request_lines import RequestLines, Totals, log_requests
from pointsman.cli.terminal import is_terminal
from pointsman.config import Config
from pointsman.errors import PointsmanError
from pointsman.gateway.build import Builder
from pointsman.gateway.parts import Metrics
from pointsman.gateway.request_feed import RequestFeed
from pointsman.gateway.request_log import ServedRequest
from pointsman.stores.ledger.port import Search
from pointsman.stores.ledger.reading import MOST_ROWS, DecisionFilter, DecisionRow, Position
from pointsman.stores.ledger.reading import Totals as LedgerTotals
from pointsman.stores.ledger.turns import answered, totals_of
from pointsman.telemetry import EndedRequest
from pointsman.telemetry.tracing import is_configured, open_tracing

log = logging.getLogger("pointsman.gateway.telemetry")

#: Seconds; the ledger sums by whole hours.
_HOUR: Final = 3_600.0

#: Is told of each request at its end, on the event loop.
Tell = Callable[[ServedRequest], None]


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
            logging.getLogger("pointsman.gateway._local_replies").setLevel(logging.WARNING)
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
    from pointsman.cli.ledgers import open_file
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
    return feed.tell


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

    def recorded(ended: EndedRequest, trace: str) -> None:
        good = answered(ended.attempts)
        if ended.decision is not None:
            metrics.recorded(good.model if good else "", ended.status, ended.total, trace, ended.ended_at)

    try:
        tracing = open_tracing(config, recorded)
    except PointsmanError as error:
        log.error("%s; no spans are sent", f"{error.message}; {error.hint}" if error.hint else error.message)  # noqa: TRY400 - no traceback
        return None
    feed = RequestFeed(tracing.write, name="spans", size=config.telemetry.queue)
    metrics.watch("spans", lambda: {"sent": tracing.sent, "lost": tracing.lost + feed.left_out})
    stack.callback(tracing.close)
    stack.callback(feed.close)  # first: what waits is sent
    return feed.tell


def _all(tells: list[Tell]) -> Tell | None:
    if len(tells) <= 1:
        return tells[0] if tells else None

    def tell(served: ServedRequest) -> None:
        for each in tells:
            each(served)

    return tell
