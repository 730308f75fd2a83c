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
from pointsman.capabilities._registry import (
    Capability,
    CapabilityMatch,
    CapabilityRegistry,
    ClassificationPromptBuilder,
    ClassifierExample,
    TaskClassifierGuide,
    capability,
    expand,
)
from pointsman.capabilities._scorer import LocalScorer
from pointsman.capabilities._select import (
    AskedCapability,
    CapabilityDecision,
    CapabilityMemory,
    OfferedTool,
    Scorer,
    Selection,
    Selector,
    ToolDecision,
)
from pointsman.capabilities._stage import CapabilityStage, CapabilityTurn
from pointsman.capabilities.calibration import CHECKING, Calibration

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
