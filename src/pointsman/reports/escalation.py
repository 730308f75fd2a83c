"""How long own successful runs are, and what raising the tier of a user message came to.

A run is one user message and all that follows it. Of each source, a model in a project, the runs that
succeeded say how many tool calls a run may have before it is trouble.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

import msgspec

from pointsman.learning.intervals import difference_of_shares
from pointsman.printable import Block, Column, TextTable, counted
from pointsman.reports.outcomes import IMPLICIT, score_of_answer
from pointsman.reports.usage import answered
from pointsman.stores.ledger import Record
from pointsman.tiers.escalation import ENOUGH_RUNS, RAISED, source_of

__all__ = ["Escalated", "EscalationReport", "SourceRuns", "escalation_report", "escalations", "runs_in"]

#: A run succeeded if the mean of its scores is at least this.
_GOOD: Final = 0.5
_WITHHELD: Final = "escalation.withheld"
#: Signs of the trouble itself: it is why a run is in the comparison, and not what became of it.
_TROUBLE: Final = frozenset({f"{IMPLICIT}error-streak", f"{IMPLICIT}escalation"})


@dataclass(slots=True)
class _Run:
    source: str = ""
    name: str = ""
    calls: int = 0
    scores: list[float] = field(default_factory=list)
    raised: bool = False
    withheld: bool = False

    @property
    def success(self) -> bool | None:
        """None if unknown."""
        return fmean(self.scores) >= _GOOD if self.scores else None


#: A limit lies a tenth above the runs it is made of: of n successes the next is longer than the longest with
#: probability 1/(n + 1), and mostly by little (figures: docs/notebook/0171).
MARGIN: Final = 1.1


@dataclass(slots=True)
class SourceRuns:
    """The runs of one source."""

    source: str  # ``PROJECT|MODEL``
    name: str = ""  # of the project, or the program, where it is known
    runs: int = 0
    successes: list[int] = field(default_factory=list)  # tool calls of each successful run
    failures: list[int] = field(default_factory=list)

    def limit(self, quantile: float, margin: float = MARGIN) -> int | None:
        """Tool calls above those of the successful runs; None with too few of them, or without a tool call.

        Args:
            quantile: Of the successful runs, 1 for the longest.
            margin: Factor on their calls.
        """
        if len(self.successes) < ENOUGH_RUNS:
            return None
        ordered = sorted(self.successes)
        return int(margin * ordered[max(math.ceil(quantile * len(ordered)), 1) - 1]) or None


@dataclass(slots=True)
class Escalated:
    """User messages in trouble by side: how many have an outcome, and how many of these succeeded."""

    treated: int = 0
    treated_said: int = 0
    treated_good: int = 0
    control: int = 0
    control_said: int = 0
    control_good: int = 0

    def lines(self) -> Iterator[str]:
        """The comparison for a person."""
        for name, count, said, good in (
            ("tier raised", self.treated, self.treated_said, self.treated_good),
            ("not raised (control group)", self.control, self.control_said, self.control_good),
        ):
            share = f", {good / said:.0%} of {said} with an outcome succeeded" if said else ", no outcome"
            yield f"{name}: {counted(count, 'user message')}{share}"
        if min(self.treated_said, self.control_said) < ENOUGH_RUNS:
            yield f"too little data: {ENOUGH_RUNS} user messages with an outcome are needed on each side"
            if not self.treated + self.control:
                yield 'no tier is raised without mode = "on" under [tiers.escalation]'
            return
        low, high = difference_of_shares(
            self.treated_good, self.treated_said, self.control_good, self.control_said
        )
        yield f"difference of success: 95 % interval {low:+.0%} to {high:+.0%}"


def _collect(records: Iterable[Record]) -> Iterator[_Run]:
    runs: dict[tuple[str, int], _Run] = {}
    for record in records:
        asked = record.decision.input
        if not asked.user_message or not asked.conversation:
            continue
        run = runs.setdefault((asked.session, asked.user_message), _Run())
        answer = answered(record.attempts)
        if not run.source and answer:
            run.source = source_of(asked.project, answer.model)
            run.name = asked.project_name or asked.client
        run.calls += len(asked.steps)
        if (score := score_of_answer(record, without=_TROUBLE)) is not None:
            run.scores.append(score)
        codes = {reason.code for reason in record.decision.reasons}
        run.raised = run.raised or bool(codes & RAISED)
        run.withheld = run.withheld or _WITHHELD in codes
    return iter(runs.values())


def runs_in(records: Iterable[Record]) -> list[SourceRuns]:
    """Return the runs of each source, the most first. Runs with a raised tier do not count.

    Args:
        records: Oldest first.
    """
    found: dict[str, SourceRuns] = {}
    for run in _collect(records):
        if not run.source or run.raised:
            continue
        each = found.setdefault(run.source, SourceRuns(run.source, run.name))
        each.runs += 1
        if run.success is not None:
            (each.successes if run.success else each.failures).append(run.calls)
    return sorted(found.values(), key=lambda each: (-each.runs, each.source))


def escalations(records: Iterable[Record]) -> Escalated:
    """Compare user messages with a raised tier with those of the control group."""
    found = Escalated()
    for run in _collect(records):
        good = run.success
        if run.raised:
            found.treated += 1
            found.treated_said += good is not None
            found.treated_good += bool(good)
        elif run.withheld:
            found.control += 1
            found.control_said += good is not None
            found.control_good += bool(good)
    return found


@dataclass(frozen=True, slots=True)
class EscalationReport:
    """Lengths of own successful runs, the limits they give, and the effect of raising the tier."""

    sources: Sequence[SourceRuns]
    longest: Mapping[str, int]  # by source; only of those with enough successful runs
    effect: Escalated

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {"sources": self.sources, "longest": self.longest, "effect": self.effect}

    def blocks(self) -> Iterator[Block]:
        """The report for a person; the limits are lines for [tiers.escalation]."""
        rows = [
            (
                each.name,
                each.source,
                each.runs,
                len(each.successes),
                len(each.failures),
                self.longest.get(each.source),
            )
            for each in self.sources
        ]
        yield TextTable(_COLUMNS, rows)
        if len(self.longest) < len(self.sources):
            yield f"a limit needs {ENOUGH_RUNS} successful runs of its source, and tool calls in them"
        yield from self.effect.lines()
        if self.longest:
            yield "\n[tiers.escalation.longest]"
        names = {each.source: f"  # {each.name}" for each in self.sources if each.name}
        for source, limit in self.longest.items():
            yield f"{msgspec.json.encode(source).decode()} = {limit}{names.get(source, '')}"


_COLUMNS: Final = (
    Column("project"),
    Column("source", least=38),
    *(Column(name, right=True) for name in ("runs", "succeeded", "failed", "limit")),
)


def escalation_report(records: Sequence[Record], quantile: float) -> EscalationReport:
    """Report the runs of each source and the effect of escalation.

    Args:
        records: Oldest first.
        quantile: Of the successful runs' lengths, as ``SourceRuns.limit`` takes it.
    """
    sources = runs_in(records)
    limits = {each.source: limit for each in sources if (limit := each.limit(quantile)) is not None}
    return EscalationReport(sources, limits, escalations(records))
