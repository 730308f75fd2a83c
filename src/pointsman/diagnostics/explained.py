"""One decision with everything behind it, as ``pointsman explain`` and ``Pointsman.explain`` show it."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from pointsman.config import Config
from pointsman.decision.decision import Decision
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.diagnostics.served import Served, served_by
from pointsman.drivers import drive, no_model
from pointsman.text.extract import Extracted
from pointsman.tiers import Explanation, explain
from pointsman.vocabulary import AgentRequest

__all__ = ["MOST_TEXT", "Explained", "explain_request"]


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
    """Decide a request for the sake of its explanation: no model is asked, nothing is kept.

    Args:
        engine: The policy.
        request: What is to be decided.
        memory: What the session remembers.
        config: Names who would serve it.
    """
    decided = drive(engine.decide(request, memory, ""), no_model)
    tier = explain(engine.scorer, engine.scanner.scan(decided.words.text))
    served = served_by(config, decided.decision) if config else None
    return Explained(decided.decision, decided.words, tier, served)
