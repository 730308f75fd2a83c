"""Cost of tokens: the log's cost if it has one, else list prices; models of logs for a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Final, NamedTuple, TypeVar

import msgspec

from pointsman.audit.caches import Call, paid
from pointsman.audit.figures import Part, SessionFigures, Spent, Split
from pointsman.audit.session import OWN_LEDGER
from pointsman.catalogue import ANY, CatalogueEntry, installed
from pointsman.config.draft import PROVIDERS, Found, ModelDraft
from pointsman.errors import PointsmanError
from pointsman.prices import PRICES, Prices
from pointsman.remembering import summed
from pointsman.vocabulary import Tier

__all__ = [
    "LeftOut",
    "LoggedModels",
    "Money",
    "Pricing",
    "logged_models",
    "maker_of",
    "price_order",
    "spread",
    "variable_of",
]

#: Who makes a model, by the beginning of its id: the list price of the maker is taken where a log names a
#: provider that the catalogue does not know.
_MAKERS: Final = (
    ("*claude-*", "anthropic"),
    ("gpt-*", "openai"),
    ("chatgpt-*", "openai"),
    ("codex-*", "openai"),
    ("o[134]", "openai"),
    ("o[134]-*", "openai"),
    ("gemini-*", "google"),
    ("deepseek-*", "deepseek"),
    ("grok-*", "xai"),
    ("*mistral*", "mistral"),
    ("codestral-*", "mistral"),
)


def maker_of(model: str) -> str:
    """Maker of a model, by its id; ``catalogue.ANY`` if unknown."""
    return next((maker for pattern, maker in _MAKERS if fnmatchcase(model.lower(), pattern)), ANY)


class Money(msgspec.Struct, frozen=True):
    """An amount in dollars, and the requests not in it."""

    spent: float = 0.0
    worth: float = 0.0  # of requests that a subscription paid: what they would have cost
    more_at_most: float = 0.0  # more, if every output was as long as its bound
    unpriced: int = 0  # requests without a price
    models: frozenset[str] = frozenset()  # of these

    def __add__(self, other: Money) -> Money:
        return Money(
            self.spent + other.spent,
            self.worth + other.worth,
            self.more_at_most + other.more_at_most,
            self.unpriced + other.unpriced,
            self.models | other.models,
        )

    @property
    def total(self) -> float:
        """Spent, and the value of a subscription's requests."""
        return self.spent + self.worth

    @property
    def subscribed(self) -> float:
        """Share of the total that a subscription paid."""
        return self.worth / self.total if self.total else 0.0

    def to_json(self) -> dict[str, object]:
        """Plain values, in dollars."""
        return {
            "spent": round(self.spent, 6),
            "worth": round(self.worth, 6),
            "more_at_most": round(self.more_at_most, 6),
            "unpriced_requests": self.unpriced,
            "unpriced_models": sorted(self.models),
        }


class Pricing:
    """Prices of models: of those that ledgers alone name, the latest configured; else the catalogue's.

    The catalogue has one price per model and field, with its date.
    """

    def __init__(
        self, sessions: Iterable[SessionFigures] = (), *, subscriptions: frozenset[str] = frozenset()
    ) -> None:
        self._catalogues: Final = installed()
        self._subscriptions: Final = subscriptions  # clients whose requests a subscription pays
        self._known: dict[tuple[str, str], Prices | None] = {}
        sessions = tuple(sessions)
        self._known.update(((each.provider, each.id), each) for of in sessions for each in of.prices)
        for part in (part for of in sessions if of.client != OWN_LEDGER for part in of.parts):
            self._known.pop((part.split.provider, part.split.model), None)

    @property
    def as_of(self) -> date | None:
        """The date of the prices."""
        return min((each.as_of for each in self._catalogues), default=None)

    def prices(self, provider: str, model: str) -> Prices | None:
        """The prices of a model; None if unknown."""
        key = provider, model
        if key not in self._known:
            self._known[key] = self._find(provider, model)
        return self._known[key]

    def same(self, provider: str, one: str, other: str) -> bool:
        """Whether two ids name one model: they are equal, or but for a date."""
        found = self.prices(provider, one)
        return one == other or (
            isinstance(found, CatalogueEntry)
            and found.id in (one, other)
            and found is self.prices(provider, other)
        )

    def lifetimes(self, made: Iterable[Call]) -> dict[tuple[str, str], float | None]:
        """Seconds for which prompt caches live, by provider and model; None if unknown."""
        found = {(call.provider, call.model): self.prices(call.provider, call.model) for call in made}
        return {
            key: entry.cache_seconds if isinstance(entry, CatalogueEntry) else None
            for key, entry in found.items()
        }

    def _find(self, provider: str, model: str) -> Prices | None:
        for at in (provider, maker_of(model)):
            for catalogue in self._catalogues:
                match = catalogue.find(at, model) if at else None
                if match is not None and match.has_its_prices and match.entry.is_priced:
                    return match.entry
        return None

    def session(self, of: SessionFigures) -> Money:
        """Cost of a session."""
        return self.money(of.parts, of.client)

    def money(self, parts: Iterable[Part], client: str = "") -> Money:
        """What requests cost.

        Args:
            parts: Their sums.
            client: The client, for subscriptions.
        """
        return sum((self._part(part.split, part.spent, client) for part in parts), Money())

    def subscribed(self, client: str, *, logged: bool) -> bool:
        """Whether a subscription pays a request: by the log, or the client was named."""
        return logged or client in self._subscriptions

    def _part(self, split: Split, spent: Spent, client: str) -> Money:
        prices = self.prices(split.provider, split.model)
        more = 0.0
        # Others write 0 where they know no price.
        if split.costs or (split.costs is False and client in _KNOW_ALL_COSTS):
            cost: float | None = spent.logged_cost
        else:
            of_tokens = None if prices is None else paid(spent, prices)
            cost = None if of_tokens is None else of_tokens * split.rate + spent.fees
            if prices is not None:
                more = (prices.cost(0, 0, spent.output_at_most - spent.output_tokens) or 0.0) * split.rate
        if cost is None:
            return Money(unpriced=spent.requests, models=frozenset({split.model or "(not named)"}))
        if self.subscribed(client, logged=split.subscription):
            return Money(worth=cost, more_at_most=more)
        return Money(spent=cost, more_at_most=more)


