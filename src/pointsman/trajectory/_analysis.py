"""The analysis of a run for classifiers: counts, the latest calls, and patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Final, Protocol

from pointsman.trajectory._events import Event, ProgressMade, ToolInvoked, ToolRecommended, UserSpoke, step_of
from pointsman.trajectory._failures import TrajectoryPattern
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


class PatternDetector(Protocol):
    """Finds one pattern. Stateless: its memory is in the trajectory, so a stored one resumes."""

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
        self._patterns: Mapping[str, TrajectoryPattern] | None = None  # not looked for yet

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
        if all(step.message for step in failed):
            return _ranked(step.signature for step in failed)
        # A step of another process holds a digest.
        names = {step.error_key: step.signature for step in failed if step.message}
        return _ranked(names.get(step.error_key, step.signature) for step in failed)

    def patterns(self) -> Mapping[str, TrajectoryPattern]:
        """Findings of the detectors after the latest event, by pattern type."""
        if self._patterns is None:
            self._patterns = self._detect()
        return self._patterns

    def has_pattern(self, pattern_type: str) -> bool:
        """True when a pattern of this type is there."""
        return pattern_type in self.patterns()

    def with_event(self, event: Event) -> TrajectoryAnalysis:
        """The run after one more event."""
        return self.with_events((event,))

    def with_events(self, events: Iterable[Event]) -> TrajectoryAnalysis:
        """The run after more events; the detectors look once, after the last."""
        state, result, lens = self.state, self._latest_result, self.lens
        reduce, indicators, poll_tools = lens.step_of, lens.indicators, lens.poll_tools
        for event in events:
            if isinstance(event, ToolInvoked):  # as nearly all are
                step = reduce(
                    event,
                    turn=state.turn_count + 1,
                    before=result,
                    indicators=indicators,
                    poll_tools=poll_tools,
                )
                state = after_step(state, step, lens.window_size)
                result = event.result.text if event.result else ""
            else:
                state, result = self._after(state, event, result)
        return self if state is self.state else TrajectoryAnalysis(state, self.lens, result)

    def _after(
        self,
        state: TrajectoryState,
        event: Step | UserSpoke | ProgressMade | ToolRecommended,
        result: str,
    ) -> tuple[TrajectoryState, str]:
        """The state after an event that is no call, and the text of the latest result."""
        match event:
            case Step():
                return after_step(state, event, self.lens.window_size), ""
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
