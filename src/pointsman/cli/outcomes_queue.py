"""``pointsman outcomes queue``: the decisions most worth an outcome."""

from __future__ import annotations

from typing import Annotated

import typer

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import echo, json_line
from pointsman.reports.queue import queue

__all__ = ["queue_outcomes"]


def queue_outcomes(
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number.")] = 20,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List decisions without an outcome that are most worth one, with the reasons.

    Near a boundary of the tiers, unlike the training data, of an agent in trouble, or an exploration; then
    ordinary ones, without a reason.
    """
    with opened(ledger, config) as store:
        found = queue(store.records())
    for each in found[:limit]:
        line = f"{each.decision}  {each.project or '-':20}  {'; '.join(each.why)}"
        echo(json_line(each._asdict()) if as_json else line)
