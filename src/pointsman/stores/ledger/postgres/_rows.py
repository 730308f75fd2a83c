"""Entries as rows of PostgreSQL, copied in by batches: each entry once, whatever the connection does."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import uuid4

import psycopg

from pointsman.decision.decision import Decision, TextMode
from pointsman.errors import StoreUnavailable
from pointsman.stores.ledger._bodies import ATTEMPT, OUTCOME, SHADOW, SHAPE, TEXT, encode
from pointsman.stores.ledger._queued import policies_used
from pointsman.stores.ledger._schema import KEEP_OWNER, KEEP_POLICY, POLICY_USED
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
from pointsman.stores.ledger.postgres._connection import Connection, Database, Row, copy_in
from pointsman.stores.ledger.postgres._schema import Partitions, clean, most, stored_at
from pointsman.stores.ledger.postgres._summaries import Summarizer
from pointsman.stores.ledger.redact import kept_decision, kept_step, kept_text
from pointsman.vocabulary import DAY

log = logging.getLogger(__name__)

_COLUMNS: Final = {
    "decisions": {
        "at": "float8", "id": "text", "session": "text", "caller": "text", "shape": "int2", "body": "bytea",
    },
    "entries": {"at": "float8", "decision": "text", "kind": "int2", "step": "int4", "body": "bytea"},
    "passed": {"at": "float8", "id": "text", "body": "bytea"},
    "runs": {"at": "float8", "run": "text", "step": "int8", "session": "text", "body": "bytea"},
}  # fmt: skip

_KEEP_OWNER: Final = KEEP_OWNER.format(rows="(%s, %s, %s)")
_KEEP_POLICY: Final = KEEP_POLICY.format(rows="(%s, %s)")
_POLICY_USED: Final = POLICY_USED.format(rows="(%s, %s, %s, %s)")


def count_policies(connection: Connection, used: Iterable[Row]) -> None:
    """Add up how often policies decided, as returned by ``policies_used``.

    At the end of a transaction: gateways that decide by one policy wait for each other from here on.
    """
    for version, *times in sorted(used, key=str):
        connection.execute(_POLICY_USED, (clean(str(version)), *times))


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
                self._belongs(entry.decision, ATTEMPT, step, encode(entry))
            case Outcome():
                self._belongs(entry.decision, OUTCOME, 0, encode(entry))
            case ShadowDecision() | ShadowAnswer() | ComparedAnswers():
                self._belongs(entry.decision, SHADOW, 0, encode(entry))
            case PromptText():
                if (text := kept_text(entry.text, self._mode)) is not None:
                    self._belongs(entry.decision, TEXT, 0, clean(text).encode())
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

    def _belongs(self, decision: str, kind: int, step: int, body: bytes) -> None:
        """Add an entry of a decision, on the day of the decision: both are removed together.

        Of a decision that is not known here it is on the present day, whatever its own time is: it is looked
        for from the day of the decision on.
        """
        arrived = self._arrivals.get(decision)
        if arrived is None:
            arrived = self._arrival(decision)
        at = self._clock() if arrived is None else arrived
        self._keep("entries", at, clean(decision), kind, step, body)

    def _keep(self, table: str, at: float, *values: object) -> None:
        at = stored_at(at)
        self.days.add(int(at // DAY))
        self._rows[table].append((at, *values))


#: Seconds since its arrival after which a decision may have been written before: by an import, say. A newer
#: one with an id of its own was not; looking for each in all partitions would cost more than writing it.
_NEW: Final = 60.0

#: Errors of the server about the rows, and not about itself: they are tried by halves.
_REFUSED: Final = (psycopg.DataError, psycopg.IntegrityError)

_REMOVE: Final = "DELETE FROM decisions WHERE id = ANY (%s) RETURNING id, at"
_NOTE: Final = (
    "INSERT INTO writers (id, batch, entries, at) VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE "
    "SET batch = excluded.batch, entries = excluded.entries, at = excluded.at"
)


class BatchCopier:
    """Copies entries with their summaries, a transaction a batch. Not safe for threads: the writer's alone.

    A connection may be lost while a batch is being committed. Each transaction notes its number in a row of
    this process, so that it is known afterwards whether the batch is there.

    Args:
        database: Where to.
        mode: The stored form of texts.
        clock: Seconds since the epoch.
    """

    def __init__(self, database: Database, mode: TextMode, clock: Callable[[], float]) -> None:
        self._database: Final = database
        self._mode: Final[TextMode] = mode
        self._clock: Final = clock
        self._id: Final = uuid4().hex
        self._number = 0
        self._unsure = 0  # number of a batch that may have been committed; 0: none
        self._done = 0  # entries of the present batch that are committed
        self._refused = 0  # of those, without a row
        self._partitions: Final = Partitions()
        self._summarizer: Final = Summarizer()

    def write(self, batch: Sequence[Entry]) -> int:
        """Write a batch; return how many have no row.

        After a failure it must be given again, with more behind it or not.

        Raises:
            StoreUnavailable: the database cannot be reached or written.
        """
        try:
            return self._write(batch)
        except psycopg.Error as error:
            self._forget()
            raise self._database.unavailable("cannot write", error) from error
        except StoreUnavailable:
            raise
        except Exception:  # the batch is not given again
            self._forget()
            self._unsure = self._done = self._refused = 0
            raise

    def _write(self, batch: Sequence[Entry]) -> int:
        self._settle()
        step, careful = len(batch), False
        while self._done < len(batch):
            part = batch[self._done : self._done + step]
            try:
                refused = self._transact(part, careful=careful)
            except _REFUSED as error:
                self._unsure = 0
                self._summarizer.clear()
                self._partitions.forget()
                if careful and len(part) == 1:
                    log.warning(
                        "an entry of the ledger cannot be stored: %s", error.diag.message_primary or error
                    )
                    self._done, self._refused = self._done + 1, self._refused + 1
                elif careful:
                    step = len(part) // 2
                careful = True  # a row may be there already: those are replaced
                continue
            self._done, self._refused = self._done + len(part), self._refused + refused
        refused, self._done, self._refused = self._refused, 0, 0
        return refused

    def _settle(self) -> None:
        """Find out whether the last batch was committed before the connection was lost."""
        if not self._unsure:
            return
        query = "SELECT entries FROM writers WHERE id = %s AND batch = %s"
        found = self._database.writer().execute(query, (self._id, self._unsure)).fetchone()
        self._done += found[0] if found else 0
        self._unsure = 0

    def _transact(self, part: Sequence[Entry], *, careful: bool) -> int:
        rows, kept = Rows(self._mode, self._clock, self._summarizer.arrival), []
        for entry in part:
            try:
                rows.add(entry)
            except (TypeError, ValueError, RecursionError):  # counted: there is no row of it
                continue
            kept.append(entry)
        decisions = [entry for entry in kept if type(entry) is Decision]
        connection = self._database.writer()
        self._partitions.ensure(connection, rows.days)
        self._number += 1
        self._unsure = self._number
        with connection.transaction():
            removed = self._removed(connection, decisions, careful=careful)
            rows.copy(connection)
            self._summarizer.write(connection, kept, removed, careful=careful)
            count_policies(connection, policies_used(decisions))
            connection.execute(_NOTE, (self._id, self._number, len(part), self._clock()))
        self._unsure = 0
        return len(part) - len(kept)

    def _removed(
        self, connection: Connection, decisions: Sequence[Decision], *, careful: bool
    ) -> dict[str, float]:
        """Take out decisions that are written anew; return when they arrived, by id."""
        old = self._clock() - _NEW
        again = [
            clean(each.id)
            for each in decisions
            if careful or stored_at(each.input.arrived_at) < old or self._summarizer.remembers(each.id)
        ]
        return dict(connection.execute(_REMOVE, (again,)).fetchall()) if again else {}

    def _forget(self) -> None:
        """Forget the known state of the database: it may have changed."""
        self._summarizer.clear()
        self._partitions.forget()
        self._database.close_writer()
