"""Writes the summaries of a SQLite ledger, from the thread that writes its entries."""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from pointsman.decision.decision import Decision
from pointsman.stores._sqlite_file import insert
from pointsman.stores.ledger._earlier import decision_in
from pointsman.stores.ledger._statements import ATTEMPTS_OF, OUTCOMES_OF, SHADOWS_OF
from pointsman.stores.ledger._summaries import (
    BEGIN,
    CHANGE,
    HOUR_OF,
    NEWEST,
    REPLACE,
    STATE,
    STORED,
    encoded,
    row_in,
)
from pointsman.stores.ledger._sums import Sums
from pointsman.stores.ledger.port import Attempt, Entry, Outcome, Shadow
from pointsman.stores.ledger.turns import REMEMBERED, Before, Belonging, Turns, TurnSummary

__all__ = ["Summarizer"]

log = logging.getLogger(__name__)

#: Earlier decisions that get their summaries in one transaction: some ten milliseconds.
STEP: Final = 200

_EARLIER: Final = (
    "SELECT body, shape, arrived_at, number FROM decisions "
    "WHERE (arrived_at, number) > (?, ?) AND number <= ? ORDER BY arrived_at, number LIMIT ?"
)
_BODY: Final = "SELECT body, shape FROM decisions WHERE id = ?"
_MARK: Final = "INSERT OR IGNORE INTO dirty VALUES {rows}"

_encode: Final = msgspec.json.Encoder().encode
_attempt: Final = msgspec.json.Decoder(Attempt).decode
_outcome: Final = msgspec.json.Decoder(Outcome).decode
_shadow: Final = msgspec.json.Decoder(Shadow).decode
_before: Final = msgspec.json.Decoder(Before).decode


