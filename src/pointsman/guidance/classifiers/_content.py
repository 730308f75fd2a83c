"""Classifiers of the parameters and results of tool calls.

Source of names and defaults: docs/sources/guidance-classifiers.md, "Content-based classifiers".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pointsman.guidance._context import GuidanceContext, latest_turn_calls
from pointsman.guidance._results import ClassificationResult
from pointsman.vocabulary import ToolCall

__all__ = ["LargeOutputClassifier", "SensitiveContentClassifier"]


@dataclass(frozen=True, slots=True)
class LargeOutputClassifier:
    """Fires when a result of the latest turn is very large: its payload, and every call of a batch."""

    size_threshold: int = 10_000  # characters

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "large_output"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment."""
        latest = context.trajectory.recent_tool_calls(latest_turn_calls(context))
        large = [step for step in latest if step.result_length > self.size_threshold]
        if not large:
            return ClassificationResult.no()
        return ClassificationResult.yes(
            confidence=0.7,
            reason="Large tool output may overwhelm context",
            metadata={"tools": [step.tool_name for step in large]},
        )


#: Characters of a call's arguments that are scanned. A credential stands near its key, at the start; to scan
#: a whole written file would cost more than every other classifier together.
MAX_SCAN: Final = 10_000
#: Words beside which "token" and its like mean an amount or a kind, not a secret: max_tokens, token_count.
_MEASURES: Final = frozenset(
    {"budget", "count", "id", "ids", "length", "limit", "limits", "max", "maximum", "min", "num", "number"}
    | {"per", "size", "tokens", "total", "type", "usage"}
)
_IDENTIFIER_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_IDENTIFIER: Final = re.compile(r"[\w-]*")
#: A match starts a word of an identifier (after a separator, or a capital after a small letter) and ends one.
_BOUNDED: Final = r"(?:(?<![^\W_])|(?-i:(?<=[a-z])(?=[A-Z])))(?:{pattern})s?(?:(?![^\W_])|(?-i:(?=[A-Z])))"


@dataclass(frozen=True, slots=True)
class SensitiveContentClassifier:
    """Fires when a call about to run names a credential. Patterns ignore case and match whole words."""

    patterns: tuple[str, ...] = (r"password", r"secret", r"api[_-]?key", r"credential", r"token")

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "sensitive_content"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge the calls that are about to run."""
        for call in context.pending_tool_calls:
            text = call.arguments if isinstance(call, ToolCall) else str(call.params)
            for pattern in self.patterns:
                if _names_a_secret(pattern, text[:MAX_SCAN]):
                    return ClassificationResult.yes(
                        confidence=0.9, reason=f"Sensitive pattern detected: {pattern}"
                    )
        return ClassificationResult.no()


@lru_cache(maxsize=256)
def _bounded(pattern: str) -> re.Pattern[str]:
    return re.compile(_BOUNDED.format(pattern=pattern), re.IGNORECASE)


def _names_a_secret(pattern: str, text: str) -> bool:
    for match in _bounded(pattern).finditer(text):
        words = _IDENTIFIER_WORDS.findall(_identifier_around(text, match))
        if _MEASURES.isdisjoint(word.lower() for word in words):
            return True
    return False


def _identifier_around(text: str, match: re.Match[str]) -> str:
    """The identifier a match is part of; 40 characters to each side hold any that a person would write."""
    before = text[max(0, match.start() - 40) : match.start()][::-1]
    after = text[match.end() : match.end() + 40]
    left, right = _IDENTIFIER.match(before), _IDENTIFIER.match(after)
    return (left.group()[::-1] if left else "") + match.group() + (right.group() if right else "")
