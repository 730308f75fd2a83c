"""Who would serve an explained prompt with a configuration, and at what price."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from pointsman.config import Config
from pointsman.decision.decision import Decision
from pointsman.decision.engine import ANSWER
from pointsman.model_choice.choice import BYTES_PER_TOKEN
from pointsman.vocabulary import ModelSpec, Parameters, Reason, Stage, Tier

__all__ = ["STAGES", "Served", "describe_served", "headline", "served_by"]

_BY_NAME: Final = "the model asked for by name"
#: What follows a tier, by the stage that decided it.
STAGES: Final = {
    Stage.FORCED: "asked for by name",
    Stage.ALIAS: "by an alias of the name asked for",
    Stage.ROLE: "by the role of the request",
    Stage.PROJECT: "by outcomes of the project",
    Stage.CHEAP_FIRST: "the tier on which user messages of the project begin",
    Stage.OVERRIDE: "decided by an override",
    Stage.RULES: "decided by the weighted score",
    Stage.LEARNED: "decided by the learned router",
    Stage.VERIFIED: "decided by the model that verifies",
    Stage.FALLBACK: "the fallback, because deciding or verifying failed",
}


class Served(msgspec.Struct, frozen=True):
    """What the gateway would do with a prompt."""

    configuration: str
    requested: str
    tier: Tier | None  # None: a model was asked for by name
    stage: Stage | None
    model: str  # configured name; empty: no tier has a model, or ``refused``
    id: str
    upstream: str
    chain: tuple[str, ...]
    tokens_in: int
    tokens_out: int  # assumed
    price: float | None  # in US dollars; None: not known
    injections: tuple[str, ...]
    reasons: tuple[Reason, ...]
    refused: tuple[Reason, ...] = ()  # why each model is unable
    parameters: Parameters | None = None  # what the tier sets of the request
    verified_by: str = ""  # the model that the gateway would ask first


def served_by(config: Config, decision: Decision) -> Served:
    """Return who would serve a decided request.

    The price is that of the prompt alone, uncached, and of an answer of ``ANSWER`` tokens.
    """
    tier, chain = decision.tier, decision.chain
    model = config.models.get(chain[0]) if chain else None
    tokens = decision.input.size // BYTES_PER_TOKEN
    asks = tier is not None and tier.needs_verification and config.tiers.verify is not None
    return Served(
        configuration=config.source,
        requested=decision.input.model_asked,
        tier=tier.tier if tier else None,
        stage=tier.stage if tier else None,
        model=model.name if model else "",
        id=model.id if model else "",
        upstream=model.upstream if model else "",
        chain=chain,
        tokens_in=tokens,
        tokens_out=ANSWER,
        price=_price(model, tokens),
        injections=tuple(injection.source for injection in decision.injections),
        reasons=decision.reasons,
        refused=decision.refused,
        parameters=decision.parameters.get(chain[0]) if chain else None,
        verified_by=config.tiers.verify.model if asks and config.tiers.verify else "",
    )


def _price(model: ModelSpec | None, tokens: int) -> float | None:
    return model.cost(tokens, 0, ANSWER) if model else None


def headline(served: Served) -> str:
    """Return what serves, as one line."""
    model = f"{served.model}: {served.id} at upstream {served.upstream}" if served.model else "no model"
    return f"{model}; {f'tier {_tier(served)}' if served.tier else _BY_NAME}"


def _tier(served: Served) -> str:
    if served.tier is None or served.stage is None:
        return _BY_NAME
    return f"{served.tier}, {STAGES[served.stage]}"


def describe_served(served: Served) -> Iterator[str]:
    """Yield the lines for a person."""
    yield f"With {served.configuration}, for model {served.requested}:"
    yield f"  tier      {_tier(served)}"
    if served.verified_by:
        yield f"            the gateway would ask {served.verified_by} first, because the rules are unsure"
    if served.refused:
        yield "  model     none: no model can serve this request"
        yield from (f"  {reason.code}: {reason.detail}" for reason in served.refused)
        return
    if not served.model:
        yield "  model     none: no tier has a model"
        return
    yield f"  model     {served.model}: {served.id} at upstream {served.upstream}"
    if served.parameters:
        yield f"  with      {served.parameters}"
    if served.chain[1:]:
        yield f"  fallback  {', '.join(served.chain[1:])}"
    if served.injections:
        yield f"  adds      text of {', '.join(served.injections)}"
    counted = f"{served.tokens_in} tokens in and {served.tokens_out} out"
    price = "unknown" if served.price is None else f"about {served.price:.6f}"
    yield f"  price     {price}, for {counted}"
    yield from (f"  {reason.code}: {reason.detail}" for reason in served.reasons)
