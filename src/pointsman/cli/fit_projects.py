"""``pointsman fit projects``: learn from own outcomes which tier is good enough for each project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import config_file, echo, needs_extra, print_json, save, writable
from pointsman.config import AnyKey, Config, load
from pointsman.errors import PointsmanError

__all__ = ["KeepOption", "TargetOption", "projects", "tiers_of"]

TargetOption = Annotated[
    float,
    typer.Option(min=0, max=1, help="Success that is good enough; with --keep, of that of the last tier."),
]
KeepOption = Annotated[
    bool, typer.Option("--keep", help="The target is a share of the success of the last tier's models.")
]


def tiers_of(config: Config) -> dict[str, tuple[str, ...]]:
    """The models of each configured tier by its name in lower case, the cheapest first."""
    return {tier.lower(): tuple(entry.model for entry in pool) for tier, pool in config.tiers.pools.items()}


def projects(
    *,
    out: Annotated[Path, typer.Option(help="Output file.")],
    target: TargetOption = 0.95,
    keep: KeepOption = False,
    certainty: Annotated[
        float, typer.Option(min=0.5, max=1, help="Probability with which the target is reached.")
    ] = 0.9,
    half_life: Annotated[float, typer.Option(min=1, help="Days after which an outcome counts half.")] = 90.0,
    data: Annotated[
        Path | None,
        typer.Option(
            help="JSON lines: id, project, model, score, and at, kind, role, by_chance; default: the ledger."
        ),
    ] = None,
    by_chance: Annotated[
        bool,
        typer.Option("--by-chance", help="Use only outcomes of models that exploration or shadow chose."),
    ] = False,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn from own outcomes which tier is good enough for each project.

    A tier is named only where it reaches the target with the certainty. [tiers.projects] uses the file.
    """
    with needs_extra("fit", "pointsman fit"):
        from pointsman.learning.projects import fit_projects, read_project_outcomes
        from pointsman.reports.projects import CONDITION, outcomes_of
    tiers = tiers_of(load(config_file(config), AnyKey()))
    if len(tiers) < 2:
        raise PointsmanError(
            "fewer than two tiers have a model", hint="[tiers] names the models of each tier"
        )
    writable(out)
    if data:
        outcomes = read_project_outcomes(data)
    else:
        with opened(ledger, config) as store:
            outcomes = list(outcomes_of(store.records()))
    drawn = [each for each in outcomes if each.by_chance]
    others = len(outcomes) - len(drawn)
    if by_chance:
        outcomes = drawn
    found = fit_projects(outcomes, tiers, target=target, keep=keep, certainty=certainty, half_life=half_life)
    save(out, msgspec.json.encode(found))
    named = sum(bool(cell.tier) for cell in found.cells.values())
    if as_json:
        print_json(
            {
                "file": str(out),
                "outcomes": len(outcomes),
                "by_chance": len(drawn),
                "cells": len(found.cells),
                "with_tier": named,
            }
        )
        return
    echo(f"{len(outcomes):,} outcomes, {len(found.cells):,} cells, {named:,} with a tier; written to {out}")
    left = "left out" if by_chance else "used"
    echo(
        f"{len(drawn):,} of models chosen by chance; {others:,} of models chosen by rules or a policy, {left}"
    )
    if named and others and not by_chance:
        echo(CONDITION)
