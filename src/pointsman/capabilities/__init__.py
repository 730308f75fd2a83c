"""Floor 3: selection of the capabilities that a task needs."""

from __future__ import annotations

from pointsman.capabilities._cache import LruCache
from pointsman.capabilities._check import check_registry
from pointsman.capabilities._commands import Command, Switches, parse_commands
from pointsman.capabilities._expand import expand
from pointsman.capabilities._guides import CapabilityMatch, ClassifierExample, TaskClassifierGuide
from pointsman.capabilities._policy import OnFailure, SelectionPolicy, SelectionUnavailable, Strategy
from pointsman.capabilities._prompts import ClassificationPromptBuilder
from pointsman.capabilities._registry import Capability, CapabilityRegistry, capability
from pointsman.capabilities._scorer import LocalScorer
from pointsman.capabilities._select import Selection, Selector
from pointsman.capabilities.calibration import Calibration
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
