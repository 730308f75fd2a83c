"""Floor 2: one scan of the text; what every classifier reads."""

from __future__ import annotations

from pointsman.evidence.matcher import Matcher, ReMatcher
from pointsman.evidence.scan import Scanner
from pointsman.evidence.signals import Kind, Signal, SignalTable

__all__ = ["Kind", "Matcher", "ReMatcher", "Scanner", "Signal", "SignalTable"]
