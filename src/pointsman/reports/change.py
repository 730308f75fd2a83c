"""Why one period cost more than another: the difference as a sum of contributions."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from math import factorial
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from pointsman.decision.policy import Policy
from pointsman.decoding import parse_toml
from pointsman.prices import PRICES, Prices, dollars
from pointsman.printable import Block, Column, TextTable
from pointsman.reports.savings import SavingsCalculator
from pointsman.reports.usage import PRICED
from pointsman.stores.ledger.port import Search
from pointsman.stores.ledger.reading import Usage, tokens_of
from pointsman.vocabulary import ModelSpec

__all__ = ["Change", "Contribution", "ModelUse", "Side", "change", "change_between"]

#: What the cost of answers depends on.
Factor = Literal["requests", "model mix", "tokens per request", "cache share", "prices"]
_FACTORS: Final[tuple[Factor, ...]] = (
    "requests", "model mix", "tokens per request", "cache share", "prices",
)  # fmt: skip
#: What is paid beside answers.
_BESIDE: Final = "beside the answers"


_Shares: TypeAlias = tuple[float, float, float]


class ModelUse(NamedTuple):
    """Usage of one model in a period, and its prices."""

    requests: int
    used: Usage
    spec: ModelSpec

    @property
    def tokens(self) -> tuple[float, float]:
        """Input and output of a request, in tokens."""
        return self.used.input / self.requests, self.used.output / self.requests

    @property
    def cache_shares(self) -> _Shares:
        """Shares of the input: read from the provider's cache, written to it, and of these for an hour."""
        read, written, written_1h = self.used.cached, self.used.written, self.used.written_1h
        sent = self.used.input or 1
        return read / sent, written / sent, written_1h / sent


class Side(msgspec.Struct, frozen=True):
    """One of the two periods. Requests without usage or without a price cost nothing here."""

    since: float  # seconds since the epoch
    until: float
    models: Mapping[str, ModelUse]
    beside: float  # US dollars for retries, verification, shadow models and judges
    turns: int  # all requests

    @property
    def requests(self) -> int:
        """Requests with a known cost."""
        return sum(each.requests for each in self.models.values())

    @property
    def answers(self) -> float:
        """US dollars for the answers."""
        return sum(
            _cost(each.requests, each.tokens, each.cache_shares, each.spec) for each in self.models.values()
        )

    @property
    def cost(self) -> float:
        """US dollars in all."""
        return self.answers + self.beside

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        used = _total(self)
        return {
            "since": self.since,
            "until": self.until,
            "cost": round(self.cost, PRICED),
            "turns": self.turns,
            "requests": self.requests,
            **used._asdict(),
            "models": {name: each.requests for name, each in sorted(self.models.items())},
        }


class Contribution(msgspec.Struct, frozen=True):
    """A part of the difference."""

    name: str
    amount: float  # US dollars; below 0: it made the later period cheaper
    detail: str  # both figures, in words
    models: Mapping[str, float]  # the same by model that answered, in US dollars; empty for ``beside``


class Change(msgspec.Struct, frozen=True):
    """The difference of two periods; the contributions add up to it, the largest first."""

    before: Side
    after: Side
    contributions: tuple[Contribution, ...]

    @property
    def difference(self) -> float:
        """US dollars that the later period cost more."""
        return self.after.cost - self.before.cost

    def headline(self) -> str:
        """The answer in one sentence."""
        if not self.before.turns and not self.after.turns:
            return "no request in either period"
        if not (self.before.requests or self.after.requests or self.before.beside or self.after.beside):
            return "no request with a known cost in either period: pointsman report savings says why"
        if not round(self.difference, PRICED):
            return f"no difference: {dollars(self.after.cost)} in both"
        sign = 1 if self.difference > 0 else -1
        most = max(self.contributions, key=lambda each: sign * each.amount)
        word = "more" if sign > 0 else "less"
        both = f"{dollars(self.before.cost)}, then {dollars(self.after.cost)}"
        spent = f"{dollars(abs(self.difference))} {word}: {both}"
        return f"{spent}; above all by {most.name} ({most.detail})"

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "currency": "USD",
            "from": self.before.to_json(),
            "to": self.after.to_json(),
            "difference": round(self.difference, PRICED),
            "contributions": [
                {
                    "name": each.name,
                    "amount": round(each.amount, PRICED),
                    "detail": each.detail,
                    "models": {name: round(amount, PRICED) for name, amount in each.models.items()},
                }
                for each in self.contributions
            ],
        }

    def blocks(self) -> Iterator[Block]:
        """The report for a person."""
        yield self.headline()
        yield f"{_span(self.before)}, beside {_span(self.after)}"
        yield ""
        columns = (Column("contribution"), Column("amount", right=True, show=_signed), Column("then and now"))
        rows = [(each.name, each.amount, each.detail) for each in self.contributions]
        yield TextTable(columns, [*rows, ("= difference", self.difference, "")])


