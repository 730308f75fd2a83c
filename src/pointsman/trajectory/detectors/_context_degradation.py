"""Detects that the agent has lost earlier results from its context window.

Three signs can be read from calls and hashes: an error that names a full context; several results fetched
again, unchanged, after other work; and a call whose result goes from one state to another and back, which is
what undoing one's own work looks like. Two forgotten results are asked for, because rereading one file
before an edit is good practice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pointsman.trajectory._events import Run
from pointsman.trajectory._failures import ContextDegradation
from pointsman.trajectory.step import CallOutcome, Step

#: How providers and tools say that a context is full, after normalisation, in lower case.
OVERFLOW: Final = (
    "context length",
    "context window",
    "maximum context",
    "prompt is too long",
    "context limit",
)


@dataclass(frozen=True, slots=True)
class ContextDegradationDetector:
    """Looks at the latest call; a symptom is there when that call shows it."""

    forgotten: int = 2  # different results fetched again
    distance: int = 3  # calls in between, for a result to count as forgotten
    reversals: int = 2  # times a result returned to an earlier state
    window: int = 20  # steps looked at

    @property
    def name(self) -> str:
        """Stable name."""
        return "context_degradation"

    def detect(self, trajectory: Run, /) -> ContextDegradation | None:
        """Return the symptoms that the latest call shows."""
        latest = trajectory.attempt[-1]
        if latest.is_error:
            full = any(phrase in latest.signature.lower() for phrase in OVERFLOW)
            return ContextDegradation(("context_overflow",)) if full else None
        if not trajectory.state.stalled:
            return None  # the latest call brought something that no earlier one had
        steps = trajectory.attempt[-self.window :]
        arguments = latest.arguments  # looked at for every call, so compared before anything else is
        same = [index for index, step in enumerate(steps[:-1]) if step.arguments == arguments]
        earlier = [index for index in same if steps[index].same_call(latest)]
        if not earlier or latest.polling:
            return None
        symptoms = []
        if steps[earlier[-1]].same_result(latest) and self._fetched_again(steps) >= self.forgotten:
            symptoms.append("forgotten_results")
        digests = [steps[index].result_digest for index in (*earlier, -1)]
        if _reversals(digests) >= self.reversals:
            symptoms.append("contradictory_actions")
        return ContextDegradation(tuple(symptoms)) if symptoms else None

    def _fetched_again(self, steps: Sequence[Step]) -> int:
        """Different successful calls that were made again, far apart, with an unchanged result."""
        last_seen: dict[tuple[str, str], int] = {}
        again = set()
        for index, step in enumerate(steps):
            call = (step.tool_name, step.arguments)
            before = last_seen.get(call)
            if (
                before is not None
                and index - before > self.distance
                and step.outcome is CallOutcome.OK
                and steps[before].result_digest == step.result_digest
            ):
                again.add(call)
            last_seen[call] = index
        return len(again)


def _reversals(results: Sequence[str]) -> int:
    """How often a result equals the one before the last: X, Y, X is one reversal."""
    return sum(results[index] == results[index - 2] != results[index - 1] for index in range(2, len(results)))
