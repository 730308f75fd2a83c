"""Schemas of stores that several program versions share: which program may use which.

Migration *n* turns schema n - 1 into schema n. Most only add to it: tables, indexes, columns with a default.
A program of an earlier schema still writes and reads tables that later migrations added to, as its statements
name their columns. A migration that changes or removes tables or columns is a break: the table ``meta`` has
the first schema of programs that may use the store (``readable_from``), and the migration's time and version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pointsman.errors import StoreUnavailable

__all__ = ["Schema", "SchemaState", "meta_of"]


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The schema of a store as it was found."""

    number: int  # 0: there are no tables
    readable_from: int  # programs of an earlier schema cannot use it
    since: str = ""  # when it was migrated, in UTC
    by: str = ""  # version of the program that migrated it

    @classmethod
    def found(cls, number: int, meta: dict[str, str]) -> SchemaState:
        """Return a state: the number, and the rows of ``meta``; default of ``readable_from``: the number."""
        readable_from = meta.get("readable_from", "")
        return cls(
            number,
            int(readable_from) if readable_from.isdecimal() else number,
            meta.get("since", ""),
            meta.get("by", ""),
        )

    @property
    def owner(self) -> str:
        """Version that migrated it and time, for messages; empty if unknown."""
        return f" (pointsman {self.by}, {self.since})" if self.by else ""


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of a program: its migrations, and after which of them they only add."""

    migrations: Sequence[Sequence[str]]
    readable_from: int

    @property
    def number(self) -> int:
        """Return the number of the schema."""
        return len(self.migrations)

    def check(self, found: SchemaState, place: str) -> None:
        """Refuse a store that a later program has changed so that this one cannot use it.

        Args:
            found: The state of the store.
            place: Kind and address of the store, for the message.

        Raises:
            StoreUnavailable: Names both schemas, the version that migrated it, and the time.
        """
        if found.number > self.number and found.readable_from > self.number:
            raise StoreUnavailable(
                f"{place} belongs to a later version of pointsman: it has schema {found.number}{found.owner},"
                f" which programs from schema {found.readable_from} on can use; this program has schema "
                f"{self.number}",
                hint="upgrade pointsman, or name another place in the configuration",
            )

    def is_break(self, found: SchemaState) -> bool:
        """Return whether programs of the schema found cannot use the store after a migration."""
        return 0 < found.number < self.readable_from

    def pending(self, found: SchemaState) -> Sequence[Sequence[str]]:
        """Return the migrations that the store lacks."""
        return self.migrations[found.number :]


def meta_of(schema: Schema) -> list[tuple[str, str]]:
    """Return the rows of ``meta`` that a migration writes."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return [("readable_from", str(schema.readable_from)), ("since", now), ("by", _version())]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # needed to write a ledger, not to start

    try:
        return version("pointsman")
    except PackageNotFoundError:  # from a folder that is not installed
        return "of unknown version"
