"""What ``pointsman serve`` makes of requests that have ended: lines on a terminal, lines of the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pointsman.cli.log_format import REQUESTS, LogFormat
from pointsman.cli.output import echo
from pointsman.cli.request_lines import RequestLines, log_requests
from pointsman.cli.terminal import is_terminal
from pointsman.gateway.build import Builder
from pointsman.gateway.request_log import ServedRequest

__all__ = ["Tell", "told_requests"]

#: Is told of each request at its end, on the event loop.
Tell = Callable[[ServedRequest], None]


@contextmanager
def told_requests(
    builder: Builder, *, requests: bool | None, log_format: LogFormat, demo: bool
) -> Iterator[Tell | None]:
    """Yield what is told of each request; None where nobody wants to know. At the end, print the summary.

    Args:
        builder: Knows the configuration in effect.
        requests: Whether each request gets a line; None: on a terminal, and in a log in JSON.
        log_format: Of the log; in JSON it has the lines.
        demo: Whether the demo is served.
    """
    is_json = log_format is LogFormat.JSON
    has_lines = (is_json or is_terminal()) if requests is None else requests
    tells: list[Tell] = []
    with ExitStack() as closing:
        if has_lines:
            # Of the log, the reason of a refusal; its line says it too.
            logging.getLogger("pointsman.gateway._local_replies").setLevel(logging.WARNING)
            tells.append(_log(builder, closing) if is_json else _lines(builder, closing, demo=demo))
        yield _all(tells)


def _log(builder: Builder, closing: ExitStack) -> Tell:
    feed = log_requests(lambda: builder.config.models, logging.getLogger(REQUESTS))
    closing.callback(feed.close)
    return feed.tell


def _lines(builder: Builder, closing: ExitStack, *, demo: bool) -> Tell:
    lines = RequestLines(lambda: builder.config.models)

    def close() -> None:
        lines.close()
        echo("\n" + "\n".join(lines.totals.lines(builder.config.ledger.place, demo=demo)))

    closing.callback(close)
    return lines.tell


def _all(tells: list[Tell]) -> Tell | None:
    if len(tells) <= 1:
        return tells[0] if tells else None

    def tell(served: ServedRequest) -> None:
        for each in tells:
            each(served)

    return tell
