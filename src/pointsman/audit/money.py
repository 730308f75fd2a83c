"""Cost of tokens: the log's own cost if it has one, else list prices of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from pointsman.audit.caches import Call
from pointsman.audit.figures import Part, SessionFigures, Spent, Split
from pointsman.catalogue import ANY, Catalogue, CatalogueEntry, installed
from pointsman.prices import Prices

__all__ = ["Money", "Pricing", "maker_of", "total_money"]

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


def total_money(money: Iterable[Money]) -> Money:
    """The sum of amounts."""
    total = Money()
    for each in money:
        total += each
    return total


class Pricing:
    """Prices of models. The catalogue has one price per model and field, with its date."""

    def __init__(
        self, catalogues: Iterable[Catalogue] | None = None, *, subscriptions: frozenset[str] = frozenset()
    ) -> None:
        self._catalogues: Final = tuple(installed() if catalogues is None else catalogues)
        self._subscriptions: Final = subscriptions  # clients whose requests a subscription pays
        self._known: dict[tuple[str, str], Prices | None] = {}

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
        return total_money(self._part(part.split, part.spent, client) for part in parts)

    def subscribed(self, client: str, *, logged: bool) -> bool:
        """Whether a subscription pays a request: by the log, or the client was named."""
        return logged or client in self._subscriptions

    def _part(self, split: Split, spent: Spent, client: str) -> Money:
        prices = self.prices(split.provider, split.model)
        more = 0.0
        if spent.with_cost == spent.requests and spent.logged_cost > 0:
            cost: float | None = spent.logged_cost
        else:
            cost = None if prices is None else _cost(prices, spent)
        if prices is not None:
            more = prices.cost(0, 0, spent.output_at_most - spent.output_tokens) or 0.0
        if cost is None:
            return Money(unpriced=spent.requests, models=frozenset({split.model or "(not named)"}))
        if self.subscribed(client, logged=split.subscription):
            return Money(worth=cost, more_at_most=more)
        return Money(spent=cost, more_at_most=more)


def _cost(prices: Prices, spent: Spent) -> float | None:
    cost = prices.cost(spent.input_tokens, spent.cached_tokens, spent.output_tokens)
    if cost is None:
        return None
    hour = spent.written_1h_tokens
    return cost + prices.writing(spent.written_tokens - hour) + prices.writing_for_an_hour(hour)
