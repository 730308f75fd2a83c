"""Sure savings, whose parts do not overlap; and models compared by the outcomes that logs prove.

Sure is what needs no other model to do the person's work. Runs on two models are compared by project.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import cbrt, ceil, sqrt
from statistics import NormalDist, fmean, variance
from typing import Final, NamedTuple

import msgspec

from pointsman.audit.caches import Call, paid, reads
from pointsman.audit.figures import SUB_AGENT, Part, SessionFigures
from pointsman.audit.money import Pricing
from pointsman.audit.session import HOUSEKEEPING
from pointsman.learning.intervals import Stratum, stratified_interval
from pointsman.prices import Prices
from pointsman.vocabulary import Purpose

__all__ = [
    "ENOUGH_SESSIONS",
    "HOUSEKEEPING_CHANGE",
    "MOVES_CHANGE",
    "STUCK_CHANGE",
    "TOOLS_CHANGE",
    "Comparison",
    "Criterion",
    "Run",
    "Saved",
    "Sure",
    "compare",
    "is_work",
    "labels_needed",
    "settled",
    "shared",
    "sure",
    "within",
    "without",
]

STUCK_CHANGE: Final = "stop when stuck"
HOUSEKEEPING_CHANGE: Final = "cheapest model for titles, topics, summaries and probes"
MOVES_CHANGE: Final = "stay with one model in every session"
TOOLS_CHANGE: Final = "do not offer tools that no session called"

#: Sessions of a client without a call of a tool, from which on one in ten at most will call it (the rule of
#: three: 3 / n is the upper end of the 95 % interval of a share of which nothing was seen).
ENOUGH_SESSIONS: Final = 30

_WORK: Final = frozenset(
    {Purpose.MESSAGE, Purpose.TOOL_ITERATION, Purpose.PLAN, Purpose.EDIT, Purpose.COMPACTION, SUB_AGENT}
)


class Sure(NamedTuple):
    """One saving."""

    what: str
    dollars: float
    requests: int
    because: str  # how it is computed, and what is assumed
    worth: float = 0.0  # of the dollars: paid by a subscription, so that no money is saved


def is_work(role: str) -> bool:
    """Whether requests of a role do the person's work."""
    return role in _WORK


def without(parts: Sequence[Part], less: Sequence[Part]) -> Iterator[Part]:
    """Yield parts without the requests of others that are among them."""
    taken = {part.split: part.spent for part in less}
    for part in parts:
        other = taken.get(part.split)
        if other is None:
            yield part
        elif other.requests < part.spent.requests:
            yield Part(part.split, part.spent - other)


class Saved(msgspec.Struct, frozen=True, gc=False):
    """Requests that would have been served otherwise, or not at all."""

    requests: int = 0
    dollars: float = 0.0  # saved, at list prices; negative: it costs more
    worth: float = 0.0  # of these, paid by a subscription

    def __add__(self, other: Saved) -> Saved:
        return Saved(self.requests + other.requests, self.dollars + other.dollars, self.worth + other.worth)


def sure(sessions: Sequence[SessionFigures], pricing: Pricing) -> tuple[Sure, ...]:
    """Sure savings, the largest first, without zeros."""
    found = []
    for what, (saved, because) in _SAVINGS.items():
        total = sum(saved(sessions, pricing), Saved())
        if total.dollars > 0:
            found.append(Sure(what, total.dollars, total.requests, because, total.worth))
    return tuple(sorted(found, key=lambda each: -each.dollars))


def _after_stuck(sessions: Sequence[SessionFigures], pricing: Pricing) -> Iterator[Saved]:
    for of in sessions:
        money = pricing.money(of.after_stuck, of.client)
        yield Saved(sum(part.spent.requests for part in of.after_stuck), money.total, money.worth)


