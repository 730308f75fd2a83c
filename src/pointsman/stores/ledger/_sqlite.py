"""The ledger in one SQLite file: appended from a thread, read while it is written; and the one in memory."""

from __future__ import annotations

import logging
import math
import operator
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, get_args

from pointsman.decision.decision import Decision, TextMode
from pointsman.errors import StoreUnavailable
from pointsman.prices import Prices
from pointsman.stores._sqlite_file import SqliteFile, insert
from pointsman.stores.ledger._bodies import SHAPE, WITH_ATTEMPTS, encode, packed
from pointsman.stores.ledger._queued import DECISIONS, GatheredUses, HeldEntries, of_types
from pointsman.stores.ledger._reader import Rows, StoredLedger
from pointsman.stores.ledger._retention import SWEEP, Retention
from pointsman.stores.ledger._schema import (
    KEEP_OWNER,
    KEEP_POLICY,
    POLICY_USED,
    SQLITE,
    Statements,
    ledger_file,
    ledger_in_memory,
)
from pointsman.stores.ledger._spill import SpillFile
from pointsman.stores.ledger._summaries import EARLIER_LEFT, SEARCH, STATE
from pointsman.stores.ledger._summarizer import Summarizer
from pointsman.stores.ledger._sums import GONE, gone_in
from pointsman.stores.ledger.port import (
    Attempt,
    Entry,
    Outcome,
    Owner,
    PassedRequest,
    PolicyText,
    PolicyUse,
    PromptText,
    RunEntry,
    Shadow,
)
from pointsman.stores.ledger.reading import DecisionFilter, Position
from pointsman.stores.ledger.redact import kept_decision, kept_step, kept_text
from pointsman.stores.ledger.turns import Belonging
from pointsman.stores.schema_version import Schema, SchemaState

log = logging.getLogger(__name__)

#: Seconds after which a search is ended. A million rows are read in one or two.
SECONDS: Final = 5.0

#: Share of the bound of size by which the data may exceed it while a piece is removed with each batch. Beyond
#: it nothing is written until enough is removed: new entries wait in the queue.
SLACK: Final = 0.05


Row: TypeAlias = tuple[Any, ...]
_OVER: Final = object()


class _Batch(NamedTuple):
    """What rows of a batch depend on."""

    mode: TextMode  # the stored form of texts
    now: float
    attempts: dict[str, bytes]  # of decisions that have no row yet, each line behind an end of line


class _Table(NamedTuple):
    """How entries become rows."""

    types: frozenset[type]
    statement: str
    row: Callable[[Any, _Batch], Row]


def _decision(entry: Decision, batch: _Batch) -> Row:
    asked = entry.input
    body = encode(kept_decision(entry, batch.mode) if entry.injections else entry)
    attempts = batch.attempts.pop(entry.id, b"")
    shape = WITH_ATTEMPTS if attempts else SHAPE
    return entry.id, asked.session, asked.arrived_at, packed(body + attempts), shape, asked.caller


def _attempt(entry: Attempt, _: _Batch) -> Row:
    return entry.decision, entry.number, entry.started_at, encode(entry)


def _step(entry: RunEntry, batch: _Batch) -> Row:
    return entry.run, entry.number, entry.session, entry.at, encode(kept_step(entry, batch.mode))


def _of_decision(entry: Outcome | Shadow, _: _Batch) -> Row:
    return entry.decision, entry.at, encode(entry)


