"""Decisions with their entries, and runs of agents with the questions that they asked models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Final, Protocol, runtime_checkable

import msgspec

from pointsman.decision.decision import Decision, run_of
from pointsman.remembering import summed
from pointsman.stores.ledger.port import Attempt, Record, RunEntry, Search
from pointsman.stores.ledger.reading import DecisionRow

__all__ = ["ManyRecords", "RunRecord", "RunUsage", "record", "records_of", "run_record", "usage_by_run"]

#: Seconds by which a question may have arrived before the first entry of its run: clocks are set.
_BEFORE: Final = 1.0


class RunUsage(msgspec.Struct, frozen=True):
    """Usage of the questions of a run, tokens as the upstreams reported them."""

    questions: int = 0
    attempts: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    without_usage: int = 0  # answers whose upstream reported no tokens

    def __add__(self, other: RunUsage) -> RunUsage:
        """Add two up."""
        fields = self.__struct_fields__
        return RunUsage(*(getattr(self, name) + getattr(other, name) for name in fields))


class RunRecord(msgspec.Struct, frozen=True):
    """A run, oldest entry first, and the decisions of its questions, the oldest first."""

    run: str  # id
    session: str
    entries: tuple[RunEntry, ...]
    usage: RunUsage
    questions: tuple[Record, ...] = ()


def record(ledger: Search, decision: Decision) -> Record:
    """Return a decision with the entries that belong to it."""
    wanted = decision.id
    return Record(
        decision,
        ledger.attempts(wanted),
        ledger.outcomes(wanted),
        ledger.text(wanted),
        ledger.shadows(wanted),
    )


@runtime_checkable
class ManyRecords(Protocol):
    """A ledger that reads many decisions at once."""

    def records_of(
        self, decisions: Sequence[str], /, *, since: float = ..., with_text: bool = False
    ) -> Mapping[str, Record]:
        """Return decisions with all that belongs to them, by their ids; those that are there.

        Args:
            decisions: Their ids.
            since: None of them arrived before this time, in seconds since the epoch; default: any may have.
            with_text: Only those whose text is stored.
        """


def records_of(ledger: Search, rows: Sequence[DecisionRow], *, with_text: bool = False) -> Iterable[Record]:
    """Return what ``ManyRecords.records_of`` does for rows of a search, of any ledger, in any order."""
    decisions = [row.id for row in rows]
    if isinstance(ledger, ManyRecords):
        since = min((row.at for row in rows), default=inf)
        return ledger.records_of(decisions, since=since, with_text=with_text).values()
    found = filter(None, map(ledger.get, decisions))
    return [record(ledger, each) for each in found if not with_text or ledger.text(each.id) is not None]


def usage_by_run(records: Iterable[Record]) -> dict[str, RunUsage]:
    """Add up the usage of the questions of each run, by the run's id."""
    used = ((run_of(record.decision)[0], record.attempts) for record in records)
    return summed(((run, _usage(attempts)) for run, attempts in used if run), RunUsage())


def run_record(ledger: Search, run_id: str) -> RunRecord | None:
    """Return a run with its questions; None if the id is unknown.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    entries = ledger.run(run_id)
    if not entries:
        return None
    session, began = entries[0].session, entries[0].at - _BEFORE
    questions: list[Record] = []
    for decision in ledger.decisions(limit=None, session=session):
        if decision.input.arrived_at < began:
            break
        if run_of(decision)[0] == run_id:
            questions.append(record(ledger, decision))
    usage = usage_by_run(questions).get(run_id, RunUsage())
    return RunRecord(run_id, session, entries, usage, tuple(reversed(questions)))


def _usage(attempts: Iterable[Attempt]) -> RunUsage:
    tried = tuple(attempts)
    return RunUsage(
        questions=1,
        attempts=len(tried),
        input_tokens=sum(each.input_tokens or 0 for each in tried),
        cached_tokens=sum(each.cached_tokens or 0 for each in tried),
        output_tokens=sum(each.output_tokens or 0 for each in tried),
        without_usage=sum(each.status // 100 == 2 and each.output_tokens is None for each in tried),
    )
