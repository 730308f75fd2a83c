"""Floor 3: detection of a stuck agent, and the hint it gets."""

from __future__ import annotations

from pointsman.guidance._context import (
    ClassificationResult,
    DecisionPoint,
    GuidanceClassifier,
    GuidanceContext,
)
from pointsman.guidance._decide import GuidanceDecision, Guide, Seen, recorded_moment, without_models
from pointsman.guidance._hints import Moment, moment_of
from pointsman.guidance._policy import GuidancePolicy, Rung, asks_models, default_providers
from pointsman.guidance._provider_spec import CLASSIFIER, ProviderSpec, classes_of
from pointsman.guidance.classifiers import (
    AllOfClassifier,
    AnyOfClassifier,
    DoomLoopClassifier,
    ErrorRateClassifier,
    ErrorStreakClassifier,
    HighToolCountClassifier,
    LargeOutputClassifier,
    LLMClassifier,
    NotClassifier,
    PatternClassifier,
    ProgressStallClassifier,
    RepeatedErrorClassifier,
    SensitiveContentClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
    ThresholdClassifier,
    UnfinishedClassifier,
)
from pointsman.guidance.classifiers._tables import CLASSIFIERS, ClassifierError, OwnClasses, tables_in
from pointsman.guidance.ladder import Firing, FollowUp, streak_continues
from pointsman.guidance.memory import Arm, GuidanceMemory, arm_of
from pointsman.guidance.providers import (
    ConsultationPromptProvider,
    DiagnosticSignalProvider,
    DoneGateProvider,
    DoomLoopBreaker,
    GuidanceInjection,
    GuidanceProvider,
    GuidanceProviderConfig,
    ParallelToolReminder,
)
from pointsman.vocabulary import Mode

__all__ = [
    "CLASSIFIER",
    "CLASSIFIERS",
    "AllOfClassifier",
    "AnyOfClassifier",
    "Arm",
    "ClassificationResult",
    "ClassifierError",
    "ConsultationPromptProvider",
    "DecisionPoint",
    "DiagnosticSignalProvider",
    "DoneGateProvider",
    "DoomLoopBreaker",
    "DoomLoopClassifier",
    "ErrorRateClassifier",
    "ErrorStreakClassifier",
    "Firing",
    "FollowUp",
    "GuidanceClassifier",
    "GuidanceContext",
    "GuidanceDecision",
    "GuidanceInjection",
    "GuidanceMemory",
    "GuidancePolicy",
    "GuidanceProvider",
    "GuidanceProviderConfig",
    "Guide",
    "HighToolCountClassifier",
    "LLMClassifier",
    "LargeOutputClassifier",
    "Mode",
    "Moment",
    "NotClassifier",
    "OwnClasses",
    "ParallelToolReminder",
    "PatternClassifier",
    "ProgressStallClassifier",
    "ProviderSpec",
    "RepeatedErrorClassifier",
    "Rung",
    "Seen",
    "SensitiveContentClassifier",
    "SequentialWhenParallelClassifier",
    "SingleToolRepeatedClassifier",
    "ThresholdClassifier",
    "UnfinishedClassifier",
    "arm_of",
    "asks_models",
    "classes_of",
    "default_providers",
    "moment_of",
    "recorded_moment",
    "streak_continues",
    "tables_in",
    "without_models",
]
