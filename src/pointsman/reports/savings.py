"""Net savings against a baseline model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import Final, Literal, TypeVar, get_args

import msgspec

from pointsman.decision.policy import Policy
from pointsman.errors import PointsmanError
from pointsman.model_calls import question_price
from pointsman.prices import dollars
from pointsman.printable import Block, Column, TextTable, counted
from pointsman.remembering import grouped
from pointsman.reports.usage import PRICED, USAGE_ASKED, answer_costs
from pointsman.stores.ledger import Spender, Totals
from pointsman.stores.ledger.reading import GAPS, PartTotals, TurnTotals, tokens_of
from pointsman.vocabulary import ModelSpec

__all__ = [
    "DIVISIONS",
    "By",
    "Division",
    "Savings",
    "SavingsCalculator",
    "SavingsReport",
    "SpendingRow",
    "merged",
    "spending_by",
    "usual_baseline",
]

Key = TypeVar("Key")

#: By what savings are divided.
By = Literal["day", "tier", "model"]


@dataclass(slots=True)
class Savings:
    """Amounts in US dollars. ``net`` is the least that is left."""

    baseline: str
    baseline_caches: bool = True  # it has a price of cached input
    turns: int = 0
    counted: int = 0  # turns with an answer, its usage and a price
    no_answer: int = 0
    no_usage: int = 0
    no_price: int = 0  # turns of which a part was served by a model without a price
    unpriced: Counter[str] = field(default_factory=Counter)  # of these, by that model
    at_baseline: float = 0.0  # the same tokens at the baseline's prices
    answers: float = 0.0  # what the answers cost
    baseline_cache: float = 0.0  # the most that its own cache would have saved of that
    assumed: int = 0  # turns in which nothing says how much that is
    switches: int = 0
    retries: float = 0.0  # attempts that did not answer, where usage is known
    unmetered: int = 0  # those that ended before their usage came: they may have cost something
    questions: int = 0
    verification: float = 0.0  # an estimate: the most a question costs, times the questions
    trials: int = 0
    shadow: float = 0.0  # answers of a shadow model, where usage is known
    hints: float = 0.0  # what the baseline is taken to read of text that was added, and would not have
    judging: float = 0.0  # what judges of two answers cost, as recorded with their verdicts

    def add(self, other: Savings) -> None:
        """Add the sums of other turns, against the same baseline."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def expected(self) -> float:
        """Cost of the baseline: the same tokens, less its cache and less text that was added."""
        return self.at_baseline - self.baseline_cache - self.hints

    @property
    def paid(self) -> float:
        """Amount paid for the same requests, with all extra calls."""
        return self.answers + self.retries + self.verification + self.shadow + self.judging

    @property
    def net(self) -> float:
        """Savings after everything."""
        return self.expected - self.paid

    @property
    def share(self) -> float:
        """Net saving as a share of the baseline's cost."""
        return self.net / self.expected if self.expected else 0.0

    @property
    def is_unknown(self) -> bool:
        """Whether there were answers, and the cost of none is known."""
        return not self.counted and not self.paid and self.no_usage + self.no_price > 0

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        amounts = (
            "at_baseline", "baseline_cache", "answers", "retries", "verification", "shadow", "judging",
            "hints", "expected", "paid", "net",
        )  # fmt: skip
        return {
            "baseline": self.baseline,
            "currency": "USD",
            "turns": self.turns,
            "counted": self.counted,
            "lacking": {
                "no_answer": self.no_answer,
                "no_usage": self.no_usage,
                "no_price": self.no_price,
                "models": dict(sorted(self.unpriced.items())),
                "share": round(1 - self.counted / self.turns, PRICED) if self.turns else 0.0,
            },
            "baseline_caches": self.baseline_caches,
            "assumed": self.assumed,
            "switches": self.switches,
            "questions": self.questions,
            "trials": self.trials,
            "unmetered": self.unmetered,
            **{name: round(getattr(self, name), PRICED) for name in amounts},
            "net_share": round(self.share, PRICED),
        }

    def headline(self) -> str:
        """The saving in one sentence."""
        against, expected = f'against always "{self.baseline}"', dollars(self.expected)
        if not self.counted:
            return f"saved {against}: nothing to count, no request has an answer, its usage and a price"
        if not self.paid and not self.expected:
            return "nothing to save: the models that served and the baseline cost $0 at the configured prices"
        rest = self.net + self.shadow
        tested = f"; saved {dollars(rest)} without the shadow model" if self.shadow and rest > 0 else ""
        if self.net < 0:
            return f"{dollars(-self.net)} more than the {expected} of {against[8:]}, at most{tested}"
        saved = f"saved {dollars(self.net)} of {expected} ({self.share:.0%})"
        return f"{saved} for the same tokens, at least, {against}{tested}"

    def blocks(self) -> Iterator[Block]:
        """The report for a person: amounts that add up to the savings."""
        lacking = self.turns - self.counted
        share = f"{lacking / self.turns:.1%}" if self.turns else "-"
        yield self.headline()
        yield f"over {self.counted:,} of {self.turns:,} turns"
        yield TextTable(_AMOUNTS, list(self._amounts()))
        yield from self._unknown()
        yield (
            f"left out: {counted(lacking, 'turn')} ({share}): {self.no_answer:,} without an answer, "
            f"{self.no_usage:,} without usage, {self.no_price:,} by a model without a price"
        )
        if self.no_usage:
            yield f"without usage: {USAGE_ASKED}"
        if self.unpriced:
            named = ", ".join(f'"{name}" {count:,}' for name, count in sorted(self.unpriced.items()))
            yield f"without a price: {named}; set input_per_million and output_per_million of each"

    def _amounts(self) -> Iterator[tuple[str, float, str]]:
        yield f'the same tokens by "{self.baseline}"', self.at_baseline, ""
        yield "less what its prompt cache saves, at most", -self.baseline_cache, ""
        yield "less text that was added", -self.hints, ""
        yield "= baseline", self.expected, ""
        yield "answers", -self.answers, f"{self.switches:,} changes of model"
        yield "attempts that did not answer", -self.retries, ""
        asked = f"{self.questions:,} questions, without those of guidance and capabilities"
        yield "verification, at most", -self.verification, asked
        yield "answers of a shadow model", -self.shadow, f"{self.trials:,} answers"
        yield from [("judges of two answers", -self.judging, "")] if self.judging else ()
        yield "= saved, at least", self.net, ""

    def _unknown(self) -> Iterator[str]:
        """Unrecorded amounts, and the direction of their effect on the net."""
        if self.counted:
            yield f'taken as fact: "{self.baseline}" would have read and written the same tokens'
            yield f"not counted: {self.unmetered:,} calls that ended before their usage came"
        if not self.baseline_caches:
            yield f'unknown: "{self.baseline}" has no cached_input_per_million, so no cache of it counts'
        elif self.assumed:
            yield f"assumed: in {self.assumed:,} turns its cache held all that the turn before had sent"


