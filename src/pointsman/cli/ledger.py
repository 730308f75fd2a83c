"""``pointsman ledger``: copy a ledger to another place, in another form; migrate its schema.

Also the ledger that any command reads or adds to: the one named, the demo's, or the configured one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

from pointsman.cli.output import (
    ConfigOption,
    Group,
    JsonOption,
    LedgerOption,
    echo,
    needs_extra,
    print_either,
    print_json,
    read_config,
    writable,
)
from pointsman.cli.terminal import progress
from pointsman.config.shapes import LedgerSpec, demo_ledger
from pointsman.decision.decision import Decision
from pointsman.errors import ConfigError, PointsmanError, StoreUnavailable
from pointsman.stores.ledger import Ledger, Retention, SqliteLedger, is_postgres, open_postgres
from pointsman.stores.ledger.port import Entry
from pointsman.stores.replacing import SHARED, replaced

if TYPE_CHECKING:
    import gzip

    from pointsman.stores.ledger.postgres import PostgresLedger

    AnyLedger = SqliteLedger | PostgresLedger

_PARQUET: Final = ".parquet"
_LINES: Final = (".jsonl", ".jsonl.gz")
_PLACES: Final = "a SQLite file, FILE.jsonl, FILE.jsonl.gz, FILE.parquet, or postgresql://user@host/name"


# The ledger of a command.

#: No bounds: looking at a ledger, or adding to it, never removes what the gateway keeps.
KEEP_ALL = Retention(None, None)


@contextmanager
def opened(ledger: str | Path | None, config: Path | None, *, demo: bool = False) -> Iterator[AnyLedger]:
    """Open the ledger named, else the demo's if it is asked for or the configured one; close it after use.

    Raises:
        StoreUnavailable: there is no such file, or it cannot be read.
    """
    store = _found(ledger, config, demo=demo)
    try:
        yield store
    finally:
        store.close()


def _found(ledger: str | Path | None, config: Path | None, *, demo: bool) -> AnyLedger:
    if isinstance(ledger, str) and is_postgres(ledger):
        return open_address(ledger, config)
    if ledger:
        return open_file(Path(ledger))
    if demo:
        return open_file(demo_ledger())
    spec = read_config(config).ledger
    if spec.url is not None:
        return open_address(spec.url, config)
    if spec.jsonl is not None:
        raise StoreUnavailable(
            f"decisions are written as JSON lines to {spec.place}, which no command reads",
            hint="pointsman ledger copy FILE.jsonl FILE.sqlite makes one that they read",
        )
    return open_file(spec.path)


def has_no_demo(ledger: str | None, *, demo: bool) -> bool:
    """Whether the demo's ledger is asked for before it exists; a message then says so, and it is no error."""
    if not demo or ledger is not None or demo_ledger().is_file():
        return False
    echo("no decisions yet: pointsman serve --demo writes its ledger with the first request", err=True)
    return True


def open_file(path: Path) -> SqliteLedger:
    """Open a SQLite ledger that is there.

    Raises:
        StoreUnavailable: there is no such file.
    """
    if not path.is_file():
        raise StoreUnavailable(f"there is no ledger at {path}", hint=_where_else(path))
    if path.name.endswith((_PARQUET, *_LINES)):
        hint = f"pointsman ledger copy {path} FILE.sqlite makes one that they read"
        raise StoreUnavailable(f"{path} is a copy of a ledger, which no command reads", hint=hint)
    return SqliteLedger(path, text="full", retention=KEEP_ALL)


def open_address(url: str, config: Path | None) -> PostgresLedger:
    """Open the ledger in a database, with the configured password if it is the configured one.

    Raises:
        MissingExtra: its client is not installed.
        ConfigError: it is no address.
    """
    try:
        spec = read_config(config).ledger
    except ConfigError:  # a wrong configuration is nothing to who names a ledger
        spec = LedgerSpec()
    password = spec.password.reveal() if spec.password and spec.url == url else None
    return open_postgres(url, password=password, text="full", retention=KEEP_ALL)


def has_ledger(spec: LedgerSpec) -> bool:
    """Whether there is something to read."""
    return spec.url is not None or (spec.jsonl is None and spec.path.is_file())


def is_demo_newer(config: Path | None) -> bool:
    """Whether the ledger of the demo was written after the configured one."""
    spec = read_config(config).ledger
    return spec.url is None and _written(demo_ledger()) > _written(spec.path)


def _written(path: Path) -> float:
    """When a ledger was last written to, in seconds since the epoch; 0 if there is no file."""
    files = (path, path.with_name(path.name + "-wal"))  # to which SQLite writes first
    return max((file.stat().st_mtime for file in files if file.is_file()), default=0.0)


def _where_else(path: Path) -> str:
    demo = demo_ledger()
    if path == demo:
        return "pointsman serve --demo writes it with its first decision: send a request"
    if demo.is_file():
        return f"that of pointsman serve --demo is {demo}: pointsman decisions list --demo"
    return "pointsman serve writes one with its first decision; use --ledger FILE for another file"


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
    from pointsman.stores.ledger.copying import Copied, copy_into

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
    from pointsman.stores.ledger.copying import entries_of

    with closing(ledger):
        yield from entries_of(ledger)


def _read_lines(file: Path) -> Iterator[Entry]:
    """A file of JSON lines, after those that were put aside when it began anew."""
    from pointsman.jsonl import decoded, numbered_lines
    from pointsman.stores.ledger.lines import entry_in, put_aside

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
    import gzip

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
    with (
        replaced(file, SHARED) as draft,
        gzip.open(draft, "wb") if file.suffix == ".gz" else draft.open("wb") as out,
    ):
        return _write_lines(out, entries)


def _write_lines(out: IO[bytes] | gzip.GzipFile, entries: Iterator[Entry]) -> int:
    from pointsman.stores.ledger.lines import line_of

    written = 0
    for entry in entries:
        out.write(line_of(entry) + b"\n")
        written += 1
    out.flush()
    return written


def _opened_to_write(target: str, config: Path | None) -> Ledger:
    if is_postgres(target):
        return open_address(target, config)
    if target.lower().endswith((".json", ".ndjson", ".csv", ".gz", _PARQUET, *_LINES)):
        forms = ", ".join(f"FILE{each}" for each in (*_LINES, _PARQUET))
        raise PointsmanError(f"{target} is no name of a copy", hint=f"{forms}; other names are SQLite files")
    return SqliteLedger(Path(target), text="full", retention=KEEP_ALL)
