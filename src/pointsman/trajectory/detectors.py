"""Detectors: each finds one pattern, with its thresholds and their source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import pairwise
from typing import ClassVar, Final, Literal, Protocol

from pointsman.trajectory.step import CallOutcome, Step, TrajectoryState, result_digest_of

__all__ = [
    "DEFAULT_DETECTORS",
    "ContextDegradationDetector",
    "DoomLoopDetector",
    "ProgressStallDetector",
    "RepeatedErrorDetector",
    "ToolAvoidanceDetector",
    "sequence_similarity",
]


# Patterns that detectors find.


class TrajectoryPattern(Protocol):
    """Anything a detector returns."""

    @property
    def pattern_type(self) -> str:
        """Key under which ``patterns()`` lists it."""


@dataclass(frozen=True, slots=True)
class DoomLoop:
    """The same cycle of actions over and over."""

    cycle_length: int  # actions
    repetitions: int
    cycle_actions: tuple[str, ...]  # tool names, in order
    pattern_type: ClassVar[str] = "doom_loop"


@dataclass(frozen=True, slots=True)
class RepeatedError:
    """The same error again, whatever the arguments."""

    error_signature: str
    count: int
    tool_name: str
    variants: int = 1  # different arguments it was met with
    pattern_type: ClassVar[str] = "repeated_error"


@dataclass(frozen=True, slots=True)
class ProgressStall:
    """A run of actions that brought nothing new."""

    actions_during_stall: int
    stall_duration: timedelta
    pattern_type: ClassVar[str] = "progress_stall"


@dataclass(frozen=True, slots=True)
class ToolAvoidance:
    """A tool was recommended, and others are used."""

    avoided_tool: str
    alternative_attempts: int
    pattern_type: ClassVar[str] = "tool_avoidance"


@dataclass(frozen=True, slots=True)
class ContextDegradation:
    """Signs that the context lost information."""

    symptoms: tuple[str, ...]
    pattern_type: ClassVar[str] = "context_degradation"


# What a detector reads of a run. ``TrajectoryAnalysis`` offers it and more.


class Run(Protocol):
    """A run up to its latest event, as the detectors of this package read it.

    Below the analysis, so that the detectors do not import the analysis that runs them.
    """

    @property
    def state(self) -> TrajectoryState:
        """The window of steps and the counters over the whole run."""

    @property
    def attempt(self) -> tuple[Step, ...]:
        """Steps since a person last spoke, oldest first, without throttled and declined ones."""


# Detects a doom loop: a repeated cycle of calls with the same results.
#
# Names alone make edit, test, edit, test a loop, and calls alone make scrolling and polling one: so tool,
# arguments and result are compared. A cycle is taken at its shortest period, so AAAA is four times A and
# never twice AA. Periods are one to five (docs/decisions/0033). On the recorded development runs the next
# call continues the loop in 29 of 35 failed agent runs of the largest source, against 32 of 64 for one call
# made three times.


@dataclass(frozen=True, slots=True)
class DoomLoopDetector:
    """Finds the shortest period with enough repetitions up to the latest call.

    ``by="result"`` compares tool, arguments and result. ``by="name"`` compares tool names only and accepts
    cycles of at least the given ``similarity`` (docs/sources/guidance-classifiers.md, "Pattern-based
    classifiers").
    """

    min_repetitions: int = 3
    min_cycle_length: int = 2  # calls; under ``by="result"`` one call repeated counts too
    max_cycle_length: int = 5  # calls
    by: Literal["result", "name"] = "result"
    similarity: float = 0.8  # 0 to 1, names only; source: docs/reference/guidance.md, "Trajectory"

    name: ClassVar[str] = "doom_loop"  # stable

    def detect(self, trajectory: Run, /) -> DoomLoop | None:
        """Return the loop that the latest call continues."""
        steps = trajectory.attempt
        if len(steps) < self.min_repetitions or steps[-1].polling:
            return None
        return self._by_name(steps) if self.by == "name" else self._by_result(steps)

    def _by_result(self, steps: Sequence[Step]) -> DoomLoop | None:
        latest = steps[-1].result_digest
        if latest not in map(result_digest_of, steps[-1 - self.max_cycle_length : -1]):
            return None  # the usual case
        for period in _periods(self.min_cycle_length, self.max_cycle_length):
            if period >= len(steps) or steps[-1 - period].result_digest != latest:
                continue
            repetitions = _matching(steps, period) // period + 1
            if repetitions >= self.min_repetitions:
                cycle = steps[-period:]
                if any(step.polling for step in cycle):
                    return None
                return DoomLoop(period, repetitions, tuple(step.tool_name for step in cycle))
        return None

    def _by_name(self, steps: Sequence[Step]) -> DoomLoop | None:
        names = tuple(step.tool_name for step in steps)
        for period in range(self.min_cycle_length, self.max_cycle_length + 1):
            cycle = names[-period:]
            if period > 1 and len(set(cycle)) == 1:
                continue  # not a primitive cycle: AAAA is not AA twice
            repetitions = 1
            while len(names) >= (repetitions + 1) * period:
                earlier = names[-(repetitions + 1) * period : len(names) - repetitions * period]
                if earlier != cycle and sequence_similarity(earlier, cycle) < self.similarity:
                    break
                repetitions += 1
            if repetitions >= self.min_repetitions:
                return DoomLoop(period, repetitions, cycle)
        return None


@cache
def _periods(shortest: int, longest: int) -> tuple[int, ...]:
    return 1, *range(max(2, shortest), longest + 1)


def _matching(steps: Sequence[Step], period: int) -> int:
    """How many of the latest steps equal the step one period before them, without a gap."""
    count = 0
    for index in range(len(steps) - 1, period - 1, -1):
        if not steps[index].same_result(steps[index - period]):
            break
        count += 1
    return count


def sequence_similarity(first: Sequence[str], second: Sequence[str]) -> float:
    """Jaccard similarity of the names and the neighbouring pairs of names in two sequences, 0 to 1."""
    left = {*first, *pairwise(first)}
    right = {*second, *pairwise(second)}
    return len(left & right) / len(left | right) if left or right else 1.0


# Detects a repeated error, with the same or different arguments.
#
# The agent changes the call and gets the same error. Errors are compared by their normalised signature inside
# the last ten calls (docs/reference/guidance.md, "Trajectory"): an error that recurs after long other work is
# a new one.


@dataclass(frozen=True, slots=True)
class RepeatedErrorDetector:
    """Fires while the latest call fails with an error that the window holds often enough."""

    threshold: int = 3  # occurrences
    window: int = 10  # steps

    name: ClassVar[str] = "repeated_error"  # stable

    def detect(self, trajectory: Run, /) -> RepeatedError | None:
        """Return the error of the latest call if it is a repeated one."""
        latest = trajectory.attempt[-1]
        if not latest.is_error or not latest.signature:
            return None
        same = [step for step in trajectory.attempt[-self.window :] if step.same_error(latest)]
        if len(same) < self.threshold:
            return None
        variants = len({(step.tool_name, step.arguments) for step in same})
        return RepeatedError(latest.signature, len(same), latest.tool_name, variants)


# Detects a progress stall: calls without any new result.
#
# New is what no call of the window has brought yet: another result, the same result for other arguments, a
# test that passes, a build that succeeds, a plan step done, a user message. Source of the default of five:
# docs/sources/guidance-classifiers.md, "Pattern-based classifiers".


@dataclass(frozen=True, slots=True)
class ProgressStallDetector:
    """Fires after enough calls without progress; waiting, rate limits and refusals do not count."""

    threshold: int = 5  # steps

    name: ClassVar[str] = "progress_stall"  # stable

    def detect(self, trajectory: Run, /) -> ProgressStall | None:
        """Return the stall that the latest call prolongs."""
        state = trajectory.state
        if state.stalled < self.threshold:
            return None
        since = state.progress_at or state.started_at
        return ProgressStall(state.stalled, timedelta(seconds=max(0.0, state.latest_at - since)))


# Detects that a recommended tool is avoided.
#
# Three other calls are tolerated, because an agent may finish its current step. Source:
# docs/reference/guidance.md, "Trajectory".


@dataclass(frozen=True, slots=True)
class ToolAvoidanceDetector:
    """Fires when more than ``tolerated`` other calls follow a recommendation."""

    tolerated: int = 3  # calls

    name: ClassVar[str] = "tool_avoidance"  # stable

    def detect(self, trajectory: Run, /) -> ToolAvoidance | None:
        """Return the tool that is still avoided."""
        state = trajectory.state
        if not state.recommended or state.alternatives <= self.tolerated:
            return None
        return ToolAvoidance(state.recommended, state.alternatives)


# Detects that the agent has lost earlier results from its context window.
#
# Three signs can be read from calls and hashes: an error that names a full context; several results fetched
# again, unchanged, after other work; and a call whose result goes from one state to another and back, which
# is what undoing one's own work looks like. Two forgotten results are asked for, because rereading one file
# before an edit is good practice.


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

    name: ClassVar[str] = "context_degradation"  # stable

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


DEFAULT_DETECTORS: Final = (
    DoomLoopDetector(),
    RepeatedErrorDetector(),
    ProgressStallDetector(),
    ToolAvoidanceDetector(),
    ContextDegradationDetector(),
)
