"""``pointsman fit policy``: where to cut a score into tiers, for a required quality or a budget.

Boundaries are chosen on all prompts; the reported figures come from choosing on four fifths of them and
serving the rest, five times. No model is asked for verification in these figures.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from pointsman.config.edit import set_value
from pointsman.decision.policy import Policy
from pointsman.encoders.learned_routers import encoder_of
from pointsman.errors import PointsmanError
from pointsman.learning.boundaries import (
    Boundaries,
    Choice,
    Mixed,
    Point,
    Prompts,
    QualityTarget,
    Served,
    Target,
    Tiers,
    choose,
    cross_fitted,
    curve,
)
from pointsman.learning.datasets import LEAST_FOR_POLICY, Graded
from pointsman.learning.kinds_prior import fitter, kinds_of
from pointsman.learning.learning import Corpus, clusters, held_out, trust
from pointsman.learning.metrics import Floats, Interval, Rows, sums_interval
from pointsman.learning.one_sided import LEAST_SESSIONS
from pointsman.learning.rankers import alike, decided, unseen, was_fitted_on
from pointsman.learning.savings import RouterSavings, served_savings
from pointsman.tiers import LearnedRouter, LearnedRouterPolicy, TierProfile
from pointsman.vocabulary import TIERS, Stage, Tier

__all__ = ["Fitted", "PolicyReport", "fit_policy", "policy_text"]

#: Above every score a profile can give (its values are below a million each).
_UNREACHED: Final = 1e9


class PolicyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What held-out prompts showed. ``None`` and NaN: nothing to measure."""

    prompts: int
    target: Target
    reached: bool  # on the prompts the boundaries were chosen on
    supported: bool  # the whole interval of held-out prompts reaches the level to show
    kept: Interval  # share of the best tier's quality
    cost: Interval  # money on 1,000 prompts
    cost_of_best: float  # money on 1,000 prompts when the best tier serves everything
    over_mixing: Interval  # quality above that of drawing models at random for the same money, 0..1
    savings: RouterSavings | None  # against always the best tier, and a coin of equal success; None: no claim
    models: tuple[tuple[float, float], ...]  # money and quality kept when one model serves everything
    shares: dict[str, float]  # of prompts by tier
    fixed: float  # share of prompts whose tier no boundary moves: overrides, and prompts unlike training
    #: The learned router was fitted on some of these prompts: scores are of learned routers that were not.
    cross_fitted_router: bool
    left_out: int = 0  # further prompts, on which the learned router was fitted
    stands: bool = True  # the routers that were measured had about as many prompts as the one that is cut

    @property
    def shown(self) -> bool:
        """Whether it can be recommended: the level is shown, and it beats models drawn for the same money."""
        return self.supported and self.over_mixing.low > 0

    @property
    def safer(self) -> float | None:
        """A target to aim at, so that the same level is likely to be shown; None without one."""
        target, kept = self.target, self.kept
        if not self.reached or not self.stands or self.supported:
            return None
        if isinstance(target, QualityTarget):
            aim = max(target.quality, kept.value) + target.to_show - kept.low
            rounded = min(math.ceil(1000 * aim) / 1000, 1.0)
            return rounded if rounded > target.quality else None
        left = min(target.money, self.cost.value) - (self.cost.high - target.to_show)
        return left if left > 0 else None


@dataclass(frozen=True)
class Fitted:
    """Boundaries, their quality and cost, and the whole curve."""

    boundaries: Boundaries
    report: PolicyReport
    curve: tuple[Point, ...]


@dataclass(frozen=True)
class _Scored:
    """How far boundaries move each prompt."""

    scores: Floats  # (n,)
    fixed: Rows  # (n,) rank of the tier whatever the boundaries are; -1 where they decide
    least: Rows  # (n,) rank below which it does not fall