def _housekeeping(sessions: Sequence[SessionFigures], pricing: Pricing) -> Iterator[Saved]:
    models = {(part.split.provider, part.split.model) for of in sessions for part in of.parts}
    for of in sessions:
        for part in without(of.parts, of.after_stuck):
            if part.split.role not in HOUSEKEEPING:
                continue
            least = min(
                (
                    found
                    for provider, model in models
                    if provider == part.split.provider
                    and (prices := pricing.prices(provider, model))
                    and (found := prices.cost(part.spent.input_tokens, 0, part.spent.output_at_most))
                    is not None
                ),
                default=None,
            )
            money = pricing.money([part], of.client)
            saved = money.total - least if least is not None else 0.0
            if saved > 0:
                yield Saved(part.spent.requests, saved, saved * money.subscribed)


def _moves(sessions: Sequence[SessionFigures], pricing: Pricing) -> Iterator[Saved]:
    for of in sessions:
        if of.moved and not of.stuck:
            saved = _staying(of.moved, pricing)
            yield Saved(len(of.moved), saved, saved * pricing.session(of).subscribed)


def _staying(moved: Sequence[Call], pricing: Pricing) -> float:
    """The surcharge of a session over its dearest model alone, below 0 if it costs less; 0 if unpriced."""
    prices: list[Prices] = []
    for call in moved:
        found = pricing.prices(call.provider, call.model)
        if found is None or found.input_per_million is None or found.output_per_million is None:
            return 0.0
        prices.append(found)
    stays, best = max(
        zip(moved, prices, strict=True),
        key=lambda each: (each[1].input_per_million or 0.0, each[1].output_per_million or 0.0),
    )
    stayed = [
        msgspec.structs.replace(call, provider=stays.provider, model=stays.model, cached_tokens=0)
        for call in moved
    ]
    read = reads(moved, stayed, pricing.lifetimes(moved))
    now = sum(paid(call, best, cached) or 0.0 for call, cached in zip(stayed, read, strict=True))
    return sum(paid(call, price) or 0.0 for call, price in zip(moved, prices, strict=True)) - now


def _tools(sessions: Sequence[SessionFigures], pricing: Pricing) -> Iterator[Saved]:
    called = {(of.client, name) for of in sessions for name in of.calls_by_tool}
    count = Counter(of.client for of in sessions)
    for of in sessions:
        if count[of.client] < ENOUGH_SESSIONS:
            continue
        tokens = sum(size for name, size in of.unused_tools.items() if (of.client, name) not in called)
        total = of.total().requests
        kept = total - sum(part.spent.requests for part in of.after_stuck)
        main = max(of.parts, key=lambda part: part.spent.requests, default=None)
        prices = pricing.prices(main.split.provider, main.split.model) if main else None
        if tokens and prices and total:
            saved = (prices.cost(tokens, tokens, 0) or 0.0) * kept / total
            yield Saved(kept, saved, saved * pricing.session(of).subscribed)


#: What is saved by each change, how it is computed, and what is assumed.
_SAVINGS: Final = {
    STUCK_CHANGE: (
        _after_stuck,
        (
            "requests after a sign of being stuck that lasted, in sessions that ended stuck and are not "
            "proven solved; assumed: stopping there would have cost nothing else"
        ),
    ),
    HOUSEKEEPING_CHANGE: (
        _housekeeping,
        "at the prices of the cheapest model of the same provider in these logs, nothing read from its cache",
    ),
    MOVES_CHANGE: (
        _moves,
        (
            "all sessions that changed models, also those in which staying costs more, had the dearest "
            "model of a session answered all of it: nothing is read anew; assumed: the dearest does no worse"
        ),
    ),
    TOOLS_CHANGE: (
        _tools,
        (
            "tokens of their descriptions (four characters each), all at the price of cached input, of "
            f"clients with {ENOUGH_SESSIONS} sessions or more; assumed: later sessions do not need them "
            "either"
        ),
    ),
}


#: Share of false claims that is accepted, over all comparisons of one audit, both sides together.
RISK: Final = 0.05
#: The chance with which labels should show what they are to show.
POWER: Final = 0.8
#: The difference of success, ten points, that they should show where no loss is tolerated.
DIFFERENCE: Final = 0.1


class Criterion(NamedTuple):
    """When outcomes show that a model is good enough: the interval of the loss is within the margin."""

    tries: int = 1  # comparisons of this audit, which share ``RISK`` (Bonferroni)
    margin: float = 0.0  # of success; 0: no loss is tolerated, so that equal models stay unknown

    @property
    def certainty(self) -> float:
        """The certainty of each end of an interval."""
        return 1 - RISK / self.tries / 2


