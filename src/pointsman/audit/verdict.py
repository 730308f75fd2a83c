"""What another policy would have saved: sure, by outcomes, unknown. The three are never added up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Final, NamedTuple

import msgspec

from pointsman.audit.caches import paid
from pointsman.audit.figures import SessionFigures, Spent
from pointsman.audit.money import Money, Pricing
from pointsman.audit.savings import (
    Comparison,
    Criterion,
    Run,
    Sure,
    compare,
    is_work,
    labels_needed,
    settled,
    shared,
    sure,
    within,
    without,
)
from pointsman.audit.session import local
from pointsman.printable import Block, Column, TextTable, counted
from pointsman.remembering import grouped, summed
from pointsman.text.extract import draw

__all__ = [
    "Stake",
    "Verdict",
    "amount",
    "amounts",
    "dollars",
    "outcomes_blocks",
    "period",
    "run_of",
    "said_by_outcomes",
    "said_of_stakes",
    "stake_of",
    "stakes_blocks",
    "tried",
    "verdict",
]

#: Sessions to label that a person is shown; ``--json`` has as many as are needed.
_SAMPLE: Final = 3


class Stake(NamedTuple):
    """What moving all work of one model to a cheaper one would save at most, if it did as well."""

    dear: str
    cheap: str
    dollars: float
    labels: int  # outcomes that would settle it
    sample: tuple[str, ...]  # sessions to label, drawn by chance
    missing_runs: int  # of the labels, runs that the logs do not have
    needed: dict[str, int]  # labels by model
    missing: dict[str, int]  # of these, runs that the logs do not have
    worth: float = 0.0  # of the dollars: paid by a subscription, so that no money is at stake
    margin: float = 0.0  # of success, within which it is good enough
    projects: int = 0  # with sessions of both models; in others no outcome can be compared


class Verdict(NamedTuple):
    """Known savings."""

    total: Money
    days: int
    sure: tuple[Sure, ...]
    compared: tuple[Comparison, ...]
    stakes: tuple[Stake, ...]
    stuck: int  # sessions
    after_sign: Money

    @property
    def claimed(self) -> tuple[Comparison, ...]:
        """Comparisons with outcomes that show a saving, at most one for each model."""
        saving = grouped((each.dear, each) for each in self.compared if each.verdict == "saves")
        return tuple(max(own, key=lambda each: each.saved[0]) for own in saving.values())

    @property
    def sentence(self) -> str:
        """All of it in a few words."""
        return " ".join(
            (
                self._spent(),
                f"Sure to save: {_together(self.sure)}.",
                said_by_outcomes(self.claimed, self.compared),
                f"Unknown: {said_of_stakes(self.stakes) or self._no_stakes}",
                self._stuck(),
            )
        )

    @property
    def _no_stakes(self) -> str:
        return "nothing more." if self.compared else _NO_STAKES

    def _spent(self) -> str:
        money = self.total
        without_price = f", {counted(money.unpriced, 'request')} without a price" if money.unpriced else ""
        days = f" in {counted(self.days, 'day')}" if self.days else ""
        return f"{amount(money.total, money.worth)}{days}{without_price}."

    def _stuck(self) -> str:
        after = amount(self.after_sign.total, self.after_sign.worth)
        return f"{counted(self.stuck, 'session')} stuck, {after} after the first sign."

    def to_json(self) -> dict[str, object]:
        """Plain values, in dollars."""
        return {
            "sure": [
                {**each._asdict(), "dollars": round(each.dollars, 6), "worth": round(each.worth, 6)}
                for each in self.sure
            ],
            "by_outcomes": [each._asdict() for each in self.compared],
            "claimed": [each._asdict() for each in self.claimed],
            "unknown": [each._asdict() for each in self.stakes],
            "sessions_stuck": self.stuck,
            "after_first_sign": self.after_sign.to_json(),
        }

    def blocks(self) -> Iterator[Block]:
        """Tables."""
        yield "Sure to save:" if self.sure else "Sure to save: nothing."
        rows = [[each.what, f"{each.requests:,}", amount(each.dollars, each.worth)] for each in self.sure]
        yield TextTable([Column("change"), Column("requests", right=True), Column("saves", right=True)], rows)
        yield ""
        yield from outcomes_blocks(self.compared)
        yield ""
        if self.stakes:
            yield from stakes_blocks(self.stakes)
            yield "Sure, by outcomes and unknown differ in certainty, so they are not added up."
        else:
            yield f"Unknown: {self._no_stakes}"


def said_by_outcomes(claimed: Sequence[Comparison], compared: Sequence[Comparison]) -> str:
    """What outcomes show, as a sentence."""
    if claimed:
        return f"By outcomes: {amounts(claimed)}, {within(claimed[0].margin)}."
    harmful = [each for each in compared if each.verdict == "harmful"]
    if harmful:
        return f"By outcomes: nothing, {harmful[0].cheap} solves less than {harmful[0].dear}."
    return "By outcomes: nothing is proven."


def shown_by_labels(margin: float) -> str:
    """What as many labels as are named show in four of five cases."""
    return f"that equal models are {within(margin)}" if margin else "a difference of ten points"


def said_of_stakes(stakes: Sequence[Stake]) -> str:
    """The amount at stake, and the test that would settle it; "" if there is none."""
    if not stakes:
        return ""
    labels = _by_model([each.needed for each in stakes])
    stake = _together(stakes)
    if not labels:
        return f"{stake} at stake."
    missing = _by_model([each.missing for each in stakes])
    if missing == labels:
        models = "both models" if len(stakes) == 1 else "the models compared"
        return (
            f"{stake} at stake; needs {counted(labels, 'further session')} on {models}, nothing to label yet."
        )
    unrun = f" ({missing:,} of them of sessions not yet run)" if missing else ""
    shown = shown_by_labels(stakes[0].margin)
    return f"{stake} at stake; {counted(labels, 'label')}{unrun} would show {shown}."


def outcomes_blocks(compared: Sequence[Comparison]) -> Iterator[Block]:
    """What outcomes show, as a table."""
    if compared:
        yield "By outcomes, in projects where the logs prove outcomes of both models:"
    else:
        yield "By outcomes: nothing, for no project has proven outcomes of two models."
    yield TextTable(_OUTCOMES, [_comparison(each) for each in compared])
    saving = [each for each in compared if each.verdict == "saves"]
    if saving:
        yield (
            "These sessions were not drawn by chance, and people give a cheaper model the easier ones: "
            "confirm a saving with a shadow model."
        )
    for each in saving:
        if each.sessions != each.runs:
            (dear, all_dear), (cheap, all_cheap) = zip(each.runs, each.sessions, strict=True)
            yield (
                f"{dear:,} of {all_dear:,} sessions of {each.dear} have an outcome, and {cheap:,} of "
                f"{all_cheap:,} of {each.cheap}: a model whose failures leave no proof in the log seems "
                "better than it is."
            )


def stakes_blocks(stakes: Sequence[Stake]) -> Iterator[Block]:
    """Unknown savings, as a table."""
    yield "Unknown: what a cheaper model would save at most, if it did as well."
    yield "A label says whether a session was solved; pointsman audit --labels FILE reads them:"
    rows = [
        [
            each.dear,
            each.cheap,
            amount(each.dollars, each.worth),
            f"{each.labels:,}",
            f"{each.missing_runs:,}",
            _sample(each.sample),
        ]
        for each in stakes
    ]
    yield TextTable(_STAKES, rows)
    yield from (
        f"{each.dear} and {each.cheap} have no project in common: no outcome of theirs can be compared until "
        "both have sessions in one."
        for each in stakes
        if not each.projects
    )


_NO_STAKES: Final = "nothing can be compared, for no work was done by a model that is cheaper."
_OUTCOMES: Final = (
    Column("instead of"),
    Column("model"),
    Column("runs", right=True),
    Column("difference of success", right=True),
    Column("verdict"),
)
_STAKES: Final = (
    Column("instead of"),
    Column("model"),
    Column("at stake", right=True),
    Column("labels", right=True),
    Column("of sessions not yet run", right=True),
    Column("label first"),
)


def _comparison(each: Comparison) -> list[str]:
    low, high = each.interval
    found = f"{each.difference:+.0%} ({low:+.0%} to {high:+.0%})" if sum(each.runs) else "-"
    said = {
        "saves": f"saves {amounts([each])}, {within(each.margin)}",
        "harmful": f"refused: {each.missing}",
    }.get(each.verdict, f"not claimed: {each.missing}")
    return [each.dear, each.cheap, f"{each.runs[0]} and {each.runs[1]}", found, said]


def _sample(sessions: Sequence[str]) -> str:
    more = f" (+{len(sessions) - _SAMPLE:,})" if len(sessions) > _SAMPLE else ""
    return " ".join(sessions[:_SAMPLE]) + more


def _by_model(counts: Sequence[dict[str, int]]) -> int:
    """The sum over models: what serves two comparisons counts once."""
    return sum(map(max, grouped(each for of in counts for each in of.items()).values()))


def dollars(amount: float) -> str:
    """An amount, in cents below ten dollars."""
    if 0 < amount < 0.005:
        return "less than $0.01"
    return f"${amount:,.2f}" if abs(amount) < 10 else f"${amount:,.0f}"


def amount(total: float, worth: float) -> str:
    """An amount with a part that is no money but use of a subscription.

    Args:
        total: Dollars at list prices.
        worth: Of these, the part that a subscription paid.
    """
    return _amount(dollars, (total,), (worth,))


def amounts(saved: Sequence[Comparison]) -> str:
    """The interval of what comparisons show together."""
    ends = [sum(each.saved[at] for each in saved) for at in (0, 1)]
    worth = [sum(each.saved[at] * each.subscribed for each in saved) for at in (0, 1)]
    return _amount(lambda low, high: f"{dollars(low)} to {dollars(high)}", ends, worth)


def _amount(said: Callable[..., str], total: Sequence[float], worth: Sequence[float]) -> str:
    # Money is a difference here: a rest of rounding is none.
    money = [
        all_ - own if abs(all_ - own) > 1e-9 * abs(all_) else 0.0
        for all_, own in zip(total, worth, strict=True)
    ]
    parts = [said(*money)] if any(money) or not any(worth) else []
    if any(worth):
        parts.append(f"{said(*worth)} worth of a subscription")
    return " and ".join(parts)


def _together(found: Sequence[Sure] | Sequence[Stake]) -> str:
    return amount(sum(each.dollars for each in found), sum(each.worth for each in found))


def verdict(sessions: Sequence[SessionFigures], pricing: Pricing, margin: float = 0.0) -> Verdict:
    """Compute known savings, with models that are good enough within the margin."""
    runs = {of.id: run for of in sessions if (run := run_of(of, pricing))}
    pairs = _pairs(dict.fromkeys(model for (model, _), _ in _work(sessions, pricing, {})), pricing)
    comparable = tried({(dear[1], cheap[1]) for dear, cheap in pairs}, runs.values())
    criterion = Criterion(max(1, len(comparable)), margin)
    compared = tuple(compare(runs.values(), dear, cheap, criterion) for dear, cheap in comparable)
    harmful = {(each.dear, each.cheap) for each in compared if each.verdict == "harmful"}
    undecided = [(dear, cheap) for dear, cheap in pairs if (dear[1], cheap[1]) not in harmful]
    claimed = {
        each.dear: settled(runs.values(), each.dear, each.cheap)
        for each in compared
        if each.verdict == "saves"
    }
    spent = summed(_work(sessions, pricing, claimed), Spent())
    first, last = period(sessions) or (None, None)
    return Verdict(
        total=sum(map(pricing.session, sessions), Money()),
        days=(last - first).days + 1 if first and last else 0,
        sure=sure(sessions, pricing),
        compared=compared,
        stakes=tuple(_stakes(undecided, spent, runs, pricing, criterion)),
        stuck=sum(of.stuck for of in sessions),
        after_sign=sum((pricing.money(of.after_sign, of.client) for of in sessions if of.stuck), Money()),
    )


_Model = tuple[str, str]  # provider, id


def tried(pairs: Iterable[tuple[str, str]], runs: Collection[Run]) -> list[tuple[str, str]]:
    """The pairs of models that some project has outcomes of both of: so many comparisons are made."""
    known = {(run.cluster, run.model) for run in runs if run.solved is not None}
    projects = sorted({cluster for cluster, _ in known})
    return [
        (dear, cheap)
        for dear, cheap in sorted(pairs)
        if any((project, dear) in known and (project, cheap) in known for project in projects)
    ]


def run_of(of: SessionFigures, pricing: Pricing) -> Run | None:
    """A session as a run of one model; None where several did the work."""
    models = {part.split.model for part in of.parts if is_work(part.split.role)}
    if len(models) != 1:
        return None
    money = pricing.session(of)
    return Run(of.project, models.pop(), of.solved, money.total, money.worth)


def _work(
    sessions: Sequence[SessionFigures], pricing: Pricing, claimed: Mapping[str, Collection[str]]
) -> Iterator[tuple[tuple[_Model, bool], Spent]]:
    """Yield the work of every model without sure savings, and its cost, by whether a subscription paid it.

    ``claimed`` are projects by model, of which outcomes show the saving.
    """
    for of in sessions:
        for part in without(of.parts, of.after_stuck):
            if not is_work(part.split.role) or of.project in claimed.get(part.split.model, ()):
                continue
            subscribed = pricing.subscribed(of.client, logged=part.split.subscription)
            cost = pricing.money([part], of.client).total
            model = part.split.provider, part.split.model
            yield (model, subscribed), msgspec.structs.replace(part.spent, logged_cost=cost)


def _pairs(models: Iterable[_Model], pricing: Pricing) -> list[tuple[_Model, _Model]]:
    """Every model with every one that is cheaper in input and output."""
    prices = {
        model: (found.input_per_million, found.output_per_million)
        for model in models
        if (found := pricing.prices(*model)) is not None
    }
    return [
        (dear, cheap)
        for dear, (into, out) in prices.items()
        for cheap, (less_in, less_out) in prices.items()
        if None not in (into, out, less_in, less_out)
        and (less_in or 0.0) < (into or 0.0)
        and (less_out or 0.0) < (out or 0.0)
    ]


def _stakes(
    pairs: Sequence[tuple[_Model, _Model]],
    work: Mapping[tuple[_Model, bool], Spent],
    runs: dict[str, Run],
    pricing: Pricing,
    criterion: Criterion,
) -> Iterator[Stake]:
    """Yield the largest stake of every model of which outcomes decide nothing."""
    found: dict[str, Stake] = {}
    for dear, cheap in pairs:
        money, worth = (
            own.logged_cost - _instead(own, cheap, pricing)
            for own in (work.get((dear, subscribed), Spent()) for subscribed in (False, True))
        )
        share = money + worth
        if share > 0 and (dear[1] not in found or share > found[dear[1]].dollars):
            found[dear[1]] = stake_of(dear[1], cheap[1], share, runs, criterion, worth=worth)
    yield from sorted(found.values(), key=lambda each: -each.dollars)


def _instead(work: Spent, cheap: _Model, pricing: Pricing) -> float:
    """Cost of the same tokens at another model's prices, its cache as warm as in the log."""
    prices = pricing.prices(*cheap)
    cost = paid(work, prices) if prices else None
    return work.logged_cost if cost is None else cost + work.fees


