"""Decisions with their entries, and runs of agents with the questions that they asked models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from pointsman.decision.decision import Decision, run_of
from pointsman.remembering import summed
from pointsman.stores.ledger.port import Attempt, Record, RunEntry, Search

__all__ = ["RunRecord", "RunUsage", "record", "run_record", "usage_by_run"]

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