#: One comparison, and no loss tolerated.
_ALONE: Final = Criterion()


class Run(NamedTuple):
    """One session on one model."""

    cluster: str  # the project
    model: str
    solved: bool | None
    cost: float  # dollars
    worth: float = 0.0  # of these, paid by a subscription


class Comparison(NamedTuple):
    """What another model would have done in place of a dearer one."""

    dear: str
    cheap: str
    runs: tuple[int, int]  # with an outcome, in projects that have both
    clusters: int
    difference: float = 0.0  # success of the cheap one minus that of the dear one
    interval: tuple[float, float] = (-1.0, 1.0)
    saved: tuple[float, float] = (0.0, 0.0)  # dollars over the dear model's runs in these projects
    verdict: str = "unknown"  # "saves", "harmful", "unknown"
    missing: str = ""  # why nothing is claimed
    subscribed: float = 0.0  # share of what the dear model's runs cost that a subscription paid
    margin: float = 0.0  # of success
    sessions: tuple[int, int] = (0, 0)  # in these projects, with an outcome or without

    @property
    def is_good_enough(self) -> bool:
        """Whether the model is not worse by more than the margin."""
        return self.interval[0] > -self.margin


def within(margin: float) -> str:
    """That a model is good enough, in words."""
    return f"not worse by more than {100 * margin:g} points" if margin else "not worse"


def compare(runs: Iterable[Run], dear: str, cheap: str, criterion: Criterion = _ALONE) -> Comparison:
    """Compare two models within projects.

    The difference of success is that of ``stratified_interval``, with projects as strata.

    Args:
        runs: Runs of both models and of others.
        dear: The model that was used.
        cheap: The one that would have been used instead.
        criterion: Of the interval.
    """
    clusters = _judged_clusters(runs, dear, cheap)
    pairs = list(map(_judged, clusters))
    counts = sum(len(used) for used, _ in pairs), sum(len(other) for _, other in pairs)
    sessions = sum(len(used) for used, _ in clusters), sum(len(other) for _, other in clusters)
    found = Comparison(dear, cheap, counts, len(pairs), margin=criterion.margin, sessions=sessions)
    if not pairs:
        return found._replace(missing="no project has outcomes of both models")
    strata = [Stratum(sum(used), len(used), sum(other), len(other)) for used, other in pairs]
    seen, low, high = stratified_interval(strata, NormalDist().inv_cdf(criterion.certainty))
    found = found._replace(difference=seen, interval=(low, high))
    if not found.is_good_enough:
        if high < 0:
            return found._replace(verdict="harmful", missing=f"{cheap} solves fewer of them")
        loss, gain = (f"{end:.0%}" if end >= 0.005 else "less than 1%" for end in (-low, high))
        return found._replace(missing=f"a loss of {loss} is possible as well as a gain of {gain}")
    saved = _saved(clusters, criterion)
    if saved[0] <= 0:
        return found._replace(missing=f"{within(found.margin)}, but its runs do not surely cost less")
    return found._replace(verdict="saves", saved=saved, subscribed=_subscribed(clusters))


_Both = tuple[list[Run], list[Run]]

#: Degrees of freedom of the costs below which no amount is claimed: of one comparison, and of several, whose
#: quantiles lie further out, where the approximation of Student's t is worse.
_LEAST_FREEDOM: Final = 3
_LEAST_FREEDOM_SHARED: Final = 5


def _judged_clusters(runs: Iterable[Run], dear: str, cheap: str) -> list[_Both]:
    """Runs of both models, of each project that has outcomes of both: what others cost proves nothing."""
    found: dict[str, _Both] = {}
    for run in runs:
        if run.model in (dear, cheap):
            found.setdefault(run.cluster, ([], []))[run.model == cheap].append(run)
    return [both for both in found.values() if all(_judged(both))]


def settled(runs: Iterable[Run], dear: str, cheap: str) -> frozenset[str]:
    """The projects with outcomes of both models, of which a comparison speaks."""
    return frozenset(used[0].cluster for used, _ in _judged_clusters(runs, dear, cheap))


