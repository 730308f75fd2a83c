"""The reading that both engines share: entries by id, by page, and with all that belongs to them."""

from __future__ import annotations

import math
import operator
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, ClassVar, Final

import msgspec

from pointsman.decision.decision import Decision, TextMode
from pointsman.prices import Prices
from pointsman.stores.ledger._bodies import (
    ATTEMPT,
    EVERYTHING,
    OUTCOME,
    PLAIN,
    READERS,
    SHADOW,
    TEXT,
    read_decision,
    read_passed,
    read_run_entry,
)
from pointsman.stores.ledger._queued import QueuedLedger
from pointsman.stores.ledger._retention import NONE_REMOVED, Removed, Retention
from pointsman.stores.ledger._schema import Statements
from pointsman.stores.ledger._spill import SpillFile
from pointsman.stores.ledger._summaries import SummarySearch, spenders_in, totals_in
from pointsman.stores.ledger.port import (
    Attempt,
    Outcome,
    Owner,
    PassedRequest,
    PolicyUse,
    Record,
    RunEntry,
    Shadow,
)
from pointsman.stores.ledger.reading import (
    HOUR,
    MOST_ROWS,
    NO_PRICES,
    DecisionFilter,
    DecisionRow,
    Page,
    Position,
    Reason,
    Spender,
    Totals,
    belongs,
)
from pointsman.vocabulary import OF_SUBAGENT

__all__ = ["PAGE", "StoredLedger"]

#: Rows read by one query: no reader holds back the log of a SQLite file for long.
PAGE: Final = 500

Row = tuple[Any, ...]
Rows = list[Row]
#: A decision, and the lines of the attempts in its body.
_Read = tuple[Decision, list[bytes]]
_number_of: Final = operator.attrgetter("number")


