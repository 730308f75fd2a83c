"""The built-in providers: when each speaks by itself, and what it says."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from pointsman.errors import ConfigError
from pointsman.guidance._context import ClassificationResult, GuidanceClassifier, GuidanceContext
from pointsman.guidance.classifiers._calls import (
    DEFAULT_EVIDENCE,
    DoomLoopClassifier,
    ErrorStreakClassifier,
    Evidence,
    SequentialWhenParallelClassifier,
    UnfinishedClassifier,
)
from pointsman.printable import printable
from pointsman.trajectory import DoomLoop, RepeatedError, TrajectoryAnalysis
from pointsman.trajectory.checks import Unfinished

__all__ = [
    "ConsultationPromptProvider",
    "DiagnosticSignalProvider",
    "DoneGateProvider",
    "DoomLoopBreaker",
    "GuidanceInjection",
    "GuidanceProvider",
    "GuidanceProviderConfig",
    "ParallelToolReminder",
]


# Texts of hints: the event, its count, the tool, and one next step.
#
# Tool names and errors come from outside and end up where a model reads instructions. So errors are cut, left
# on one line, stripped of anything that looks like markup or acts on a display, and set in quotes. A name
# that holds more than names do, such as a sentence, is not repeated.


#: Characters of an error that are quoted: enough to know it again, too few to carry another's instructions.
MAX_QUOTE: Final = 120
MAX_READ: Final = 4_096  # characters of an error that are looked at
RECENT: Final = 10  # calls described; the window of the error rate
#: Characters that providers (letters, digits, _ and -, 64 of them) and agents (. : /) allow in a tool's name.
_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
#: Tools named from a cycle; a longer list is not read.
MAX_CYCLE: Final = 5
#: Characters of a tool's name in a list of several, so that five still fit.
MAX_LISTED: Final = 32

_UNQUOTABLE: Final = re.compile(r"[\x00-\x20\x7f-\xa0<>`\"{}\[\]\s]+")


def _quote(text: str) -> str:
    return _cut(_UNQUOTABLE.sub(" ", printable(text[:MAX_READ], instead=" ")).strip(), MAX_QUOTE)


def _cut(clean: str, limit: int) -> str:
    return clean if len(clean) <= limit else clean[: limit - 1].rstrip() + "…"


def _tool(name: str, limit: int = MAX_QUOTE) -> str:
    return f"`{_cut(name, limit) if _NAME.fullmatch(name) else '?'}`"


def _tools(names: Iterable[str], separator: str) -> str:
    return separator.join(_tool(name, MAX_LISTED) for name in names)


def loop(pattern: DoomLoop, planning_tool: str) -> str:
    """For a cycle of calls with equal results."""
    if pattern.cycle_length == 1:
        what = f"The same {_tool(pattern.cycle_actions[0])} call has returned the same result"
    else:
        names = _tools(pattern.cycle_actions[:MAX_CYCLE], " → ")
        what = f"The calls {names} have come round with the same results"
    advice = (
        "Another round brings nothing new: change the arguments, use another tool, or say what blocks you."
    )
    plan = f" {_tool(planning_tool)} can help to reconsider the plan." if planning_tool else ""
    return f"{what} {pattern.repetitions} times. {advice}{plan}"


def diagnosis(trajectory: TrajectoryAnalysis, streak: int, log_tool: str) -> str:
    """For failing calls, and for calls that get nowhere. ``streak``: failures in a row worth naming first."""
    logs = f" {_tool(log_tool)} shows the details." if log_tool else ""
    return _trouble(trajectory, streak) + logs


def _trouble(trajectory: TrajectoryAnalysis, streak: int) -> str:
    """The most telling description that fits: one error behind many calls, a streak, a stall, many errors."""
    recent = trajectory.attempt[-RECENT:]
    errors = [step for step in recent if step.is_error]
    if not errors:
        return _stalled(trajectory)
    latest, repeated = errors[-1], trajectory.patterns().get("repeated_error")
    failure = f'the latest {_tool(latest.tool_name)} with: "{_quote(latest.message or "no message")}"'
    if isinstance(repeated, RepeatedError) and repeated.variants > 1:
        return (
            f"{repeated.variants} different calls met the same error {repeated.count} times, {failure}. "
            "The arguments are probably not the cause: check what all of these calls take for granted."
        )
    in_a_row = trajectory.state.consecutive_errors
    if in_a_row >= streak:
        return (
            f"The last {in_a_row} tool calls failed, {failure}. Before the next call, "
            "work out what this error says about the path, name or state it depends on, and check that."
        )
    if trajectory.has_pattern("progress_stall") and 2 * len(errors) <= len(recent):
        return _stalled(trajectory)
    return (
        f"{len(errors)} of the last {len(recent)} tool calls failed, {failure}. "
        "Find the assumption they share and check it with one small call before going on."
    )


def _stalled(trajectory: TrajectoryAnalysis) -> str:
    stalled = trajectory.state.stalled
    names = list(dict.fromkeys(step.tool_name for step in trajectory.attempt[-stalled:]))[:MAX_CYCLE]
    happened = (
        f"The last {stalled} tool calls ({_tools(names, ', ')}) brought nothing new. " if stalled else ""
    )
    return f"{happened}Say what is still unknown, and choose a call that would answer it."


def consultation(trajectory: TrajectoryAnalysis, tool: str) -> str:
    """For an agent that stays stuck after a first word."""
    ask = f"use {_tool(tool)}" if tool else "ask the person you work for"
    latest = trajectory.recent_errors(1)
    error = ""
    if latest and (said := latest[0].message):  # not known where the session went on in another process
        error = f' (last error, {_tool(latest[0].tool_name)}: "{_quote(said)}")'
    return (
        f"Still stuck after {trajectory.state.attempt} tool calls in this attempt{error}. Stop retrying. "
        f"Write down what you know, what you tried and what each try showed, then {ask} for another view."
    )


def parallel(trajectory: TrajectoryAnalysis, turns: int) -> str:
    """For independent calls made one a turn."""
    names = list(dict.fromkeys(step.tool_name for step in trajectory.recent_tool_calls(turns)))[:MAX_CYCLE]
    return (
        f"The last {turns} turns made one call each ({_tools(names, ', ')}), and none needed the result of "
        "another. Calls like these can go into one turn."
    )


# Interface, results and configuration of providers.


#: Characters of one piece of guidance. Source: docs/reference/guidance.md, "Providers".
MAX_CONTENT: Final = 500
_KEY: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def check_limits(min_confidence: float, cooldown_turns: int, max_fires: int | None) -> None:
    """Refuse limits that could never let anything through, or that mean nothing."""
    if not 0.0 <= min_confidence <= 1.0:
        raise ConfigError(f"min_confidence must be within 0 and 1, not {min_confidence}")
    if cooldown_turns < 0:
        raise ConfigError(f"cooldown_turns must not be negative, and is {cooldown_turns}")
    if max_fires is not None and max_fires < 1:
        raise ConfigError(f"max_fires_per_session must be at least 1, not {max_fires}")


def may_fire(
    last_turn: int | None, fires: int, turn: int, *, cooldown_turns: int, max_fires: int | None
) -> bool:
    """True when neither limit forbids firing. ``cooldown_turns=n`` skips the n turns after a firing."""
    if last_turn is not None and cooldown_turns and turn - last_turn <= cooldown_turns:
        return False
    return max_fires is None or fires < max_fires


@dataclass(frozen=True, slots=True)
class GuidanceInjection:
    """One piece of guidance.

    Raises:
        ValueError: a key or content out of its limits.
    """

    key: str  # names this guidance in records
    content: str  # 1 to 500 characters
    priority: int = 100  # lower first
    category: str = "general"
    recommends: str = ""  # a tool of the agent that the text tells it to use

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"key must be up to 64 of a-z, 0-9, '.', '_' and '-', not {self.key[:80]!r}")
        if not 1 <= len(self.content) <= MAX_CONTENT:
            raise ValueError(f"content must have 1 to {MAX_CONTENT} characters, and has {len(self.content)}")


class GuidanceProvider(Protocol):
    """Knows when a piece of guidance applies, and its words."""

    @property
    def name(self) -> str:
        """Name shown in records."""

    @property
    def category(self) -> str:
        """Kind of guidance, for reports: "diagnostic", "loop", "consultation", "efficiency"."""

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment, where the configuration names no classifier."""

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Put the guidance into words."""


@dataclass(frozen=True, slots=True)
class GuidanceProviderConfig:
    """A provider, when it may speak, and how often.

    Raises:
        ConfigError: a limit out of its range.
    """

    provider: GuidanceProvider
    classifier: GuidanceClassifier | None = None  # None: the provider's own judgement
    max_per_turn: int = 3
    min_confidence: float = 0.5
    cooldown_turns: int = 0  # turns skipped after firing
    max_fires_per_session: int | None = None

    def __post_init__(self) -> None:
        check_limits(self.min_confidence, self.cooldown_turns, self.max_fires_per_session)
        if self.max_per_turn < 1:
            raise ConfigError(f"max_per_turn must be at least 1, not {self.max_per_turn}")

    @property
    def judge(self) -> GuidanceClassifier:
        """Whoever judges the moment: the configured classifier, or the provider."""
        return self.classifier or self.provider


# Reminds an agent that independent calls can go into one turn.


@dataclass(frozen=True, slots=True)
class ParallelToolReminder:
    """By itself speaks after three turns of one independent call each; a matter of speed, so last in line."""

    sequential_threshold: int = 3  # turns
    priority: int = 200

    name: ClassVar[str] = "parallel_tool_reminder"  # shown in records
    category: ClassVar[str] = "efficiency"  # kind of guidance

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return SequentialWhenParallelClassifier(threshold=self.sequential_threshold).classify(context)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Name the calls."""
        text = parallel(context.trajectory, self.sequential_threshold)
        return GuidanceInjection("parallel.reminder", text, self.priority, self.category)


