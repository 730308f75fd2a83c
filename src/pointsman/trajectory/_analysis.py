"""The analysis of a run for classifiers: counts, the latest calls, and patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Final, Protocol

from pointsman.trajectory._events import Event, ProgressMade, ToolInvoked, ToolRecommended, UserSpoke, step_of
from pointsman.trajectory._patterns import TrajectoryPattern
from pointsman.trajectory._progress import DEFAULT_INDICATORS, ProgressIndicator
from pointsman.trajectory.detectors import DEFAULT_DETECTORS
from pointsman.trajectory.state import (
    WINDOW,
    TrajectoryState,
    after_progress,
    after_recommendation,
    after_step,
    after_user,
)
from pointsman.trajectory.step import Step

__all__ = ["Lens", "PatternDetector", "TrajectoryAnalysis"]


class PatternDetector(Protocol):
    """Finds one pattern. Stateless: what it may remember is in the trajectory, so a stored one resumes."""

    @property
    def name(self) -> str:
        """Stable name."""
        ...

    def detect(self, trajectory: TrajectoryAnalysis, /) -> TrajectoryPattern | None:
        """Return the pattern if it is there after the latest event."""
        ...


@dataclass(frozen=True, slots=True)
class Lens:
    """How a run is looked at; the same for every event of it."""

    detectors: tuple[PatternDetector, ...] = DEFAULT_DETECTORS
    indicators: tuple[ProgressIndicator, ...] = DEFAULT_INDICATORS
    poll_tools: frozenset[str] = frozenset()  # beside the built-in ones
    window_size: int = WINDOW  # steps
    step_of: Callable[..., Step] = step_of  # what reduces a call to a step


class TrajectoryAnalysis:
    """A run up to its latest event. Immutable: ``with_event`` returns another."""

    __slots__ = ("_latest_result", "_patterns", "attempt", "lens", "state")

    def __init__(
        self, state: TrajectoryState | None = None, lens: Lens | None = None, latest_result: str = ""
    ) -> None:
        self.state: Final = state or TrajectoryState()
        self.lens: Final = lens or Lens()
        self._latest_result: Final = latest_result  # a text, so it is never part of the state
        #: Steps since a person last spoke, oldest first, without throttled and declined ones.
        self.attempt: Final = _attempt(self.state)
        self._patterns: Final = self._detect()

    def _detect(self) -> Mapping[str, TrajectoryPattern]:
        if not self.attempt:
            return _NO_PATTERNS
        found = [detector.detect(self) for detector in self.lens.detectors]
        if not any(found):
            return _NO_PATTERNS
        return MappingProxyType({pattern.pattern_type: pattern for pattern in found if pattern})

    @property
    def turn_count(self) -> int:
        """Turns of the assistant that called tools."""
        return self.state.turn_count

    @property
    def tool_call_count(self) -> int:
        """Calls in the whole run."""
        return self.state.tool_call_count

    @property
    def error_count(self) -> int:
        """Failed calls in the whole run; rate limits and refusals by a person are not failures."""
        return self.state.error_count

    @property
    def consecutive_errors(self) -> int:
        """Failed calls in a row up to now; a success or a user message ends the row."""
        return self.state.consecutive_errors

    @property
    def unique_tools_used(self) -> frozenset[str]:
        """Names of the tools called in the window."""
        return frozenset(step.tool_name for step in self.state.steps)

    @property
    def duration(self) -> timedelta:
        """Time from the first to the latest event that carried one."""
        return timedelta(seconds=max(0.0, self.state.latest_at - self.state.started_at))

    def recent_tool_calls(self, n: int) -> tuple[Step, ...]:
        """The last ``n`` calls, oldest first."""
        return self.state.steps[-n:] if n > 0 else ()

    def recent_errors(self, n: int) -> tuple[Step, ...]:
        """The last ``n`` failed calls in the window, oldest first."""
        return tuple(step for step in self.state.steps if step.is_error)[-n:] if n > 0 else ()

    def tool_frequency(self) -> dict[str, int]:
        """Calls per tool in the window, most frequent first."""
        return _ranked(step.tool_name for step in self.state.steps)

    def error_frequency(self) -> dict[str, int]:
        """Failed calls per error signature in the window, most frequent first."""
        failed = [step for step in self.state.steps if step.is_error]
        names = {
            step.error_key: step.signature for step in failed if step.message
        }  # of another process: a digest
        return _ranked(names.get(step.error_key, step.signature) for step in failed)

    def patterns(self) -> Mapping[str, TrajectoryPattern]:
        """What the detectors found after the latest event, by pattern type."""
        return self._patterns

    def has_pattern(self, pattern_type: str) -> bool:
        """True when a pattern of this type is there."""
        return pattern_type in self._patterns

    def with_event(self, event: Event) -> TrajectoryAnalysis:
        """The run after one more event."""
        state, result = self._after(self.state, event, self._latest_result)
        return TrajectoryAnalysis(state, self.lens, result)

    def with_events(self, events: Iterable[Event]) -> TrajectoryAnalysis:
        """The run after more events; the detectors look once, after the last."""
        state, result = self.state, self._latest_result
        for event in events:
            state, result = self._after(state, event, result)
        return self if state is self.state else TrajectoryAnalysis(state, self.lens, result)

    def _after(self, state: TrajectoryState, event: Event, result: str) -> tuple[TrajectoryState, str]:
        """The state after an event, and the text of the latest result."""
        lens = self.lens
        if isinstance(event, ToolInvoked):
            step = lens.step_of(
                event,
                turn=state.turn_count + 1,
                before=result,
                indicators=lens.indicators,
                poll_tools=lens.poll_tools,
            )
            return after_step(state, step, lens.window_size), event.result.text if event.result else ""
        match event:
            case Step():
                return after_step(state, event, lens.window_size), ""
            case UserSpoke(at=at):
                return after_user(state, at), result
            case ProgressMade():
                return after_progress(state), result
            case ToolRecommended(tool_name=tool_name):
                return after_recommendation(state, tool_name), result


_NO_PATTERNS: Final[Mapping[str, TrajectoryPattern]] = MappingProxyType({})


def _attempt(state: TrajectoryState) -> tuple[Step, ...]:
    if not state.attempt:
        return ()
    steps = state.steps[-state.attempt :]
    if state.tool_call_count - state.neutral >= len(steps):
        return steps  # no neutral one among them
    return tuple([step for step in steps if not step.is_neutral])


def _ranked(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))
