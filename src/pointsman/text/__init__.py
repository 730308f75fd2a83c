"""Floor 1: the person's words inside what an agent sends."""

from __future__ import annotations

from pointsman.text.body import turn_from_body, turn_from_text
from pointsman.text.history import JsonHistory

__all__ = ["JsonHistory", "turn_from_body", "turn_from_text"]
