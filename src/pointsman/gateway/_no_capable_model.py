"""What a caller and the operator are told where the models of a tier cannot serve a request."""

from __future__ import annotations

import logging
from typing import Final

from pointsman.decision.decision import Decision
from pointsman.errors import NoCapableModel
from pointsman.vocabulary import Reason, Stage

__all__ = ["LowerTiers", "refusal"]

log = logging.getLogger(__name__)

_ANY: Final = 'the model "auto" lets the gateway choose among all tiers'
_CONFIGURED: Final = "what a model can do is configured: context_window and features of [models]"


def refusal(decision: Decision) -> NoCapableModel:
    """Return the error for a request that was refused."""
    why = "; ".join(reason.detail for reason in decision.refused)
    by_caller = decision.tier is None or decision.tier.stage is Stage.FORCED
    hint = _ANY if by_caller else _CONFIGURED
    message = f"no model can serve this request: {why}"
    return NoCapableModel(message, hint=hint, param="model", decision=decision.id)


class LowerTiers:
    """Logs that a lower tier serves, once for each kind of request: tier, format, and features."""

    def __init__(self) -> None:
        self._known: set[tuple[object, ...]] = set()

    def note(self, decision: Decision, reason: Reason) -> None:
        """Note a decision with such a reason."""
        asked, tier = decision.input, decision.tier
        kind = (tier.tier if tier else None, asked.format, *sorted(asked.features))
        if kind in self._known:
            return
        self._known.add(kind)
        needs = f" with {', '.join(asked.features)}" if asked.features else ""
        log.warning("a request of format %s%s: %s", asked.format, needs, reason.detail)
