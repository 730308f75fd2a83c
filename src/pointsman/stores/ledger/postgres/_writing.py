"""Writes batches of entries into PostgreSQL: each entry once, whatever the connection does meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final
from uuid import uuid4

import psycopg

from pointsman.decision.decision import Decision, TextMode
from pointsman.errors import StoreUnavailable
from pointsman.stores.ledger._queued import policies_used
from pointsman.stores.ledger.port import Entry
from pointsman.stores.ledger.postgres._connection import Connection, Database
from pointsman.stores.ledger.postgres._rows import Rows, clean, count_policies
from pointsman.stores.ledger.postgres._schema import Partitions, stored_at
from pointsman.stores.ledger.postgres._summarizer import Summarizer

__all__ = ["BatchCopier"]

log = logging.getLogger(__name__)

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
