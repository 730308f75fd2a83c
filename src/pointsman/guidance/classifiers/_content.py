"""Classifiers of the parameters and results of tool calls.

Source of names and defaults: docs/sources/guidance-classifiers.md, "Content-based classifiers".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pointsman.errors import ConfigError
from pointsman.guidance._context import ClassificationResult, GuidanceContext, latest_turn_calls
from pointsman.vocabulary import ToolCall


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
#: Flags set inside a pattern: for all of it, or from there on.
_FLAGS: Final = re.compile(r"\(\?[aiLmsux]+\)")
#: Words beside which "token" and its like mean an amount or a kind, not a secret: max_tokens, token_count.
_MEASURES: Final = frozenset(
    {"budget", "count", "id", "ids", "length", "limit", "limits", "max", "maximum", "min", "num", "number"}
    | {"per", "size", "tokens", "total", "type", "usage"}
)
_IDENTIFIER_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_IDENTIFIER: Final = re.compile(r"[\w-]*")
#: Places of one pattern that are looked at. A text with more, as a tokenizer's source, is about the word.
_MAX_CANDIDATES: Final = 200
#: Characters of an identifier to each side of a match: more than a person would write.
_REACH: Final = 40
#: A match ends a word of an identifier: before a separator or a capital.
_BOUNDED: Final = r"(?:{pattern})s?(?:(?![^\W_])|(?-i:(?=[A-Z])))"


@dataclass(frozen=True, slots=True)
class SensitiveContentClassifier:
    """Fires when a call about to run names a credential. Patterns ignore case and match whole words.

    Raises:
        ConfigError: a pattern is no regular expression, or sets flags inside it.
    """

    patterns: tuple[str, ...] = (r"password", r"secret", r"api[_-]?key", r"credential", r"token")

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            _check(pattern)

    @property
    def name(self) -> str:
        """Name shown in reasons."""
        return "sensitive_content"

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge the calls that are about to run."""
        for call in context.pending_tool_calls:
            text = call.arguments if isinstance(call, ToolCall) else str(call.params)
            if found := _named_secret(self.patterns, text[:MAX_SCAN]):
                return ClassificationResult.yes(confidence=0.9, reason=f"Sensitive pattern detected: {found}")
        return ClassificationResult.no()


def _check(pattern: str) -> None:
    if _FLAGS.search(pattern):
        raise ConfigError(
            f"the pattern {pattern!r} sets flags inside it", hint="patterns ignore case: leave the flags out"
        )
    try:
        empty = re.compile(pattern).match("")
    except re.error as error:
        raise ConfigError(f"the pattern {pattern!r} is no regular expression: {error}") from None
    if empty:
        raise ConfigError(f"the pattern {pattern!r} matches the empty text")


def _named_secret(patterns: tuple[str, ...], text: str) -> str:
    """The first pattern that names a secret in a text, or nothing."""
    plain = text.isascii()
    lowered = text.lower() if plain else text
    return next((each for each in patterns if _names_a_secret(each, text, lowered, plain=plain)), "")


def _names_a_secret(pattern: str, text: str, lowered: str, *, plain: bool) -> bool:
    candidates, bounded = _compiled(pattern, plain=plain)
    start = -1
    for _ in range(_MAX_CANDIDATES):
        found = candidates.search(lowered, start + 1)
        if not found or (start := found.start()) == len(text):
            return False
        match = bounded.match(text, start) if _begins_a_word(text, start) else None
        if match and not _is_measure(_identifier_around(text, start, match.end())):
            return True
    return False


def _begins_a_word(text: str, at: int) -> bool:
    """After a separator, or a capital after a small letter: the bounds of a match, without a pattern."""
    before = text[at - 1 : at]
    return not before.isalnum() or (before.islower() and text[at : at + 1].isupper())


@lru_cache(maxsize=256)
def _compiled(pattern: str, *, plain: bool) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A pattern for candidates, and to the end of a word.

    Ignoring case costs four times the search. So ASCII text is searched in lower case, for a pattern that has
    no capital, not even in an escape.
    """
    flags = re.NOFLAG if plain and pattern == pattern.lower() else re.IGNORECASE
    return re.compile(pattern, flags), re.compile(_BOUNDED.format(pattern=pattern), re.IGNORECASE)


def _identifier_around(text: str, start: int, end: int) -> str:
    """The identifier that a match is part of."""
    before = _IDENTIFIER.match(text[max(0, start - _REACH) : start][::-1])
    after = _IDENTIFIER.match(text, end, end + _REACH)
    return text[start - (before.end() if before else 0) : after.end() if after else end]


@lru_cache(maxsize=1024)
def _is_measure(identifier: str) -> bool:
    words = _IDENTIFIER_WORDS.findall(identifier)
    return not _MEASURES.isdisjoint(word.lower() for word in words)
