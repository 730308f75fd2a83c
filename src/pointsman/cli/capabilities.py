"""``pointsman capabilities``: list and check the registered capabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from pointsman.capabilities import (
    CHECKING,
    CapabilityRegistry,
    LocalScorer,
    SelectionPolicy,
    check_registry,
    measure_registry,
)
from pointsman.cli.output import FAILED, Group, echo, print_json, print_table
from pointsman.encoders import load_encoder
from pointsman.orchestrator import installed_capabilities, load_capabilities
from pointsman.printable import Column

__all__ = ["register"]

_app: Final = typer.Typer(cls=Group, no_args_is_help=True, help="Capabilities: list and check them.")

_COLUMNS: Final = (Column("name", whole=True), Column("examples", least=12), Column("instructions"))
_MEASURED: Final = (
    Column("name", whole=True),
    Column("own examples that select it"),
    Column("ordinary tasks that select it"),
)

CapabilitiesFile = Annotated[
    Path | None,
    typer.Option("--capabilities", help="JSON list; default: what installed packages offer."),
]


def register(app: typer.Typer) -> None:
    """Add ``capabilities`` to the command line."""
    app.add_typer(_app, name="capabilities")


@_app.command("list")
def list_them(
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
    if as_json:
        print_json({"version": registry.version, "capabilities": rows})
        return
    print_table(
        _COLUMNS,
        [
            (
                str(row["name"]),
                "always" if row["always_active"] else f"{row['examples']} examples",
                str(row["instructions"]),
            )
            for row in rows
        ],
    )
    echo(f"{len(rows)} capabilities, version {registry.version}")


@_app.command("check")
def check(
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