#: Fields that are added up: all but the baseline's.
_SUMS: Final = tuple(sorted({each.name for each in fields(Savings)} - {"baseline", "baseline_caches"}))

_AMOUNTS: Final = (Column("part", least=44), Column("amount", right=True, show=dollars), Column("detail"))


def usual_baseline(models: Mapping[str, ModelSpec]) -> str:
    """The model with the dearest answers: the server of everything without a router; empty: none."""
    costs = answer_costs(models)
    return max(costs, key=lambda name: (costs[name], name)) if costs else ""


def _key(group: TurnTotals | PartTotals, by: By, zone: int) -> str:
    if by == "day":
        return _day(group.hour + zone)
    return group.tier if by == "tier" else group.model


@lru_cache(maxsize=1_024)
def _day(hour: int) -> str:
    """The date of a day by the hour in which it begins, in hours of its zone since the epoch."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hour)).date().isoformat()


class SavingsCalculator:
    """Counts savings at the prices of a configuration, against a baseline model."""

    def __init__(
        self,
        models: Mapping[str, ModelSpec],
        baseline: str,
        *,
        question: float | None = 0.0,
        verifier: str = "",
    ) -> None:
        """Take the prices.

        Args:
            models: With their prices, by configured name.
            baseline: Name of the model that would have served everything.
            question: Maximum cost of verifying one tier, in US dollars; None if unknown.
            verifier: Name of the model that verifies tiers.

        Raises:
            PointsmanError: the baseline is not configured, or has no price.
        """
        _check_baseline(models, baseline)
        self.models: Final = models
        self.baseline: Final = baseline
        self._spec: Final = models[baseline]
        self._question: Final = question
        self._verifier: Final = verifier
        self._lacking: Final[dict[tuple[str, str, bool], frozenset[str]]] = {}  # models without a price

    @classmethod
    def of(cls, policy: Policy, baseline: str = "") -> SavingsCalculator:
        """The prices of a policy; without a baseline, against ``usual_baseline``. Raises as the class."""
        verifier = policy.verify.model if policy.verify else ""
        named = baseline or usual_baseline(policy.models)
        return cls(policy.models, named, question=question_price(policy), verifier=verifier)

    def total(self, found: Totals) -> Savings:
        """Add up the savings of a period.

        The baseline is taken to have read all of the turn before from its cache, unless that has expired, or
        the baseline itself answered both: the most it could have, so that the saving is not overstated,
        whatever the upstream that answered reports of its own cache. A turn of which anything was served by a
        model without a price is left out as a whole.
        """
        sums = Savings(self.baseline, self._spec.cached_input_per_million is not None)
        for turn in found.turns:
            self._add(sums, turn)
        for part in found.parts:
            if not self._unpriced(part):
                self._add_part(sums, part)
        return sums

    def by(self, found: Totals, division: By, zone: int = 0) -> dict[str, Savings]:
        """Add up savings by each day, tier or model that answered, in the order of their names.

        A day is one of the ``zone`` that the totals were read for, in hours ahead of UTC: ``2026-01-31``.
        """
        turns = grouped((_key(turn, division, zone), turn) for turn in found.turns)
        parts = grouped((_key(part, division, zone), part) for part in found.parts)
        return {
            key: self.total(Totals(tuple(turns[key]), tuple(parts.get(key, ())))) for key in sorted(turns)
        }

    def _add(self, found: Savings, turn: TurnTotals) -> None:
        """Add turns that are alike, or leave all of them out where a price is unknown."""
        found.turns += turn.turns
        if lacking := self._unpriced(turn):
            found.no_price += turn.turns
            found.unpriced.update(dict.fromkeys(lacking, turn.turns))
            return
        found.trials += turn.trials
        found.judging += turn.judging
        if turn.asked:
            found.questions += turn.turns
            found.verification += turn.turns * (self._question or 0.0)
        if turn.result == "counted":
            self._add_answers(found, turn)
        elif turn.result == "no_usage":
            found.no_usage += turn.turns
        else:
            found.no_answer += turn.turns

    def _unpriced(self, group: TurnTotals | PartTotals) -> frozenset[str]:
        """The models of a group of turns with an unknown price."""
        key = group.beside, group.model if group.result == "counted" else "", group.asked
        known = self._lacking.get(key)
        if known is None:
            known = self._lacking[key] = frozenset(self._without_price(*key))
        return known

    def _without_price(self, beside: str, model: str, asked: bool) -> Iterator[str]:
        used = [*(beside.split("\n") if beside else []), *([model] if model else [])]
        yield from (name for name in used if name not in self.models or not self.models[name].is_priced)
        if asked and self._question is None:
            yield self._verifier

    def _add_part(self, found: Savings, part: PartTotals) -> None:
        model = self.models[part.part_model]
        spent = model.cost(*tokens_of(part)) or 0.0
        if part.kind == "retry":
            found.retries += spent
        elif part.kind == "shadow":
            found.shadow += spent
        else:
            found.unmetered += part.parts

    def _add_answers(self, found: Savings, turn: TurnTotals) -> None:
        model, spec = self.models[turn.model], self._spec
        used = tokens_of(turn)
        at_baseline = spec.cost(*used) or 0.0
        found.counted += turn.turns
        found.switches += turn.switches
        found.answers += model.cost(*used) or 0.0
        found.at_baseline += at_baseline
        found.hints += spec.cost(turn.added, 0, 0) or 0.0
        if turn.own == self.baseline:
            return  # the baseline itself: what it reports is what it would have had
        if turn.gap < 0 or (spec.cache_seconds is not None and GAPS[turn.gap] >= spec.cache_seconds):
            return
        # What its cache had, it would not have written.
        reused = spec.cost(turn.input, turn.reused, turn.output, turn.rest, turn.rest_1h)
        found.baseline_cache += at_baseline - (reused or 0.0)
        found.assumed += turn.assumed


def _check_baseline(models: Mapping[str, ModelSpec], baseline: str) -> None:
    if not baseline and not any(model.is_priced for model in models.values()):
        raise PointsmanError(
            "no model has a price, so nothing can be said of savings",
            hint="set input_per_million and output_per_million under [models], or provider under "
            "[upstreams]: the catalogue then knows the prices",
        )
    if baseline not in models:
        known = ", ".join(models) or "none"
        raise PointsmanError(f'no model "{baseline}" to compare with', hint=f"models here: {known}")
    if not models[baseline].is_priced:
        priced = ", ".join(name for name, model in models.items() if model.is_priced) or "none"
        raise PointsmanError(f'the price of "{baseline}" is unknown', hint=f"models with a price: {priced}")


#: By what spending is divided.
Division = Literal["project", "client", "person", "role"]
DIVISIONS: Final[tuple[Division, ...]] = get_args(Division)

#: The field of a spender by which each divides.
_FIELDS: Final[Mapping[Division, str]] = {
    "project": "project", "client": "client", "person": "caller", "role": "role",
}  # fmt: skip
#: What is shown where nothing tells.
_UNKNOWN: Final[Mapping[Division, str]] = {
    "project": "no project", "client": "unknown program", "person": "no key", "role": "no agent",
}  # fmt: skip


class SpendingRow(msgspec.Struct, frozen=True):
    """One project, program, person or role."""

    key: str  # as the ledger has it; empty: nothing tells
    name: str  # for a person
    money: Savings

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {"key": self.key, "name": self.name, **self.money.to_json()}


def merged(parts: Iterable[Mapping[Key, Savings]]) -> dict[Key, Savings]:
    """Add up the parts of a period, such as its days, by spender or by what else divides them."""
    sums: dict[Key, Savings] = {}
    for key, money in chain.from_iterable(part.items() for part in parts):
        if key not in sums:
            sums[key] = Savings(money.baseline, money.baseline_caches)
        sums[key].add(money)
    return sums


def spending_by(by: Division, found: Mapping[Spender, Savings]) -> tuple[SpendingRow, ...]:
    """Add up what each spent, the one that spent most first.

    A project without a folder's name is one of a program: it is named after that.
    """
    field = _FIELDS[by]
    names: dict[str, str] = {}
    for spender in found:
        key: str = getattr(spender, field)
        name = spender.project_name or spender.client if by == "project" and key else key
        names[key] = name or names.get(key, "") or key or _UNKNOWN[by]
    sums = merged({getattr(spender, field): money} for spender, money in found.items())
    rows = (SpendingRow(key, names[key], money) for key, money in sums.items())
    return tuple(sorted(rows, key=lambda row: (-row.money.paid, -row.money.turns, row.name, row.key)))


@dataclass(frozen=True, slots=True)
class SavingsReport:
    """Savings of a ledger, with the dates of the prices, and divided on request."""

    money: Savings
    dates: Mapping[str, date | None]  # of the prices, by model
    source: str  # file of the prices; empty: the demo
    by: Division | None
    rows: Sequence[SpendingRow]

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        divided = {"by": {self.by: [row.to_json() for row in self.rows]}} if self.by else {}
        return {"prices_as_of": self._oldest(), "prices": self.dates, **self.money.to_json(), **divided}

    def blocks(self) -> Iterator[Block]:
        """The report for a person: amounts that add up to the savings, then a row for each spender."""
        yield from self.money.blocks()
        if self.by:
            rows = [(row.name, row.money.turns, row.money.paid, row.money.net, row.key) for row in self.rows]
            yield ""
            yield TextTable((Column(self.by), *_SPENT), rows)
        if self.source:
            yield self._dated()

    def _oldest(self) -> date | None:
        """The date of the oldest price; None where one is unknown."""
        known = [day for day in self.dates.values() if day is not None]
        return min(known) if known and len(known) == len(self.dates) else None

    def _dated(self) -> str:
        if len(set(self.dates.values())) == 1 and (day := self._oldest()):
            return f"all requests at prices as of {day}, from {self.source}"
        each = ", ".join(f"{name} {day or 'unknown'}" for name, day in self.dates.items())
        return f"all requests at prices as of: {each}; from {self.source}, where prices_as_of dates them"


_SPENT: Final = (
    Column("requests", right=True, show="{:,}".format),
    *(Column(name, right=True, show=dollars) for name in ("spent", "saved")),
    Column("key"),
)
