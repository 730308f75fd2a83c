"""``pointsman fit tiers``: outcomes in, a learned router out, with the claims that its evidence supports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np
from scipy import sparse

from pointsman.encoders import StaticEncoder, load_encoder
from pointsman.encoders.learned_routers import load_kinds, table_hash
from pointsman.errors import PointsmanError
from pointsman.learning.datasets import LEAST_FOR_TIERS, Features, PromptOutcome
from pointsman.learning.kinds_prior import PriorWeights, fitter
from pointsman.learning.learning import (
    FOLDS,
    LENGTH_SLOPE,
    RARITY_FLOOR,
    RULES,
    RULES_SLOPE,
    Corpus,
    Fitted,
    HeldOut,
    Predicted,
    Weights,
    group_offsets,
    held_out,
    occurring,
)
from pointsman.learning.metrics import (
    Floats,
    Interval,
    Rows,
    apgr_interval,
    calibration_interval,
    difference_interval,
)
from pointsman.learning.one_sided import Observed, Sides, check_enough, refused, sides_of
from pointsman.learning.rankers import alike, baselines, sketch_of
from pointsman.learning.tiers import TierRow, measure
from pointsman.tiers.kinds import Kinds, PromptKinds
from pointsman.tiers.learned_router import Calibration, Centre, Claim, Dense, LearnedRouter
from pointsman.tiers.ngrams import BUCKETS
from pointsman.vocabulary import Encoder

__all__ = [
    "RIVALS",
    "Fit",
    "calibrate",
    "claim",
    "fit_tiers",
    "read_with",
    "signal_chance",
]


# Whether prompts say more of the strong model's gain than their length does: one test over all labels.

#: Permutations: the smallest chance is 1/1,000, and one of .025 has a standard error of .005.
PERMUTATIONS: Final = 999

#: Prompts of about the same length, among which gains are exchanged.
STRATUM: Final = 20

#: Permutations computed at once: what they take stays below 100 MB.
_TOGETHER: Final = 37


def signal_chance(corpus: Corpus, *, seed: int = 0) -> float:
    """The probability of so much likeness of gains among alike prompts, if only their length mattered.

    Duplicate prompts count once, with their mean gain. Likeness is that of the encoder's vectors where there
    are any, else of n-grams weighted by rarity.
    """
    rows, place, counts = np.unique(corpus.first, return_inverse=True, return_counts=True)
    gains = np.bincount(place, corpus.strong - corpus.weak) / counts
    strata = _strata(corpus.log_length[rows])
    left = gains - (np.bincount(strata, gains) / np.bincount(strata))[strata]
    features = _features(corpus, rows)
    alike = _alikeness(features, left[None, :])[0]
    draw = np.random.default_rng(seed)
    drawn = np.concatenate([_alikeness(features, part) for part in _permuted(left, strata, draw)])
    return float((1 + (drawn >= alike).sum()) / (1 + PERMUTATIONS))


def _strata(log_length: Floats) -> Rows:
    strata = np.empty(len(log_length), dtype=np.intp)
    strata[np.argsort(log_length, kind="stable")] = np.arange(len(log_length)) // STRATUM
    return strata


def _features(corpus: Corpus, rows: Rows) -> Any:
    if corpus.vectors is not None:
        vectors = corpus.vectors[rows]
        return vectors - vectors.mean(axis=0)
    _, present = occurring(corpus.ngrams[rows])
    counts = np.asarray(present.sum(axis=0)).ravel()
    weighted = present @ sparse.diags(np.sqrt(np.log((1 + len(rows)) / (1 + counts)) + RARITY_FLOOR))
    norms = np.sqrt(np.maximum(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel(), 1e-12))
    return (sparse.diags(1 / norms) @ weighted).tocsr()


def _permuted(left: Floats, strata: Rows, draw: np.random.Generator) -> Iterator[Floats]:
    """Permutations within strata, some at a time. Shape ``(k, n)``."""
    order = np.argsort(strata, kind="stable")
    for start in range(0, PERMUTATIONS, _TOGETHER):
        part = np.empty((min(_TOGETHER, PERMUTATIONS - start), len(left)))
        for row in part:
            row[order] = left[np.lexsort((draw.random(len(left)), strata))]
        yield part


def _alikeness(features: Any, left: Floats) -> Floats:
    """Sum over pairs of prompts of their likeness times what both have left. Shape ``(k,)``."""
    return np.asarray(((features.T @ left.T) ** 2).sum(axis=0)).ravel()


# Platt scaling of a learned router's raw values, measured on folds it was not fitted on.


def calibrate(raw: Floats, outcomes: Floats, *, first: Rows, seed: int) -> tuple[Calibration, Interval]:
    """Platt scaling of held-out raw values, with its error measured on folds it was not fitted on.

    Args:
        raw: Shape ``(n,)``.
        outcomes: Shape ``(n,)``.
        first: As in ``Corpus``. Shape ``(n,)``.
        seed: of the folds and resamples.
    """
    folds = (np.random.default_rng(seed).permutation(len(raw)) % FOLDS)[first]
    probabilities = np.zeros(len(raw))
    for fold in range(FOLDS):
        offset, slope = _platt(raw[folds != fold], outcomes[folds != fold])
        probabilities[folds == fold] = 1 / (1 + np.exp(-(offset + slope * raw[folds == fold])))
    offset, slope = _platt(raw, outcomes)
    error = calibration_interval(probabilities, outcomes, together=first, seed=seed)
    return Calibration(offset, slope, error.value), error


def _platt(raw: Floats, outcomes: Floats) -> tuple[float, float]:
    """Offset and slope. Outcomes between 0 and 1 count as both, in parts."""
    # Platt's own targets: never sure, so that all-right or all-wrong data does not give infinite weights.
    right, wrong = outcomes.sum(), (1 - outcomes).sum()
    high, low = (right + 1) / (right + 2), 1 / (wrong + 2)
    soft = low + (high - low) * outcomes
    middle, spread = raw.mean(), raw.std() or 1.0  # all alike: the slope stays 0
    design = np.column_stack([np.ones(len(raw)), (raw - middle) / spread])
    intercept, steep = _logistic(design, soft)
    return float(intercept - steep / spread * middle), float(steep / spread)


def _logistic(design: Floats, targets: Floats) -> Floats:
    """The coefficients of a logistic regression, by Newton's method with halved steps. Targets: 0..1."""

    def loss(found: Floats) -> float:
        values = design @ found
        return float((np.logaddexp(0.0, values) - targets * values).sum())

    found = np.zeros(design.shape[1])
    for _ in range(NEWTON_STEPS):
        probabilities = 1 / (1 + np.exp(-(design @ found)))
        curvature = (design.T * (probabilities * (1 - probabilities))) @ design
        step = np.linalg.solve(curvature + 1e-9 * np.eye(len(found)), design.T @ (targets - probabilities))
        before = loss(found)
        while loss(found + step) > before and np.abs(step).max() > NEWTON_STEP:
            step /= 2
        found = found + step
        if np.abs(step).max() <= NEWTON_STEP:
            break
    return found


