"""``pointsman eval``: measure on outcome data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pointsman.cli.output import needs_extra, print_json
from pointsman.evaluation.datasets import read_outcomes
from pointsman.models.heads import load_scorer

__all__ = ["register"]

evaluate = typer.Typer(no_args_is_help=True, help="Measure rankings and classifiers on labelled data.")


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(evaluate, name="eval")


@evaluate.callback()
def _group() -> None:
    """Keep the commands of this group apart from the group itself."""


@evaluate.command()
def tiers(
    *,
    data: Annotated[Path, typer.Option(help="JSON lines: prompt, weak, strong; or prompt, scores.")],
    head: Annotated[Path | None, typer.Option(help="A head made by pointsman fit tiers.")] = None,
    weak: Annotated[str, typer.Option(help="The weak model, where lines hold scores by model.")] = "",
    strong: Annotated[str, typer.Option(help="The strong model, where lines hold scores by model.")] = "",
    seed: Annotated[int, typer.Option(help="Of the resamples.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how well each ranking finds the prompts that need the strong model."""
    with needs_extra("fit", "pointsman eval tiers"):
        from pointsman.evaluation.show import ranking_table
        from pointsman.evaluation.tiers import evaluate_tiers

    rows = evaluate_tiers(
        read_outcomes(data, weak=weak, strong=strong), load_scorer(head) if head else None, seed=seed
    )
    if as_json:
        print_json({"rows": rows})
    else:
        typer.echo(ranking_table(rows))
