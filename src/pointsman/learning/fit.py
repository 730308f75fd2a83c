"""``pointsman fit tiers``: outcomes in, a learned router out, with what it can and cannot claim."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pointsman.encoders import StaticEncoder, load_encoder
from pointsman.encoders.kinds import load_kinds, table_hash
from pointsman.errors import PointsmanError
from pointsman.learning.calibrating import calibrate
from pointsman.learning.datasets import LEAST_FOR_TIERS, PromptOutcome
from pointsman.learning.features import Features
from pointsman.learning.kinds_prior import PriorWeights, fitter
from pointsman.learning.learning import (
    LENGTH_SLOPE,
    RULES,
    RULES_SLOPE,
    Corpus,
    Fitted,
    Floats,
    HeldOut,
    Rows,
    Weights,
    group_offsets,
    held_out,
)
from pointsman.learning.metrics import Interval, apgr_interval, difference_interval
from pointsman.learning.rankers import alike, baselines
from pointsman.learning.signal import signal_chance
from pointsman.learning.tiers import TierRow, measure
from pointsman.tiers.kinds import Kinds, PromptKinds
from pointsman.tiers.learned_router import Calibration, Centre, Claim, Dense, LearnedRouter
from pointsman.vocabulary import Encoder

__all__ = ["RIVALS", "Fit", "Power", "claim", "fit_tiers", "power_of", "read_with"]

LEAST_ROWS: Final = LEAST_FOR_TIERS

#: What a learned router has to beat before it may be called an improvement. Random among them: where short
#: prompts are
#: the hard ones, a learned router may rank better than length and both profiles, and worse than no ranking
#: at all.
RIVALS: Final = ("random", "length", "seed", "default")

#: Where the drift check looks for live prompts outside what was trained on.
DECILES: Final = tuple(step / 10 for step in range(11))


#: Standard errors of a two-sided test at 95 % with 80 % power: 1.96 + 0.84. Source: Cohen, "Statistical Power
#: Analysis for the Behavioral Sciences" (1988), chapter 2.
_POWER: Final = 2.80


class Power(msgspec.Struct, frozen=True):
    """What these labels could have shown against length, whatever they did show. Differences are of APGR."""

    difference: float  # measured, held out
    smallest: float  # difference that four in five such data sets would show
    labels: int | None  # about what would show the measured one; None where it is not above 0


def power_of(shown: Claim) -> Power:
    """The power of the paired comparison with length, from the width of its bootstrap interval.

    The error of an APGR falls with the square root of the labels; that is all the extrapolation assumes, and
    a learned router that gets better with more labels needs fewer.
    """
    difference, low, high = shown.against["length"]
    smallest = _POWER * (high - low) / (2 * 1.96)
    if not difference > 0:
        return Power(difference, smallest, None)
    return Power(difference, smallest, math.ceil(shown.rows * (smallest / difference) ** 2))


@dataclass(frozen=True)
class Fit:
    """A learned router, and every ranking measured on the same held-out prompts."""

    learned_router: LearnedRouter
    rows: tuple[TierRow, ...]
    calibration_errors: tuple[Interval, Interval]  # of the weak and the strong model, held out

    @property
    def improves(self) -> bool:
        """Whether the held-out interval lies above chance, length and both rule profiles."""
        return self.learned_router.claim.improves


def fit_tiers(
    outcomes: Sequence[PromptOutcome],
    *,
    features: Features = Features.AUTO,
    kinds: PromptKinds | None = None,
    weak_model: str = "",
    strong_model: str = "",
    seed: int = 0,
) -> Fit:
    """Fit a learned router and measure it on prompts it has not seen.

    With ``Features.KINDS`` the prior is of ``kinds``, or of the shipped ones; with fewer than 300 outcomes it
    ranks alone.

    Raises:
        PointsmanError: too few outcomes, or the strong model is not better on them.
        MissingExtra: scikit-learn, or the encoder asked for, is not installed.
    """
    different = len(set(alike([row.prompt for row in outcomes]).tolist()))
    if different < LEAST_ROWS:
        of = f" of {different} different prompts" if different < len(outcomes) else ""
        raise PointsmanError(
            f"{len(outcomes)} outcomes{of} are too few for training; at least {LEAST_ROWS} are needed"
        )
    encoder, prompt_kinds = read_with(features, kinds)
    corpus = Corpus.of(outcomes, encoder, prompt_kinds)
    if corpus.strong.mean() <= corpus.weak.mean():
        raise PointsmanError(
            "the strong model is not better than the weak one on this data: there is nothing to route",
            hint="swap --weak and --strong, or use one model",
        )
    fit = fitter(corpus)
    unseen = held_out(corpus, seed=seed, fit=fit)
    rankings = {**baselines(outcomes), "learned_router": unseen.raw[1] - unseen.raw[0]}
    weights = fit(corpus, np.arange(len(corpus)))
    weak, weak_error = calibrate(unseen.raw[0], corpus.weak, first=corpus.first, seed=seed)
    strong, strong_error = calibrate(unseen.raw[1], corpus.strong, first=corpus.first, seed=seed)
    shown = msgspec.structs.replace(
        claim(rankings, corpus.weak, corpus.strong, first=corpus.first, seed=seed),
        signal=signal_chance(corpus, seed=seed),
    )
    learned_router = msgspec.structs.replace(
        _learned_router(corpus, unseen, (weak, strong), shown),
        **_numbers(weights, prompt_kinds),
        weak_model=weak_model,
        strong_model=strong_model,
        offsets=group_offsets(corpus, unseen, [row.group for row in outcomes]),
        dense=_dense(weights, encoder, features) if isinstance(weights, Weights) else None,
    )
    return Fit(learned_router, tuple(measure(outcomes, rankings, seed=seed)), (weak_error, strong_error))


def _learned_router(
    corpus: Corpus,
    unseen: HeldOut,
    calibrations: tuple[Calibration, Calibration],
    shown: Claim,
) -> LearnedRouter:
    """A router without weights, calibrated on predictions of routers that had not seen the prompt."""
    return LearnedRouter(
        rows=len(corpus),
        rarity=b"",
        centres=(),
        weak=b"",
        strong=b"",
        weak_mean=0.0,
        strong_mean=0.0,
        log_length=float(corpus.log_length.mean()),
        length_slope=LENGTH_SLOPE,
        rules=RULES,
        rules_mean=0.0,
        rules_slope=0.0,
        similarity=unseen.bounds,
        error_similarity=unseen.careful,
        weak_calibration=calibrations[0],
        strong_calibration=calibrations[1],
        claim=shown,
        lengths=_deciles(corpus.log_length),
        similarities=_deciles(unseen.similarity),
    )


def _numbers(weights: Fitted, kinds: Kinds | None) -> dict[str, Any]:
    """What a file holds of weights: over n-grams, or over kinds and a vector."""
    if isinstance(weights, PriorWeights) and kinds:
        weak, strong = (float(mean) for mean in weights.means)
        return {"head": weights.head(kinds.file), "weak_mean": weak, "strong_mean": strong}
    assert isinstance(weights, Weights)  # noqa: S101 - there are two
    return {
        "rarity": _halves(weights.rarity),
        "centres": tuple(_centre(row) for row in weights.centres),
        "weak": _halves(weights.ngrams[0]),
        "strong": _halves(weights.ngrams[1]),
        "weak_mean": float(weights.means[0]),
        "strong_mean": float(weights.means[1]),
        "rules_mean": weights.rules,
        "rules_slope": RULES_SLOPE,
    }


def read_with(features: Features, kinds: PromptKinds | None) -> tuple[Encoder | None, Kinds | None]:
    """The encoder, and the kinds, that are asked for; the shipped kinds unless others are given."""
    if features is Features.KINDS:
        encoder = StaticEncoder()
        file = kinds or load_kinds("default")
        return encoder, Kinds(file, encoder, table_hash(encoder)) if file else None
    return (load_encoder(features) if features in {Features.STATIC, Features.SENTENCE} else None), None


def claim(rankings: Mapping[str, Floats], weak: Floats, strong: Floats, *, first: Rows, seed: int) -> Claim:
    """What a held-out ranking shows beside its rivals.

    Args:
        rankings: Scores by ranker, each of shape ``(n,)``.
        weak: Quality of the weak model. Shape ``(n,)``.
        strong: Quality of the strong model. Shape ``(n,)``.
        first: The first row that a learned router cannot tell from each. Shape ``(n,)``.
        seed: of the resamples.
    """
    learned_router = rankings["learned_router"]
    own = apgr_interval(learned_router, weak, strong, together=first, seed=seed)
    against = {}
    for rival in RIVALS:
        more = difference_interval(learned_router, rankings[rival], weak, strong, together=first, seed=seed)
        against[rival] = (more.value, more.low, more.high)
    return Claim(
        rows=len(weak),
        apgr=own.value,
        low=own.low,
        high=own.high,
        against=against,
        improves=all(low > 0 for _, low, _ in against.values()),
    )


def _centre(row: NDArray[np.float64]) -> Centre:
    named = np.flatnonzero(row.astype("<f2"))  # what is 0 in the file is not named in it
    return Centre(named.astype("<u2").tobytes(), _halves(row[named]))


def _dense(weights: Weights, encoder: Encoder | None, kind: str) -> Dense | None:
    if encoder is None or weights.vectors is None:
        return None
    return Dense(encoder.name, kind, _halves(weights.vectors[0]), _halves(weights.vectors[1]))


def _halves(values: NDArray[np.float64]) -> bytes:
    return values.astype("<f2").tobytes()


def _deciles(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(value) for value in np.quantile(values, DECILES))
