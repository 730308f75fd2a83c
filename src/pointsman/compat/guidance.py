"""The names of the founding document on guidance.

The product decides guidance with ``pointsman.guidance.Guide``, which remembers in a session's memory and
never comes here. Defined here, for code with a custom loop: classifiers asked in order, their cooldowns,
and guidance collected by hand.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Thread
from timeit import default_timer
from typing import Final

from pointsman import guidance
from pointsman.guidance import (
    AllOfClassifier,
    AnyOfClassifier,
    ClassificationResult,
    DecisionPoint,
    DiagnosticSignalProvider,
    DoomLoopBreaker,
    DoomLoopClassifier,
    ErrorStreakClassifier,
    GuidanceClassifier,
    GuidanceContext,
    GuidanceInjection,
    GuidanceProvider,
    GuidanceProviderConfig,
    HighToolCountClassifier,
    LargeOutputClassifier,
    NotClassifier,
    ParallelToolReminder,
    ProgressStallClassifier,
    SensitiveContentClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
    ThresholdClassifier,
)
from pointsman.guidance.classifiers.composite import judge, name_of
from pointsman.guidance.ladder import candidates_of, worded
from pointsman.guidance.memory import Fired
from pointsman.guidance.providers import check_limits, may_fire
from pointsman.trajectory import Session, ToolInvoked, ToolResult, TrajectoryBuilder
from pointsman.vocabulary import ModelQuery, ModelReply, Reason

__all__ = [
    "AllOfClassifier",
    "AnyOfClassifier",
    "ClassificationResult",
    "ClassifierBenchmark",
    "ClassifierConfig",
    "ClassifierCooldownTracker",
    "DecisionPoint",
    "DiagnosticSignalProvider",
    "DoomLoopBreaker",
    "DoomLoopClassifier",
    "ErrorStreakClassifier",
    "GuidanceClassifier",
    "GuidanceContext",
    "GuidanceDelivered",
    "GuidanceInjection",
    "GuidanceProvider",
    "GuidanceProviderConfig",
    "GuidanceTracker",
    "HighToolCountClassifier",
    "LLMClassifier",
    "LargeOutputClassifier",
    "NotClassifier",
    "ParallelToolReminder",
    "ProgressStallClassifier",
    "SensitiveContentClassifier",
    "SequentialWhenParallelClassifier",
    "Session",
    "SingleToolRepeatedClassifier",
    "ThresholdClassifier",
    "ToolInvoked",
    "ToolResult",
    "TrajectoryBuilder",
    "benchmark_classifier",
    "collect_guidance",
    "run_classifiers",
]


# The source's ``LLMClassifier``, which asks a model in the thread that classifies.

#: Questions under way in one process. One that was given up on keeps its thread until the model answers.
MAX_WAITING: Final = 8
_free: Final = BoundedSemaphore(MAX_WAITING)


@dataclass(frozen=True, slots=True)
class LLMClassifier(guidance.LLMClassifier):
    """Delegates the judgement to a small, fast model, by ``ask`` or by an overridden ``_call_model``.

    An answer is waited for no longer than ``timeout_ms``, and any failure abstains. With neither way to ask,
    the driver of the decision asks.
    """

    ask: Callable[[ModelQuery], ModelReply] | None = None

    def _call_model(self, summary: str) -> str | ModelReply:
        """Return the model's answer about a summary of the run. May raise anything. For subclasses."""
        return self.ask(self._query(summary)) if self.ask else ModelReply(error="no-model")

    def _asked(self, query: ModelQuery) -> ModelReply | None:
        if self.ask is None and type(self)._call_model is LLMClassifier._call_model:
            return None
        try:
            said = _within(self.timeout_ms / 1000, partial(self._call_model, query.text))
        except TimeoutError:
            return ModelReply(error="timeout")
        except Exception as error:  # noqa: BLE001 - fail open: a model that cannot be asked is not a "no"
            return ModelReply(error=f"failed: {type(error).__name__}")
        return said if isinstance(said, ModelReply) else ModelReply(str(said))


