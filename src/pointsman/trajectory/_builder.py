"""The trajectory builder, the only mutable class of this floor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from pointsman.errors import ConfigError
from pointsman.trajectory._analysis import Lens, PatternDetector, TrajectoryAnalysis
from pointsman.trajectory._events import (
    DEFAULT_INDICATORS,
    Event,
    ProgressIndicator,
    UserSpoke,
    is_polling,
    step_of,
)
from pointsman.trajectory.detectors import (
    DEFAULT_DETECTORS,
    ContextDegradationDetector,
    DoomLoopDetector,
    ProgressStallDetector,
    RepeatedErrorDetector,
    ToolAvoidanceDetector,
)
from pointsman.trajectory.step import WINDOW, CallOutcome, Step


@dataclass(frozen=True, slots=True)
class TrajectoryAnalysisConfig:
    """Thresholds of the built-in detectors. Defaults: docs/reference/guidance.md, "Trajectory".

    Raises:
        ConfigError: a value that could never, or would always, fire.
    """

    window_size: int = WINDOW  # steps
    doom_loop_threshold: int = 3  # repetitions
    doom_loop_min_length: int = 2  # calls; one call repeated with one result counts anyway
    similarity_threshold: float = 0.8  # of two cycles compared by name
    error_window: int = 10  # steps in which an error repeats
    stall_threshold: int = 5  # steps
    detectors: tuple[PatternDetector, ...] = ()  # a user's own, after the built-in ones
    indicators: tuple[ProgressIndicator, ...] = DEFAULT_INDICATORS
    poll_tools: frozenset[str] = frozenset()  # tools meant to be repeated, beside the built-in ones
    actions: bool = False  # steps tell whether they edited a file or ran the tests

    def __post_init__(self) -> None:
        lowest = {
            "window_size": 1,
            "doom_loop_threshold": 2,
            "doom_loop_min_length": 1,
            "error_window": 1,
            "stall_threshold": 1,
        }
        for name, least in lowest.items():
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not 0.0 < self.similarity_threshold <= 1.0:
            raise ConfigError(f"similarity_threshold must be in (0, 1], not {self.similarity_threshold}")

    def all_detectors(self) -> tuple[PatternDetector, ...]:
        """The built-in detectors with these thresholds, then the user's own."""
        return (
            DoomLoopDetector(
                min_repetitions=self.doom_loop_threshold,
                min_cycle_length=self.doom_loop_min_length,
                similarity=self.similarity_threshold,
            ),
            RepeatedErrorDetector(window=self.error_window),
            ProgressStallDetector(threshold=self.stall_threshold),
            ToolAvoidanceDetector(),
            ContextDegradationDetector(),
            *self.detectors,
        )


class TrajectoryBuilder:
    """Builds a ``TrajectoryAnalysis`` event by event."""

    def __init__(
        self,
        detectors: Sequence[PatternDetector] = DEFAULT_DETECTORS,
        window_size: int = WINDOW,
        *,
        indicators: Sequence[ProgressIndicator] = DEFAULT_INDICATORS,
        poll_tools: frozenset[str] = frozenset(),
        actions: bool = False,
    ) -> None:
        reduce = step_of
        if actions:  # its patterns are compiled only where somebody asks
            from pointsman.trajectory.actions import step_with_action

            reduce = step_with_action
        lens = Lens(tuple(detectors), tuple(indicators), poll_tools, window_size, reduce)
        self._empty: Final = TrajectoryAnalysis(lens=lens)
        self._analysis = self._empty

    @classmethod
    def from_config(cls, config: TrajectoryAnalysisConfig) -> TrajectoryBuilder:
        """A builder with a configuration's detectors, indicators, poll tools and window."""
        return cls(
            config.all_detectors(),
            config.window_size,
            indicators=config.indicators,
            poll_tools=config.poll_tools,
            actions=config.actions,
        )

    def on_event(self, event: object) -> None:
        """Take one event; those of another kind (a session has others) change nothing."""
        if isinstance(event, Event):
            self._analysis = self._analysis.with_event(event)

    def build(self) -> TrajectoryAnalysis:
        """The run so far, immutable."""
        return self._analysis

    def reset(self) -> None:
        """Forget everything."""
        self._analysis = self._empty


# Recorded runs whose contents are hashes: the fields of ``step_features``.


class RecordedStep(msgspec.Struct, frozen=True, gc=False):
    """One step of a recorded run; ``args``, ``res`` and ``err_sig`` are its recorder's hashes."""

    tool: str
    args: str = ""
    res: str = ""
    res_len: int = 0
    err: bool = False
    err_sig: str | None = None
    turn: int = 0
    batch: int = 1
    user_after: bool = False  # a person spoke right after this step


def steps_of(recorded: Iterable[RecordedStep]) -> Iterator[Event]:
    """Yield the events of a recorded run. Rate limits cannot be distinguished from errors in a hash."""
    position, turn = 0, None
    for step in recorded:
        position = position + 1 if step.turn == turn else 0
        turn = step.turn
        yield Step(
            tool_name=step.tool,
            arguments=step.args,
            result_digest=step.res,
            result_length=step.res_len,
            outcome=CallOutcome.ERROR if step.err else CallOutcome.OK,
            signature=step.err_sig or "",
            turn=step.turn,
            position=position,
            batch=step.batch,
            polling=is_polling(step.tool, ""),
        )
        if step.user_after:
            yield UserSpoke()
