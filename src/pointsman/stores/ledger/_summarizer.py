"""Writes the summaries of a SQLite ledger, from the thread that writes its entries."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final

from pointsman.decision.decision import Decision
from pointsman.errors import StoreUnavailable
from pointsman.stores._sqlite_file import insert
from pointsman.stores.ledger._bodies import READERS, SUMMARISED, encode, read_decision
from pointsman.stores.ledger._schema import SQLITE, Statements
from pointsman.stores.ledger._summaries import (
    AT,
    COLUMNS,
    EMPTY,
    STATE,
    hour_of,
    listed,
)
from pointsman.stores.ledger._sums import hour_in, mark, seal_some, take_over
from pointsman.stores.ledger.reading import FIELDS, HOUR, beside_of
from pointsman.stores.ledger.turns import (
    REMEMBERED,
    Before,
    Belonging,
    Turns,
    TurnSummary,
    goes_on,
    read_before,
)

#: Earlier decisions that get their summaries in one transaction: some ten milliseconds.
STEP: Final = 200

_EARLIER: Final = (
    "SELECT body, shape, arrived_at, number FROM decisions "
    "WHERE (arrived_at, number) > (?, ?) AND number <= ? ORDER BY arrived_at, number LIMIT ?"
)
_BODY: Final = "SELECT body, shape FROM decisions WHERE id = ?"
_ENTRIES: Final = Statements(SQLITE).entries[SUMMARISED]
_NAMES: Final = ", ".join(COLUMNS)

#: Rows of new decisions; and of those that have one, of which what stays is not written again, so that no
#: index of it is.
_INTO: Final = f"INTO summaries ({_NAMES}) VALUES {{rows}}"
_BEGIN: Final = f"INSERT OR REPLACE {_INTO}"
_CHANGE: Final = f"INSERT {_INTO} ON CONFLICT (at, id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in COLUMNS[FIELDS.index("tier") :] if name != "hour"
)
#: What of a stored row a turn goes on with.
_STORED: Final = "SELECT asked, before FROM summaries WHERE at = ? AND id = ?"
#: Of a turn, the values of ``Before``; and the last turns until a time, to go on from after a start.
_AFTER: Final = (
    "CASE WHEN result != 0 THEN model WHEN before != '' THEN json_extract(before, '$[0]') "
    "ELSE '' END, CASE result WHEN 2 THEN input END, summaries.at, tried"
)
_NEWEST: Final = (
    f"SELECT session, {_AFTER} FROM summaries "  # noqa: S608 - columns above
    "WHERE session != '' AND role != 'helper' AND at <= ? ORDER BY at DESC, id DESC LIMIT ?"
)
#: Most seconds since the epoch.
_LATEST: Final = 1e12


class Summarizer:
    """Summarises entries as they are written. Not safe for threads: the writer's alone.

    If others write the same file, their entries of a session are read from it in the same transaction:
    the turn before, outcomes, and the turn after, with a summary that refers to the turn before it.
    """

    def __init__(self) -> None:
        self.is_shared = False  # whether other processes write the same file
        self._turns: Final = Turns()
        self._earlier: Final = Turns()  # of an earlier version, in their own order
        self._connection: sqlite3.Connection | None = None  # of the file with the known last turns
        self._version = 0  # of the file, as this process left it
        self.marked: Final[set[int]] = set()  # hours that have changed, as the file knows

    def clear(self) -> None:
        """Forget all turns: they were not written, or in another file."""
        self._turns.clear()
        self._earlier.clear()
        self.marked.clear()
        self._connection = None

    def write(self, connection: sqlite3.Connection, entries: Iterable[Decision | Belonging]) -> None:
        """Write the summaries of entries, in the transaction in which they are written."""
        self._check(connection)
        if not self.is_shared:
            self._recall(connection, self._turns, math.inf)
        turns, others = self._turns.take(entries)
        loaded: set[str] = set()  # read with all that is being written
        for entry in others:
            wanted = entry.decision
            turn = turns.get(wanted)
            if turn is None and (turn := self._loaded(connection, wanted)) is not None:
                loaded.add(wanted)
                turns[wanted] = turn
            elif turn is not None and wanted not in loaded:
                turn.add(entry)
        if not self.is_shared:
            self._store(connection, turns.values())
            return
        self._take_reported(connection, turns)
        self._take_previous(connection, turns)
        self._store(connection, sorted(turns.values(), key=lambda turn: turn.decision.input.arrived_at))
        self._correct_next(connection, turns)

    def work(self, connection: sqlite3.Connection, now: float) -> bool:
        """Do a piece of work: earlier decisions, then hours that are over; False if nothing is left."""
        try:
            if self.summarize_some(connection):
                return True
            is_more = seal_some(connection, hour_of(now))
        except BaseException:
            self.clear()  # the remembered turns may not have been written
            raise
        if is_more:
            self.marked.clear()
        return is_more

    def _check(self, connection: sqlite3.Connection) -> None:
        """Forget all turns if another process wrote the file, or if it is another file."""
        [version] = connection.execute("PRAGMA data_version").fetchone()
        if connection is not self._connection or version != self._version:
            self.clear()
            take_over(connection)
            self._connection, self._version = connection, version

    def _recall(self, connection: sqlite3.Connection, turns: Turns, until: float) -> None:
        """Learn of the last turns before this start."""
        if not turns.is_empty:
            return
        for session, *before in reversed(connection.execute(_NEWEST, (until, REMEMBERED)).fetchall()):
            turns.recall(session, Before(*before))

    def _take_reported(self, connection: sqlite3.Connection, turns: dict[str, TurnSummary]) -> None:
        """Read turns again that others have added outcomes to."""
        counts = dict(connection.execute(_REPORTED, (encode(list(turns)).decode(),)).fetchall())
        changed = [each for each, turn in turns.items() if turn.outcomes != counts.get(each, 0)]
        for wanted, entries in _belonging(connection, changed).items() if changed else ():
            turns[wanted].begin_again(entries)

    def _take_previous(self, connection: sqlite3.Connection, turns: dict[str, TurnSummary]) -> None:
        """Let turns follow those of others."""
        for wanted, previous, after in _neighbours(connection, _PREVIOUS, turns.values()):
            turn = turns[wanted]
            own = turn.previous.decision.input.arrived_at if turn.previous else -math.inf
            known = turn.before.at if turn.before else -math.inf
            if after.at < max(own, known):
                continue  # the one before is written now for the first time
            turn.previous, turn.before = turns.get(previous), after
            if turn.asked and (earlier := _decision_of(connection, previous)) is not None:
                turn.asked = not goes_on(turn.decision, earlier)
        _link(turns.values())

    def _correct_next(self, connection: sqlite3.Connection, turns: dict[str, TurnSummary]) -> None:
        """Write turns again that were written before the one they follow, and those that follow them."""
        changed = turns
        while changed:
            corrected: dict[str, TurnSummary] = {}
            for wanted, following, _ in _neighbours(connection, _NEXT, changed.values()):
                turn = turns.get(following) or self._turns.get(following)
                turn = turn or self._loaded(connection, following)
                if turn is not None and _follows_now(turn, changed[wanted]):
                    corrected[following] = turn
            self._store(connection, corrected.values())
            changed = corrected

    def _loaded(self, connection: sqlite3.Connection, wanted: str) -> TurnSummary | None:
        """A turn that is remembered no more; None if it has no summary that could change."""
        decision = _decision_of(connection, wanted)
        if decision is None:
            return None
        stored = connection.execute(_STORED, (decision.input.arrived_at, wanted)).fetchone()
        if stored is None:
            return None  # of an earlier version: its turn comes
        asked, before = stored
        turn = TurnSummary(decision, bool(asked), read_before(before) if before else None, is_stored=True)
        for entry in _belonging(connection, (wanted,))[wanted]:
            turn.add(entry)
        self._turns.adopt(turn)
        return turn

    def summarize_some(self, connection: sqlite3.Connection) -> bool:
        """Write the summaries of some decisions of an earlier version; whether there were any."""
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
            entries = chain.from_iterable((decision, *belonging[decision.id]) for decision in decisions)
            self._store(connection, self._earlier.take(entries)[0].values())
            if len(rows) < STEP:
                connection.execute("DELETE FROM unsummarized")
                self._earlier.clear()
            else:
                connection.execute("UPDATE unsummarized SET at = ?, number = ?", rows[-1][2:])
        return True

    def _store(self, connection: sqlite3.Connection, turns: Iterable[TurnSummary]) -> None:
        """Write the rows of turns, and mark their hours."""
        new: list[Sequence[object]] = []
        changed: list[Sequence[object]] = []
        for turn in turns:
            values: Sequence[object] | None
            try:
                values = _encoded(turn)
            except Exception as error:  # noqa: BLE001 - a summary must not cost the entry; it is logged
                if (values := listed(turn, _encoded, error)) is None:
                    continue
            if turn.is_stored:
                changed.append(values)
            else:
                new.append(values)
                turn.is_stored = True
        insert(connection, _BEGIN, new)
        insert(connection, _CHANGE, changed)
        rows = new + changed
        if not self.marked.issuperset(map(hour_in, rows)):
            self.marked.update(mark(connection, rows))


def _link(turns: Iterable[TurnSummary]) -> None:
    """Let turns follow those written with them, of which more may have become known since they began."""
    written = {(turn.decision.input.conversation, turn.decision.input.arrived_at): turn for turn in turns}
    for (conversation, _), turn in written.items():
        if turn.previous is None and turn.before is not None:
            turn.previous = written.get((conversation, turn.before.at))


def _follows_now(turn: TurnSummary, earlier: TurnSummary) -> bool:
    """Let a turn follow another one; tell whether that changes it."""
    after = earlier.after()
    is_paid = turn.asked and goes_on(turn.decision, earlier.decision)
    if turn.settle() == after and not is_paid:
        return False
    turn.previous, turn.before = None, after
    turn.asked = turn.asked and not is_paid
    return True


def _decision_of(connection: sqlite3.Connection, wanted: str) -> Decision | None:
    """A decision by id; None if it is unknown, or its row is damaged."""
    found = connection.execute(_BODY, (wanted,)).fetchone()
    return _readable(*found) if found else None


def _readable(body: bytes, shape: int) -> Decision | None:
    """A decision in a row; None for a damaged one, which no list shows."""
    with suppress(StoreUnavailable):
        return read_decision(body, shape)[0]
    return None


def _belonging(connection: sqlite3.Connection, wanted: Iterable[str]) -> dict[str, list[Belonging]]:
    """Read the entries of decisions, by their ids."""
    found: dict[str, list[Belonging]] = {each: [] for each in wanted}
    for kind, owner, body in connection.execute(_ENTRIES, (encode(list(found)).decode(),)):
        with suppress(StoreUnavailable):  # a damaged row: a read of it alone raises
            found[owner].extend(READERS[kind](body))
    return found


def _beside(order: str, sign: str) -> str:
    """The turn next to each of those in a JSON array of ids, sessions and times, in one direction."""
    return f"""WITH wanted(id, session, at) AS (SELECT json_extract(value, '$[0]'),
            json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?))
        SELECT wanted.id, summaries.id, {_AFTER} FROM wanted CROSS JOIN summaries
        ON (summaries.at, summaries.id) = (
            SELECT at, id FROM summaries AS other INDEXED BY summaries_by_session
            WHERE other.session = wanted.session AND other.role != 'helper' AND other.id != wanted.id
            AND (other.at, other.id) {sign} (wanted.at, wanted.id)
            ORDER BY other.at {order}, other.id {order} LIMIT 1)"""  # noqa: S608 - words of ours


_PREVIOUS: Final = _beside("DESC", "<")
_NEXT: Final = _beside("ASC", ">")
_REPORTED: Final = (
    "SELECT decision, count(*) FROM outcomes WHERE decision IN (SELECT value FROM json_each(?)) "
    "GROUP BY decision"
)


def _neighbours(
    connection: sqlite3.Connection, query: str, turns: Iterable[TurnSummary]
) -> list[tuple[str, str, Before]]:
    """Return turns next to these: the id of the one, and id and state of the other."""
    wanted = [
        (turn.decision.id, asked.conversation, asked.arrived_at)
        for turn in turns
        if (asked := turn.decision.input).conversation
    ]
    if not wanted:
        return []
    rows = connection.execute(query, (encode(wanted).decode(),)).fetchall()
    return [(of, found, Before(*after)) for of, found, *after in rows]


def _encoded(turn: TurnSummary) -> list[object]:
    """The values of a turn's row for ``_BEGIN``."""
    values: list[Any]
    *values, domains, signals, parts, tried = turn.values()
    at, before = values[AT], turn.before
    if not -_LATEST <= at <= _LATEST:
        values[AT] = at = 0.0 if math.isnan(at) else math.copysign(_LATEST, at)
    values += (
        # A line each, an empty one at both ends: each is found between two line ends.
        "\n".join(("", *domains, "")) if domains else "",
        "\n".join(("", *signals, "")) if signals else "",
        encode(parts).decode() if parts else EMPTY,
        tried,
        at // HOUR,
        beside_of(parts) if parts else "",
        encode(before).decode() if before else "",
    )
    return values
