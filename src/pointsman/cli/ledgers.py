"""The ledger that a command reads or adds to: the one named, the demo's, or the configured one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pointsman.config import AnyKey, find, load
from pointsman.config.shapes import LedgerSpec, demo_ledger
from pointsman.errors import ConfigError, StoreUnavailable
from pointsman.stores.ledger import Retention, SqliteLedger, is_postgres, open_postgres

if TYPE_CHECKING:
    from pointsman.stores.ledger.postgres import PostgresLedger

    AnyLedger = SqliteLedger | PostgresLedger


#: No bounds: looking at a ledger, or adding to it, never removes what the gateway keeps.
_ALL = Retention(None, None)


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
    spec = configured(config)
    if spec.url is not None:
        return open_address(spec.url, config)
    if spec.jsonl is not None:
        raise StoreUnavailable(
            f"decisions are written as JSON lines to {spec.place}, which no command reads",
            hint="pointsman ledger copy FILE.jsonl FILE.sqlite makes one that they read",
        )
    return open_file(spec.path)


def open_file(path: Path) -> SqliteLedger:
    """Open a SQLite ledger that is there.

    Raises:
        StoreUnavailable: there is no such file.
    """
    if not path.is_file():
        raise StoreUnavailable(f"there is no ledger at {path}", hint=_where_else(path))
    return SqliteLedger(path, text="full", retention=_ALL)


def open_address(url: str, config: Path | None) -> PostgresLedger:
    """Open the ledger in a database, with the configured password if it is the configured one.

    Raises:
        MissingExtra: its client is not installed.
        ConfigError: it is no address.
    """
    try:
        spec = configured(config)
    except ConfigError:  # a wrong configuration is nothing to who names a ledger
        spec = LedgerSpec()
    password = spec.password.reveal() if spec.password and spec.url == url else None
    return open_postgres(url, password=password, text="full", retention=_ALL)


def configured(config: Path | None) -> LedgerSpec:
    """Return the ledger of the configuration; the default without one.

    Raises:
        ConfigError: the file is wrong.
    """
    file = config or find()
    return load(file, AnyKey()).ledger if file else LedgerSpec()


def has_ledger(spec: LedgerSpec) -> bool:
    """Whether there is something to read."""
    return spec.url is not None or (spec.jsonl is None and spec.path.is_file())


def is_demo_newer(config: Path | None) -> bool:
    """Whether the ledger of the demo was written after the configured one."""
    spec = configured(config)
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
