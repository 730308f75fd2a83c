"""``pointsman outcomes``: import, derive and export outcomes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

import typer

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, LedgerOption
from pointsman.cli.outcomes_judge import judge_outcomes
from pointsman.cli.outcomes_queue import queue_outcomes
from pointsman.cli.output import FAILED, Group, echo, json_line, read_lines
from pointsman.errors import CallerError, StoreUnavailable
from pointsman.reports.outcomes import derive, fittable, new_outcomes
from pointsman.stores.ledger import Ledger, Outcome
from pointsman.stores.ledger.outcome_reports import read_line

__all__ = ["register"]

#: Outcomes appended between two waits for the disk: a tenth of what a ledger's queue holds.
BATCH: Final = 1_000


def register(app: typer.Typer) -> None:
    """Add the commands."""
    outcomes = typer.Typer(
        cls=Group, no_args_is_help=True, help="Import, derive, judge and export outcomes of decisions."
    )
    outcomes.command("import")(import_outcomes)
    outcomes.command("derive")(derive_outcomes)
    outcomes.command("export")(export_outcomes)
    outcomes.command("judge")(judge_outcomes)
    outcomes.command("queue")(queue_outcomes)
    app.add_typer(outcomes, name="outcomes")


def import_outcomes(
    file: Annotated[
        Path, typer.Argument(help="JSON lines: decision, score 0 to 1, label, source, comment, model.")
    ],
    *,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Import outcomes into the ledger. Duplicates are not added again."""
    added = wrong = 0
    now = time.time()
    with opened(ledger, config) as store:
        for number, line in read_lines(file):
            try:
                said = read_line(line, at=now)
                for outcome in new_outcomes([said], store.outcomes(said.decision)):
                    store.add_outcome(outcome)
                    added += 1
            except (ValueError, RecursionError, CallerError) as error:
                wrong += 1
                echo(f"{file}:{number}: {error}", err=True)
                continue
        _append(store, ())  # waits for the disk
    echo(f"added {added:,} outcomes" + (f"; {wrong:,} lines were invalid" if wrong else ""))
    if wrong:
        raise typer.Exit(FAILED)


def derive_outcomes(*, ledger: LedgerOption = None, config: ConfigOption = None) -> None:
    """Derive implicit outcomes from later requests: retry, escalation, error streak, correction, last call.

    Each has an implicit source, and score 0, or 1 where tests passed last. A second run adds only new ones.
    """
    with opened(ledger, config) as store:
        added = _append(store, derive(store.records()))
    echo(f"added {added:,} implicit outcomes")


def export_outcomes(
    *,
    weak: Annotated[str, typer.Option(help="With --strong: only prompts that both models answered.")] = "",
    strong: Annotated[str, typer.Option(help="With --weak: only prompts that both models answered.")] = "",
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Write prompts with each model's score, as training data for "pointsman fit tiers".

    Only prompts whose words were stored and that have an outcome with a score.
    """
    models = [name for name in (weak, strong) if name]
    written = 0
    with opened(ledger, config) as store:
        for written, line in enumerate(fittable(store.records(), models), start=1):  # noqa: B007 - counts
            echo(json_line(line))
    echo(f"wrote {written:,} prompts", err=True)


def _append(store: Ledger, outcomes: Iterable[Outcome]) -> int:
    """Append outcomes, with back-pressure from the disk. Returns the number added.

    Raises:
        StoreUnavailable: some could not be written.
    """
    added = 0
    for outcome in outcomes:
        store.append(outcome)
        added += 1
        if added % BATCH == 0:
            store.flush()
    store.flush()
    if store.fault:
        raise StoreUnavailable(f"outcomes could not be written: {store.fault}")
    if store.lost:
        raise StoreUnavailable(f"{store.lost:,} outcomes could not be written")
    return added