# Names the cycle an agent goes round in.


@dataclass(frozen=True, slots=True)
class DoomLoopBreaker:
    """By itself speaks at the third round; the first of all guidance, since nothing else gets through."""

    max_repetitions: int = 3
    planning_tool: str = ""  # a tool of the agent that reconsiders the plan, if it has one
    priority: int = 10

    name: ClassVar[str] = "doom_loop_breaker"  # shown in records
    category: ClassVar[str] = "loop"  # kind of guidance

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return DoomLoopClassifier(self.max_repetitions).classify(context)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Name the cycle; where another classifier called, the trouble there is."""
        found = context.trajectory.patterns().get("doom_loop")
        text = (
            loop(found, self.planning_tool)
            if isinstance(found, DoomLoop)
            else diagnosis(context.trajectory, 1, self.planning_tool)
        )
        return GuidanceInjection("doom_loop.breaker", text, self.priority, self.category, self.planning_tool)


# Tells an agent that says it is done what is missing.

_TEXTS: Final = {
    Unfinished.TESTS_FAIL: "The last test run of this task failed, and no later run passed. Fix the cause "
    "and run the tests again. If the failure has nothing to do with the task, say so and name the tests.",
    Unfinished.EDITED_AFTER_TESTS: "Files were edited after the last test run of this task, and nothing was "
    "run since. Run the tests again, and fix what fails.",
    Unfinished.COMMAND_FAILED: "The last program that was run after the edits of this task failed. Fix the "
    "cause and run it again, or say that it fails and why.",
    Unfinished.NOT_RUN: "Files were edited for this task, and neither a test nor a program was run. Run the "
    "tests that cover the edits, or say that there are none.",
}
#: Where another classifier speaks, such as a model that was asked.
_OTHERWISE: Final = "This task may not be done. Compare the work with what was asked, and do what is missing."


@dataclass(frozen=True, slots=True)
class DoneGateProvider:
    """Speaks where the evidence of a run speaks against its work being done."""

    evidence: tuple[Evidence, ...] = DEFAULT_EVIDENCE
    priority: int = 40  # before other hints: the agent is about to end

    name: ClassVar[str] = "done_gate"  # shown in records
    category: ClassVar[str] = "diagnostic"  # kind of guidance

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return UnfinishedClassifier(self.evidence).classify(context)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Name the missing part, and the next step."""
        text = _TEXTS.get(self.classify(context).metadata.get("evidence", ""), _OTHERWISE)
        return GuidanceInjection("done.gate", text, self.priority, self.category)


