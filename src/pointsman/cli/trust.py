"""``pointsman trust``: let a configuration that is found in the working directory name code and secrets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from pointsman.cli.options import JsonOption
from pointsman.cli.output import echo, print_json, print_table
from pointsman.config.files import read
from pointsman.config.load import FILE_NAME
from pointsman.config.trust import effects, revoke, trust, trusted_files
from pointsman.errors import ConfigError
from pointsman.printable import Column

__all__ = ["register"]

_COLUMNS: Final = (Column("file", whole=True), Column("state"))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("trust")(trust_file)


def trust_file(
    file: Annotated[Path, typer.Argument(help="Configuration to trust.")] = Path(FILE_NAME),
    *,
    listed: Annotated[bool, typer.Option("--list", help="List the files that are trusted.")] = False,
    revoked: Annotated[bool, typer.Option("--revoke", help="Trust the file no longer.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Trust the configuration of a folder: the code that it runs, and the secrets that it uses.

    A pointsman.toml that is found in the working directory names neither code nor ${…} before its path and
    digest are recorded here. Each change asks anew, except those of pointsman's own commands. A file that
    --config or POINTSMAN_CONFIG names needs no trust, nor one that pointsman config init wrote.
    """
    if listed:
        _list(as_json=as_json)
        return
    if revoked:
        if not revoke(file):
            raise ConfigError(f"{file} is not trusted", hint="pointsman trust --list")
        done: dict[str, object] = {"file": str(file.resolve()), "trusted": False}
        lines = [f"{file} is no longer trusted"]
    else:
        text = read(file)
        found = effects(file, text)
        if not (yes or as_json):
            _confirm(file, found)
        trust(file, text)
        done = {"file": str(file.resolve()), "trusted": True, "effects": found}
        lines = [f"{file} is trusted until it changes", *(f"  it may {each}" for each in found)]
    if as_json:
        print_json(done)
        return
    for line in lines:
        echo(line)


def _confirm(file: Path, found: Sequence[str]) -> None:
    """Ask whether the effects of a file are allowed, if a person can answer."""
    if found and sys.stdin.isatty():
        echo(f"{file} may, once it is trusted:")
        for each in found:
            echo(f"  {each}")
        typer.confirm("Trust it until it changes?", abort=True)


def _list(*, as_json: bool) -> None:
    files = trusted_files()
    if as_json:
        print_json([{"file": each.path, "sha256": each.digest, "current": each.is_current} for each in files])
        return
    print_table(
        _COLUMNS, [(each.path, "trusted" if each.is_current else "changed or gone") for each in files]
    )
    if not files:
        echo("no file is trusted: pointsman trust trusts the one here", err=True)
