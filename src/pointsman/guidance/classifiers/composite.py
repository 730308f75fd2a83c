"""Classifiers made of classifiers: three-valued logic, each member isolated from the others' failures.

Source of names and confidences: docs/sources/guidance-classifiers.md, "Composite classifiers".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pointsman.guidance._context import (
    ClassificationResult,
    GuidanceClassifier,
    GuidanceContext,
    judge,
    name_of,
)

__all__ = ["AllOfClassifier", "AnyOfClassifier", "NotClassifier", "ThresholdClassifier", "judge", "name_of"]


@runtime_checkable
class _Stateful(Protocol):
    """A classifier that fires at a moment, over a condition that lasts."""

    def holds(self, context: GuidanceContext, /) -> ClassificationResult: ...


def _holds(classifier: GuidanceClassifier, context: GuidanceContext) -> ClassificationResult:
    """Ask whether a member's condition holds: joined with another, its moment would hardly ever coincide."""
    if not isinstance(classifier, _Stateful):
        return judge(classifier, context)
    try:
        return classifier.holds(context)
    except Exception as error:  # noqa: BLE001 - fail open, as above
        return ClassificationResult.abstain(f"{name_of(classifier)} failed: {type(error).__name__}")


def _first_abstention(results: Iterable[ClassificationResult]) -> ClassificationResult | None:
    """One that a model could end comes first."""
    abstained = [result for result in results if result.abstained]
    return next((result for result in abstained if result.query), abstained[0] if abstained else None)


@dataclass(frozen=True, slots=True)
class AllOfClassifier:
    """Fires when every member does; with the mean of their confidences, their reasons and metadata joined."""

    classifiers: tuple[GuidanceClassifier, ...]

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return f"all_of({', '.join(member.name for member in self.classifiers)})"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """One no decides, whatever the others could not tell; no members, no."""
        results = [_holds(member, context) for member in self.classifiers]
        if not results or any(not result.relevant and not result.abstained for result in results):
            return ClassificationResult.no()
        if abstention := _first_abstention(results):
            return abstention
        return ClassificationResult.yes(
            confidence=sum(result.confidence for result in results) / len(results),
            reason="; ".join(result.reason for result in results if result.reason),
            metadata={key: value for result in results for key, value in result.metadata.items()},
        )


@dataclass(frozen=True, slots=True)
class AnyOfClassifier:
    """Fires when a member does; the most confident one answers, the earlier of equals."""

    classifiers: tuple[GuidanceClassifier, ...]

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return f"any_of({', '.join(member.name for member in self.classifiers)})"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """One yes decides, whatever the others could not tell."""
        results = [judge(member, context) for member in self.classifiers]
        relevant = [result for result in results if result.relevant]
        if relevant:
            return max(relevant, key=lambda result: result.confidence)
        return _first_abstention(results) or ClassificationResult.no()


@dataclass(frozen=True, slots=True)
class NotClassifier:
    """Fires when its member does not. The opposite of "cannot tell" is "cannot tell"."""

    classifier: GuidanceClassifier

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return f"not({self.classifier.name})"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        result = _holds(self.classifier, context)
        if result.abstained:
            return result
        if result.relevant:
            return ClassificationResult.no()
        return ClassificationResult.yes(
            confidence=1.0 - result.confidence,
            reason=f"Inverse of: {result.reason or self.classifier.name}",
        )


@dataclass(frozen=True, slots=True)
class ThresholdClassifier:
    """Fires when its member does with enough confidence."""

    classifier: GuidanceClassifier
    min_confidence: float

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return f"threshold({self.classifier.name}, {self.min_confidence})"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        result = judge(self.classifier, context)
        weak = result.relevant and result.confidence < self.min_confidence
        return ClassificationResult.no() if weak else result
