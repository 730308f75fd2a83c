"""Floor 1: extraction of the user's words from an agent's request."""

from __future__ import annotations

from pointsman.text.extract import Extracted, extract, persons_words

__all__ = [
    "Extracted",
    "extract",
    "persons_words",
]
