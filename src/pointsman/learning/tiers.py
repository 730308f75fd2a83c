"""``pointsman eval tiers``: a router compared with random, length, both rule profiles and an oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np

from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.learning import clusters
from pointsman.learning.metrics import Floats, Interval, Rows, calibration_interval, curve_intervals
from pointsman.learning.rankers import ERRORS, LEARNED, STATED, alike, scores_of, with_bounds
from pointsman.tiers.kinds import Kinds
from pointsman.tiers.learned_router import LearnedScorer

__all__ = [
    "KEPT",
    "RANKING_LEGEND",
    "EqualQuality",
    "ScoredPrompts",
    "TierRow",
    "evaluate_scored",
    "evaluation_lines",
    "measure",
    "ranking_table",
    "score_prompts",
    "scored",
]

#: Share of the strong model's quality at which rankings are compared by cost, unless asked otherwise: the
#: loss of one answer in twenty is the most that published routers call "the same quality".
KEPT: Final = 0.95

#: Tasks that get a row each; subjects of an exam are more, and too small to say anything alone.
_TASKS: Final = 30


class EqualQuality(msgspec.Struct, frozen=True):
    """The share of calls that a ranker needs to retain a share of the strong model's quality."""

    quality: float  # the share kept, 0..1
    strong_share: Interval  # share of prompts that get the strong model
    cost: Interval | None = None  # of serving everything with the strong model; None without prices


class TierRow(msgspec.Struct, frozen=True, kw_only=True):
    """One ranker on one set of prompts."""

    ranker: str
    n: int
    apgr: float
    low: float  # bounds of the 95 % bootstrap interval
    high: float
    cpt50: float
    cpt80: float
    intervals: dict[str, tuple[float, float]] = {}  # of ``cpt50`` and ``cpt80``
    equal_quality: EqualQuality | None = None
    calibration_error: dict[str, Interval] | None = (
        None  # of ``weak`` and ``strong``; only a learned router has one
    )
    #: Mean error that the learned router states of these prompts, by model: to be at least the measured one.
    stated_error: dict[str, float] = {}
    benches: dict[str, TierRow] = {}  # the same over each bench or task that the rows name


@dataclass(frozen=True)
class ScoredPrompts:
    """Outcomes with the score of each ranker. All arrays have shape ``(n,)``."""

    outcomes: Sequence[PromptOutcome]  # their prompts are not read
    rankings: Mapping[str, Floats]
    copies: Rows  # the first row of each cluster of duplicate prompts, or of a session
    probabilities: Mapping[str, Floats]  # of ``weak`` and ``strong``, by a learned router
    errors: Mapping[str, Floats]  # that it states of them


def score_prompts(
    outcomes: Sequence[PromptOutcome], scorer: LearnedScorer | None = None, *, kinds: Kinds | None = None
) -> ScoredPrompts:
    """Score prompts by every ranker, and by the learned router and kinds when there are any.

    Args:
        outcomes: evaluation data; should not contain training data of the learned router.
        scorer: the learned router.
        kinds: combined with length, and with profile ``default``; should not be made from these outcomes.
    """
    return scored(outcomes, scores_of(outcomes, kinds, scorer), _copies(outcomes))


def scored(outcomes: Sequence[PromptOutcome], found: Mapping[str, Floats], copies: Rows) -> ScoredPrompts:
    """Divide scores into rankings, and statements of a learned router about both models."""
    probabilities, errors = (
        {model: found[name] for model, name in zip(("weak", "strong"), names, strict=True) if name in found}
        for names in (STATED, ERRORS)
    )
    return ScoredPrompts(outcomes, with_bounds(outcomes, found), copies, probabilities, errors)


def _copies(outcomes: Sequence[PromptOutcome]) -> Rows:
    """The first row of each cluster: duplicate prompts, and the prompts of one session."""
    return clusters(alike([row.prompt for row in outcomes]), [row.session for row in outcomes])


def evaluate_scored(
    scored: ScoredPrompts, *, seed: int = 0, quality: float = KEPT, price_ratio: float | None = None
) -> list[TierRow]:
    """Measure rankers with given scores.

    Args:
        scored: prompts with the score of each ranker.
        seed: of the resamples.
        quality: share of the strong model's quality at which costs are compared.
        price_ratio: price of a call of the weak model in calls of the strong one.
    """
    rows = measure(
        scored.outcomes,
        scored.rankings,
        copies=scored.copies,
        seed=seed,
        quality=quality,
        price_ratio=price_ratio,
    )
    return [_calibrated(row, scored, seed) if row.ranker == LEARNED else row for row in rows]


