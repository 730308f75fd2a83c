"""Floor 3: selection of the capabilities that a task needs."""

from __future__ import annotations

from pointsman.capabilities.cache import LruCache
from pointsman.capabilities.calibration import Calibration
from pointsman.capabilities.check import check_registry
from pointsman.capabilities.commands import Command, Switches, parse_commands
from pointsman.capabilities.expand import expand
from pointsman.capabilities.guides import CapabilityMatch, ClassifierExample, TaskClassifierGuide
from pointsman.capabilities.policy import OnFailure, SelectionPolicy, SelectionUnavailable, Strategy
from pointsman.capabilities.prompts import ClassificationPromptBuilder
from pointsman.capabilities.registry import Capability, CapabilityRegistry, capability
from pointsman.capabilities.scorer import LocalScorer
from pointsman.capabilities.select import Selection, Selector
from pointsman.capabilities.tools import ToolChoice, ToolMemory, ToolSelector

__all__ = [
    "Calibration",
    "Capability",
    "CapabilityMatch",
    "CapabilityRegistry",
    "ClassificationPromptBuilder",
    "ClassifierExample",
    "Command",
    "LocalScorer",
    "LruCache",
    "OnFailure",
    "Selection",
    "SelectionPolicy",
    "SelectionUnavailable",
    "Selector",
    "Strategy",
    "Switches",
    "TaskClassifierGuide",
    "ToolChoice",
    "ToolMemory",
    "ToolSelector",
    "capability",
    "check_registry",
    "expand",
    "parse_commands",
]
