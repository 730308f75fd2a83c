"""``pointsman report escalation``: lengths of own successful runs, and the effect of raising the tier."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import echo, print_json
from pointsman.reports.escalation import escalations, runs_in
from pointsman.tiers.escalation import ENOUGH_RUNS

__all__ = ["escalation"]


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
    echo(f"{'source':40}{'runs':>6}{'succeeded':>11}{'failed':>8}{'limit':>7}")
    for each in sources:
        limit = limits.get(each.source)
        shown = "-" if limit is None else str(limit)
        good, bad = len(each.successes), len(each.failures)
        echo(f"{each.source:40}{each.runs:>6}{good:>11}{bad:>8}{shown:>7}")
    if len(limits) < len(sources):
        echo(f"a limit needs {ENOUGH_RUNS} successful runs of its source")
    for line in effect.lines():
        echo(line)
    if limits:
        echo("\n[tiers.escalation.longest]")
    for source, limit in limits.items():
        echo(f"{msgspec.json.encode(source).decode()} = {limit}")
