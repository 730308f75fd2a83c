"""Floor 1: extraction of the user's words from what an agent sends."""

from __future__ import annotations

from pointsman.text.extract import Extracted, extract, persons_words, user_message_key
from pointsman.text.measures import detect_script, estimate_tokens

__all__ = [
    "Extracted",
    "detect_script",
    "estimate_tokens",
    "extract",
    "persons_words",
    "user_message_key",
]
