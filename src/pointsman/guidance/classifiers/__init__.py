"""The classifiers, by their input."""

from __future__ import annotations

from pointsman.guidance.classifiers._content import LargeOutputClassifier, SensitiveContentClassifier
from pointsman.guidance.classifiers._heuristic import (
    HighToolCountClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
)
from pointsman.guidance.classifiers._model import LLMClassifier
from pointsman.guidance.classifiers._pattern import (
    DoomLoopClassifier,
    ErrorRateClassifier,
    ErrorStreakClassifier,
    PatternClassifier,
    ProgressStallClassifier,
    RepeatedErrorClassifier,
)
from pointsman.guidance.classifiers._unfinished import UnfinishedClassifier
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