def _within(seconds: float, call: Callable[[], str | ModelReply]) -> str | ModelReply:
    """Run a call in a separate thread and wait for it.

    Raises:
        TimeoutError: it takes longer, or too many calls are under way.
    """
    if not _free.acquire(blocking=False):
        raise TimeoutError
    answers: SimpleQueue[str | ModelReply | BaseException] = SimpleQueue()

    def run() -> None:
        try:
            answers.put(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            answers.put(error)
        finally:
            _free.release()

    Thread(target=run, name="pointsman-llm-classifier", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


#: Pieces of guidance given at once; more than three compete with each other.
MAX_AT_ONCE: Final = 3

_log: Final = logging.getLogger("pointsman.guidance")


@dataclass(frozen=True, slots=True)
class ClassifierConfig:
    """Limits on one classifier.

    Raises:
        ConfigError: a limit out of its range.
    """

    min_confidence: float = 0.5
    cooldown_turns: int = 0  # turns skipped after firing
    max_fires_per_session: int | None = None

    def __post_init__(self) -> None:
        check_limits(self.min_confidence, self.cooldown_turns, self.max_fires_per_session)


@dataclass(slots=True)
class ClassifierCooldownTracker:
    """Remembers when classifiers fired. By instance, since two classifiers may share a name."""

    fires: dict[int, int] = field(default_factory=dict)  # id of a classifier -> turn of its last firing
    counts: dict[int, int] = field(default_factory=dict)  # id of a classifier -> firings
    _kept: list[object] = field(default_factory=list)  # an id is only unique while its object lives

    def can_fire(self, classifier: GuidanceClassifier, current_turn: int, config: ClassifierConfig) -> bool:
        """True when the classifier's limits allow it to fire in this turn."""
        key = id(classifier)
        return may_fire(
            self.fires.get(key),
            self.counts.get(key, 0),
            current_turn,
            cooldown_turns=config.cooldown_turns,
            max_fires=config.max_fires_per_session,
        )

    def record_fire(self, classifier: GuidanceClassifier, turn: int) -> None:
        """Note a firing."""
        key = id(classifier)
        if key not in self.counts:
            self._kept.append(classifier)
        self.fires[key] = turn
        self.counts[key] = self.counts.get(key, 0) + 1


def run_classifiers(
    classifiers: Sequence[GuidanceClassifier],
    context: GuidanceContext,
    min_confidence: float = 0.5,
    *,
    tracker: ClassifierCooldownTracker | None = None,
    config: ClassifierConfig | None = None,
    abstained: list[Reason] | None = None,
) -> tuple[GuidanceClassifier, ClassificationResult] | None:
    """Return the first classifier, in order, that fires with enough confidence.

    A classifier that raises is logged with its exception and passed over.

    Args:
        classifiers: Asked in this order.
        context: The moment to judge.
        min_confidence: Threshold of a result; ``config`` has another one.
        tracker: Passes over classifiers that are cooling down, and records the one returned.
        config: Limits on every classifier.
        abstained: Receives the reason of each classifier that raised, or that could not tell.
    """
    limits = config or ClassifierConfig(min_confidence=min_confidence)
    for classifier in classifiers:
        if tracker and not tracker.can_fire(classifier, context.turn_count, limits):
            continue
        result = _judged(classifier, context)
        if result.abstained and abstained is not None:
            abstained.append(Reason("guidance.abstained", result.reason or name_of(classifier)))
        if result.relevant and result.confidence >= limits.min_confidence:
            if tracker:
                tracker.record_fire(classifier, context.turn_count)
            return classifier, result
    return None


def _judged(classifier: GuidanceClassifier, context: GuidanceContext) -> ClassificationResult:
    try:
        result: object = classifier.classify(context)
        if isinstance(result, ClassificationResult):
            return result
        raise TypeError(f"the answer is no ClassificationResult: {type(result).__name__}")  # noqa: TRY301
    except Exception as error:  # noqa: BLE001 - fail open: anyone's classifier; logged, and told to the caller
        _log.warning("the classifier %s failed and was passed over", name_of(classifier), exc_info=True)
        return ClassificationResult.abstain(f"{name_of(classifier)} failed: {type(error).__name__}")


@dataclass(frozen=True, slots=True)
class ClassifierBenchmark:
    """How long one classification takes, in nanoseconds."""

    classifier_name: str
    mean_ns: float
    p99_ns: float
    max_ns: int


def benchmark_classifier(
    classifier: GuidanceClassifier,
    contexts: Sequence[GuidanceContext],
    *,
    timer: Callable[[], float] = default_timer,
) -> ClassifierBenchmark:
    """Measure a classifier over contexts, after one round that is not counted.

    Args:
        classifier: what to measure.
        contexts: at least two moments.
        timer: a clock in seconds. This is a measurement, not a decision: the one place here that has one.

    Raises:
        ValueError: fewer than two contexts, of which no percentile can be taken.
    """
    if len(contexts) < 2:
        raise ValueError(f"a benchmark needs at least two contexts, not {len(contexts)}")
    for context in contexts:
        classifier.classify(context)
    timings = []
    for context in contexts:
        start = timer()
        classifier.classify(context)
        timings.append(round((timer() - start) * 1e9))
    return ClassifierBenchmark(
        classifier_name=classifier.name,
        mean_ns=statistics.fmean(timings),
        p99_ns=statistics.quantiles(timings, n=100, method="inclusive")[98],
        max_ns=max(timings),
    )


@dataclass(frozen=True, slots=True)
class GuidanceDelivered:
    """Guidance was given."""

    provider_name: str
    injection: GuidanceInjection
    decision_point: DecisionPoint
    classification: ClassificationResult
    timestamp: float = 0.0  # seconds since the epoch; 0 when the trajectory carries no times


@dataclass(slots=True)
class GuidanceTracker:
    """Remembers, for programs with a custom loop, how often each configured provider has fired."""

    fired: dict[int, Fired] = field(default_factory=dict)  # by place in the configuration
    abstained: list[Reason] = field(default_factory=list)  # what failed open, and why


def collect_guidance(
    configs: Sequence[GuidanceProviderConfig],
    context: GuidanceContext,
    decision_point: DecisionPoint = DecisionPoint.PRE_TOOL_SELECTION,
    *,
    tracker: GuidanceTracker | None = None,
    max_at_once: int = MAX_AT_ONCE,
) -> tuple[GuidanceInjection, ...]:
    """Collect the guidance of all providers that apply at this moment, the most urgent first.

    The session is told of every piece (``GuidanceDelivered``). A provider that fails is left out and noted in
    the tracker. Without a tracker no limit over time applies.
    """
    tracker = tracker or GuidanceTracker()
    candidates, abstained = candidates_of(configs, [judge(config.judge, context) for config in configs])
    tracker.abstained += abstained
    ready = []
    for candidate in candidates:
        config = configs[candidate.index]
        if not tracker.fired.get(candidate.index, Fired()).allows(config, context.turn_count):
            continue
        injection = worded(config.provider, context)
        if isinstance(injection, Reason):
            tracker.abstained.append(injection)
        else:
            ready.append((injection, candidate))
    ready.sort(key=lambda pair: (pair[0].priority, pair[1].index))
    for injection, candidate in ready[:max_at_once]:
        before = tracker.fired.get(candidate.index, Fired())
        tracker.fired[candidate.index] = before.again(context.turn_count)
        if context.session is not None:
            context.session.dispatch(
                GuidanceDelivered(
                    configs[candidate.index].provider.name,
                    injection,
                    decision_point,
                    candidate.result,
                    context.trajectory.state.latest_at,
                )
            )
    return tuple(injection for injection, _ in ready[:max_at_once])
