"""One decision with everything behind it, as ``pointsman explain`` and ``Pointsman.explain`` show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from pointsman.capabilities import CapabilityDecision
from pointsman.config import Config
from pointsman.decision.decision import Decision
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.diagnostics.prices import Served, served_by
from pointsman.drivers import drive, no_model
from pointsman.text.extract import Extracted
from pointsman.tiers import Explanation, explain
from pointsman.vocabulary import AgentRequest

__all__ = ["MOST_TEXT", "Explained", "describe_selection", "explain_request"]


#: Characters of the words that an explanation quotes: several pages. All of them are decided on.
MOST_TEXT: Final = 20_000


class Explained(NamedTuple):
    """A decision, the words it was made on, and what would have changed its tier."""

    decision: Decision
    words: Extracted
    tier: Explanation  # signals, weights, and the smallest changes that give another tier
    served: Served | None  # who would serve it; None without a configuration

    def to_json(self) -> dict[str, object]:
        """Return the same as plain JSON values, as ``pointsman explain --json`` prints them."""
        domains, text = self.decision.domains, self.words.text
        cut = {"text_characters": len(text)} if len(text) > MOST_TEXT else {}
        found = {
            "text": text[:MOST_TEXT],
            **cut,
            "extraction": self.words.rules,
            **msgspec.to_builtins(self.tier),
            "domains": domains.to_json() if domains else None,
            "guidance": msgspec.to_builtins(self.decision.guidance),
            "capabilities": msgspec.to_builtins(self.decision.capabilities),
        }
        return found | ({"served": self.served} if self.served else {})


def explain_request(
    engine: Engine, request: AgentRequest, memory: Memory, config: Config | None = None
) -> Explained:
    """Decide a request for the sake of its explanation: no model is asked, nothing is stored.

    Args:
        engine: The policy.
        request: The request to decide.
        memory: Session memory.
        config: Determines the serving model.
    """
    decided = drive(engine.decide(request, memory, ""), no_model)
    tier = explain(engine.scorer_of(decided.decision.input), engine.scanner.scan(decided.words.text))
    served = served_by(config, decided.decision) if config else None
    return Explained(decided.decision, decided.words, tier, served)


# A selection of capabilities in lines for a person.

#: Scores that are shown, the highest first.
_SCORES: Final = 20
_BY_SCORE: Final = "capabilities.local"


def describe_selection(decided: CapabilityDecision) -> Iterator[str]:
    """Return the selection, with scores, reasons and the tools passed on."""
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