def stake_of(
    dear: str, cheap: str, share: float, runs: Mapping[str, Run], criterion: Criterion, *, worth: float = 0.0
) -> Stake:
    """Upper bound of the saving of a move, and the sessions with outcomes that would decide."""
    needed = labels_needed(tuple(runs.values()), dear, cheap, criterion)
    both = shared(runs.values(), dear, cheap)
    open_ = {
        name: run
        for name, run in runs.items()
        if run.model in (dear, cheap) and run.solved is None and run.cluster in both
    }
    left = dict(needed)
    sample = []
    for name in sorted(open_, key=partial(draw, "label")):  # by cost, most would be failures of one model
        if left[open_[name].model]:
            left[open_[name].model] -= 1
            sample.append(name)
    labels = sum(needed.values())
    missing, margin = sum(left.values()), criterion.margin
    return Stake(dear, cheap, share, labels, tuple(sample), missing, needed, left, worth, margin, len(both))


def period(sessions: Sequence[SessionFigures]) -> tuple[date, date] | None:
    """The first and the last day of sessions; None where no log has a time."""
    times = [of.started for of in sessions if of.started]
    ends = (min(times), max(of.ended for of in sessions)) if times else ()
    days = [local(at).date() for at in ends]
    return (days[0], days[1]) if days else None
