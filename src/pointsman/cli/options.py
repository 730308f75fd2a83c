"""Options that several commands have, so that each reads the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "ConfigOption",
    "CsvOption",
    "DemoOption",
    "JsonLinesOption",
    "JsonOption",
    "LearnedRouterOption",
    "LedgerOption",
    "OutcomesOption",
    "StrongOption",
    "WeakOption",
]

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="Configuration; default: pointsman.toml here, then the user's."),
]
LearnedRouterOption = Annotated[
    Path | None, typer.Option("--learned-router", help="Learned router file, written by pointsman fit tiers.")
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print the tables as CSV.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
LedgerOption = Annotated[
    str | None,
    typer.Option("--ledger", help="Ledger file, or address of PostgreSQL; default: the configured one."),
]
DemoOption = Annotated[bool, typer.Option("--demo", help="Read the ledger of pointsman serve --demo.")]

#: What learning and measuring read, and which two of its models are meant.
OutcomesOption = Annotated[
    Path, typer.Option("--data", help="JSON lines: prompt, weak, strong; or prompt, scores.")
]
WeakOption = Annotated[str, typer.Option("--weak", help="Weak model, if lines have scores by model.")]
StrongOption = Annotated[str, typer.Option("--strong", help="Strong model, if lines have scores by model.")]