def shared(runs: Iterable[Run], dear: str, cheap: str) -> frozenset[str]:
    """The projects with runs of both models, with outcomes or without."""
    seen = {(run.model, run.cluster) for run in runs}
    return frozenset(project for model, project in seen if model == dear and (cheap, project) in seen)


def _judged(both: _Both) -> tuple[list[bool], list[bool]]:
    used, other = ([run.solved for run in side if run.solved is not None] for side in both)
    return used, other


def _saved(clusters: Iterable[_Both], criterion: Criterion) -> tuple[float, float]:
    """Dollars over the dear model's runs: mean costs by project; projects with one run have no spread.

    The interval is that of Welch (1947), with the degrees of freedom of Satterthwaite (1946). Where costs of
    the cheap model are the more skewed, the saving is skewed to the left, and its lower end is lowered by the
    transformation of Hall (1992, "On the removal of skewness by transformation").
    """
    saved = third = 0.0  # the mean, and the third moment about it
    terms: list[tuple[float, int]] = []  # of the variance, and their degrees of freedom
    for used, other in clusters:
        if len(used) < 2 or len(other) < 2:
            continue
        for side, sign in ((used, 1), (other, -1)):
            costs, count = [run.cost for run in side], len(side)
            mean, weight = fmean(costs), sign * len(used)
            saved += weight * mean
            terms.append((weight**2 * variance(costs) / count, count - 1))
            cubes = fmean((cost - mean) ** 3 for cost in costs)
            third += weight**3 * cubes / (count - 1) / max(count - 2, 1)
    spread = sum(term for term, _ in terms)
    if not spread:
        return saved, saved
    freedom = spread**2 / sum(term**2 / free for term, free in terms)
    if freedom < (_LEAST_FREEDOM if criterion.tries == 1 else _LEAST_FREEDOM_SHARED):
        return 0.0, 0.0
    end, skew = _student(criterion.certainty, freedom), min(third / spread**1.5, 0.0)
    return saved - sqrt(spread) * max(end, _with_skew(end, skew)), saved + sqrt(spread) * end


def _with_skew(end: float, skew: float) -> float:
    """A quantile of a studentised mean of this skewness, from that of one without."""
    return 3 * (cbrt(1 + skew * (end - skew / 6)) - 1) / skew if abs(skew) > 1e-6 else end


def _student(share: float, freedom: float) -> float:
    """The quantile of Student's t (Abramowitz & Stegun 26.7.5), which is too low with few degrees of freedom.

    With three .7 % for one comparison (2.2 % for 3, 9.1 % for 28), with five .4 % for 3 and 1.7 % for 28.
    """
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def _subscribed(clusters: Iterable[_Both]) -> float:
    dear = [run for used, _ in clusters for run in used]
    cost = sum(run.cost for run in dear)
    return sum(run.worth for run in dear) / cost if cost else 0.0


def labels_needed(
    runs: Sequence[Run], dear: str, cheap: str, criterion: Criterion = _ALONE
) -> dict[str, int]:
    """Return how many more outcomes of each model settle it in four of five cases.

    With a margin they show that equal models are good enough, without one a difference of ``DIFFERENCE``.
    Both models need the same number. Outcomes that the log proves count in projects with runs of both models;
    where these seem to be enough, only in projects with outcomes of both, since no other can be compared. The
    share of success is that of the log, and one half if it has fewer than ten outcomes.
    """
    z = NormalDist().inv_cdf(criterion.certainty) + NormalDist().inv_cdf(POWER)
    own = [run for run in runs if run.model in (dear, cheap) and run.solved is not None]
    share = sum(bool(run.solved) for run in own) / len(own) if len(own) >= 10 else 0.5
    each = ceil(2 * max(share * (1 - share), 0.05) * (z / (criterion.margin or DIFFERENCE)) ** 2)
    needed: dict[str, int] = {}
    for projects in (shared(runs, dear, cheap), settled(runs, dear, cheap)):
        known = Counter(run.model for run in own if run.cluster in projects)
        needed = {name: max(0, each - known[name]) for name in (dear, cheap)}
        if any(needed.values()):
            break
    return needed