#: Steps of a calibration, and the change of a coefficient that ends them: ten or fewer are taken.
NEWTON_STEPS: Final = 100
NEWTON_STEP: Final = 1e-10

#: What a learned router has to beat before it may be called an improvement. Random among them: where short
#: prompts are
#: the hard ones, a learned router may rank better than length and both profiles, and worse than no ranking
#: at all.
RIVALS: Final = ("random", "length", "seed", "default")

#: Where the drift check looks for live prompts outside what was trained on.
DECILES: Final = tuple(step / 10 for step in range(11))


@dataclass(frozen=True)
class Fit:
    """A learned router, and every ranking measured on the same held-out prompts."""

    learned_router: LearnedRouter
    rows: tuple[TierRow, ...]
    calibration_errors: tuple[Interval, Interval]  # of the weak and the strong model, held out
    sides: Sides  # how many prompts have outcomes of both models, or of one

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

    Prompts with the outcome of one model count where chance chose it; where a rule did, they calibrate that
    model alone. With ``Features.KINDS`` the prior is of ``kinds``, or of the shipped ones; with fewer than
    300 outcomes it ranks alone.

    Raises:
        PointsmanError: too few outcomes, or the strong model is not better on them.
        MissingExtra: scikit-learn, or the encoder asked for, is not installed.
    """
    encoder, prompt_kinds = read_with(features, kinds)
    names = (
        f'"{weak_model}"' if weak_model else "the weak model",
        f'"{strong_model}"' if strong_model else "the strong model",
    )
    given = _read(outcomes, encoder, prompt_kinds, names)
    corpus, outcomes = given.corpus, given.outcomes
    if corpus.strong.mean() <= corpus.weak.mean():
        raise _nothing_to_route(given, names)
    fit = fitter(corpus) if given.observed is None else given.observed.fitter(fitter(corpus))
    unseen = held_out(corpus, seed=seed, fit=fit)
    rankings = {**baselines(outcomes, {RULES: corpus.rules}), "learned_router": unseen.raw[1] - unseen.raw[0]}
    weights = fit(corpus, np.arange(len(corpus)))
    apart = Corpus.of(given.ruled, encoder, prompt_kinds) if given.ruled else None
    raw = unseen.raw
    if apart is not None:
        predicted = Predicted.by(weights, apart, np.arange(len(apart)))
        raw = np.hstack([raw, predicted.raw(unseen.bounds)])
    (weak, weak_error), (strong, strong_error) = (given.calibrated(raw, model, seed) for model in (0, 1))
    shown = msgspec.structs.replace(
        claim(rankings, corpus.weak, corpus.strong, first=corpus.first, seed=seed),
        signal=signal_chance(given.plain, seed=seed),
    )
    learned_router = msgspec.structs.replace(
        _learned_router(corpus, unseen, (weak, strong), shown),
        **_numbers(weights, prompt_kinds),
        weak_model=weak_model,
        strong_model=strong_model,
        offsets=group_offsets(corpus, unseen, [row.group for row in outcomes]),
        dense=_dense(weights, encoder, features) if isinstance(weights, Weights) else None,
        sketch=sketch_of(row.prompt for row in outcomes),
    )
    rows = tuple(measure(outcomes, rankings, copies=corpus.first, seed=seed))
    return Fit(learned_router, rows, (weak_error, strong_error), given.sides)


@dataclass(frozen=True)
class _Given:
    """The outcomes of a fit, as numbers."""

    corpus: Corpus  # of what can be compared, with doubly robust outcomes where one model was seen
    plain: Corpus  # the same, for the test of the signal: where nothing was seen, nothing is predicted
    outcomes: list[PromptOutcome]  # the same as rows
    served: list[PromptOutcome]  # the same as seen
    ruled: list[PromptOutcome]  # those of one model that a rule chose
    observed: Observed | None  # None: both models were seen on every prompt
    sides: Sides

    def calibrated(self, raw: Floats, model: int, seed: int) -> tuple[Calibration, Interval]:
        """Calibrate the raw values of one model, on all prompts that it was seen on.

        Args:
            raw: Of the weak and the strong model on ``served``, then on ``ruled``. Shape ``(2, n)``.
            model: 0 is the weak one.
            seed: of the folds and resamples.
        """
        values = np.array([(row.weak, row.strong)[model] for row in (*self.served, *self.ruled)])
        groups = np.r_[self.corpus.first, np.arange(len(self.served), len(values))]
        seen = ~np.isnan(values)
        _, first, place = np.unique(groups[seen], return_index=True, return_inverse=True)
        return calibrate(raw[model, seen], values[seen], first=first[place], seed=seed)


def _nothing_to_route(given: _Given, names: tuple[str, str]) -> PointsmanError:
    """State the scores of two models of which the strong one is not better.

    Whether the cheaper one is good enough is decided by ``report quality`` alone, which knows in what order
    the labels came, and who gave them.
    """
    corpus = given.corpus
    weak, strong = corpus.weak.mean(), corpus.strong.mean()
    said = f"the strong model is not better on these {len(corpus):,} prompts: "
    said += f"{names[1]} scores {strong:.3f} and {names[0]} {weak:.3f}"
    swap = "swap --weak and --strong if the names are exchanged; " if weak > strong else ""
    if given.observed is not None:  # estimates, of which no pair is seen
        more = "label the answers of both models to the same prompts: such pairs tell whether they are equal"
        return PointsmanError(
            f"{said}, by estimates from the outcomes of one model a prompt", hint=swap + more
        )
    hint = '"pointsman report quality" says whether the cheaper model is good enough, or what it lacks'
    return PointsmanError(said, hint=swap + hint)


def _read(
    outcomes: Sequence[PromptOutcome], encoder: Encoder | None, kinds: Kinds | None, names: tuple[str, str]
) -> _Given:
    sides = sides_of(outcomes)
    served = [row for row in outcomes if row.is_paired or row.is_drawn]
    ruled = [row for row in outcomes if not (row.is_paired or row.is_drawn)]
    different = len(set(alike([row.prompt for row in served]).tolist()))
    if different < LEAST_FOR_TIERS:
        if ruled:
            raise refused(outcomes, sides)
        of = f" of {different} different prompts" if different < len(served) else ""
        raise PointsmanError(
            f"{len(served)} outcomes{of} are too few for training; at least {LEAST_FOR_TIERS} are needed",
            hint="of prompts that differ in case, spaces and numbers alone one counts" if of else "",
        )
    corpus = Corpus.of(served, encoder, kinds)
    check_enough(served, corpus.first, names)
    if not sides.drawn:
        return _Given(corpus, corpus, served, served, ruled, None, sides)
    observed, every = Observed.of(served), np.arange(len(corpus))
    values, plain = observed.filled(corpus, every), observed.filled(corpus, every, alike=True)
    rows = [
        replace(row, weak=float(weak), strong=float(strong))
        for row, weak, strong in zip(served, *values, strict=True)
    ]
    return _Given(
        replace(corpus, weak=values[0], strong=values[1]),
        replace(corpus, weak=plain[0], strong=plain[1]),
        rows,
        served,
        ruled,
        observed,
        sides,
    )


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
        lengths=tuple(np.quantile(corpus.log_length, DECILES).tolist()),
        similarities=tuple(np.quantile(unseen.similarity, DECILES).tolist()),
    )


def _numbers(weights: Fitted, kinds: Kinds | None) -> dict[str, Any]:
    """Weights stored in a file: over n-grams, or over kinds and a vector."""
    if isinstance(weights, PriorWeights) and kinds:
        weak, strong = (float(mean) for mean in weights.means)
        return {"head": weights.head(kinds.file), "weak_mean": weak, "strong_mean": strong}
    assert isinstance(weights, Weights)  # noqa: S101 - there are two
    return {
        "rarity": _halves(weights.rarity),
        "centres": tuple(_centre(row, weights.columns) for row in weights.centres),
        "weak": _every_bucket(weights.ngrams[0], weights.columns),
        "strong": _every_bucket(weights.ngrams[1], weights.columns),
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
    """Held-out comparison of a ranking with its baselines.

    Args:
        rankings: Scores by ranker, each of shape ``(n,)``.
        weak: Quality of the weak model. Shape ``(n,)``.
        strong: Quality of the strong model. Shape ``(n,)``.
        first: The first row that a learned router cannot tell from each. Shape ``(n,)``.
        seed: of the resamples.
    """
    learned_router = rankings["learned_router"]
    own = apgr_interval(learned_router, weak, strong, together=first, seed=seed)
    more = {
        rival: difference_interval(learned_router, rankings[rival], weak, strong, together=first, seed=seed)
        for rival in RIVALS
    }
    against = {rival: (each.value, each.low, each.high) for rival, each in more.items()}
    return Claim(
        rows=len(weak),
        apgr=own.value,
        low=own.low,
        high=own.high,
        against=against,
        improves=all(low > 0 for _, low, _ in against.values()),
    )


def _centre(row: Floats, columns: Rows) -> Centre:
    named = np.flatnonzero(row.astype("<f2"))  # what is 0 in the file is not named in it
    return Centre(columns[named].astype("<u2").tobytes(), _halves(row[named]))


def _every_bucket(values: Floats, columns: Rows) -> bytes:
    """Weights of n-grams that were seen, and 0 for the others."""
    weights = np.zeros(BUCKETS)
    weights[columns] = values
    return _halves(weights)


def _dense(weights: Weights, encoder: Encoder | None, kind: str) -> Dense | None:
    if encoder is None or weights.vectors is None:
        return None
    return Dense(encoder.name, kind, _halves(weights.vectors[0]), _halves(weights.vectors[1]))


def _halves(values: Floats) -> bytes:
    return values.astype("<f2").tobytes()