def _span(side: Side) -> str:
    """A period, in this machine's zone."""
    since, until = (time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) for at in (side.since, side.until))
    return f"{since} to {until[11:] if since[:10] == until[:10] else until}"


def change_between(ledger: Search, policy: Policy, before: float, after: float, length: float) -> Change:
    """Compare two periods of equal length, each at the prices in force in it.

    Args:
        ledger: The ledger that has them.
        policy: In force now; its prices count where the ledger has no policy of a period.
        before: First second of the one period, since the epoch.
        after: First second of the other one.
        length: Seconds of each.

    Raises:
        PointsmanError: no model has a price.
        StoreUnavailable: the ledger cannot be read.
    """
    return change(*(_side(ledger, policy, at, at + length) for at in (before, after)))


def _side(ledger: Search, policy: Policy, since: float, until: float) -> Side:
    found = ledger.totals(since=since, until=until)
    models = _models_in_force(ledger, policy.models, since, until)
    money = SavingsCalculator.of(replace(policy, models=models)).total(found)
    used: dict[str, ModelUse] = {}
    for turn in found.turns:
        spec = models.get(turn.model)
        if turn.result != "counted" or spec is None or not spec.is_priced:
            continue
        requests, tokens, _ = used.get(turn.model, ModelUse(0, _NONE, spec))
        used[turn.model] = ModelUse(requests + turn.turns, _added((tokens, tokens_of(turn))), spec)
    turns = sum(turn.turns for turn in found.turns)
    return Side(since, until, used, money.paid - money.answers, turns)


def _models_in_force(
    ledger: Search, configured: Mapping[str, ModelSpec], since: float, until: float
) -> Mapping[str, ModelSpec]:
    """The models of the latest policy that decided in a period, at its prices, and those configured since."""
    uses = [use for use in ledger.policies() if use.first < until and use.last >= since and use.has_text]
    text = ledger.policy(max(uses, key=lambda use: use.first).version) if uses else None
    try:
        tables = parse_toml(text or "").get("models", {})
        found = {
            name: msgspec.convert({field: table.get(field) for field in PRICES}, Prices)
            for name, table in tables.items()
        }
    except (AttributeError, tomllib.TOMLDecodeError, msgspec.ValidationError):  # not by this version
        return configured
    then = {
        name: msgspec.structs.replace(
            configured.get(name) or ModelSpec(name, upstream="", id=""), **msgspec.structs.asdict(prices)
        )
        for name, prices in found.items()
    }
    return {**configured, **then}


def change(before: Side, after: Side) -> Change:
    """Divide the difference of two periods into contributions.

    Each factor's is its Shapley value (Shapley 1953): the mean, over all orders in which the factors go from
    the earlier figures to the later ones, of what its step changes. Their sum is the difference, and no order
    is preferred. A model that only one period used has the tokens, cache and price of that one in both: its
    appearance is a matter of the mix.
    """
    names = sorted({*before.models, *after.models})
    parts = {name: _shapley(name, before, after) for name in names}
    found = [
        Contribution(
            factor,
            sum(part[factor] for part in parts.values()),
            _detail(factor, before, after),
            {name: part[factor] for name, part in parts.items()},
        )
        for factor in _FACTORS
    ]
    beside = f"{dollars(before.beside)}, then {dollars(after.beside)}: retries, verification, shadow, judges"
    found.append(Contribution(_BESIDE, after.beside - before.beside, beside, {}))
    return Change(before, after, tuple(sorted(found, key=lambda each: -abs(each.amount))))


