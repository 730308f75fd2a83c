"""Running classifiers in order, and measuring them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from timeit import default_timer

from pointsman.guidance.classifiers.composite import judge
from pointsman.guidance.context import GuidanceClassifier, GuidanceContext
from pointsman.guidance.cooldown import ClassifierConfig, ClassifierCooldownTracker
from pointsman.guidance.results import ClassificationResult

__all__ = ["ClassifierBenchmark", "benchmark_classifier", "run_classifiers"]


def run_classifiers(
    classifiers: Sequence[GuidanceClassifier],
    context: GuidanceContext,
    min_confidence: float = 0.5,
    *,
    tracker: ClassifierCooldownTracker | None = None,
    config: ClassifierConfig | None = None,
) -> tuple[GuidanceClassifier, ClassificationResult] | None:
    """Return the first classifier, in order, that fires with enough confidence.

    With a tracker, classifiers that are cooling down are passed over, and the one returned is recorded.
    """
    limits = config or ClassifierConfig(min_confidence=min_confidence)
    for classifier in classifiers:
        if tracker and not tracker.can_fire(classifier, context.turn_count, limits):
            continue
        result = judge(classifier, context)
        if result.relevant and result.confidence >= limits.min_confidence:
            if tracker:
                tracker.record_fire(classifier, context.turn_count)
            return classifier, result
    return None


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
