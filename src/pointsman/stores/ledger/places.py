"""Where a ledger may be: a file, or a database by its address."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pointsman.decision.decision import TextMode
from pointsman.errors import MissingExtra
from pointsman.stores.ledger._retention import Retention

if TYPE_CHECKING:
    from pointsman.stores.ledger._spill import SpillFile
    from pointsman.stores.ledger.postgres import PostgresLedger

__all__ = ["is_postgres", "open_postgres"]

_SCHEMES: Final = ("postgresql://", "postgres://")


def is_postgres(place: str) -> bool:
    """Whether it is the address of a PostgreSQL database."""
    return place.startswith(_SCHEMES)


def open_postgres(
    url: str,
    *,
    password: str | None = None,
    queue: int = 10_000,
    text: TextMode = "off",
    retention: Retention = Retention(max_mb=None),  # noqa: B008 - a frozen value
    spill: SpillFile | None = None,
) -> PostgresLedger:
    """Return the ledger at an address. Connects with the first use.

    Raises:
        MissingExtra: psycopg is not installed.
        ConfigError: it is no address of PostgreSQL.
    """
    if find_spec("psycopg") is None:
        raise MissingExtra("postgres", needed_for="a ledger in PostgreSQL")
    from pointsman.stores.ledger.postgres import PostgresLedger

    return PostgresLedger(url, password=password, queue=queue, text=text, retention=retention, spill=spill)
