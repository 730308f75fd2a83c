"""Multiples of the list price that a request costs, and charges that are not by token."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["fees", "rate"]

#: Multiples by service tier and model, for all kinds of tokens. A model that is not here has no published
#: price for the tier. Sources: https://platform.claude.com/docs/en/build-with-claude/fast-mode (Opus 4.6 and
#: 4.7 as until July 2026), https://openai.com/api-fast-mode/,
#: https://developers.openai.com/api/docs/guides/ultrafast-mode, and the price map of LiteLLM 1.109.1.
_MULTIPLES: Final = {
    "fast": {
        6.0: "claude-opus-4-6 claude-opus-4-7",
        2.5: "gpt-5.5",
        2.0: "claude-opus-4-8 claude-opus-5 claude-opus-5-5 claude-fable-5-2 claude-mythos-5-2 gpt-4.1-nano "
        "gpt-5 gpt-5-codex gpt-5.1 gpt-5.1-codex gpt-5.2 gpt-5.3-codex gpt-5.4 gpt-5.4-mini gpt-5.6 "
        "gpt-5.6-luna gpt-5.6-sol gpt-5.6-terra gpt-6-astra gpt-6-luna gpt-6-sol gpt-6.1-sol gpt-6.1-terra",
        20 / 11: "o4-mini",
        1.8: "gpt-5-mini",
        1.75: "gpt-4.1 gpt-4.1-mini o3",
    },
    "ultrafast": {6.0: "gpt-6-astra gpt-6.1-sol"},
}
#: Codex writes both names; priority processing became fast mode in July 2026.
_OTHER_NAMES: Final = {"priority": "fast"}
_RATES: Final = {
    (tier, model): multiple
    for tier, found in _MULTIPLES.items()
    for multiple, models in found.items()
    for model in models.split()
}
_DATE: Final = re.compile(r"-(\d{4}-\d{2}-\d{2}|20\d{6})$")
#: Inference in the United States alone. Source:
#: https://platform.claude.com/docs/en/manage-claude/data-residency
_US_ONLY: Final = 1.1
#: Dollars of one web search: $10 per 1,000. Source:
#: https://platform.claude.com/docs/en/about-claude/pricing
_SEARCH: Final = 0.01


def rate(model: str, tier: str | None, *, us_only: bool = False) -> float:
    """How many times its list price a request costs; 1 where no price of the tier was published."""
    named = _OTHER_NAMES.get(tier or "", tier)
    of_tier = _RATES.get((named, _DATE.sub("", model)), 1.0) if named else 1.0
    return of_tier * (_US_ONLY if us_only else 1.0)


def fees(searches: int) -> float:
    """Dollars of the provider's web searches."""
    return searches * _SEARCH
