"""``pointsman lexicon``, ``domains`` and ``capabilities``: check files of patterns and descriptions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from pointsman.capabilities import (
    CHECKING,
    CapabilityRegistry,
    LocalScorer,
    SelectionPolicy,
    check_registry,
    measure_registry,
)
from pointsman.cli.output import (
    FAILED,
    Group,
    JsonOption,
    echo,
    needs_extra,
    print_either,
    print_table,
    read_lines,
)
from pointsman.cli.tasks import EncoderName
from pointsman.config import read
from pointsman.domains import DomainSet, DomainTracker, default_domains, parse_domains
from pointsman.domains.parsing import check_domains
from pointsman.encoders import load_encoder
from pointsman.errors import LexiconError
from pointsman.evidence.lexicon import Finding, Lexicon, LintReport, check, load_lexicon
from pointsman.jsonl import decoded
from pointsman.learning.domains import DomainReport, LabelledTurn, Spread, evaluate
from pointsman.orchestrator import installed_capabilities, load_capabilities
from pointsman.printable import Column, TextTable
from pointsman.stores.pattern_cache import open_scanner
from pointsman.tiers import BUILTIN_PROFILES, builtin_profile, load_profile
from pointsman.toml_source import TomlSource

lexicon: Final = typer.Typer(
    cls=Group, no_args_is_help=True, help="Check the patterns of a lexicon, a tier profile or a domain file."
)
lexicon.callback()(lambda: None)  # one command makes a group too


@lexicon.command("check")
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
    print_either(report, *_report_lines(report, notes=notes, top=top), as_json=as_json)
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
    tables = TomlSource(text, str(file)).read(LexiconError)
    if "dimensions" in tables:
        profile = load_profile(text, str(file))
        return Lexicon.of(profile.name, profile.signals(), place=str(file))
    if "domains" in tables:
        return Lexicon.of("domains", parse_domains(text, place=str(file)).signals(), place=str(file))
    return load_lexicon(text, str(file))


def _report_lines(report: LintReport, *, notes: bool, top: int) -> Iterator[str]:
    shown = [finding for finding in report.findings if notes or finding.level != "note"]
    yield from map(_line, shown)
    hidden = len(report.findings) - len(shown)
    yield (
        f"{report.patterns} patterns, {len(shown)} findings"
        + (f" and {hidden} notes (--notes prints them)" if hidden else "")
        + f"; all together cost {report.ns_per_byte:.2f} ns per byte"
    )
    if top and report.costs:
        yield "most expensive patterns:"
    yield from (f"  {cost.ns_per_byte:6.2f} ns per byte  {cost.signal.id}" for cost in report.costs[:top])


def _line(finding: Finding) -> str:
    place = f"{finding.place}: " if finding.place else ""
    return f"{finding.level}: {place}{finding.message} [{finding.code}]"


domains: Final = typer.Typer(cls=Group, no_args_is_help=True, help="Check a file of task domains.")

DomainsFile = Annotated[
    Path | None, typer.Option("--domains", help="Domain file (TOML); default: the eleven built-in domains.")
]


JsonLines = Annotated[Path, typer.Argument(help="JSON lines, optionally gzipped.")]
Seed = Annotated[int, typer.Option(help="Random seed of the bootstrap.")]


@domains.command("eval", hidden=True)  # as it was called before it was one of ``pointsman eval``
def evaluate_domains(
    file: JsonLines,
    domains: DomainsFile = None,
    encoder: EncoderName = "none",
    seed: Seed = 0,
    as_json: JsonOption = False,
) -> None:
    """Evaluate domain memory on labelled dialogues, with confidence intervals over dialogues.

    Baselines: no memory, momentum as in the source document, carry-on-null. A line has dialogue_id, turn,
    text and domain, and may have speaker (only "user" is read) and switch.
    """
    with needs_extra("fit", "pointsman eval domains"):
        from pointsman.learning.metrics import ratio_interval

    reports = _reports_on(file, load_domains(domains), encoder, partial(ratio_interval, seed=seed))
    print_either({"rows": reports}, *_tables(reports), as_json=as_json)


@domains.command("check")
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
    lines = (
        f'{each.severity}: {each.domain}/{each.concept}: "{each.phrase}": {each.message}' for each in findings
    )
    counts = f"{len(known.domains)} domains, {len(findings)} findings"
    print_either(findings, *lines, counts, as_json=as_json)
    if any(finding.severity == "error" for finding in findings):
        raise typer.Exit(FAILED)


def _reports_on(file: Path, known: DomainSet, encoder: str, spread: Spread) -> list[DomainReport]:
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
_MEASURES: Final = {
    "accuracy": "accuracy",
    "on the switch": "switch_accuracy",
    "changes in a stretch": "changes",
    "coverage": "coverage",
    "missed switches": "missed",
    "delay in turns": "delay",
}


def _tables(reports: list[DomainReport]) -> tuple[TextTable, str]:
    """The reports, a row each, and the number of turns."""
    columns = (Column(""), *(Column(heading, right=True) for heading in _MEASURES))
    rows = [[each.strategy, *(_cell(each, field) for field in _MEASURES.values())] for each in reports]
    return TextTable(columns, rows), f"{reports[0].turns} user turns"


def _cell(report: DomainReport, field: str) -> str:
    value = getattr(report, field)
    if value is None:
        return "–"
    shown = "{:.3f}" if field == "delay" else "{:.2%}"
    low, high = report.intervals.get(field, (None, None))
    return shown.format(value) + (
        f" ({shown.format(low)} .. {shown.format(high)})" if low is not None else ""
    )


capabilities: Final = typer.Typer(cls=Group, no_args_is_help=True, help="Capabilities: list and check them.")

_CAPABILITIES: Final = (Column("name", whole=True), Column("examples", least=12), Column("instructions"))
_MEASURED: Final = (
    Column("name", whole=True),
    Column("own examples that select it"),
    Column("ordinary tasks that select it"),
)

CapabilitiesFile = Annotated[
    Path | None,
    typer.Option("--capabilities", help="JSON list; default: what installed packages offer."),
]


@capabilities.command("list")
def list_capabilities(
    file: CapabilitiesFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """List the capabilities in registry order, and the registry's version."""
    registry = _registry(file)
    rows = [
        {
            "name": each.name,
            "instructions": each.guide.instructions,
            "examples": len(each.guide.examples),
            "provides": each.provides,
            "requires": each.requires,
            "always_active": each.always_active,
        }
        for each in registry.get_all_capabilities()
    ]
    cells = [
        (
            row["name"],
            "always" if row["always_active"] else f"{row['examples']} examples",
            row["instructions"],
        )
        for row in rows
    ]
    print_either(
        {"version": registry.version, "capabilities": rows},
        TextTable(_CAPABILITIES, cells),
        f"{len(rows)} capabilities, version {registry.version}",
        as_json=as_json,
    )