def fit_policy(
    rows: Sequence[Graded],
    costs: Floats,
    *,
    target: Target,
    tiers: Tiers,
    profile: TierProfile,
    learned_router: LearnedRouter | None = None,
    seed: int = 0,
) -> Fitted:
    """Choose boundaries for a target and measure them on prompts they were not chosen on.

    Args:
        rows: prompts with one score per tier in use, cheapest first.
        costs: money on 1,000 prompts like each, at each of these tiers. Shape ``(n, tiers)``.
        target: quality to retain, or money to spend.
        tiers: how many are in use.
        profile: rules that decide, alone or where the learned router does not know a prompt.
        learned_router: its score is cut instead of the profile's.
        seed: of folds and resamples.

    Raises:
        PointsmanError: too few prompts.
    """
    rows, costs, left_out = _fresh(rows, costs, learned_router)
    copies = alike(_prompts(rows))
    different = len(np.unique(copies))
    if different < LEAST_FOR_POLICY:
        other = "different " if different < len(rows) else ""
        raise PointsmanError(
            f"{different} {other}prompts are too few to choose boundaries;"
            f" at least {LEAST_FOR_POLICY} are needed",
            hint="of prompts that differ in case, spaces and numbers alone one counts" if other else "",
        )
    first = clusters(copies, [row.session for row in rows])
    if (sessions := len(np.unique(first))) < LEAST_SESSIONS:
        too_few = f"prompts of {sessions} different sessions are too few to choose boundaries"
        raise PointsmanError(f"{too_few}; at least {LEAST_SESSIONS} are needed")
    seen = _is_seen(rows, learned_router)
    scored = _scored(rows, profile, learned_router, seen=seen, seed=seed)
    # With two tiers, SIMPLE and MEDIUM are served by the weak model, COMPLEX and REASONING by the strong one.
    places = np.repeat(np.arange(tiers), len(TIERS) // tiers)
    quality = np.array([row.scores for row in rows])[:, places]
    spent = costs[:, places]
    prompts = Prompts(scored.scores, _settled(quality, scored), _settled(spent, scored))
    best = quality[:, -1]
    chosen = choose(prompts, target, tiers, best=best)
    served = cross_fitted(prompts, target, tiers, best=best, first=first, seed=seed)
    return Fitted(
        chosen.boundaries,
        _report(
            chosen,
            target,
            served,
            best,
            Mixed(quality, spent, places),
            scored,
            first=first,
            seen=learned_router if seen else None,
            left_out=left_out,
            seed=seed,
        ),
        tuple(curve(prompts, tiers, best=best, first=first, seed=seed)),
    )


def _is_seen(rows: Sequence[Graded], learned_router: LearnedRouter | None) -> bool:
    return learned_router is not None and was_fitted_on(learned_router, [row.outcome for row in rows])


def _fresh(
    rows: Sequence[Graded], costs: Floats, learned_router: LearnedRouter | None
) -> tuple[Sequence[Graded], Floats, int]:
    """The prompts a router was not fitted on, with their costs, and how many others are left out.

    All of them where the router has seen none, or where the others are too few to measure anything.
    """
    if learned_router is None or not _is_seen(rows, learned_router):
        return rows, costs, 0
    at = unseen(learned_router, _prompts(rows))
    if len(np.unique(alike(_prompts(rows))[at])) < LEAST_FOR_POLICY:
        return rows, costs, 0
    return [rows[place] for place in at], costs[at], len(rows) - len(at)


#: A router stands for another one that was fitted on as many prompts, more or less.
_AS_MANY: Final = 0.2


def _scored(
    rows: Sequence[Graded],
    profile: TierProfile,
    learned_router: LearnedRouter | None,
    *,
    seen: bool,
    seed: int,
) -> _Scored:
    if learned_router is None:
        return _by_rules(rows, profile)
    if seen:
        return _by_unseen_routers(rows, profile, learned_router, seed)
    return _by_learned_router(rows, profile, learned_router)


def _by_rules(rows: Sequence[Graded], profile: TierProfile) -> _Scored:
    """With boundaries out of reach, only overrides and the floor of the profile rise above SIMPLE."""
    free = msgspec.structs.replace(profile, boundaries=(_UNREACHED,) * 3)
    found = decided(_prompts(rows), Policy(profile=free))
    ranks = np.array([each.tier.rank for each in found])
    ruled = np.array([each.stage is Stage.RULES for each in found])
    return _Scored(
        np.array([each.score for each in found]), np.where(ruled, -1, ranks), np.where(ruled, ranks, 0)
    )


def _by_learned_router(
    rows: Sequence[Graded], profile: TierProfile, learned_router: LearnedRouter
) -> _Scored:
    found = decided(
        _prompts(rows),
        Policy(
            profile=profile,
            learned_router=LearnedRouterPolicy(learned_router=learned_router, boundaries=(0.0, 0.0, 0.0)),
        ),
    )
    return _Scored(
        np.array([each.score for each in found]),
        np.array([-1 if each.stage is Stage.LEARNED else each.tier.rank for each in found]),
        np.zeros(len(rows), dtype=np.intp),
    )


def _by_unseen_routers(
    rows: Sequence[Graded], profile: TierProfile, learned_router: LearnedRouter, seed: int
) -> _Scored:
    """The router knows these prompts too well; routers fitted on the other folds stand in for it."""
    encoder = encoder_of(learned_router)
    kinds = kinds_of(learned_router, encoder)
    corpus = Corpus.of([row.outcome for row in rows], encoder, kinds)
    unseen = held_out(corpus, seed=seed, fit=fitter(corpus))
    found = decided(_prompts(rows), Policy(profile=profile))
    unfamiliar = trust(unseen.similarity, unseen.bounds) == 0
    by_rules = unfamiliar | [each.stage is not Stage.RULES for each in found]
    return _Scored(
        unseen.raw[1] - unseen.raw[0],
        np.where(by_rules, [each.tier.rank for each in found], -1),
        np.zeros(len(rows), dtype=np.intp),
    )


def _prompts(rows: Sequence[Graded]) -> list[str]:
    return [row.prompt for row in rows]


def _settled(values: Floats, scored: _Scored) -> Floats:
    """Values by rank as each prompt would really get them. Shape ``(n, 4)``."""
    every = np.arange(len(values))[:, None]
    ranks = np.maximum(np.arange(len(TIERS)), scored.least[:, None])
    return np.asarray(values[every, np.where(scored.fixed[:, None] >= 0, scored.fixed[:, None], ranks)])


def _report(
    chosen: Choice,
    target: Target,
    served: Served,
    best: Floats,
    mixed: Mixed,
    scored: _Scored,
    *,
    first: Rows,
    seen: LearnedRouter | None,
    left_out: int,
    seed: int,
) -> PolicyReport:
    count = len(best)
    stands = seen is None or abs(seen.rows - count) <= _AS_MANY * seen.rows

    ranks = _ranks(served, scored)
    moved = mixed.places[ranks] < mixed.places[-1]
    kept = served.kept(best, together=first, moved=moved, seed=seed)
    cost = sums_interval(served.cost, together=first, seed=seed)
    enough = kept.low >= target.to_show if isinstance(target, QualityTarget) else cost.high <= target.to_show
    return PolicyReport(
        prompts=count,
        target=target,
        reached=chosen.reached,
        supported=chosen.reached and enough and stands,
        kept=kept,
        cost=cost,
        cost_of_best=float(mixed.cost[:, -1].mean()),
        over_mixing=mixed.surpassed(served, together=first, seed=seed),
        savings=served_savings(
            served.quality,
            served.cost,
            mixed.quality[:, [0, -1]],
            mixed.cost[:, [0, -1]],
            to_weak=float(np.mean(mixed.places[ranks] == 0)),
            moved=moved.astype(np.float64),
            together=first,
            seed=seed,
        )
        if stands
        else None,
        models=mixed.alone(),
        shares={str(tier): float(np.mean(ranks == tier.rank)) for tier in TIERS},
        fixed=float(np.mean(scored.fixed >= 0)),
        cross_fitted_router=seen is not None,
        left_out=left_out,
        stands=stands,
    )


def _ranks(served: Served, scored: _Scored) -> Rows:
    moved = np.maximum(served.ranks, scored.least)
    return np.where(scored.fixed >= 0, scored.fixed, moved)


#: Digits that tell apart the scores of any two prompts seen so far.
DIGITS: Final = 6


def policy_text(
    base: str,
    boundaries: Boundaries,
    report: PolicyReport,
    *,
    profile: str = "",
    learned_router: Path | None = None,
    models: dict[Tier, str] | None = None,
) -> str:
    """Return a configuration that decides by these boundaries.

    Args:
        base: the configuration to change; empty for the boundaries alone.
        boundaries: scores at which MEDIUM, COMPLEX and REASONING begin.
        report: their quality and cost; becomes a comment.
        profile: to name, where the base does not.
        learned_router: its score is cut; None for the profile's.
        models: configured names by tier, where a configuration has them.

    Raises:
        ConfigError: the configuration writes ``[tiers]`` in a way that cannot be extended.
    """
    literal = f"[{', '.join(repr(round(value, DIGITS)) for value in boundaries)}]"
    text = base
    for tier, name in (models or {}).items():
        text = set_value(text, ("tiers", tier.lower()), json.dumps(name))
    if profile:
        text = set_value(text, ("tiers", "profile"), json.dumps(profile))
    if learned_router is None:
        text = set_value(text, ("tiers", "boundaries"), literal)
    else:
        text = set_value(text, ("tiers", "learned_router", "file"), json.dumps(str(learned_router)))
        text = set_value(text, ("tiers", "learned_router", "boundaries"), literal)
    return "".join(f"# {line}\n" for line in _told(report)) + text.lstrip("\n")


def _told(report: PolicyReport) -> list[str]:
    target, kept, cost = report.target, report.kept, report.cost
    if isinstance(target, QualityTarget):
        wanted = f"keep {target.quality:.1%} of the best tier's quality"
    else:
        wanted = f"spend at most {target.money:.4g} on 1,000 prompts"
    spent = f"{cost.value:.4g} on 1,000 prompts ({cost.low:.4g} .. {cost.high:.4g})"
    return [
        f"Boundaries by pointsman fit policy from {report.prompts:,} prompts, to {wanted}.",
        f"Held out: {kept.value:.1%} kept ({kept.low:.1%} .. {kept.high:.1%}), {spent}.",
    ]
