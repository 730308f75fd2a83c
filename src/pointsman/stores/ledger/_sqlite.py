"""The ledger in one SQLite file: appended from a thread, read while it is written."""

from __future__ import annotations

import logging
import math
import sqlite3
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pointsman.decision.decision import Decision, TextMode
from pointsman.errors import StoreUnavailable
from pointsman.prices import Prices
from pointsman.stores._sqlite_file import SqliteFile, insert
from pointsman.stores.ledger._decoders import (
    encode,
    grouped,
    packed,
    read_attempt,
    read_decision,
    read_outcome,
    read_passed,
    read_run_entry,
    read_shadow,
)
from pointsman.stores.ledger._earlier import SHAPE
from pointsman.stores.ledger._queued import QueuedLedger, policies_used
from pointsman.stores.ledger._retention import NONE_REMOVED, SWEEP, Reason, Removed, Retention
from pointsman.stores.ledger._schema import ledger_file
from pointsman.stores.ledger._spill import SpillFile
from pointsman.stores.ledger._sqlite_reading import SummaryReader
from pointsman.stores.ledger._statements import (
    ATTEMPTS_OF,
    DECISION,
    DECISIONS_OF,
    INSERT,
    OUTCOMES_COUNT,
    OUTCOMES_OF,
    OWNERS_PAGE,
    PAGES,
    PASSED_PAGES,
    POLICIES,
    POLICY_USED,
    RUN_PAGES,
    RUNS_OF,
    SHADOWS_OF,
    TEXTS_OF,
)
from pointsman.stores.ledger._summarizer import Summarizer
from pointsman.stores.ledger.port import (
    Attempt,
    ComparedAnswers,
    Entry,
    Outcome,
    Owner,
    PassedRequest,
    PolicyText,
    PolicyUse,
    PromptText,
    Record,
    RunEntry,
    Shadow,
    ShadowAnswer,
    ShadowDecision,
)
from pointsman.stores.ledger.reading import (
    NO_PRICES,
    DecisionFilter,
    DecisionRow,
    Page,
    Position,
    Spender,
    Totals,
    belongs,
)
from pointsman.stores.ledger.redact import kept_decision, kept_step, kept_text
from pointsman.stores.schema_version import Schema, SchemaState
from pointsman.vocabulary import OF_SUBAGENT

__all__ = ["SqliteLedger"]

log = logging.getLogger(__name__)

#: Share of the bound of size by which the data may exceed it while a piece is removed with each batch. Beyond
#: it nothing is written until enough is removed: what comes waits in the queue.
SLACK: Final = 0.05

#: Decisions read by one query: no reader holds back the log's checkpoint for long.
PAGE: Final = 500