@capabilities.command("check")
def check_capabilities(
    file: CapabilitiesFile = None,
    *,
    encoder: Annotated[
        str, typer.Option(help="Encoder of the local score: none, static or sentence.")
    ] = "none",
    threshold: Annotated[
        float, typer.Option(help="Probability from which a capability is selected.", min=0, max=1)
    ] = SelectionPolicy().threshold,
) -> None:
    """Measure the selection, and report what reduces its accuracy.

    Each example is scored as though it were not in its guide, and so are forty ordinary tasks of other kinds:
    code, knowledge, text. Findings are few found or many ordinary tasks selected, missing
    examples, unmet requirements and contradictory examples. The exit code is 1 when there are findings.
    """
    registry = _registry(file)
    measured = measure_registry(registry, LocalScorer(registry, load_encoder(encoder)), threshold)
    if measured:
        print_table(
            _MEASURED,
            [
                (each.name, f"{each.found} of {each.examples}", f"{len(each.ordinary)} of {len(CHECKING)}")
                for each in measured
            ],
        )
    findings = [*check_registry(registry), *(each.finding for each in measured if each.finding)]
    for finding in findings:
        echo(finding)
    if findings:
        raise typer.Exit(FAILED)
    echo(f"{len(registry)} capabilities, no findings")


def _registry(file: Path | None) -> CapabilityRegistry:
    return CapabilityRegistry(installed_capabilities()) if file is None else load_capabilities(file)
