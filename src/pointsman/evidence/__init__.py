"""Floor 2: one scan of the text, read by every classifier."""

from __future__ import annotations

from pointsman.evidence._engines import Keep, Matcher, build_matcher, engine_names
from pointsman.evidence._patterns import PatternSet
from pointsman.evidence._patterns import forget_parsed as forget_parsed  # the gateway's, promised to nobody
from pointsman.evidence._scan import Reading, Scanner, detect_script, estimate_tokens
from pointsman.evidence._signals import Kind, Signal, SignalTable

__all__ = [
    "Keep",
    "Kind",
    "Matcher",
    "PatternSet",
    "Reading",
    "Scanner",
    "Signal",
    "SignalTable",
    "build_matcher",
    "detect_script",
    "engine_names",
    "estimate_tokens",
]