class SqliteLedger(QueuedLedger):
    """A ledger in one file. Its directory, the file and its thread come with the first entry.

    Args:
        path: the file.
        queue: entries that may wait to be written.
        text: what is kept of prompts.
        retention: how much is kept, and for how long.
        clock: seconds since the epoch.
        spill: where entries wait that are beyond the queue; None: they are lost.
        file: an open database in place of the file at ``path``.
    """

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
        self._retention: Final = retention
        self._clock: Final = clock
        self._removed: Final[Removed] = dict(NONE_REMOVED)
        self._swept_at = -math.inf
        self._removal: Iterator[None] | None = None  # of what is over the bounds, piece by piece
        self._summarizer: Final = Summarizer()
        self._summaries: Final = SummaryReader(file or ledger_file(path), self.flush)
        self._row_mode: TextMode = text  # what is kept of what comes to be written
        super().__init__(queue=queue, text=text, spill=spill)

    @property
    def schema(self) -> Schema:
        """The schema of this program."""
        return self._file.schema

    @property
    def where(self) -> str:
        """The file."""
        return str(self._file.path)

    @property
    def removed(self) -> Mapping[Reason, int]:
        """How many decisions and other entries this process removed, by reason."""
        return self._removed

    def schema_state(self) -> SchemaState:
        """Return the schema of the file; number 0 where there is none. Nothing is changed.

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

    def get(self, decision_id: str, /, *, caller: str = "") -> Decision | None:
        """Return a decision by id; of one caller alone when named."""
        rows = self._read(DECISION, decision_id, caller)
        return read_decision(*rows[0]) if rows else None

    def owner(self, object: str, /) -> str | None:  # noqa: A002 - the port's name
        """Return whose an object is; None where nobody made it."""
        rows = self._read("SELECT caller FROM owners WHERE object = ?", object)
        return str(rows[0][0]) if rows else None

    def attempts(self, decision_id: str, /) -> tuple[Attempt, ...]:
        """Return a decision's attempts in order."""
        query = "SELECT body FROM attempts WHERE decision = ? ORDER BY number, rowid"
        return tuple(read_attempt(body) for (body,) in self._read(query, decision_id))

    def outcomes(self, decision_id: str, /) -> tuple[Outcome, ...]:
        """Return a decision's outcomes in order of arrival."""
        query = "SELECT body FROM outcomes WHERE decision = ? ORDER BY rowid"
        return tuple(read_outcome(body) for (body,) in self._read(query, decision_id))

    def shadows(self, decision_id: str, /) -> tuple[Shadow, ...]:
        """Return what was said beside a decision, in order of arrival."""
        query = "SELECT body FROM shadows WHERE decision = ? ORDER BY rowid"
        return tuple(read_shadow(body) for (body,) in self._read(query, decision_id))

    def text(self, decision_id: str, /) -> str | None:
        """Return what was kept of a decision's text."""
        rows = self._read("SELECT text FROM texts WHERE decision = ?", decision_id)
        return str(rows[0][0]) if rows else None

    def policies(self) -> tuple[PolicyUse, ...]:
        """Return the policies that decided, the one that did so last first."""
        return tuple(
            PolicyUse(version=version, first=first, last=last, decisions=count, has_text=bool(has_text))
            for version, first, last, count, has_text in self._read(POLICIES)
        )

    def policy(self, version: str, /) -> str | None:
        """Return the text of a policy; None where it is not kept."""
        rows = self._read("SELECT text FROM policies WHERE version = ? AND text != ''", version)
        return str(rows[0][0]) if rows else None

    def decisions(
        self, *, limit: int | None = 100, session: str = "", newest_first: bool = True
    ) -> Iterator[Decision]:
        """Yield decisions by time of arrival; of one session and its sub-agents when it is named."""
        beyond = (math.inf, sys.maxsize) if newest_first else (-math.inf, -1)
        return self._decisions(limit, session, beyond, newest_first=newest_first)

    def _decisions(
        self, limit: int | None, session: str, beyond: Sequence[float], *, newest_first: bool
    ) -> Iterator[Decision]:
        query = PAGES[newest_first, bool(session)]
        below = session + OF_SUBAGENT
        of_session = (session, below, below[:-1] + chr(ord(OF_SUBAGENT) + 1)) if session else ()
        left = sys.maxsize if limit is None else limit
        while left > 0:
            asked = min(left, PAGE)
            page = self._read(query, *of_session, *beyond, asked)
            for found in (read_decision(body, shape) for body, shape, *_ in page):
                if not session or belongs(found, session):
                    yield found
                    left -= 1
            if len(page) < asked:
                return
            _, _, *beyond = page[-1]

    def records(
        self, *, limit: int | None = None, session: str = "", since: float | None = None
    ) -> Iterator[Record]:
        """Yield decisions with all that belongs to them, the oldest first; of one session when named."""
        beyond = (-math.inf if since is None else since, -1)
        found = self._decisions(limit, session, beyond, newest_first=False)
        while page := list(islice(found, PAGE)):
            yield from self._completed(page)

    def passed(self, *, limit: int | None = 100, newest_first: bool = True) -> Iterator[PassedRequest]:
        """Yield requests that were passed on as they came, newest first; all when ``limit`` is None."""
        beyond, left = sys.maxsize if newest_first else -1, sys.maxsize if limit is None else limit
        while left > 0:
            page = self._read(PASSED_PAGES[newest_first], beyond, min(left, PAGE))
            yield from (read_passed(body) for _, body in page)
            if len(page) < PAGE:
                return
            beyond = page[-1][0]
            left -= len(page)

    def owners(self) -> Iterator[Owner]:
        """Yield whose every object is, the first that was made first."""
        beyond = -1
        while page := self._read(OWNERS_PAGE, beyond, PAGE):
            yield from (Owner(object=made, caller=caller, at=at or 0.0) for _, made, caller, at in page)
            beyond = page[-1][0]

    def records_of(self, decisions: Sequence[str]) -> dict[str, Record]:
        """Return decisions with all that belongs to them, by their ids; those that are there."""
        rows = self._read(DECISIONS_OF, encode(decisions).decode())
        page = [read_decision(body, shape) for body, shape in rows]
        return {record.decision.id: record for record in self._completed(page)}

    def run(self, run_id: str, /) -> tuple[RunEntry, ...]:
        """Return what was recorded of an agent's run, in order."""
        query = "SELECT body FROM runs WHERE run = ? ORDER BY number"
        return tuple(read_run_entry(body) for (body,) in self._read(query, run_id))

    def runs(
        self, *, limit: int | None = 100, session: str = "", newest_first: bool = True
    ) -> Iterator[tuple[RunEntry, ...]]:
        """Yield runs of agents, each as ``run`` gives it, the newest first; of one session when named."""
        beyond, left = sys.maxsize if newest_first else -1, sys.maxsize if limit is None else limit
        while left > 0:
            page = self._read(RUN_PAGES[newest_first], session, beyond, min(left, PAGE))
            ids = [run for run, _ in page]
            found = grouped(self._read(RUNS_OF, encode(ids).decode()), read_run_entry)
            yield from (tuple(found[run]) for run in ids)
            if len(page) < PAGE:
                return
            beyond = page[-1][1]
            left -= len(page)

    def search(
        self,
        wanted: DecisionFilter,
        *,
        before: Position | None = None,
        limit: int = 100,
        models: Mapping[str, Prices] = NO_PRICES,
    ) -> Page:
        """Return a page of the decisions that meet a filter, the newest first."""
        return self._summaries.search(wanted, before, limit, models)

    def session(self, session: str, /) -> tuple[DecisionRow, ...]:
        """Return the decisions of a session and its sub-agents, the oldest first."""
        return self._summaries.session(session)

    def totals(self, *, since: float = -math.inf, until: float = math.inf, zone: int = 0) -> Totals:
        """Return the sums of a period, by days of a zone."""
        return self._summaries.totals(since, until, zone)

    def spenders(self, *, since: float, until: float) -> Mapping[Spender, Totals]:
        """Return the sums of a period for each spender."""
        return self._summaries.spenders(since, until)

    def unsummarized(self) -> int:
        """Return how many decisions of an earlier version have no summary yet."""
        return self._summaries.unsummarized()

    def count(self) -> int:
        """Return how many decisions there are."""
        rows = self._read("SELECT count(*) FROM decisions")
        return int(rows[0][0]) if rows else 0

    def share(self, flush_others: Callable[[], None]) -> None:
        """Write the same file as other processes do. Call it before the first entry."""
        super().share(flush_others)
        self._summarizer.is_shared = True

    def close(self) -> None:
        """Write what waits and release the file; what cannot be written is counted as lost."""
        if self._writer.close():
            self._file.close()
        self._summaries.close()

    def _completed(self, page: Sequence[Decision]) -> Iterator[Record]:
        ids = encode([decision.id for decision in page]).decode()
        attempts = grouped(self._read(ATTEMPTS_OF, ids), read_attempt)
        outcomes = grouped(self._read(OUTCOMES_OF, ids), read_outcome)
        shadows = grouped(self._read(SHADOWS_OF, ids), read_shadow)
        texts = dict(self._read(TEXTS_OF, ids))
        for decision in page:
            wanted = decision.id
            yield Record(
                decision,
                tuple(attempts[wanted]),
                tuple(outcomes[wanted]),
                texts.get(wanted),
                tuple(shadows[wanted]),
            )

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        self.flush()
        return self._read_now(query, *values)

    def _read_now(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Read what is written, whatever waits."""
        if not self._file.is_made and not self.fault:
            return []  # nothing was ever appended
        return self._file.read(query, *values)

    def _outcomes_written(self, decision: str, caller: str) -> int | None:
        rows = self._read_now(OUTCOMES_COUNT, decision, caller)
        return int(rows[0][0]) if rows else None

    def _write_rows(self, batch: Sequence[Entry]) -> int:
        rows: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)
        kept: list[Entry] = []
        for entry in batch:
            try:
                rows[INSERT[type(entry)]].append(self._row(entry))
            except (TypeError, ValueError, RecursionError):  # counted below: there is no row of it
                continue
            kept.append(entry)
        decisions = [entry for entry in kept if type(entry) is Decision]
        try:
            connection = self._file.writer()
            self._remove_some(connection)
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                for statement, values in rows.items():
                    insert(connection, statement, values)
                insert(connection, POLICY_USED, policies_used(decisions))
                self._summarizer.write(connection, kept, decisions)
        except BaseException as error:
            self._summarizer.clear()  # it remembers what was not written
            if not isinstance(error, sqlite3.Error):
                raise
            self._file.close_writer()
            self._removal, self._swept_at = None, -math.inf
            raise StoreUnavailable(f"cannot write the ledger {self._file.path}: {error}") from error
        return len(batch) - len(kept)

    def _row(self, entry: Entry) -> tuple[object, ...]:
        match entry:
            case Decision():
                asked = entry.input
                body = packed(encode(kept_decision(entry, self._row_mode)))
                return entry.id, asked.session, asked.arrived_at, body, SHAPE, asked.caller
            case Attempt():
                return entry.decision, entry.number, entry.started_at, encode(entry)
            case RunEntry():
                kept = kept_step(entry, self._row_mode)
                return entry.run, entry.number, entry.session, entry.at, encode(kept)
            case Owner():
                return entry.object, entry.caller, entry.at
            case PassedRequest():
                return entry.id, entry.at, encode(entry)
            case Outcome() | ShadowDecision() | ShadowAnswer() | ComparedAnswers():
                return entry.decision, entry.at, encode(entry)
            case PolicyText():
                return entry.version, entry.text
            case PromptText():
                return entry.decision, self._clock(), kept_text(entry.text, self._row_mode)

    def _remove_some(self, connection: sqlite3.Connection) -> None:
        """Remove a piece of what is over the bounds, or as much as writing must wait for."""
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
        """Go on with what was begun; tell whether more may be left."""
        if self._removal is not None:
            for _ in self._removal:
                return True
            self._removal = None
        return False

    def _upkeep(self) -> bool:
        """Remove, or summarise, a piece more in a pause of writing; tell whether more may be left."""
        try:
            if self._remove_piece():
                return True
        except sqlite3.Error as error:
            self._summarizer.clear()  # it remembers what was not written
            log.warning("the retention limits of the ledger %s cannot be applied: %s", self._file.path, error)
        try:
            return self._summarizer.work(self._file.writer())
        except (sqlite3.Error, StoreUnavailable, OSError) as error:
            log.warning(
                "the summaries of the ledger %s cannot be brought up to date: %s", self._file.path, error
            )
        return False