# Says which call failed, how often and with what.


@dataclass(frozen=True, slots=True)
class DiagnosticSignalProvider:
    """Speaks by itself at a streak of errors: three double the odds that the run fails.

    Source: docs/explanation/guidance.md, "What recorded runs show".
    """

    error_threshold: int = 3  # calls
    log_tool_name: str = ""  # a tool of the agent that shows more, if it has one
    priority: int = 50

    name: ClassVar[str] = "diagnostic_signal"  # shown in records
    category: ClassVar[str] = "diagnostic"  # kind of guidance

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return ErrorStreakClassifier(self.error_threshold).classify(context)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Name the trouble."""
        text = diagnosis(context.trajectory, self.error_threshold, self.log_tool_name)
        return GuidanceInjection("diagnostic.signal", text, self.priority, self.category, self.log_tool_name)


# Sends an agent that stays stuck to someone else.


@dataclass(frozen=True, slots=True)
class ConsultationPromptProvider:
    """By itself speaks at five failures in a row; the default policy sends it when a hint did not help."""

    failure_threshold: int = 5  # calls
    consultation_tool: str = ""  # a tool of the agent that asks someone, if it has one
    priority: int = 20

    name: ClassVar[str] = "consultation_prompt"  # shown in records
    category: ClassVar[str] = "consultation"  # kind of guidance

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        return ErrorStreakClassifier(self.failure_threshold).classify(context)

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Tell the agent to stop and ask."""
        text = consultation(context.trajectory, self.consultation_tool)
        return GuidanceInjection(
            "consultation.prompt", text, self.priority, self.category, self.consultation_tool
        )