class StoredLedger(QueuedLedger):
    """The reading side of the port, by the statements of an engine."""

    _statements: ClassVar[Statements]
    _search: ClassVar[SummarySearch]
    _most_periods: ClassVar[int] = sys.maxsize  # that a search looks into one by one

    def __init__(
        self,
        *,
        queue: int,
        text: TextMode,
        retention: Retention,
        clock: Callable[[], float],
        spill: SpillFile | None,
    ) -> None:
        self._retention: Final = retention
        self._clock: Final = clock
        self._removed: Final[Removed] = dict(NONE_REMOVED)
        self._swept_at = -math.inf
        super().__init__(queue=queue, text=text, spill=spill)

    @property
    def removed(self) -> Mapping[Reason, int]:
        """How many decisions and other entries this process removed, by reason."""
        return self._removed

    @abstractmethod
    def _query(self, query: str, *values: object, is_short: bool = False) -> Rows:
        """Return rows, which show everything appended before; ``is_short``: a caller waits for one row.

        Raises:
            StoreUnavailable: the store cannot be read.
        """

    @abstractmethod
    def _summary_rows(self, query: str, values: Sequence[object] | Mapping[str, object], /) -> Rows:
        """Return rows of a query about summaries, within a time. Raises as ``_query``."""

    def _clean(self, text: str) -> str:
        """Return a text as the engine can hold it."""
        return text

    @abstractmethod
    def _several(self, ids: Iterable[str]) -> object:
        """Return ids as one value of a statement."""

    def _since(self, at: float) -> tuple[float, ...]:  # noqa: ARG002 - an engine with partitions looks at it
        """Return the value of the dialect's ``since``, for decisions of a time or later."""
        return ()

    def get(self, decision_id: str, /, *, caller: str = "") -> Decision | None:
        """Return a decision by id; of one caller alone when named."""
        wanted = self._clean(decision_id), self._clean(caller)
        rows = self._query(self._statements.decision, *wanted, is_short=True)
        return read_decision(*rows[0])[0] if rows else None

    def owner(self, object: str, /) -> str | None:  # noqa: A002 - the port's name
        """Return the caller that made an object first; None if it has none."""
        rows = self._query(self._statements.owner, self._clean(object), is_short=True)
        return str(rows[0][0]) if rows else None

    def attempts(self, decision_id: str, /) -> tuple[Attempt, ...]:
        """Return a decision's attempts in order."""
        return tuple(self._belonging([decision_id], (ATTEMPT,))[decision_id][ATTEMPT])

    def outcomes(self, decision_id: str, /) -> tuple[Outcome, ...]:
        """Return a decision's outcomes in order of arrival."""
        return tuple(self._belonging([decision_id], (OUTCOME,))[decision_id][OUTCOME])

    def shadows(self, decision_id: str, /) -> tuple[Shadow, ...]:
        """Return the shadow decisions, shadow answers and comparisons of a decision, in order of arrival."""
        return tuple(self._belonging([decision_id], (SHADOW,))[decision_id][SHADOW])

    def text(self, decision_id: str, /) -> str | None:
        """Return the stored text of a decision."""
        texts = self._belonging([decision_id], (TEXT,))[decision_id][TEXT]
        return texts[-1] if texts else None

    def policies(self) -> tuple[PolicyUse, ...]:
        """Return the policies that decided, the one that did so last first."""
        return tuple(
            PolicyUse(version=version, first=first, last=last, decisions=count, has_text=bool(has_text))
            for version, first, last, count, has_text in self._query(self._statements.policies)
        )

    def policy(self, version: str, /) -> str | None:
        """Return the text of a policy; None if it is not stored."""
        rows = self._query(self._statements.policy, self._clean(version))
        return str(rows[0][0]) if rows else None

    def decisions(
        self, *, limit: int | None = 100, session: str = "", newest_first: bool = True
    ) -> Iterator[Decision]:
        """Yield decisions by time of arrival; of one session and its sub-agents when it is named."""
        for found, _ in self._decisions(limit, session, None, newest_first=newest_first):
            yield found

    def _decisions(
        self, limit: int | None, session: str, since: float | None, *, newest_first: bool
    ) -> Iterator[_Read]:
        beyond: Sequence[float] = (-math.inf if since is None else since, -1)
        if newest_first:
            beyond = (math.inf, sys.maxsize)
        query = self._statements.pages[newest_first, bool(session)]
        named = self._clean(session)
        below = named + OF_SUBAGENT
        of_session = (named, below, below[:-1] + chr(ord(OF_SUBAGENT) + 1)) if session else ()
        left = sys.maxsize if limit is None else limit
        while left > 0:
            asked = min(left, PAGE)
            page = self._query(query, *of_session, beyond[0], *beyond, asked)
            for found in (read_decision(body, shape) for body, shape, *_ in page):
                if not session or belongs(found[0], session):
                    yield found
                    left -= 1
            if len(page) < asked:
                return
            _, _, *beyond = page[-1]

    def records(
        self,
        *,
        limit: int | None = None,
        session: str = "",
        since: float | None = None,
        newest_first: bool = False,
    ) -> Iterator[Record]:
        """Yield decisions with all that belongs to them, by time of arrival; of one session when named."""
        found = self._decisions(limit, session, since, newest_first=newest_first)
        while page := list(islice(found, PAGE)):
            yield from self._with_entries(page)

    def records_of(
        self, decisions: Sequence[str], *, since: float = -math.inf, with_text: bool = False
    ) -> dict[str, Record]:
        """Return decisions with all that belongs to them, by their ids; those that are there."""
        if with_text:
            belonging = self._belonging(decisions, (TEXT,), since=since)
            decisions = [each for each in decisions if belonging[each][TEXT]]
        ids = self._several(map(self._clean, decisions))
        rows = self._query(self._statements.decisions, ids, *self._since(since))
        found = [read_decision(*row) for row in rows]
        return {record.decision.id: record for record in self._with_entries(found)}

    def passed(self, *, limit: int | None = 100, newest_first: bool = True) -> Iterator[PassedRequest]:
        """Yield requests that were passed on as they came, newest first; all when ``limit`` is None."""

        def read(beyond: int, most: int) -> Rows:
            return self._query(self._statements.passed[newest_first], beyond, most)

        for page in _pages(read, limit, newest_first=newest_first, place=0):
            yield from (read_passed(body) for _, body in page)

    def owners(self) -> Iterator[Owner]:
        """Yield the owner of every object, the first that was made first."""
        beyond: Sequence[object] = self._statements.owners_from
        while page := self._query(self._statements.owners, *beyond, PAGE):
            yield from (Owner(object=made, caller=caller, at=at or 0.0) for made, caller, at, *_ in page)
            _, _, _, *beyond = page[-1]

    def run(self, run_id: str, /) -> tuple[RunEntry, ...]:
        """Return the recorded steps of an agent's run, in order."""
        return self._runs([run_id])[run_id]

    def runs(
        self, *, limit: int | None = 100, session: str = "", newest_first: bool = True
    ) -> Iterator[tuple[RunEntry, ...]]:
        """Yield runs of agents, each as ``run`` gives it, the newest first; of one session when named."""

        def read(beyond: int, most: int) -> Rows:
            return self._query(self._statements.run_pages[newest_first], self._clean(session), beyond, most)

        for page in _pages(read, limit, newest_first=newest_first, place=1):
            found = self._runs([run for run, _ in page])
            yield from (found[run] for run, _ in page)

    def search(
        self,
        wanted: DecisionFilter,
        *,
        before: Position | None = None,
        limit: int = 100,
        models: Mapping[str, Prices] = NO_PRICES,
    ) -> Page:
        """Return a page of the decisions that meet a filter, the newest first."""
        limit = max(0, min(limit, MOST_ROWS))
        rows: list[DecisionRow] = []
        for since, until in self._periods(wanted, before, models):
            part = msgspec.structs.replace(wanted, since=since, until=until)
            term = self._search.search_of(part, before, limit + 1 - len(rows), models)
            rows += map(self._search.row_in, self._summary_rows(*term))
            if len(rows) > limit:
                break
        shown = tuple(rows[:limit])
        return Page(shown, (shown[-1].at, shown[-1].id) if shown and len(rows) > limit else None)

    def _periods(
        self, wanted: DecisionFilter, before: Position | None, models: Mapping[str, Prices]
    ) -> list[tuple[float | None, float | None]]:
        """Return times in which rows may meet a filter, the latest first; what lies between holds none."""
        # A session's rows are few, and found at once.
        found = None if wanted.session else self._search.hours_of(wanted, models)
        if found is None:
            return [(wanted.since, wanted.until)]
        latest = math.inf if before is None else before[0] / HOUR
        hours = [hour for [hour] in self._summary_rows(*found) if hour <= latest]
        runs = [[*run] for _, run in groupby(enumerate(hours), lambda each: each[0] + each[1])]
        if left := runs[self._most_periods :]:  # they are one period
            runs[self._most_periods :] = [[*left[0], *left[-1]]]
        since = -math.inf if wanted.since is None else wanted.since
        until = math.inf if wanted.until is None else wanted.until
        return [(max(since, run[-1][1] * HOUR), min(until, (run[0][1] + 1) * HOUR)) for run in runs]

    def session(self, session: str, /) -> tuple[DecisionRow, ...]:
        """Return the decisions of a session and its sub-agents, the oldest first."""
        found = self._summary_rows(*self._search.session_of(session, MOST_ROWS))
        return tuple(map(self._search.row_in, found))

    def spenders(self, *, since: float, until: float) -> Mapping[Spender, Totals]:
        """Return the sums of a period for each spender."""
        return spenders_in(self._summary_rows(self._search.spenders, (since, until, since, until)))

    def totals(self, *, since: float = -math.inf, until: float = math.inf, zone: int = 0) -> Totals:
        """Return the sums of a period, by days of a zone."""
        return totals_in(self._summary_rows(*self._search.totals_of(since, until, zone, self._gone())))

    def _gone(self) -> float:
        """Until when, in seconds since the epoch, rows were removed of an hour with others."""
        return -math.inf

    def unsummarized(self) -> int:
        """Return 0: every decision is written with its summary."""
        return 0

    def count(self) -> int:
        """Return how many decisions there are."""
        rows = self._query("SELECT count(*) FROM decisions")
        return int(rows[0][0]) if rows else 0

    def _with_entries(self, found: Sequence[_Read]) -> Iterator[Record]:
        """Yield decisions with all that belongs to them."""
        in_bodies = [(ATTEMPT, decision.id, line) for decision, lines in found for line in lines]
        since = min((decision.input.arrived_at for decision, _ in found), default=math.inf)
        ids = [decision.id for decision, _ in found]
        belonging = self._belonging(ids, EVERYTHING, in_bodies, since=since)
        for decision, _ in found:
            attempts, outcomes, shadows, texts = belonging[decision.id]
            text = texts[-1] if texts else None
            yield Record(decision, tuple(attempts), tuple(outcomes), text, tuple(shadows))

    def _belonging(
        self,
        decisions: Sequence[str],
        kinds: tuple[int, ...],
        in_bodies: Sequence[Row] | None = None,
        *,
        since: float = -math.inf,
    ) -> dict[str, tuple[list[Any], ...]]:
        """Return entries of some kinds by the ids of their decisions as given: a list for each kind.

        Args:
            decisions: Their ids.
            kinds: Of entries.
            in_bodies: The attempts in their bodies, where these were read; None: they are read too.
            since: No decision arrived before this time.
        """
        ids = {self._clean(each): each for each in decisions}
        found: dict[str, tuple[list[Any], ...]] = {each: ([], [], [], []) for each in decisions}
        query = self._statements.entries[kinds] if in_bodies is None else self._statements.entries_beside
        rows = [*(in_bodies or ()), *self._query(query, self._several(ids), *self._since(since))]
        # What was in a body that was replaced is older than what is in this one.
        for kind, decision, body in sorted(rows, key=_is_line) if in_bodies else rows:
            found[ids[decision]][kind].extend(READERS[kind](body))
        for attempts, *_ in found.values():
            attempts.sort(key=_number_of)
        return found

    def _runs(self, runs: Sequence[str]) -> dict[str, tuple[RunEntry, ...]]:
        """Return runs by their ids; of two entries of one number the last."""
        found: dict[str, dict[int, RunEntry]] = {run: {} for run in runs}
        ids = {self._clean(each): each for each in runs}
        for run, step, body in self._query(self._statements.runs, self._several(ids)):
            found[ids[run]][step] = read_run_entry(body)
        return {run: tuple(entries[step] for step in sorted(entries)) for run, entries in found.items()}


def _is_line(row: Row) -> bool:
    """Whether an entry is a JSON line, and no body that a decision had."""
    return bool(row[2].startswith(PLAIN))


def _pages(
    read: Callable[[int, int], Rows], limit: int | None, *, newest_first: bool, place: int
) -> Iterator[Rows]:
    """Yield pages of rows; each begins beyond the number at ``place`` in the last row of the one before."""
    beyond, left = sys.maxsize if newest_first else -1, sys.maxsize if limit is None else limit
    while left > 0:
        page = read(beyond, min(left, PAGE))
        yield page
        if len(page) < PAGE:
            return
        beyond = page[-1][place]
        left -= len(page)
