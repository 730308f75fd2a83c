"""One decision explained: its parts, who would serve it, and at what price, if that is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from pointsman.capabilities import CapabilityDecision
from pointsman.catalogue import ANY, installed
from pointsman.config import Config
from pointsman.config.load import provider
from pointsman.decision.choosing import ANSWER
from pointsman.decision.decision import Decision
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.permission import is_permitted
from pointsman.drivers import drive, no_model
from pointsman.model_choice.choice import BYTES_PER_TOKEN
from pointsman.text.extract import Extracted
from pointsman.tiers import Explanation, explain
from pointsman.upstreams.port import UpstreamSpec
from pointsman.vocabulary import AgentRequest, ModelSpec, Parameters, Reason, Stage, Tier

__all__ = [
    "MOST_TEXT",
    "STAGES",
    "Explained",
    "Served",
    "describe_selection",
    "describe_served",
    "explain_request",
    "half_priced",
    "headline",
    "price_hint",
    "provider_hint",
    "refused_by_price",
    "served_by",
    "unpriced",
]


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


# Which models have no price, so that costs are unknown.


#: Names of keys that a warning shows.
_SHOWN: Final = 5
#: Prices that every cost needs, and all.
_NEEDED: Final = ("input_per_million", "output_per_million")
_PRICES: Final = (*_NEEDED, "cached_input_per_million", "cache_write_per_million")
_SET: Final = "set input_per_million and output_per_million; 0 for a model that is free"


def unpriced(models: Iterable[ModelSpec]) -> list[str]:
    """Return the names of models without a price; one that is free has prices of 0."""
    return [model.name for model in models if not model.is_priced]


def half_priced(models: Iterable[ModelSpec]) -> list[str]:
    """Return a warning for each model of which a price is set and one that a cost needs is missing."""
    return [
        f'model "{model.name}" has no '
        f"{' and '.join(name for name in _NEEDED if getattr(model, name) is None)}, so its costs are unknown"
        for model in models
        if not model.is_priced and any(getattr(model, name) is not None for name in _PRICES)
    ]


def refused_by_price(config: Config) -> list[str]:
    """Return a warning for each model that keys with a budget may use and that is refused for them."""
    from pointsman.access import grants  # brings asyncio, which most commands do without

    kept = {name: grant.permission for name, grant in grants(config.keys, config.teams).items()}
    found = []
    for model in unpriced(config.models.values()):
        keys = [name for name, each in kept.items() if each and each.priced and is_permitted(model, each)]
        if keys:
            shown = ", ".join(keys[:_SHOWN]) + (", …" if len(keys) > _SHOWN else "")
            found.append(f'the price of "{model}" is unknown: it is refused for keys with a budget ({shown})')
    return found


def price_hint(config: Config) -> str:
    """Return the way out for models without a price."""
    missing = [model for model in config.models.values() if not model.is_priced]
    return provider_hint(missing, config.upstreams) or _SET


def provider_hint(models: Iterable[ModelSpec], upstreams: Mapping[str, UpstreamSpec]) -> str:
    """Return the line that gives models the catalogue's values at an address of one's own.

    Empty where the catalogue knows none of the models, or the configuration names their providers.
    """
    found: dict[str, str] = {}
    for model in models:
        upstream = upstreams.get(model.upstream)
        if upstream and upstream.provider is None and not provider(upstream):
            found[model.upstream] = found.get(model.upstream) or _maker(model.id)
    lines = [f'provider = "{maker}" under [upstreams.{name}]' for name, maker in found.items() if maker]
    return f"{', '.join(lines)}: prices and windows then come from the catalogue" if lines else ""


def _maker(id_: str) -> str:
    """The provider that has a model of this id and asks a price for it; empty for none."""
    catalogues = installed()
    makers = dict.fromkeys(entry.provider for each in catalogues for entry in each.entries)
    for maker in makers:
        matches = [each.find(maker, id_) for each in catalogues] if maker != ANY else ()
        if any(
            match and match.has_its_prices and match.entry.provider == maker and match.entry.is_priced
            for match in matches
        ):
            return maker
    return ""


# Who would serve an explained prompt with a configuration, and at what price.

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
    """The outcome of a prompt at the gateway."""

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
    """Return the model that would serve a decided request.

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
        price=model.cost(tokens, 0, ANSWER) if model else None,
        injections=tuple(injection.source for injection in decision.injections),
        reasons=decision.reasons,
        refused=decision.refused,
        parameters=decision.parameters.get(chain[0]) if chain else None,
        verified_by=config.tiers.verify.model if asks and config.tiers.verify else "",
    )


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
