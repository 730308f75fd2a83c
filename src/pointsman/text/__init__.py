"""Floor 1: extraction of the user's words from what an agent sends."""

from __future__ import annotations

from pointsman.text.extract import Extracted, extract, persons_words, user_message_key
from pointsman.text.script import detect_script
from pointsman.text.tokens import estimate_tokens
from pointsman.wire.history import JsonHistory
from pointsman.wire.request import read_request, request_from_text

__all__ = [
    "Extracted",
    "JsonHistory",
    "detect_script",
    "estimate_tokens",
    "extract",
    "persons_words",
    "read_request",
    "request_from_text",
    "user_message_key",
]
