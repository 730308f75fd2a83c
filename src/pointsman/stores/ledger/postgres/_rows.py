"""Entries as rows of PostgreSQL, and how they are copied in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from psycopg import sql

from pointsman.decision.decision import Decision, TextMode
from pointsman.stores.ledger._decoders import ATTEMPT, OUTCOME, SHADOW, TEXT, encode
from pointsman.stores.ledger._earlier import SHAPE
from pointsman.stores.ledger._statements import KEEP_OWNER, KEEP_POLICY, POLICY_USED
from pointsman.stores.ledger.port import (
    Attempt,
    ComparedAnswers,
    Entry,
    Outcome,
    Owner,
    PassedRequest,
    PolicyText,
    PromptText,
    RunEntry,
    ShadowAnswer,
    ShadowDecision,
)
from pointsman.stores.ledger.postgres._connection import Connection
from pointsman.stores.ledger.postgres._schema import stored_at
from pointsman.stores.ledger.redact import kept_decision, kept_step, kept_text
from pointsman.vocabulary import DAY

__all__ = [
    "Row",
    "Rows",
    "clean",
    "copy_in",
    "count_policies",
    "most",
]

Row = tuple[object, ...]

_COLUMNS: Final = {
    "decisions": {
        "at": "float8", "id": "text", "session": "text", "caller": "text", "shape": "int2", "body": "bytea",
    },
    "entries": {"at": "float8", "decision": "text", "kind": "int2", "step": "int4", "body": "bytea"},
    "passed": {"at": "float8", "id": "text", "body": "bytea"},
    "runs": {"at": "float8", "run": "text", "step": "int8", "session": "text", "body": "bytea"},
}  # fmt: skip
_MOST: Final = 2**31 - 1

_KEEP_OWNER: Final = KEEP_OWNER.format(rows="(%s, %s, %s)")
_KEEP_POLICY: Final = KEEP_POLICY.format(rows="(%s, %s)")
_POLICY_USED: Final = POLICY_USED.format(rows="(%s, %s, %s, %s)")


def clean(text: str) -> str:
    """Return a text as PostgreSQL can hold it: without NUL, and without characters that have no UTF-8."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    return text.replace("\0", "\ufffd") if "\0" in text else text


def most(count: int) -> int:
    """Return a count that a column of four bytes can hold."""
    return min(count, _MOST)


def count_policies(connection: Connection, used: Iterable[Row]) -> None:
    """Add up how often policies decided, as returned by ``policies_used``.

    At the end of a transaction: gateways that decide by one policy wait for each other from here on.
    """
    for version, *times in sorted(used, key=str):
        connection.execute(_POLICY_USED, (clean(str(version)), *times))


def copy_in(connection: Connection, table: str, columns: dict[str, str], rows: Sequence[Row]) -> None:
    """Append rows by a binary COPY."""
    if not rows:
        return
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(sql.Identifier(table), names)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)


class Rows:
    """The rows of one batch.

    Args:
        mode: The stored form of texts.
        clock: Seconds since the epoch.
        arrival: When a decision that is not of the batch arrived; None if unknown.
    """

    def __init__(
        self, mode: TextMode, clock: Callable[[], float], arrival: Callable[[str], float | None]
    ) -> None:
        self._mode: Final[TextMode] = mode
        self._clock: Final = clock
        self._arrival: Final = arrival
        self._arrivals: Final[dict[str, float]] = {}
        self._rows: Final[defaultdict[str, list[Row]]] = defaultdict(list)
        self.owners: Final[list[Row]] = []
        self.policies: Final[list[Row]] = []
        self.days: Final[set[int]] = set()

    def add(self, entry: Entry) -> None:
        """Add an entry.

        Raises:
            TypeError, ValueError, RecursionError: there is no row of it.
        """
        match entry:
            case Decision():
                asked, body = entry.input, encode(kept_decision(entry, self._mode))
                at = self._arrivals[entry.id] = stored_at(asked.arrived_at)
                session, caller = clean(asked.session), clean(asked.caller)
                self._keep("decisions", at, clean(entry.id), session, caller, SHAPE, body)
            case Attempt():
                step = most(entry.number)
                self._belongs(entry.decision, entry.started_at, ATTEMPT, step, encode(entry))
            case Outcome():
                self._belongs(entry.decision, entry.at, OUTCOME, 0, encode(entry))
            case ShadowDecision() | ShadowAnswer() | ComparedAnswers():
                self._belongs(entry.decision, entry.at, SHADOW, 0, encode(entry))
            case PromptText():
                if (text := kept_text(entry.text, self._mode)) is not None:
                    self._belongs(entry.decision, self._clock(), TEXT, 0, clean(text).encode())
            case _:
                self._add_apart(entry)

    def _add_apart(self, entry: PassedRequest | RunEntry | Owner | PolicyText) -> None:
        """Add an entry that belongs to no decision."""
        match entry:
            case RunEntry():
                body = encode(kept_step(entry, self._mode))
                self._keep("runs", entry.at, clean(entry.run), entry.number, clean(entry.session), body)
            case PassedRequest():
                self._keep("passed", entry.at, clean(entry.id), encode(entry))
            case PolicyText():
                self.policies.append((clean(entry.version), clean(entry.text)))
            case Owner():
                self.owners.append((clean(entry.object), clean(entry.caller), stored_at(entry.at)))

    def copy(self, connection: Connection) -> None:
        """Append them all."""
        for table, columns in _COLUMNS.items():
            copy_in(connection, table, columns, self._rows[table])
        if self.owners:
            with connection.cursor() as cursor:
                cursor.executemany(_KEEP_OWNER, self.owners)
        for row in self.policies:
            connection.execute(_KEEP_POLICY, row)

    def _belongs(self, decision: str, at: float, kind: int, step: int, body: bytes) -> None:
        """Add an entry of a decision, on the day of the decision: both are removed together."""
        arrived = self._arrivals.get(decision)
        if arrived is None:
            arrived = self._arrival(decision)
        self._keep("entries", at if arrived is None else arrived, clean(decision), kind, step, body)

    def _keep(self, table: str, at: float, *values: object) -> None:
        at = stored_at(at)
        self.days.add(int(at // DAY))
        self._rows[table].append((at, *values))
