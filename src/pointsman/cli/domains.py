"""``pointsman domains``: evaluate and check a domain file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from pointsman.cli.output import FAILED, Group, echo, print_json, read_lines
from pointsman.config import read
from pointsman.domains import DomainSet, DomainTracker, default_domains, parse_domains
from pointsman.domains.lint import Severity, check_domains
from pointsman.encoders import load_encoder
from pointsman.jsonl import decoded
from pointsman.learning.domains import DomainReport, LabelledTurn, Spread, evaluate
from pointsman.stores.pattern_cache import open_scanner

__all__ = ["register"]

_app: Final = typer.Typer(cls=Group, no_args_is_help=True, help="Evaluate and check a file of task domains.")

DomainsFile = Annotated[
    Path | None, typer.Option("--domains", help="Domain file (TOML); default: the eleven built-in domains.")
]


def register(app: typer.Typer) -> None:
    """Add ``domains`` to the command line."""
    app.add_typer(_app, name="domains")


@_app.command("eval")
def evaluate_file(
    file: Annotated[Path, typer.Argument(help="Labelled turns as JSON lines, optionally gzipped.")],
    domains: DomainsFile = None,
    encoder: Annotated[
        str,
        typer.Option(
            help="Encoder that compares turns without signals with examples: none, static, sentence."
        ),
    ] = "none",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Evaluate domain memory on labelled dialogues, against three baselines.

    Baselines: no memory, momentum as in the source document, carry-on-null. A line has dialogue_id, turn,
    text and domain, and may have speaker (only "user" is read) and switch.
    """
    reports = reports_on(file, load_domains(domains), encoder)
    if as_json:
        print_json(reports)
        return
    for line in table_lines(reports):
        echo(line)


@_app.command("check")
def check_file(
    file: Annotated[
        Path | None, typer.Argument(help="Domain file (TOML); default: the built-in domains.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Find phrases that cannot match, count twice, or count for two domains.

    The exit code is 1 when a phrase cannot match; other findings are warnings.
    """
    known = load_domains(file)
    findings = check_domains(known, open_scanner(known.signals()))
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            where = f"{finding.domain}/{finding.concept}"
            echo(f'{finding.severity}: {where}: "{finding.phrase}": {finding.message}')
        echo(f"{len(known.domains)} domains, {len(findings)} findings")
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise typer.Exit(FAILED)


def reports_on(
    file: Path, known: DomainSet, encoder: str, *, spread: Spread | None = None
) -> list[DomainReport]:
    """Evaluate every strategy on a file; unknown domain names are reported."""
    turns = _turns(file)
    unknown = sorted({turn.domain for turn in turns if turn.domain not in known and turn.speaker == "user"})
    if unknown:
        echo(f"pointsman: no such domain: {', '.join(unknown)}; their turns count as errors", err=True)
    scanner = open_scanner(known.signals())
    tracker = DomainTracker(known, scanner.table, load_encoder(encoder))
    return evaluate(turns, tracker, scanner, spread=spread)


def load_domains(file: Path | None) -> DomainSet:
    """The domains of a file, or the built-in ones."""
    if file is None:
        return default_domains()
    return parse_domains(read(file), place=str(file))


def _turns(file: Path) -> list[LabelledTurn]:
    decode = msgspec.json.Decoder(LabelledTurn).decode
    return [turn for _, turn in decoded(read_lines(file), decode, file)]


#: Heading and field of each column; the last two are turns, the others shares.
_COLUMNS: Final = (
    ("accuracy", "accuracy"),
    ("on the switch", "switch_accuracy"),
    ("changes in a stretch", "changes"),
    ("coverage", "coverage"),
    ("missed switches", "missed"),
    ("delay in turns", "delay"),
)


def table_lines(reports: list[DomainReport]) -> list[str]:
    """The reports as aligned text."""
    cells = [[_cell(report, field) for _, field in _COLUMNS] for report in reports]
    rows = [[heading for heading, _ in _COLUMNS], *cells]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    width = max(len(report.strategy) for report in reports)
    names = ["", *(report.strategy for report in reports)]
    lines = [
        "  ".join([name.ljust(width), *(cell.rjust(each) for cell, each in zip(row, widths, strict=True))])
        for name, row in zip(names, rows, strict=True)
    ]
    return [*lines, f"{reports[0].turns} user turns"]


def _cell(report: DomainReport, field: str) -> str:
    value = getattr(report, field)
    if value is None:
        return "–"
    shown = "{:.3f}" if field == "delay" else "{:.2%}"
    low, high = report.intervals.get(field, (None, None))
    return shown.format(value) + (
        f" ({shown.format(low)} .. {shown.format(high)})" if low is not None else ""
    )
