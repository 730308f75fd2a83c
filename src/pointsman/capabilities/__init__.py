"""Floor 3: selection of the capabilities that a task needs."""

from __future__ import annotations

from pointsman.capabilities._commands import (
    Command,
    Switches,
    parse_calibration,
    parse_capabilities,
    parse_commands,
    switch_pattern,
    take_switch,
)
from pointsman.capabilities._decision import (
    CapabilityDecision,
    CapabilityMemory,
    OfferedTool,
    ToolDecision,
)
from pointsman.capabilities._guides import CapabilityMatch, ClassifierExample, TaskClassifierGuide
from pointsman.capabilities._ordinary import CHECKING
from pointsman.capabilities._policy import (
    CapabilityPolicy,
    CapabilitySettings,
    MeasuredCapability,
    OnFailure,
    SelectionPolicy,
    SelectionUnavailable,
    Strategy,
    check_registry,
    measure_registry,
)
from pointsman.capabilities._prompts import ClassificationPromptBuilder
from pointsman.capabilities._registry import Capability, CapabilityRegistry, capability, expand
from pointsman.capabilities._scorer import LocalScorer
from pointsman.capabilities._select import AskedCapability, LruCache, Scorer, Selection, Selector
from pointsman.capabilities._stage import CapabilityStage, CapabilityTurn
from pointsman.capabilities.calibration import Calibration

__all__ = [
    "CHECKING",
    "AskedCapability",
    "Calibration",
    "Capability",
    "CapabilityDecision",
    "CapabilityMatch",
    "CapabilityMemory",
    "CapabilityPolicy",
    "CapabilityRegistry",
    "CapabilitySettings",
    "CapabilityStage",
    "CapabilityTurn",
    "ClassificationPromptBuilder",
    "ClassifierExample",
    "Command",
    "LocalScorer",
    "LruCache",
    "MeasuredCapability",
    "OfferedTool",
    "OnFailure",
    "Scorer",
    "Selection",
    "SelectionPolicy",
    "SelectionUnavailable",
    "Selector",
    "Strategy",
    "Switches",
    "TaskClassifierGuide",
    "ToolDecision",
    "capability",
    "check_registry",
    "expand",
    "measure_registry",
    "parse_calibration",
    "parse_capabilities",
    "parse_commands",
    "switch_pattern",
    "take_switch",
]
