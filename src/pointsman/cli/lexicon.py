"""``pointsman lexicon check``: find useless patterns, and measure the cost of each pattern."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from pointsman.cli.output import FAILED, Group, echo, print_json
from pointsman.config import read
from pointsman.decoding import syntax_error
from pointsman.domains import default_domains, parse_domains
from pointsman.errors import LexiconError
from pointsman.evidence.lexicon import Lexicon, load_lexicon
from pointsman.evidence.lint import Finding, LintReport, check
from pointsman.tiers import BUILTIN_PROFILES, builtin_profile, load_profile

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    lexicon = typer.Typer(
        cls=Group,
        no_args_is_help=True,
        help="Check the patterns of a lexicon, a tier profile or a domain file.",
    )
    lexicon.callback()(lambda: None)  # keeps "check" a command of its own
    lexicon.command("check")(check_files)
    app.add_typer(lexicon, name="lexicon")


def check_files(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Lexicons, tier profiles, domain files; default: the built-in ones."),
    ] = None,
    *,
    sample: Annotated[Path | None, typer.Option(help="Text for measuring costs; default: the terms.")] = None,
    notes: Annotated[bool, typer.Option("--notes", help="Print notes too.")] = False,
    top: Annotated[int, typer.Option(min=0, help="Number of most expensive patterns to print.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Find duplicates, overlaps and patterns that cannot match; measure the cost of each in ns per byte."""
    lexicons = [_read(file) for file in files] if files else _built_in()
    report = check(lexicons, time.process_time, sample=read(sample) if sample else "")
    if as_json:
        print_json(report)
    else:
        _show(report, notes=notes, top=top)
    if not report.ok:
        raise typer.Exit(FAILED)


def _built_in() -> list[Lexicon]:
    profiles = (builtin_profile(name) for name in BUILTIN_PROFILES)
    return [
        *(Lexicon.of(profile.name, profile.signals(), place=f"{profile.name}.toml") for profile in profiles),
        Lexicon.of("domains", default_domains().signals(), place="domains/default.toml"),
    ]


def _read(file: Path) -> Lexicon:
    """Read a file of any of the three kinds that hold patterns; its tables show its kind."""
    text = read(file)
    try:
        tables = tomllib.loads(text).keys()
    except tomllib.TOMLDecodeError as error:
        message, line = syntax_error(error, text)
        raise LexiconError(message, place=f"{file}:{line}") from None
    if "dimensions" in tables:
        profile = load_profile(text, str(file))
        return Lexicon.of(profile.name, profile.signals(), place=str(file))
    if "domains" in tables:
        return Lexicon.of("domains", parse_domains(text, place=str(file)).signals(), place=str(file))
    return load_lexicon(text, str(file))


def _show(report: LintReport, *, notes: bool, top: int) -> None:
    shown = [finding for finding in report.findings if notes or finding.level != "note"]
    for finding in shown:
        echo(_line(finding))
    hidden = len(report.findings) - len(shown)
    echo(
        f"{report.patterns} patterns, {len(shown)} findings"
        + (f" and {hidden} notes (--notes prints them)" if hidden else "")
        + f"; all together cost {report.ns_per_byte:.2f} ns per byte"
    )
    if top and report.costs:
        echo("most expensive patterns:")
    for cost in report.costs[:top]:
        echo(f"  {cost.ns_per_byte:6.2f} ns per byte  {cost.signal.id}")


def _line(finding: Finding) -> str:
    place = f"{finding.place}: " if finding.place else ""
    return f"{finding.level}: {place}{finding.message} [{finding.code}]"
