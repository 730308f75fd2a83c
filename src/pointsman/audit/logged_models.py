"""The models that logs name, as upstreams, models and tiers of a configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from pointsman.audit.figures import SessionFigures
from pointsman.audit.money import Pricing, maker_of
from pointsman.config.draft import PROVIDERS, Found, ModelDraft
from pointsman.errors import PointsmanError
from pointsman.prices import Prices
from pointsman.vocabulary import Tier

__all__ = ["LoggedModels", "logged_models", "price_order", "spread"]

#: The provider for which a configuration can be written, by its name in logs or by the maker of a model.
_UPSTREAMS: Final = {each.name: each for each in PROVIDERS}
_OTHER_NAMES: Final = {"google": "gemini"}


class LoggedModels(NamedTuple):
    """Models that a configuration can have, and those that it cannot."""

    found: tuple[Found, ...]  # upstreams with their models, the cheapest first
    tiers: tuple[str, ...]  # configured name of the model of each tier, SIMPLE first
    names: Mapping[tuple[str, str], str]  # configured name by provider and model, as the logs have them
    left_out: Mapping[str, str]  # why, by model


class _Model(NamedTuple):
    id: str
    upstream: Found
    prices: Prices
    cost: float  # dollars in these logs


def price_order(prices: Prices) -> tuple[float, float]:
    """By which models are ordered: the price of output, then that of input."""
    return prices.output_per_million or 0.0, prices.input_per_million or 0.0


_Any = TypeVar("_Any")


def spread(models: Sequence[_Any]) -> dict[Tier, _Any]:
    """Give every tier one of the models, which are ordered: the first is SIMPLE, the last REASONING."""
    steps = len(Tier) - 1
    return {tier: models[round(tier.rank * (len(models) - 1) / steps)] for tier in Tier}


def logged_models(
    sessions: Sequence[SessionFigures], pricing: Pricing, env: Mapping[str, str] | None = None
) -> LoggedModels:
    """Return the models of logs that have a price and a provider with a known address.

    With an environment, an upstream takes the key that its variable holds, and models without one are left
    out. Where no variable is set, the provider that cost most takes the credential of the caller
    (``forward_auth``), as of a subscription.

    Args:
        sessions: The sessions read.
        pricing: Knows prices.
        env: Where keys may be; None: every upstream gets a reference to its variable.

    Raises:
        PointsmanError: no model is left.
    """
    left_out: dict[str, str] = {}
    names: dict[tuple[str, str], str] = {}
    known: dict[str, _Model] = {}
    for (provider, model), cost in _costs(sessions, pricing).items():
        made = _model(provider, model, cost, pricing)
        if isinstance(made, str):
            left_out.setdefault(model or "(not named)", made)
            continue
        names[provider, model] = model
        earlier = known.get(model)
        known[model] = made._replace(cost=cost + earlier.cost) if earlier else made
    usable = sorted(known.values(), key=lambda each: (price_order(each.prices), each.id))
    if env is not None:
        usable = list(_with_credential(usable, env, left_out))
    if not usable:
        why = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise PointsmanError(
            f"these logs name no model that a configuration can have ({why or 'no requests'})",
            hint="pointsman config init writes one for the API keys in the environment",
        )
    tiers = tuple(each.id for each in spread(usable).values())
    return LoggedModels(tuple(_founds(usable, str(pricing.as_of or ""))), tiers, names, left_out)


def _costs(sessions: Sequence[SessionFigures], pricing: Pricing) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for of in sessions:
        for part in of.parts:
            key = part.split.provider, part.split.model
            found[key] = found.get(key, 0.0) + pricing.money([part], of.client).total
    return found


def _model(provider: str, model: str, cost: float, pricing: Pricing) -> _Model | str:
    """Return a model, or why it cannot be configured."""
    prices = pricing.prices(provider, model) if model.isprintable() else None
    if prices is None:
        return "its price is unknown"
    names = (_OTHER_NAMES.get(name, name) for name in (provider, maker_of(model)))
    upstream = next((_UPSTREAMS[name] for name in names if name in _UPSTREAMS), None)
    if upstream is None:
        return f"no address of {provider or 'its provider'} is known; add [upstreams.NAME]"
    return _Model(model, upstream, prices, cost)


def _with_credential(
    models: Sequence[_Model], env: Mapping[str, str], left_out: dict[str, str]
) -> Iterator[_Model]:
    costs: dict[str, float] = {}
    for each in models:
        costs[each.upstream.name] = costs.get(each.upstream.name, 0.0) + each.cost
    any_key = any(env.get(each.upstream.variable) for each in models)
    dearest = "" if any_key or not costs else max(costs, key=costs.__getitem__)
    for each in models:
        if env.get(each.upstream.variable):
            yield each
        elif each.upstream.name == dearest:
            yield each._replace(
                upstream=each.upstream._replace(variable="", forward_auth=True, remark=_FORWARDED)
            )
        else:
            left_out.setdefault(each.id, f"{each.upstream.variable} is not set")


_FORWARDED: Final = (
    "# No API key was in the environment: the caller's own credential is passed on, as of a subscription.\n"
)


def _founds(models: Sequence[_Model], as_of: str) -> Iterator[Found]:
    for name in dict.fromkeys(each.upstream.name for each in models):
        own = [each for each in models if each.upstream.name == name]
        drafts = tuple(ModelDraft(each.id, each.id, _prices(each.prices), as_of=as_of) for each in own)
        first = own[0].upstream
        remark = first.remark if first.forward_auth else ""  # another one is about the models of a draft
        yield first._replace(models=drafts, verifier=None, remark=remark)


def _prices(prices: Prices) -> tuple[float | None, ...]:
    return (
        prices.input_per_million,
        prices.output_per_million,
        prices.cached_input_per_million,
        prices.cache_write_per_million,
    )
