"""A selection of capabilities in lines for a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pointsman.capabilities import CapabilityDecision

__all__ = ["describe_selection"]

#: Scores that are shown, the highest first.
_SCORES: Final = 20
_BY_SCORE: Final = "capabilities.local"


def describe_selection(decided: CapabilityDecision) -> Iterator[str]:
    """Return what was selected, with scores, reasons and the tools passed on."""
    how = "selection is off" if decided.bypass else f"strategy {decided.strategy}"
    when = ", as selected for this user message" if decided.continued else ""
    yield f"capabilities ({how}{when}): {', '.join(decided.selected) or 'none'}"
    by_score = sorted(decided.scores.items(), key=lambda item: -item[1])
    yield from (f"  {name} {score:.2f}" for name, score in by_score[:_SCORES])
    if len(by_score) > _SCORES:
        yield f"  and {len(by_score) - _SCORES} more, at most {by_score[_SCORES][1]:.2f}"
    yield from (f"  {reason.code}: {reason.detail}" for reason in decided.reasons if reason.code != _BY_SCORE)
    if tools := decided.tools:
        yield f"  tools passed on: {len(tools.kept)} of {tools.offered}: {', '.join(tools.kept) or 'none'}"