def measure(
    outcomes: Sequence[PromptOutcome],
    rankings: Mapping[str, Floats],
    *,
    copies: Rows | None = None,
    seed: int = 0,
    quality: float = KEPT,
    price_ratio: float | None = None,
) -> list[TierRow]:
    """One row per ranking, in the order given; with a row per bench inside where rows name several.

    Duplicate prompts and those of one session (``copies``) count each, and are resampled as one cluster for
    the intervals.
    """
    # A bench, or where all are of one, a task: as long as each has a line of its own.
    name_of = attrgetter("bench" if len({row.bench for row in outcomes}) > 1 else "group")
    benches = sorted({name_of(row) for row in outcomes})
    if len(benches) > _TASKS:
        benches = []
    whole = np.arange(len(outcomes))
    parts = {name: np.flatnonzero([name_of(row) == name for row in outcomes]) for name in benches}
    weak = np.array([row.weak for row in outcomes])
    strong = np.array([row.strong for row in outcomes])
    together = _copies(outcomes) if copies is None else copies

    def row(name: str, at: Rows) -> TierRow:
        return _row(
            name,
            (rankings[name][at], weak[at], strong[at]),
            together=together[at],
            seed=seed,
            quality=quality,
            price_ratio=price_ratio,
        )

    return [
        msgspec.structs.replace(
            row(name, whole),
            benches={bench: row(name, at) for bench, at in parts.items()} if len(parts) > 1 else {},
        )
        for name in rankings
    ]


def _row(
    name: str,
    ranked: tuple[Floats, Floats, Floats],  # scores, weak, strong
    *,
    together: Rows,
    seed: int,
    quality: float,
    price_ratio: float | None,
) -> TierRow:
    apgr, half, most, share = curve_intervals(
        *ranked,
        [
            lambda curve: curve.apgr,
            lambda curve: curve.cpt(0.5),
            lambda curve: curve.cpt(0.8),
            lambda curve: curve.share_at(quality),
        ],
        together=together,
        seed=seed,
    )
    return TierRow(
        ranker=name,
        n=len(together),
        apgr=apgr.value,
        low=apgr.low,
        high=apgr.high,
        cpt50=half.value,
        cpt80=most.value,
        intervals={"cpt50": (half.low, half.high), "cpt80": (most.low, most.high)},
        equal_quality=EqualQuality(quality, share, _cost(share, price_ratio)),
    )


def _cost(share: Interval, price_ratio: float | None) -> Interval | None:
    if price_ratio is None:
        return None
    return Interval(
        *(price_ratio + part * (1 - price_ratio) for part in (share.value, share.low, share.high))
    )


def _calibrated(row: TierRow, scored: ScoredPrompts, seed: int) -> TierRow:
    def error(probabilities: Floats, happened: Sequence[float]) -> Interval:
        return calibration_interval(probabilities, happened, together=scored.copies, seed=seed)

    errors = {
        "weak": error(scored.probabilities["weak"], [each.weak for each in scored.outcomes]),
        "strong": error(scored.probabilities["strong"], [each.strong for each in scored.outcomes]),
    }
    stated = {name: float(errors.mean()) for name, errors in scored.errors.items()}
    return msgspec.structs.replace(row, calibration_error=errors, stated_error=stated)


RANKING_LEGEND: Final = (
    "APGR: share of the strong model's gain that a ranking recovers on average over all shares of its calls; "
    "chance .500. CPT(50): share of calls of the strong model that recovers half of its gain."
)


def ranking_table(rows: Sequence[TierRow]) -> str:
    """One line per ranker."""
    lines = ["ranker              n     APGR  95 % interval   CPT(50)  CPT(80)"]
    lines += [
        f"{row.ranker:<15} {row.n:>6}   {row.apgr:>5.3f}  {row.low:.3f} .. {row.high:.3f}"
        f"   {row.cpt50:>6.1%}   {row.cpt80:>6.1%}"
        for row in rows
    ]
    return "\n".join(lines)


def evaluation_lines(rows: Sequence[TierRow]) -> list[str]:
    """Every ranker on all prompts and on each bench: ranking, then the cost of equal quality."""
    if math.isnan(rows[0].apgr):
        return ["the strong model is not better than the weak one on these prompts: there is nothing to rank"]
    blocks = [("all prompts", list(rows))]
    blocks += [(bench, [row.benches[bench] for row in rows]) for bench in rows[0].benches]
    lines: list[str] = []
    for name, block in blocks:
        heading = [name] if len(blocks) > 1 else []
        lines += [*heading, ranking_table(block), "", *_equal_quality(block), ""]
    for row in rows:
        if row.calibration_error:
            errors = ", ".join(
                f"{model} {error.value:.3f} ({error.low:.3f} .. {error.high:.3f})"
                for model, error in row.calibration_error.items()
            )
            stated = ", ".join(f"{model} {error:.3f}" for model, error in row.stated_error.items())
            said = f"; stated, by likeness to the training data: {stated}" if stated else ""
            lines += [f"calibration error of the {row.ranker}: {errors}{said}", ""]
    return [*lines, RANKING_LEGEND]


def _equal_quality(rows: Sequence[TierRow]) -> list[str]:
    kept = [(row.ranker, row.equal_quality) for row in rows if row.equal_quality]
    if not kept:
        return []
    priced = kept[0][1].cost is not None
    what = "cost, of the strong model's" if priced else "share of strong calls"
    lines = [f"to keep {kept[0][1].quality:.0%} of the strong model's quality: {what}"]
    for name, equal in kept:
        shown = equal.cost or equal.strong_share
        lines.append(f"{name:<15} {shown.value:>6.1%}  {shown.low:.1%} .. {shown.high:.1%}")
    return lines