class Summarizer:
    """Follows what is written. Not safe for threads: the writer's alone."""

    def __init__(self) -> None:
        self._turns: Final = Turns()
        self._earlier: Final = Turns()  # of an earlier version, in their own order
        self._loaded_now: Final[set[str]] = set()  # ids of decisions read with all that is being written
        self._sums: Final = Sums()
        self._connection: sqlite3.Connection | None = None  # whose last turns are known
        self._version = 0  # of the file, as this process left it

    def clear(self) -> None:
        """Forget all turns: they were not written, or in another file."""
        self._turns.clear()
        self._earlier.clear()
        self._sums.clear()
        self._connection = None

    def write(self, connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
        """Write the summaries of what entries say, in the transaction in which they are written."""
        self._check(connection)
        self._recall(connection, self._turns, math.inf)
        self._loaded_now.clear()
        turns: dict[str, TurnSummary] = {}
        early: dict[str, list[Belonging]] = {}  # what stands before its decision
        begun = {entry.id for entry in entries if type(entry) is Decision}
        for entry in entries:
            if type(entry) is Decision:
                turns[entry.id] = self._turns.begin(entry, early.pop(entry.id, ()))
            elif isinstance(entry, Belonging):
                self._follow(connection, entry, turns, early if entry.decision in begun else None)
        self._store(connection, turns.values())

    def work(self, connection: sqlite3.Connection) -> bool:
        """Do a piece of what is left: earlier decisions, then hours that rows left; whether there was any."""
        try:
            return self._summarize_some(connection) or self._sums.seal_one(connection)
        except BaseException:
            self.clear()  # what is remembered may not have been written
            raise

    def _check(self, connection: sqlite3.Connection) -> None:
        """Forget what is remembered of a file that another process wrote, or of another file."""
        [version] = connection.execute("PRAGMA data_version").fetchone()
        if connection is not self._connection or version != self._version:
            self.clear()
            self._connection, self._version = connection, version

    def _recall(self, connection: sqlite3.Connection, turns: Turns, until: float) -> None:
        """Learn of the last turns before this start."""
        if not turns.is_empty:
            return
        for session, *before in reversed(connection.execute(NEWEST, (until, REMEMBERED)).fetchall()):
            turns.recall(session, Before(*before))

    def _follow(
        self,
        connection: sqlite3.Connection,
        entry: Belonging,
        turns: dict[str, TurnSummary],
        early: dict[str, list[Belonging]] | None,
    ) -> None:
        """Add what belongs to a decision; ``early`` is None where that is not among the entries written."""
        wanted = entry.decision
        turn = turns.get(wanted) or self._turns.get(wanted)
        if turn is not None:
            if wanted not in self._loaded_now:
                turn.add(entry)
            turns[wanted] = turn
        elif early is not None:
            early.setdefault(wanted, []).append(entry)
        elif (turn := self._loaded(connection, wanted)) is not None:
            self._loaded_now.add(wanted)
            turns[wanted] = turn

    def _loaded(self, connection: sqlite3.Connection, wanted: str) -> TurnSummary | None:
        """A turn that is remembered no more; None where it has no summary that could change."""
        found = connection.execute(_BODY, (wanted,)).fetchone()
        decision = _readable(*found) if found else None
        if decision is None:
            return None
        stored = connection.execute(STORED, (decision.input.arrived_at, wanted)).fetchone()
        if stored is None:
            return None  # of an earlier version: its turn comes
        before, hour, *values = stored
        row = row_in(values)
        turn = TurnSummary(decision, row.asked, _before(before) if before else None, stored=(hour, row))
        for entry in _belonging(connection, (wanted,))[wanted]:
            turn.add(entry)
        self._turns.adopt(turn)
        return turn

    def _summarize_some(self, connection: sqlite3.Connection) -> bool:
        found = connection.execute(STATE).fetchone()
        if found is None:
            return False
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            self._check(connection)
            at, number, until = connection.execute(STATE).fetchone() or found
            rows = connection.execute(_EARLIER, (at, number, until, STEP)).fetchall()
            self._recall(connection, self._earlier, at)
            decisions = [each for body, shape, *_ in rows if (each := _readable(body, shape))]
            belonging = _belonging(connection, (decision.id for decision in decisions))
            turns = [self._earlier.begin(decision, belonging[decision.id]) for decision in decisions]
            self._store(connection, turns)
            if len(rows) < STEP:
                connection.execute("DELETE FROM unsummarized")
                self._earlier.clear()
            else:
                connection.execute("UPDATE unsummarized SET at = ?, number = ?", rows[-1][2:])
        return True

    def _store(self, connection: sqlite3.Connection, turns: Iterable[TurnSummary]) -> None:
        """Write the rows of turns, and what they change in the sums."""
        new: list[tuple[object, ...]] = []
        changed: list[tuple[object, ...]] = []
        for turn in turns:
            try:
                row = turn.row()
                values = encoded(row, turn.before, turn.tried())
            except Exception:  # a summary must not cost the entry: it is left out of lists, and said here
                log.warning("decision %s has no summary", turn.decision.id, exc_info=True)
                continue
            hour = int(str(values[HOUR_OF]))
            (new if turn.stored is None else changed).append(values)
            self._sums.replace(turn.stored, hour, row)
            turn.stored = hour, row
        before = connection.total_changes
        insert(connection, BEGIN, new)
        if connection.total_changes - before < len(new):  # some are decided again, and counted twice
            insert(connection, REPLACE, new)
            insert(connection, _MARK, [(hour,) for hour in {values[HOUR_OF] for values in new}])
        insert(connection, CHANGE, changed)
        self._sums.store(connection)


def _readable(body: bytes, shape: int) -> Decision | None:
    """A decision in a row; None for a damaged one, which no list shows."""
    try:
        return decision_in(body, shape)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _belonging(connection: sqlite3.Connection, wanted: Iterable[str]) -> dict[str, list[Belonging]]:
    """Read what belongs to decisions, by their ids."""
    found: dict[str, list[Belonging]] = {each: [] for each in wanted}
    ids = _encode(list(found)).decode()
    for query, decode in ((ATTEMPTS_OF, _attempt), (OUTCOMES_OF, _outcome), (SHADOWS_OF, _shadow)):
        for owner, body in connection.execute(query, (ids,)):
            with suppress(msgspec.DecodeError, UnicodeError):  # a damaged row: reading it alone says so
                found[owner].append(decode(body))
    return found
