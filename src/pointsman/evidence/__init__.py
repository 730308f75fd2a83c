"""Floor 2: one scan of the text, read by every classifier."""

from __future__ import annotations

from pointsman.evidence.engines import Keep, build_matcher, engine_names
from pointsman.evidence.matcher import Matcher, ReMatcher
from pointsman.evidence.patterns import PatternSet
from pointsman.evidence.scan import Scanner
from pointsman.evidence.signals import Kind, Signal, SignalTable

__all__ = [
    "Keep",
    "Kind",
    "Matcher",
    "PatternSet",
    "ReMatcher",
    "Scanner",
    "Signal",
    "SignalTable",
    "build_matcher",
    "engine_names",
]