#: Clients whose costs of 0 say that nothing was paid: our own ledger knows its prices, the other one bills.
_KNOW_ALL_COSTS: Final = frozenset({OWN_LEDGER, "openrouter"})
#: The provider for which a configuration can be written, by its name in logs or by the maker of a model.
_UPSTREAMS: Final = {each.name: each for each in PROVIDERS}
_OTHER_NAMES: Final = {"google": "gemini"}


class LoggedModels(NamedTuple):
    """Models that a configuration can have, and those that it cannot."""

    found: tuple[Found, ...]  # upstreams with their models, the cheapest first
    tiers: tuple[str, ...]  # configured name of the model of each tier, SIMPLE first
    names: Mapping[tuple[str, str], str]  # configured name by provider and model, as the logs have them
    left_out: Mapping[str, LeftOut]  # by model


class LeftOut(NamedTuple):
    """Why a model of the logs is in no configuration."""

    why: str
    variable: str = ""  # of the environment, which would hold its key


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
    out. The provider that cost most takes the credential of the caller (``forward_auth``), as of a
    subscription, where its variable is not set.

    Args:
        sessions: The sessions read.
        pricing: Knows prices.
        env: Where keys may be; None: every upstream gets a reference to its variable.

    Raises:
        PointsmanError: no model is left.
    """
    left_out: dict[str, LeftOut] = {}
    names: dict[tuple[str, str], str] = {}
    known: dict[str, _Model] = {}
    parts = ((of, part) for of in sessions for part in of.parts)
    costs = summed(
        (
            ((part.split.provider, part.split.model), pricing.money([part], of.client).total)
            for of, part in parts
        ),
        0.0,
    )
    for (provider, model), cost in costs.items():
        made = _model(provider, model, cost, pricing)
        if isinstance(made, str):
            left_out.setdefault(model or "(not named)", LeftOut(made))
            continue
        names[provider, model] = model
        earlier = known.get(model)
        known[model] = made._replace(cost=cost + earlier.cost) if earlier else made
    usable = sorted(known.values(), key=lambda each: (price_order(each.prices), each.id))
    if env is not None:
        usable = list(_with_credential(usable, env, left_out))
    if not usable:
        why = "; ".join(f"{name}: {reason.why}" for name, reason in left_out.items())
        raise PointsmanError(
            f"these logs name no model that a configuration can have ({why or 'no requests'})",
            hint="pointsman config init writes one for the API keys in the environment",
        )
    tiers = tuple(each.id for each in spread(usable).values())
    return LoggedModels(tuple(_founds(usable, str(pricing.as_of or ""))), tiers, names, left_out)


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


def variable_of(model: str) -> str:
    """The variable of the key with which a model of logs is asked; empty where no address is known."""
    maker = maker_of(model)
    upstream = _UPSTREAMS.get(_OTHER_NAMES.get(maker, maker))
    return upstream.variable if upstream else ""


def _with_credential(
    models: Sequence[_Model], env: Mapping[str, str], left_out: dict[str, LeftOut]
) -> Iterator[_Model]:
    costs = summed(((each.upstream.name, each.cost) for each in models), 0.0)
    dearest = max(costs, key=costs.__getitem__, default="")
    for each in models:
        if env.get(each.upstream.variable):
            yield each
        elif each.upstream.name == dearest:
            yield each._replace(
                upstream=each.upstream._replace(variable="", forward_auth=True, remark=_FORWARDED)
            )
        else:
            variable = each.upstream.variable
            left_out.setdefault(each.id, LeftOut(f"{variable} is not set", variable))


_FORWARDED: Final = (
    "# Its API key was not set: the caller's own credential is passed on, as of a subscription.\n"
)


def _founds(models: Sequence[_Model], as_of: str) -> Iterator[Found]:
    prices = attrgetter(*PRICES)
    for name in dict.fromkeys(each.upstream.name for each in models):
        own = [each for each in models if each.upstream.name == name]
        drafts = tuple(ModelDraft(each.id, each.id, prices(each.prices), as_of=as_of) for each in own)
        first = own[0].upstream
        remark = first.remark if first.forward_auth else ""  # another one is about the models of a draft
        yield first._replace(models=drafts, verifier=None, remark=remark)
