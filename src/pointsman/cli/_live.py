"""``pointsman router doctor --live``: the table of live requests."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from pointsman.cli.output import echo, needs_extra
from pointsman.config import Config
from pointsman.errors import ConfigError
from pointsman.printable import printable

with needs_extra("gateway", "pointsman router doctor --live"):
    from pointsman.gateway.live import (
        OUTPUT_TOKENS,
        TOTAL_SECONDS,
        Feature,
        LiveRequest,
        LiveResult,
        plan,
        send_all,
    )

_CLEAR_LINE: Final = "\r\x1b[K"


def live_results(config: Config, model: str) -> list[LiveResult]:
    """Say on standard error how many requests are sent, and send them.

    Raises:
        ConfigError: ``model`` is not configured, or none can be asked.
    """
    requests = plan(config, model)
    left_out = [
        name
        for name, each in config.models.items()
        if model in {"", name} and config.upstreams[each.upstream].forward_auth
    ]
    if left_out:
        names = ", ".join(left_out)
        echo(f"Not asked: {names}: the upstream takes the caller's own credential.", err=True)
    if not requests:
        raise ConfigError("there is no model to ask", hint="ask through an agent that is logged in")
    upstreams = ", ".join(dict.fromkeys(each.upstream for each in requests))
    bounds = f"at most {OUTPUT_TOKENS} output tokens each, and {TOTAL_SECONDS / 60:g} minutes together"
    echo(f"Sending {len(requests)} requests to {upstreams or 'nobody'}: {bounds}.", err=True)
    log = logging.getLogger("pointsman")
    level = log.level
    log.setLevel(logging.CRITICAL)  # each failure is in the table
    try:
        return asyncio.run(send_all(config, requests, _Progress(requests)))
    finally:
        log.setLevel(level)


class _Progress:
    """Counts on a terminal; silent elsewhere."""

    def __init__(self, requests: Sequence[LiveRequest]) -> None:
        self._left = len(requests)

    def __call__(self, _: LiveResult) -> None:
        self._left -= 1
        if sys.stderr.isatty():
            sys.stderr.write(f"{_CLEAR_LINE}{self._left} left " if self._left else _CLEAR_LINE)
            sys.stderr.flush()


def print_table(results: Sequence[LiveResult]) -> None:
    """Print a row for each model and format, and under the table each different failure."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("model", "upstream", "format", *Feature):
        table.add_column(str(heading), no_wrap=True)
    rows: dict[tuple[str, str, str], dict[Feature, str]] = defaultdict(dict)
    for each in results:
        way = str(each.format) if each.native else f"{each.format} (translated)"
        rows[each.model, each.upstream, way][each.feature] = _cell(each)
    for names, cells in rows.items():
        words = (*names, *(cells.get(feature, "-") for feature in Feature))
        table.add_row(*(printable(word).replace("[", r"\[") for word in words))
    Console(highlight=False).print(table)
    for line in _failures(results):
        echo(line)


def _cell(result: LiveResult) -> str:
    return f"ok {result.seconds:.2f} s" if result.ok else f"FAIL {result.status or ''}".rstrip()


def _failures(results: Sequence[LiveResult]) -> Iterator[str]:
    """One line for each different failure of a model, with the requests that had it."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in results:
        if not each.ok:
            found[each.model, each.detail].append(f"{each.format} {each.feature}")
    for (model, detail), requests in found.items():
        yield printable(f"FAIL {model}: {detail} ({', '.join(requests)})")