_ATTEMPTS: Final = frozenset({Attempt})
_decision_of: Final = operator.attrgetter("decision")
#: A batch that was spilled may be written again after a crash: an equal body is there, with its attempts.
_INTO_DECISIONS: Final = (
    "INSERT INTO decisions (id, session, arrived_at, body, shape, caller) VALUES {rows} "
    "ON CONFLICT (id) DO UPDATE SET session = excluded.session, arrived_at = excluded.arrived_at, "
    "body = excluded.body, shape = excluded.shape, caller = excluded.caller "
    "WHERE decisions.body != excluded.body"
)
_INTO_RUNS: Final = (
    "INSERT INTO runs (run, number, session, at, body) VALUES {rows} ON CONFLICT (run, number) "
    "DO UPDATE SET session = excluded.session, at = excluded.at, body = excluded.body"
)
_TABLES: Final = (
    _Table(DECISIONS, _INTO_DECISIONS, _decision),
    _Table(_ATTEMPTS, "INSERT INTO attempts (decision, number, at, body) VALUES {rows}", _attempt),
    _Table(frozenset({Outcome}), "INSERT INTO outcomes (decision, at, body) VALUES {rows}", _of_decision),
    _Table(
        frozenset(get_args(Shadow)), "INSERT INTO shadows (decision, at, body) VALUES {rows}", _of_decision
    ),
    _Table(frozenset({Owner}), KEEP_OWNER, lambda entry, *_: (entry.object, entry.caller, entry.at)),
    _Table(
        frozenset({PassedRequest}),
        "INSERT INTO passed (id, at, body) VALUES {rows}",
        lambda entry, *_: (entry.id, entry.at, encode(entry)),
    ),
    _Table(frozenset({RunEntry}), _INTO_RUNS, _step),
    _Table(
        frozenset({PromptText}),
        "INSERT OR REPLACE INTO texts (decision, at, text) VALUES {rows}",
        lambda entry, batch: (entry.decision, batch.now, kept_text(entry.text, batch.mode)),
    ),
    _Table(frozenset({PolicyText}), KEEP_POLICY, lambda entry, *_: (entry.version, entry.text)),
)
_SUMMARISED: Final = DECISIONS | frozenset(get_args(Belonging))
_ANY_TEXT: Final = "SELECT 1 FROM texts LIMIT 1"
#: Raised for an entry of which there is no row.
_NO_ROW: Final = (TypeError, ValueError, RecursionError)


def _lines_of(attempts: Sequence[Attempt]) -> dict[str, bytes]:
    """Encode attempts: lines by the ids of their decisions."""
    found: dict[str, bytes] = {}
    for decision, body in zip(map(_decision_of, attempts), map(encode, attempts), strict=True):
        line = b"\n" + body
        found[decision] = found[decision] + line if decision in found else line
    return found


def _has_row(entry: Entry, batch: _Batch) -> bool:
    try:
        for table in _TABLES:
            if type(entry) in table.types:
                table.row(entry, batch)
    except _NO_ROW:  # it is counted
        return False
    return True


