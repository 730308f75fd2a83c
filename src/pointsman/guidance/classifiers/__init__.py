"""The classifiers, by their input."""

from __future__ import annotations

from pointsman.guidance.classifiers._calls import (
    DoomLoopClassifier,
    ErrorRateClassifier,
    ErrorStreakClassifier,
    HighToolCountClassifier,
    PatternClassifier,
    ProgressStallClassifier,
    RepeatedErrorClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
    UnfinishedClassifier,
)
from pointsman.guidance.classifiers._content import (
    LargeOutputClassifier,
    LLMClassifier,
    SensitiveContentClassifier,
)
from pointsman.guidance.classifiers.composite import (
    AllOfClassifier,
    AnyOfClassifier,
    NotClassifier,
    ThresholdClassifier,
)

__all__ = [
    "AllOfClassifier",
    "AnyOfClassifier",
    "DoomLoopClassifier",
    "ErrorRateClassifier",
    "ErrorStreakClassifier",
    "HighToolCountClassifier",
    "LLMClassifier",
    "LargeOutputClassifier",
    "NotClassifier",
    "PatternClassifier",
    "ProgressStallClassifier",
    "RepeatedErrorClassifier",
    "SensitiveContentClassifier",
    "SequentialWhenParallelClassifier",
    "SingleToolRepeatedClassifier",
    "ThresholdClassifier",
    "UnfinishedClassifier",
]
