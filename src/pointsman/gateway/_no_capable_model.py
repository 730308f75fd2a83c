"""Errors and log lines for requests that the models of a tier cannot serve."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pointsman.decision.decision import Decision
from pointsman.decision.permission import FORBIDDEN
from pointsman.errors import ModelNotAllowed, NoCapableModel
from pointsman.gateway._failures import Failure
from pointsman.gateway._metrics import Metrics
from pointsman.gateway.upstream import Target
from pointsman.model_choice.chains import LOWER_TIER, Pool
from pointsman.vocabulary import Stage, Tier

__all__ = ["LowerTiers", "refusal"]

log = logging.getLogger(__name__)

_ANY: Final = 'the model "auto" lets the gateway choose among all tiers'
#: Where it is configured what the reasons against a model say, by the end of their codes.
_CONFIGURED: Final = {
    "context_window": "context_window of [models]",
    "feature": "features of [models]",
    "format": "formats and translate of [upstreams]",
    "no-model": "the models of [tiers]",
}

#: Seconds until a kind of request that a lower tier answers is told again.
_AGAIN: Final = 600.0


def refusal(decision: Decision) -> NoCapableModel | ModelNotAllowed:
    """Return the error for a request that was refused."""
    if any(reason.code.startswith(FORBIDDEN) for reason in decision.refused):
        return _not_allowed(decision)
    why = "; ".join(reason.detail for reason in decision.refused)
    by_caller = decision.tier is None or decision.tier.stage is Stage.FORCED
    hint = _ANY if by_caller else _configured(decision)
    message = f"no model can serve this request: {why}"
    return NoCapableModel(message, hint=hint, param="model", decision=decision.id)


def _not_allowed(decision: Decision) -> ModelNotAllowed:
    """Say which models the caller's key may not use, each by its name."""
    why = "; ".join(reason.detail for reason in decision.refused)
    message = f'key "{decision.input.caller}" may use no model for this request: {why}'
    hint = "what a key may use is configured in [keys] and [teams]"
    return ModelNotAllowed(message, hint=hint, param="model", decision=decision.id)


def _configured(decision: Decision) -> str:
    codes = dict.fromkeys(reason.code.rpartition(".")[2] for reason in decision.refused)
    settings = " and ".join(_CONFIGURED[code] for code in codes if code in _CONFIGURED)
    return f"what a model can serve is configured: {settings or 'see [models] and [upstreams]'}"


class LowerTiers:
    """Counts the requests that a model of a lower tier answered, and logs each kind of them once in a while.

    A kind is a tier, a format, features, the model that answered, and why others did not.
    """

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._next: dict[tuple[object, ...], float] = {}

    def note(
        self,
        pools: Mapping[Tier, Pool],
        decision: Decision,
        target: Target,
        left_out: Sequence[tuple[Target, Failure]],
    ) -> None:
        """Note the model that answered a request.

        Args:
            pools: The models of each tier.
            decision: Of the request.
            target: The model that answered.
            left_out: The models due before it, and why they did not answer.
        """
        planned = next((reason for reason in decision.reasons if reason.code == LOWER_TIER), None)
        if decision.tier is None or (planned is None and not left_out):
            return
        tier, served = decision.tier.tier, _highest(pools, target.model.name)
        if served is None or served.rank >= tier.rank:
            return
        self._metrics.count("lower_tier", tier, served)
        asked = decision.input
        kinds = ((other.model.name, failure.kind) for other, failure in left_out)
        kind = (tier, asked.format, target.model.name, *sorted(asked.features), *kinds)
        now = self._clock()
        if now < self._next.get(kind, now):
            return
        self._next[kind] = now + _AGAIN
        why = [planned.detail] if planned else []
        why += [
            f'"{other.model.name}" did not answer: {failure.fault.message}' for other, failure in left_out
        ]
        needs = f" with {', '.join(asked.features)}" if asked.features else ""
        log.warning(
            'a request of tier %s in format %s%s was answered by "%s" of tier %s: %s (decision %s)',
            tier,
            asked.format,
            needs,
            target.model.name,
            served,
            "; ".join(why),
            decision.id,
        )


def _highest(pools: Mapping[Tier, Pool], model: str) -> Tier | None:
    """The highest tier that has a model."""
    return max(
        (tier for tier, pool in pools.items() if any(entry.model == model for entry in pool)),
        key=lambda tier: tier.rank,
        default=None,
    )