class SqliteLedger(StoredLedger):
    """A ledger in one file. Its directory, the file and its thread come with the first entry.

    Args:
        path: the file.
        queue: entries that may wait to be written.
        text: the stored form of prompts.
        retention: limits on size and age.
        clock: seconds since the epoch.
        spill: where entries wait that are beyond the queue; None: they are lost.
        file: an open database in place of the file at ``path``.
    """

    _statements = Statements(SQLITE)
    _search = SEARCH
    _gather: ClassVar = 60.0  # seconds for which uses of one policy are gathered

    def __init__(
        self,
        path: Path,
        *,
        queue: int = 10_000,
        text: TextMode = "off",
        retention: Retention = Retention(),  # noqa: B008 - a frozen value
        clock: Callable[[], float] = time.time,
        spill: SpillFile | None = None,
        file: SqliteFile | None = None,
    ) -> None:
        self._file: Final = file or ledger_file(path)
        self._removal: Iterator[None] | None = None  # of entries over the bounds, piece by piece
        self._summarizer: Final = Summarizer()
        self._searched: Final = file or ledger_file(path)  # requests do not wait for a search
        self._row_mode: TextMode = text  # of texts in rows
        self._uses: Final = GatheredUses(self._gather)
        super().__init__(queue=queue, text=text, retention=retention, clock=clock, spill=spill)

    @property
    def schema(self) -> Schema:
        """The schema of this program."""
        return self._file.schema

    @property
    def where(self) -> str:
        """The file."""
        return str(self._file.path)

    def schema_state(self) -> SchemaState:
        """Return the schema of the file; number 0 if it has none. Nothing is changed.

        Raises:
            StoreUnavailable: it cannot be read, or a later version changed it.
        """
        return self._file.state()

    def migrate(self) -> SchemaState:
        """Bring the file to this program's schema; return the one that was there before.

        Raises:
            StoreUnavailable: it cannot be written, or a later version changed it.
        """
        before = self._file.state()
        try:
            self._file.writer()
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(f"cannot migrate the ledger {self._file.path}: {error}") from error
        return before

    def _gone(self) -> float:
        return gone_in(self._summary_rows(GONE, ()))

    def unsummarized(self) -> int:
        """Return how many decisions of an earlier version have no summary yet."""
        state = self._summary_rows(STATE, ())
        return int(self._summary_rows(EARLIER_LEFT, state[0])[0][0]) if state else 0

    def policies(self) -> tuple[PolicyUse, ...]:
        """Return the policies that decided, the one that did so last first."""
        self._uses.ask(self._writer.flush)
        return super().policies()

    def flush_own(self) -> None:
        """Write everything queued or gathered here."""
        self._uses.ask(self._writer.flush)
        super().flush_own()

    def share(self, flush_others: Callable[[], None], writers: int = 1) -> None:
        """Write the same file as other processes do. Call it before the first entry."""
        super().share(flush_others, writers)
        self._summarizer.is_shared = True

    def close(self) -> None:
        """Write what waits and release the file; what cannot be written is counted as lost."""
        if self._writer.close():
            if self._uses.waiting:
                self._count_uses()
            self._file.close()
        self._searched.close()

    def _query(self, query: str, *values: object, is_short: bool = False) -> list[tuple[Any, ...]]:  # noqa: ARG002 - a file answers at once
        self.flush()
        return self._read_now(query, *values)

    def _summary_rows(self, query: str, values: Sequence[object] | Mapping[str, object], /) -> Rows:
        self.flush()
        if not self._searched.is_made:
            return []  # nothing was ever appended
        return self._searched.read(query, values, seconds=SECONDS)

    def _periods(
        self, wanted: DecisionFilter, before: Position | None, models: Mapping[str, Prices]
    ) -> list[tuple[float | None, float | None]]:
        if wanted.text and not self._summary_rows(_ANY_TEXT, ()):
            return []  # no words are stored: else each row is looked at for a text of its own
        return super()._periods(wanted, before, models)

    def _several(self, ids: Iterable[str]) -> str:
        return encode(list(ids)).decode()

    def _read_now(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Read the written rows, without the waiting entries."""
        if not self._file.is_made and not self.fault:
            return []  # nothing was ever appended
        return self._file.read(query, values)

    def _outcomes_written(self, decision: str, caller: str) -> int | None:
        rows = self._read_now(self._statements.outcomes_count, decision, caller)
        return int(rows[0][0]) if rows else None

    def _write_rows(self, batch: Sequence[Entry]) -> int:
        kept, rows = self._rows(batch)
        used, waiting = self._uses.split(of_types(kept, DECISIONS), self._clock())
        try:
            connection = self._file.writer()
            self._remove_some(connection)
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                for statement, values in rows.items():
                    insert(connection, statement, values)
                insert(connection, POLICY_USED, used)
                self._summarizer.write(connection, of_types(kept, _SUMMARISED))
        except BaseException as error:
            self._summarizer.clear()  # it remembers turns that were not written
            self._uses.is_asked = True
            if not isinstance(error, sqlite3.Error):
                raise
            self._file.close_writer()
            self._removal, self._swept_at = None, -math.inf
            raise StoreUnavailable(f"cannot write the ledger {self._file.path}: {error}") from error
        self._uses.waiting = waiting
        return len(batch) - len(kept)

    def _count_uses(self) -> None:
        """Write the gathered uses in a separate transaction."""
        try:
            connection = self._file.writer()
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                insert(connection, POLICY_USED, self._uses.waiting)
            self._uses.waiting = []
        except (sqlite3.Error, StoreUnavailable, OSError) as error:
            log.warning("uses of policies in the ledger %s are not counted: %s", self._file.path, error)
        self._uses.is_asked = False

    def _rows(self, entries: Sequence[Entry]) -> tuple[Sequence[Entry], dict[str, list[Row]]]:
        """Return the entries that have a row, and the rows by the statement that writes them."""
        mode, now = self._row_mode, self._clock()
        rows: dict[str, list[Row]] = {}
        try:
            batch = _Batch(mode, now, _lines_of(of_types(entries, _ATTEMPTS)))
            for types, statement, row in _TABLES:
                found = of_types(entries, types)
                if types is _ATTEMPTS:  # those that no decision before them has taken
                    left = batch.attempts
                    found = [entry for entry in found if entry.decision in left] if left else []
                if found:
                    rows[statement] = [row(entry, batch) for entry in found]
        except _NO_ROW:
            kept = [entry for entry in entries if _has_row(entry, _Batch(mode, now, {}))]
            if len(kept) == len(entries):
                raise
            return self._rows(kept)
        return entries, rows

    def _remove_some(self, connection: sqlite3.Connection) -> None:
        """Remove a piece of the entries over the bounds, or as much as writing must wait for."""
        now = self._clock()
        is_due = not 0 <= now - self._swept_at < SWEEP  # below zero when the clock was set back
        if is_due or (self._removal is None and self._retention.is_over(connection)):
            self._removal = self._retention.pieces(
                connection, now, self._removed, self.where, self._summarizer
            )
            self._swept_at = now
        while self._remove_piece() and self._retention.is_over(connection, slack=SLACK):
            pass

    def _remove_piece(self) -> bool:
        """Continue a removal; return whether more may be left."""
        if self._removal is None:
            return False
        is_over = next(self._removal, _OVER) is _OVER
        self._summarizer.marked.clear()  # hours of removed rows are marked no longer
        if is_over:
            self._removal = None
        return not is_over

    def _upkeep(self) -> bool:
        """Remove, or summarise, a piece more in a pause of writing; tell whether more may be left."""
        if self._uses.is_asked:
            self._count_uses()
        try:
            if self._remove_piece():
                return True
        except sqlite3.Error as error:
            self._summarizer.clear()  # it remembers turns that were not written
            log.warning("the retention limits of the ledger %s cannot be applied: %s", self._file.path, error)
        try:
            return self._summarizer.work(self._file.writer(), self._clock())
        except (sqlite3.Error, StoreUnavailable, OSError) as error:
            log.warning(
                "the summaries of the ledger %s cannot be brought up to date: %s", self._file.path, error
            )
        return False


#: Entries of one decision, and rows that belong to one, that are stored on average: a decision, its words,
#: two attempts.
_PER_DECISION: Final = 4

#: Most rows of each table, in decisions. Entries of a decision are removed with it; the rest has this bound.
_BOUNDS: Final = (
    ("decisions", 1), ("passed", 1), ("runs", 1), ("owners", 1), ("attempts", _PER_DECISION),
    ("outcomes", _PER_DECISION), ("texts", _PER_DECISION), ("shadows", _PER_DECISION),
)  # fmt: skip


class MemoryLedger(SqliteLedger):
    """Stores the newest ``size`` decisions with their entries, in a SQLite database in memory.

    Entries become rows with the next read. Of the entries of decisions that are not there the newest rows
    are stored, in case the decision follows.

    Args:
        size: Decisions.
        text: The stored form of prompts.
        queue: Entries that may wait to be written elsewhere before they come here.
    """

    _gather = 0.0  # there is nothing to save

    def __init__(self, *, size: int = 10_000, text: TextMode = "off", queue: int = 0) -> None:
        file = ledger_in_memory()
        queue = max(queue, _PER_DECISION * size)
        super().__init__(Path(":memory:"), queue=queue, text=text, retention=Retention(None, None), file=file)
        self._size: Final = size
        self._held: Final = HeldEntries(
            self._write_held, size=_PER_DECISION * size, lock=file.lock, dropped=self._count_dropped
        )
        self._writer = self._held

    @property
    def where(self) -> str:
        """In memory."""
        return "memory"

    def _write_held(self, batch: Sequence[Entry]) -> int:
        """Make rows of a batch, and remove the rows beyond the bounds."""
        try:
            refused = SqliteLedger._write_rows(self, batch)
        finally:
            self._admission.written(of_types(batch, DECISIONS))
        connection = self._file.writer()
        for table, share in _BOUNDS:
            oldest = f"DELETE FROM {table} WHERE rowid <= (SELECT max(rowid) FROM {table}) - ?"  # noqa: S608 - tables above
            count = connection.execute(oldest, (share * self._size,)).rowcount
            self._removed["size"] += count if table == "decisions" else 0
        self._summarizer.work(connection, self._clock())  # whoever reads has no pause to wait for
        return refused

    def _count_dropped(self, entry: Entry) -> None:
        if type(entry) is Decision:
            self._admission.written((entry,))
            self._removed["size"] += 1
