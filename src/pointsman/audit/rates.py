"""Multiples of the list price that a request costs, and charges that are not by token."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

__all__ = ["fees", "rate"]

#: Fast mode by model, for all kinds of tokens. Sources: Anthropic, "Fast mode"; OpenAI, "Pricing", fast mode
#: (priority processing until July 2026).
_FAST: Final = (("claude-opus-4-[67]*", 6.0), ("gpt-5.5*", 2.5))
_FAST_ELSE: Final = 2.0
#: Inference in the United States alone. Source: Anthropic, "Data residency".
_US_ONLY: Final = 1.1
#: Dollars of one web search. Source: Anthropic, "Web search tool".
_SEARCH: Final = 0.01


def rate(model: str, *, fast: bool, us_only: bool = False) -> float:
    """How many times its list price a request costs."""
    of_speed = next((found for pattern, found in _FAST if fnmatchcase(model, pattern)), _FAST_ELSE)
    return (of_speed if fast else 1.0) * (_US_ONLY if us_only else 1.0)


def fees(searches: int) -> float:
    """Dollars of the provider's web searches."""
    return searches * _SEARCH
