"""``pointsman report escalation``: lengths of own successful runs, and the effect of raising the tier."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import echo, print_json, print_table
from pointsman.printable import Column
from pointsman.reports.escalation import SourceRuns, escalations, runs_in
from pointsman.tiers.escalation import ENOUGH_RUNS

__all__ = ["escalation"]


_COLUMNS: Final = (
    Column("source", least=38),
    *(Column(name, right=True) for name in ("runs", "succeeded", "failed", "limit")),
)


def escalation(
    *,
    quantile: Annotated[
        float, typer.Option(min=0.95, max=1, help="Of the successful runs; 1 for the longest.")
    ] = 1.0,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report how long own successful runs are, by project and model, and the effect of escalation.

    The limits are printed as lines for [tiers.escalation].
    """
    with opened(ledger, config) as store:
        records = list(store.records())
    sources, effect = runs_in(records), escalations(records)
    limits = {each.source: limit for each in sources if (limit := each.limit(quantile)) is not None}
    if as_json:
        print_json({"sources": sources, "longest": limits, "effect": effect})
        return
    print_table(_COLUMNS, [_cells(each, limits.get(each.source)) for each in sources])
    if len(limits) < len(sources):
        echo(f"a limit needs {ENOUGH_RUNS} successful runs of its source")
    for line in effect.lines():
        echo(line)
    if limits:
        echo("\n[tiers.escalation.longest]")
    for source, limit in limits.items():
        echo(f"{msgspec.json.encode(source).decode()} = {limit}")


def _cells(each: SourceRuns, limit: float | None) -> tuple[str, ...]:
    counts = (each.runs, len(each.successes), len(each.failures))
    return each.source, *map(str, counts), "-" if limit is None else str(limit)
