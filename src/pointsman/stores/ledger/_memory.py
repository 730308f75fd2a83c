"""A ledger in memory: for tests, demonstrations and programs that want nothing on disk."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Final, TypeVar

from pointsman.decision.decision import Decision, TextMode
from pointsman.errors import StoreUnavailable
from pointsman.prices import Prices
from pointsman.stores.ledger._retention import NONE_REMOVED
from pointsman.stores.ledger.outcome_reports import check_count, unknown
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
    belongs,
)
from pointsman.stores.ledger.reading import (
    MOST_ROWS,
    NO_PRICES,
    DecisionFilter,
    DecisionRow,
    Page,
    Position,
    Totals,
    matches,
)
from pointsman.stores.ledger.redact import kept_decision, kept_step, kept_text
from pointsman.stores.ledger.turns import rows_of, totals_of

__all__ = ["MemoryLedger"]

#: Policies whose texts are kept.
_MOST_POLICIES: Final = 200

Key = TypeVar("Key")
Kept = TypeVar("Kept")


@dataclass(slots=True)
class _Record:
    decision: Decision | None = None
    attempts: list[Attempt] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    shadows: list[Shadow] = field(default_factory=list)
    text: str | None = None


class MemoryLedger:
    """Keeps what belongs to the newest ``size`` decisions.

    What belongs to a decision that is not there is kept apart, for the newest ``size`` such ids, in case the
    decision follows: it pushes no decision out.
    """

    fault: Final = ""
    waiting: Final = 0
    removed: Final = NONE_REMOVED

    def __init__(self, *, size: int = 10_000, text: TextMode = "off") -> None:
        self._size: Final = size
        self._mode: Final[TextMode] = text
        self._lock: Final = threading.Lock()
        self._records: Final[dict[str, _Record]] = {}  # with a decision; by id, in order of arrival
        self._early: Final[dict[str, _Record]] = {}  # without one yet
        self._passed: Final = deque[PassedRequest](maxlen=size)
        self._owners: Final[dict[str, Owner]] = {}  # by object, in order of arrival
        self._runs: Final[dict[tuple[str, int], RunEntry]] = {}  # by run and number, in order of arrival
        self._policies: Final[dict[str, str]] = {}  # texts by version, in order of arrival
        self._closed = False
        self.lost = 0

    def append(self, entry: Entry, /) -> None:
        """Keep one entry; what belongs to the oldest decision goes when there are too many."""
        with self._lock:
            if self._closed:
                self.lost += 1
                return
            if isinstance(entry, Decision):
                self._keep(entry)
                return
            if isinstance(entry, PassedRequest | RunEntry | Owner | PolicyText):
                self._keep_apart(entry)
                return
            record = self._of(entry.decision)
            match entry:
                case Attempt():
                    record.attempts.append(entry)
                case Outcome():
                    record.outcomes.append(entry)
                case ShadowDecision() | ShadowAnswer() | ComparedAnswers():
                    record.shadows.append(entry)
                case PromptText():
                    record.text = kept_text(entry.text, self._mode)

    def add_outcome(self, outcome: Outcome, /, *, caller: str = "") -> None:
        """Keep an outcome reported from outside.

        Raises:
            UnknownDecision: there is no such decision of the caller's.
            TooManyOutcomes: it has all it may have.
            StoreUnavailable: the ledger is closed.
        """
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the ledger is closed")
            record = self._records.get(outcome.decision)
            if record is None or not _is_of(record.decision, caller):
                raise unknown(outcome.decision)
            check_count(outcome.decision, len(record.outcomes))
            record.outcomes.append(outcome)

    def get(self, decision_id: str, /, *, caller: str = "") -> Decision | None:
        """Return a decision by id; of one caller alone when named."""
        found = self._found(decision_id).decision
        return found if _is_of(found, caller) else None

    def owner(self, object: str, /) -> str | None:  # noqa: A002 - the port's name
        """Return whose an object is; None where nobody made it."""
        found = self._owners.get(object)
        return found.caller if found else None

    def attempts(self, decision_id: str, /) -> tuple[Attempt, ...]:
        """Return a decision's attempts in order."""
        record = self._found(decision_id)
        return tuple(sorted(record.attempts, key=lambda attempt: attempt.number))

    def outcomes(self, decision_id: str, /) -> tuple[Outcome, ...]:
        """Return a decision's outcomes in order of arrival."""
        return tuple(self._found(decision_id).outcomes)

    def shadows(self, decision_id: str, /) -> tuple[Shadow, ...]:
        """Return what was said beside a decision, in order of arrival."""
        return tuple(self._found(decision_id).shadows)

    def text(self, decision_id: str, /) -> str | None:
        """Return what was kept of a decision's text."""
        return self._found(decision_id).text

    def policies(self) -> tuple[PolicyUse, ...]:
        """Return the policies that decided, the one that did so last first."""
        times: dict[str, list[float]] = {}
        for decision in self.decisions(limit=None):
            times.setdefault(decision.policy, []).append(decision.input.arrived_at)
        return tuple(
            PolicyUse(
                version=version,
                first=found[-1],
                last=found[0],
                decisions=len(found),
                has_text=version in self._policies,
            )
            for version, found in times.items()
        )

    def policy(self, version: str, /) -> str | None:
        """Return the text of a policy; None where it is not kept."""
        return self._policies.get(version)

    def decisions(
        self, *, limit: int | None = 100, session: str = "", newest_first: bool = True
    ) -> Iterator[Decision]:
        """Yield decisions by time of arrival; of one session and its sub-agents when it is named."""
        with self._lock:
            kept = [record.decision for record in self._records.values() if record.decision is not None]
        chosen = [decision for decision in kept if not session or belongs(decision, session)]
        chosen.sort(key=lambda decision: decision.input.arrived_at)
        if newest_first:
            chosen.reverse()
        return islice(iter(chosen), limit)

    def records(
        self, *, limit: int | None = None, session: str = "", since: float | None = None
    ) -> Iterator[Record]:
        """Yield decisions with all that belongs to them, the oldest first; of one session when named."""
        found = self.decisions(limit=None, session=session, newest_first=False)
        late = (each for each in found if since is None or each.input.arrived_at >= since)
        for decision in islice(late, limit):
            wanted = decision.id
            yield Record(
                decision,
                self.attempts(wanted),
                self.outcomes(wanted),
                self.text(wanted),
                self.shadows(wanted),
            )

    def passed(self, *, limit: int | None = 100, newest_first: bool = True) -> Iterator[PassedRequest]:
        """Yield requests that were passed on as they came, newest first; all when ``limit`` is None."""
        with self._lock:
            found = list(self._passed)
        return islice(reversed(found) if newest_first else iter(found), limit)

    def owners(self) -> Iterator[Owner]:
        """Yield whose every object is, the first that was made first."""
        with self._lock:
            found = list(self._owners.values())
        return iter(found)

    def run(self, run_id: str, /) -> tuple[RunEntry, ...]:
        """Return what was recorded of an agent's run, in order."""
        return next((found for found in self._all_runs() if found[0].run == run_id), ())

    def runs(
        self, *, limit: int | None = 100, session: str = "", newest_first: bool = True
    ) -> Iterator[tuple[RunEntry, ...]]:
        """Yield runs of agents, each as ``run`` gives it, the newest first; of one session when named."""
        every = self._all_runs()
        ordered = reversed(every) if newest_first else iter(every)
        return islice((found for found in ordered if not session or found[0].session == session), limit)

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
        found = [
            row
            for row in self._rows(wanted.session)
            if (before is None or (row.at, row.id) < before)
            and matches(row, wanted, models)
            and _says(self.text(row.id), wanted.text)
        ]
        found.sort(key=lambda row: (row.at, row.id), reverse=True)
        shown = tuple(found[:limit])
        return Page(shown, (shown[-1].at, shown[-1].id) if shown and len(found) > limit else None)

    def session(self, session: str, /) -> tuple[DecisionRow, ...]:
        """Return the decisions of a session and its sub-agents, the oldest first."""
        return tuple(sorted(self._rows(session), key=lambda row: (row.at, row.id)))[:MOST_ROWS]

    def totals(self, *, since: float = -math.inf, until: float = math.inf, zone: int = 0) -> Totals:
        """Return the sums of a period, by days of a zone."""
        return totals_of(self._rows(), since=since, until=until, zone=zone)

    def unsummarized(self) -> int:
        """Return 0: what is in memory was written by this version."""
        return 0

    def count(self) -> int:
        """Return how many decisions there are."""
        with self._lock:
            return sum(record.decision is not None for record in self._records.values())

    def flush(self) -> None:
        """Do nothing: what was appended is kept."""

    def close(self) -> None:
        """Keep no more."""
        self._closed = True

    def _rows(self, session: str = "") -> list[DecisionRow]:
        """Summaries in order of arrival."""
        made = rows_of(self.records())
        if not session:
            return list(made)
        wanted = {decision.id for decision in self.decisions(limit=None, session=session)}
        return [row for row in made if row.id in wanted]

    def _found(self, decision_id: str) -> _Record:
        return self._records.get(decision_id) or self._early.get(decision_id) or _Record()

    def _keep(self, decision: Decision) -> None:
        record = self._records.get(decision.id)
        if record is None:
            _make_room(self._records, self._size)
            record = self._records[decision.id] = self._early.pop(decision.id, _Record())
        record.decision = kept_decision(decision, self._mode)

    def _keep_apart(self, entry: PassedRequest | RunEntry | Owner | PolicyText) -> None:
        """Keep what belongs to no decision."""
        match entry:
            case PassedRequest():
                self._passed.append(entry)
            case RunEntry():
                self._keep_step(entry)
            case Owner():
                self._keep_owner(entry)
            case PolicyText():
                _make_room(self._policies, _MOST_POLICIES)
                self._policies[entry.version] = entry.text

    def _keep_step(self, entry: RunEntry) -> None:
        key = entry.run, entry.number
        if key not in self._runs:
            _make_room(self._runs, self._size)
        self._runs[key] = kept_step(entry, self._mode)

    def _keep_owner(self, entry: Owner) -> None:
        if entry.object not in self._owners:
            _make_room(self._owners, self._size)
            self._owners[entry.object] = entry

    def _all_runs(self) -> list[tuple[RunEntry, ...]]:
        """Every run in order of its first entry, each in order."""
        with self._lock:
            entries = list(self._runs.values())
        began = {entry.run: at for at, entry in reversed(list(enumerate(entries)))}
        entries.sort(key=lambda entry: (began[entry.run], entry.number))
        return [tuple(found) for _, found in groupby(entries, key=lambda entry: entry.run)]

    def _of(self, decision_id: str) -> _Record:
        """Return what belongs to a decision, which may come later."""
        record = self._records.get(decision_id) or self._early.get(decision_id)
        if record is None:
            _make_room(self._early, self._size)
            record = self._early[decision_id] = _Record()
        return record


def _says(text: str | None, part: str) -> bool:
    return not part or part.lower() in (text or "").lower()


def _is_of(decision: Decision | None, caller: str) -> bool:
    return not caller or (decision is not None and decision.input.caller == caller)


def _make_room(records: dict[Key, Kept], size: int) -> None:
    if len(records) >= size:
        del records[next(iter(records))]