def _shapley(name: str, before: Side, after: Side) -> dict[Factor, float]:
    """The contribution of each factor to the cost of one model's answers."""
    count = len(_FACTORS)
    chosen = (frozenset(each) for size in range(count + 1) for each in combinations(_FACTORS, size))
    values = {each: _mixed(name, before, after, each) for each in chosen}
    weights = [factorial(size) * factorial(count - size - 1) / factorial(count) for size in range(count)]
    return {
        factor: sum(
            weights[len(earlier)] * (values[earlier | {factor}] - value)
            for earlier, value in values.items()
            if factor not in earlier
        )
        for factor in _FACTORS
    }


def _mixed(name: str, before: Side, after: Side, later: frozenset[Factor]) -> float:
    """Cost of a model's answers with some factors of the later period, and else the earlier."""

    def use(factor: Factor) -> ModelUse:
        first, second = (after, before) if factor in later else (before, after)
        return first.models.get(name) or second.models[name]

    def share() -> float:
        first, second = (after, before) if "model mix" in later else (before, after)
        side = first if first.requests else second
        return (side.models[name].requests if name in side.models else 0) / side.requests

    requests = (after if "requests" in later else before).requests
    tokens = use("tokens per request").tokens
    of = use("prices")
    return _cost(requests * share(), tokens, use("cache share").cache_shares, of.spec)


def _cost(requests: float, tokens: tuple[float, float], cache_shares: _Shares, spec: ModelSpec) -> float:
    """US dollars for so many requests."""
    sent, output = tokens
    read, written, written_1h = (sent * share for share in cache_shares)
    return requests * (spec.cost(sent, read, output, written, written_1h) or 0.0)


def _detail(factor: Factor, before: Side, after: Side) -> str:
    match factor:
        case "requests":
            return f"{before.requests:,}, then {after.requests:,}"
        case "tokens per request":
            sides = (_tokens(side) for side in (before, after))
            return ", then ".join(sides) + " in and out"
        case "cache share":
            first, second = _total(before), _total(after)
            read = f"{_share(first.cached, first)}, then {_share(second.cached, second)}"
            written = f"{_share(first.written, first)}, then {_share(second.written, second)} written to them"
            said = f"{read} of the input from caches"
            return f"{said}; {written}" if first.written or second.written else said
        case "prices":
            return _price_changes(before, after)
        case "model mix":
            return f"{_mix(before)}, then {_mix(after)}"


def _total(side: Side) -> Usage:
    return _added(each.used for each in side.models.values())


def _added(parts: Iterable[Usage]) -> Usage:
    return Usage(*map(sum, zip(_NONE, *parts, strict=True)))


_NONE: Final = Usage(0, 0, 0, 0, 0)


def _tokens(side: Side) -> str:
    if not side.requests:
        return "none"
    used = _total(side)
    return f"{used.input / side.requests:,.0f} and {used.output / side.requests:,.0f}"


def _share(tokens: int, of: Usage) -> str:
    return f"{tokens / of.input:.0%}" if of.input else "none"


def _mix(side: Side) -> str:
    if not side.requests:
        return "none"
    ranked = sorted(side.models.items(), key=lambda each: (-each[1].requests, each[0]))
    named = [f"{name} {each.requests / side.requests:.0%}" for name, each in ranked[:3]]
    return " ".join([*named, "…"] if len(ranked) > len(named) else named)


def _price_changes(before: Side, after: Side) -> str:
    both = sorted(before.models.keys() & after.models.keys())
    specs = [(name, before.models[name].spec, after.models[name].spec) for name in both]
    changed = [f"{name} {_prices(then)}, then {_prices(now)}" for name, then, now in specs if then != now]
    return "; ".join(changed) or "the same in both periods"


def _prices(spec: ModelSpec) -> str:
    """Prices of a million tokens of input, of cached and of written input if known, and of output."""
    cache = spec.cached_input_per_million, spec.cache_write_per_million
    prices = spec.input_per_million, *cache, spec.output_per_million
    return "/".join(f"${each:g}" for each in prices if each is not None)


def _signed(amount: float) -> str:
    return dollars(amount) if amount <= 0 else f"+{dollars(amount)}"
