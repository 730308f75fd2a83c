"""``pointsman ledger``: copy a ledger to another place, in another form; migrate its schema."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Annotated, Final

import typer

from pointsman.cli.ledgers import open_address, open_file, opened
from pointsman.cli.output import (
    ConfigOption,
    Group,
    JsonOption,
    LedgerOption,
    echo,
    needs_extra,
    print_either,
    print_json,
    writable,
)
from pointsman.cli.terminal import progress
from pointsman.decision.decision import Decision
from pointsman.errors import PointsmanError
from pointsman.jsonl import decoded, numbered_lines
from pointsman.stores.ledger import Ledger, Retention, SqliteLedger, is_postgres
from pointsman.stores.ledger.copying import Copied, CopyTarget, copy_into, entries_of
from pointsman.stores.ledger.lines import entry_in, line_of, put_aside
from pointsman.stores.ledger.port import Entry

_PARQUET: Final = ".parquet"
_LINES: Final = (".jsonl", ".jsonl.gz")
_PLACES: Final = "a SQLite file, FILE.jsonl, FILE.jsonl.gz, FILE.parquet, or postgresql://user@host/name"


ledger: Final = typer.Typer(
    cls=Group, no_args_is_help=True, help="Copy ledgers between files and databases; migrate them."
)


@ledger.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help=f"{_PLACES}.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="The same; - writes JSON lines to standard output.")
    ],
    *,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a file of JSON lines or Parquet that is there.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy everything in a ledger to another place; rows that exist there already are left out.

    Copying again resumes an interrupted copy. Nothing is removed from FROM.

    """
    if source == target:
        raise PointsmanError(f"{source} cannot be copied to itself")
    ledger = _opened(source, config)
    with progress("copying decisions", ledger.count() if ledger else None) as shown:
        found = _read(ledger) if ledger else _in_file(source)
        entries = _counted(found, shown.advance) if shown else found
        if target.endswith((_PARQUET, *_LINES)) or target == "-":
            copied = Copied()
            copied.written = _write(target, entries, overwrite=overwrite)
        else:
            with closing(_opened_to_write(target, config)) as store:
                copied = copy_into(store, entries)
    if as_json:
        print_json({"written": copied.written, "there": copied.there})
    else:
        there = f", {copied.there:,} were there" if copied.there else ""
        echo(f"copied {copied.written:,} entries{there}", err=target == "-")


@ledger.command()
def migrate(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 where a migration is pending.")
    ] = False,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a ledger to the schema of this version, and say which versions can use it then.

    A gateway makes additions by itself if earlier versions can still use the ledger. In PostgreSQL a
    migration after which they cannot is left to this command: stop the earlier versions first.
    """
    with opened(ledger, config) as store:
        found, schema = store.schema_state(), store.schema
        is_pending = found.number < schema.number
        if is_pending and not check:
            store.migrate()
    report = {
        "ledger": store.where,
        "schema": found.number,
        "of_this_version": schema.number,
        "readable_from": max(schema.readable_from, found.readable_from),
        "since": found.since,
        "by": found.by,
        "is_break": schema.is_break(found),
        "migrated": is_pending and not check,
    }
    print_either(report, _migration(report, is_pending=is_pending), as_json=as_json)
    if is_pending and check:
        raise typer.Exit(1)


def _migration(report: dict[str, object], *, is_pending: bool) -> str:
    ledger, number, wanted = report["ledger"], report["schema"], report["of_this_version"]
    owner = f" (pointsman {report['by']}, {report['since']})" if report["by"] else ""
    users = f"versions from schema {report['readable_from']} on can use it"
    if not is_pending:
        return f"{ledger}: schema {number}{owner}, nothing to migrate; {users}"
    doing = "migrated from" if report["migrated"] else "would be migrated from"
    ends = "; earlier versions cannot use it any more" if report["is_break"] else ""
    return f"{ledger}: {doing} schema {number}{owner} to schema {wanted}{ends}; {users}"


def _opened(source: str, config: Path | None) -> Ledger | None:
    """A ledger in a database; None for a file of another form."""
    if is_postgres(source):
        return open_address(source, config)
    return None if source.endswith((_PARQUET, *_LINES)) else open_file(Path(source))


def _in_file(source: str) -> Iterator[Entry]:
    if not source.endswith(_PARQUET):
        return _read_lines(Path(source))
    with needs_extra("batch", "reading Parquet"):
        from pointsman.batch.ledger_files import read_entries
    return read_entries(Path(source))


def _read(ledger: Ledger) -> Iterator[Entry]:
    with closing(ledger):
        yield from entries_of(ledger)


def _read_lines(file: Path) -> Iterator[Entry]:
    """A file of JSON lines, after those that were put aside when it began anew."""
    aside = [] if file.suffix == ".gz" else put_aside(file)
    for each in [*aside, file]:
        for _, entry in decoded(numbered_lines(each), entry_in, each):
            yield entry


def _counted(entries: Iterator[Entry], told: Callable[[int], object]) -> Iterator[Entry]:
    for entry in entries:
        told(isinstance(entry, Decision))
        yield entry


def _write(target: str, entries: Iterator[Entry], *, overwrite: bool) -> int:
    """Write a file, which is there when it is whole."""
    file = Path(target)
    if target == "-":
        return _write_lines(sys.stdout.buffer, entries)
    if file.exists() and not overwrite:
        raise PointsmanError(f"{file} is there already", hint="--overwrite replaces it")
    writable(file)
    if target.endswith(_PARQUET):
        with needs_extra("batch", "writing Parquet"):
            from pointsman.batch.ledger_files import write_entries
        return write_entries(file, entries)
    draft = file.with_name(f".{file.name}.new")
    try:
        with gzip.open(draft, "wb") if file.suffix == ".gz" else draft.open("wb") as out:
            written = _write_lines(out, entries)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return written


def _write_lines(out: IO[bytes] | gzip.GzipFile, entries: Iterator[Entry]) -> int:
    written = 0
    for entry in entries:
        out.write(line_of(entry) + b"\n")
        written += 1
    out.flush()
    return written


def _opened_to_write(target: str, config: Path | None) -> CopyTarget:
    if is_postgres(target):
        return open_address(target, config)
    return SqliteLedger(Path(target), text="full", retention=Retention(None, None))
