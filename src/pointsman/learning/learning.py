"""Fitting the learned router: sparse ridge regression over hashed n-grams, in closed form up to a solver.

The router explains the residual of each model's success after the prior (longer prompts and higher rule
scores gain more), so that strong shrinkage leads back to ranking by length and rules and not by nothing.
The constants were chosen on the development data (docs/decisions/0060); results are flat around them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.metrics import Floats, Rows, gap_curve
from pointsman.learning.rankers import alike, by_rules, persons_text
from pointsman.tiers.ngrams import BUCKETS, ngrams

if TYPE_CHECKING:
    from pointsman.tiers.kinds import Kinds
    from pointsman.vocabulary import Encoder


__all__ = [
    "FOLDS",
    "LENGTH_SLOPE",
    "Corpus",
    "Fitted",
    "HeldOut",
    "Predicted",
    "Weights",
    "clusters",
    "fit_weights",
    "group_offsets",
    "held_out",
    "occurring",
    "residuals",
    "trust",
]

#: Kinds of prompts told apart. Between 8 and 64 the APGR moves by less than .003; each costs scoring 0.1 µs.
CENTRES: Final = 16

#: Prompts that a kind has at least on average, where data is scarce.
ROWS_PER_CENTRE: Final = 8

#: Centres of an encoder's vectors, at most.
VECTOR_CENTRES: Final = 64

#: N-grams kept of a centre, the heaviest: 128, 512 and all of them tell seen from unseen alike.
KEPT: Final = 256

#: Rounds; most prompts have found their centre after five.
ROUNDS: Final = 10


def find_centres(features: Any) -> Floats:
    """Find the centres of rows of unit length.

    Args:
        features: scipy CSR matrix, ``(n, d)``, nothing below 0.

    Returns:
        Rows of unit length, 0 but for the heaviest entries. Shape ``(k, d)``, k at most ``CENTRES``.
    """
    count = features.shape[0]
    centres = features[_spread_out(features, max(1, min(CENTRES, count // ROWS_PER_CENTRE)))].toarray()
    nearest = np.full(count, -1)
    for _ in range(ROUNDS):
        before, nearest = nearest, np.asarray(features @ centres.T).argmax(axis=1)
        if (before == nearest).all():
            break
        members = sparse.csr_matrix((np.ones(count), (nearest, np.arange(count))), (len(centres), count))
        centres = _unit(np.asarray((members @ features).todense()))
    least = np.sort(centres, axis=1)[:, -KEPT:][:, :1]
    return _unit(np.where(centres >= least, centres, 0.0))


def vector_centres(vectors: Floats) -> Floats:
    """Centres of an encoder's vectors, of unit length. Shape ``(n, d)`` to ``(k, d)``."""
    from sklearn.cluster import KMeans  # it takes two seconds to load, and most fits need none of it

    count = max(1, min(VECTOR_CENTRES, len(vectors) // ROWS_PER_CENTRE, len(np.unique(vectors, axis=0))))
    return _unit(KMeans(count, n_init=1, max_iter=30, random_state=0).fit(vectors).cluster_centers_)


def _spread_out(features: Any, wanted: int) -> list[int]:
    """Rows far from one another, drawn with more weight the less like those before they are."""
    draw = np.random.default_rng(0)
    chosen = [int(draw.integers(features.shape[0]))]
    likeness = np.zeros(features.shape[0])
    while len(chosen) < wanted:
        likeness = np.maximum(likeness, (features @ features[chosen[-1]].T).toarray().ravel())
        distance = np.clip(1.0 - likeness, 1e-12, None)
        chosen.append(int(draw.choice(len(distance), p=distance / distance.sum())))
    return chosen


def _unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


#: Gain of the strong model per unit of ln(characters), before anything is learned. The slope is .070 on MMLU
#: and .127 on GSM8K (development parts); halved on the side of caution. Ranking is flat between .04 and .08.
LENGTH_SLOPE: Final = 0.06

#: The tier profile whose score is part of the prior, and gain per unit of that score. Lifts whole tasks left
#: out of training (``nine_models``, by .006) and costs nothing within what the learned router knows.
RULES: Final = "default"
RULES_SLOPE: Final = 0.05

#: Ratio of noise to signal: outcomes are coin flips that a prompt moves little. Between 7 and 20 it makes
#: no difference of .01 on any development set, with 100 labels or 5,000.
SHRINKAGE: Final = 10.0

#: Held-out quantiles of similarity between which the n-grams gain their say: the strangest 5 % of prompts
#: like the training data are ranked by length and rules alone, six in ten by the learned router in full.
#: Wider trust does harm on unseen tasks, narrower trust costs what the learned router knows (figures:
#: docs/notebook/0061).
TRUST_QUANTILES: Final = (0.05, 0.40)

#: The same over cosines of vectors, the most careful gate first. Which one is used is chosen by cross-fit: a
#: careful gate costs half of what was learned on one's own traffic, a wide one does harm on unseen tasks
#: (docs/decisions/0212).
VECTOR_GATES: Final = ((0.50, 0.80), (0.20, 0.50), (0.05, 0.20))

#: Where prompts are all alike (GSM8K) the two quantiles meet and tell no strangers; the first then stays this
#: far below the second. Data of many subjects has them this far apart by itself (MMLU, nine_models).
TRUST_WIDTH: Final = 0.5

#: Variance of an encoder's vectors relative to that of the n-grams, where an encoder is asked for. With .3
#: unseen subjects fall to .565, with .03 to .604, and what the learned router knows stays within .003.
VECTOR_SHARE: Final = 0.03

#: Rows a domain needs before it gets an offset, and pseudo-rows that pull the offset to zero.
OFFSET_ROWS: Final = 50

#: Keeps an n-gram that stands in every prompt from losing all weight.
RARITY_FLOOR: Final = 0.1

FOLDS: Final = 5


@dataclass(frozen=True)
class Corpus:
    """Outcomes turned into numbers, once."""

    weak: Floats  # (n,)
    strong: Floats  # (n,)
    log_length: Floats  # (n,) natural logarithm of the characters of the user's words
    rules: Floats  # (n,) score of the profile RULES
    ngrams: Any  # scipy CSR matrix, (n, BUCKETS), ones
    vectors: Floats | None  # (n, d) from an encoder
    first: Rows  # (n,) the first row with the same n-grams: duplicate prompts belong together
    shifts: Floats | None = None  # (n,) of the kinds near each prompt, in units of ln(characters)

    @classmethod
    def of(
        cls,
        rows: Sequence[PromptOutcome],
        encoder: Encoder | None = None,
        kinds: Kinds | None = None,
    ) -> Corpus:
        """Read the user's words of every prompt as the live learned router will."""
        texts = [persons_text(row.prompt) for row in rows]
        return cls(
            weak=np.array([row.weak for row in rows]),
            strong=np.array([row.strong for row in rows]),
            log_length=np.log([max(len(text), 1) for text in texts]),
            rules=by_rules(rows, RULES),
            ngrams=_presence(texts),
            vectors=np.asarray(encoder.encode(texts), dtype=np.float64) if encoder else None,
            first=clusters(alike(texts), [row.session for row in rows]),
            shifts=np.array([kinds.shift(text) for text in texts]) if kinds else None,
        )

    def __len__(self) -> int:
        return len(self.weak)

    def take(self, rows: Rows) -> Corpus:
        """Some of the rows."""
        vectors = None if self.vectors is None else self.vectors[rows]
        numbers = (self.weak[rows], self.strong[rows], self.log_length[rows], self.rules[rows])
        _, first, group = np.unique(self.first[rows], return_index=True, return_inverse=True)
        shifts = None if self.shifts is None else self.shifts[rows]
        return Corpus(*numbers, self.ngrams[rows], vectors, first[group], shifts)


def clusters(alike: Rows, names: Sequence[str]) -> Rows:
    """The first row of each cluster, of prompts alike in sessions with these names. Shape ``(n,)``.

    A prompt that several sessions share is a cluster with its duplicates; the other prompts of a session are
    one cluster. Sessions that share a prompt stay apart: joined by words such as "continue", all sessions
    would become one cluster.
    """
    numbers = {name: len(names) + at for at, name in enumerate(dict.fromkeys(names)) if name}
    own = np.array([numbers.get(name, 0) for name in names])  # 0: of no session
    lowest, highest = own.copy(), own.copy()
    np.minimum.at(lowest, alike, own)
    np.maximum.at(highest, alike, own)
    of_text = (own == 0) | (lowest[alike] != highest[alike])
    _, first, place = np.unique(np.where(of_text, alike, own), return_index=True, return_inverse=True)
    return np.asarray(first[place], dtype=np.intp)


class Fitted(Protocol):
    """Uncalibrated predictions of every fitted router for rows of a corpus."""

    def prior(self, corpus: Corpus, rows: Rows) -> Floats:
        """Gain expected of prompts the router knows nothing of. Shape ``(len(rows),)``."""

    def similarity(self, corpus: Corpus, rows: Rows) -> Floats:
        """Cosine of each prompt to the nearest centre. Shape ``(len(rows),)``."""

    def evidence(self, corpus: Corpus, rows: Rows) -> Floats:
        """Contribution of the prompts, for the weak and the strong model. Shape ``(2, len(rows))``."""


@dataclass(frozen=True)
class Weights:
    """A fitted router before calibration. ``ngrams`` and ``centres`` already hold their n-gram's rarity."""

    rarity: Floats  # (BUCKETS,)
    columns: Rows  # (c,) the n-grams of the training prompts
    centres: Floats  # (k, c) of kinds of prompts
    ngrams: Floats  # (2, c): weak, strong
    means: Floats  # (2,)
    vectors: Floats | None  # (2, d)
    log_length: float  # means over the training prompts
    rules: float

    def prior(self, corpus: Corpus, rows: Rows) -> Floats:
        """Gain expected from length and rules alone. Shape ``(len(rows),)``."""
        longer = corpus.log_length[rows] - self.log_length
        return np.asarray(LENGTH_SLOPE * longer + RULES_SLOPE * (corpus.rules[rows] - self.rules))

    def similarity(self, corpus: Corpus, rows: Rows) -> Floats:
        """Cosine of each prompt to the nearest centre. Shape ``(len(rows),)``."""
        present = corpus.ngrams[rows]
        return np.asarray((present[:, self.columns] @ self.centres.T).max(axis=1) / self._norms(present))

    def _norms(self, present: Any) -> Floats:
        return np.asarray(np.sqrt(np.maximum(present @ self.rarity**2, 1e-12)))

    def evidence(self, corpus: Corpus, rows: Rows) -> Floats:
        """Prediction from the n-grams (and the vectors). Shape ``(2, len(rows))``."""
        present = corpus.ngrams[rows]
        said = (present[:, self.columns] @ self.ngrams.T).T / self._norms(present) - self.means[:, None]
        if self.vectors is not None and corpus.vectors is not None:
            said = said + self.vectors @ corpus.vectors[rows].T
        return np.asarray(said)


def occurring(present: Any) -> tuple[Rows, Any]:
    """The n-grams that rows of a corpus have, and the rows over these alone."""
    columns = np.flatnonzero(np.bincount(present.indices, minlength=present.shape[1]))
    return columns, present[:, columns]


def fit_weights(corpus: Corpus, rows: Rows) -> Weights:
    """Fit on some rows of a corpus."""
    columns, present = occurring(corpus.ngrams[rows])
    counts = np.bincount(columns[present.indices], minlength=BUCKETS)
    rarity = np.sqrt(np.log((1 + len(rows)) / (1 + counts)) + RARITY_FLOOR)
    own = rarity[columns]
    norms = np.sqrt(np.maximum(present @ own**2, 1e-12))
    features = (sparse.diags(1 / norms) @ present @ sparse.diags(own)).tocsr()
    centres = find_centres(features)
    mean = np.asarray(features.mean(axis=0)).ravel()
    spread = max(1.0 - float(mean @ mean), 1e-6)  # variance of the n-grams of a prompt; they have length 1
    scale = 0.0
    if corpus.vectors is not None:
        vectors = corpus.vectors[rows]
        scale = math.sqrt(VECTOR_SHARE * spread / max(float(vectors.var(axis=0).sum()), 1e-12))
        features = sparse.hstack([features, scale * vectors], format="csr")
        mean = np.r_[mean, scale * vectors.mean(axis=0)]
    expected = LENGTH_SLOPE * corpus.log_length[rows] + RULES_SLOPE * corpus.rules[rows]
    fitted = _ridge(features, mean, residuals(corpus, rows, expected), SHRINKAGE * spread)
    return Weights(
        rarity=rarity,
        columns=columns,
        centres=centres * own,
        ngrams=fitted[:, : len(columns)] * own,
        means=fitted @ mean,
        vectors=scale * fitted[:, len(columns) :] if scale else None,
        log_length=float(corpus.log_length[rows].mean()),
        rules=float(corpus.rules[rows].mean()),
    )


def _ridge(features: Any, mean: Floats, targets: Floats, penalty: float) -> Floats:
    """Coefficients of a ridge regression of centred targets on features less their mean, by row of targets.

    Solved for a weight of each row, by conjugate gradients: the features stay sparse.
    """

    def of_rows(weights: Floats) -> Floats:
        return np.asarray(features.T @ weights - mean * weights.sum())

    def kernel(weights: Floats) -> Floats:
        found = of_rows(weights)
        return np.asarray(features @ found - mean @ found + penalty * weights)

    count = features.shape[0]
    operator = LinearOperator((count, count), matvec=kernel, dtype=np.float64)
    return np.stack([of_rows(cg(operator, each, rtol=1e-6)[0]) for each in targets])


def residuals(corpus: Corpus, rows: Rows, expected: Floats) -> Floats:
    """Outcomes less the prior; for failures of the weak model. Shape ``(2, n)``."""
    weak, strong = corpus.weak[rows], corpus.strong[rows]
    return np.stack([weak - weak.mean() + expected - expected.mean(), strong - strong.mean()])


def trust(similarity: Floats, bounds: tuple[float, float]) -> Floats:
    """How much of the evidence counts, 0..1."""
    low, high = bounds
    return np.clip((similarity - low) / (high - low), 0.0, 1.0)


@dataclass(frozen=True)
class HeldOut:
    """Predictions for prompts a learned router was not fitted on."""

    raw: Floats  # (2, n) weak and strong, prior included, before calibration
    similarity: Floats  # (n,)
    bounds: tuple[float, float]  # of the gate chosen on all prompts
    careful: tuple[float, float]  # of the most careful gate


@dataclass(frozen=True)
class Predicted:
    """What routers that were not fitted on a prompt say of it."""

    evidence: Floats  # (2, n)
    prior: Floats  # (n,)
    similarity: Floats  # (n,)

    @classmethod
    def by(cls, router: Fitted, corpus: Corpus, rows: Rows) -> Predicted:
        """Ask one router about some rows of a corpus."""
        return cls(router.evidence(corpus, rows), router.prior(corpus, rows), router.similarity(corpus, rows))

    def raw(self, bounds: tuple[float, float]) -> Floats:
        """Raw values of the weak and the strong model behind a gate, prior included. Shape ``(2, n)``."""
        raw = trust(self.similarity, bounds) * self.evidence
        raw[0] -= self.prior
        return raw


def held_out(corpus: Corpus, *, seed: int, fit: Callable[[Corpus, Rows], Fitted] = fit_weights) -> HeldOut:
    """Predict every prompt by a router fitted on the other folds. Duplicate prompts are in the same fold.

    With several gates, the one is used with the highest mean of two APGR: held out by row, as for
    more of the same traffic, and held out by whole clusters of prompts, as for new traffic. The prompts of a
    fold are predicted behind the gate that the other folds choose.
    """
    folds = (np.random.default_rng(seed).permutation(len(corpus)) % FOLDS)[corpus.first]
    by_row = _cross_fitted(corpus, folds, fit)
    if corpus.shifts is None or corpus.vectors is None:
        low, high = (float(value) for value in np.quantile(by_row.similarity, TRUST_QUANTILES))
        bounds = min(low, TRUST_WIDTH * high), high
        return HeldOut(by_row.raw(bounds), by_row.similarity, bounds, bounds)
    gates = [_gate(by_row.similarity, quantiles) for quantiles in VECTOR_GATES]
    nearest = (corpus.vectors @ vector_centres(corpus.vectors).T).argmax(axis=1)[corpus.first]
    parts = [by_row, _cross_fitted(corpus, _cluster_folds(nearest), fit)] if nearest.any() else [by_row]
    raw = np.zeros((2, len(corpus)))
    for fold in range(FOLDS):
        out = folds == fold
        raw[:, out] = by_row.raw(_best(gates, parts, corpus, ~out))[:, out]
    every = np.ones(len(corpus), dtype=np.bool_)
    return HeldOut(raw, by_row.similarity, _best(gates, parts, corpus, every), gates[0])


def _cross_fitted(corpus: Corpus, folds: Rows, fit: Callable[[Corpus, Rows], Fitted]) -> Predicted:
    found = Predicted(np.zeros((2, len(corpus))), np.zeros(len(corpus)), np.zeros(len(corpus)))
    for fold in np.unique(folds):
        out, kept = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        weights = fit(corpus, kept)
        found.evidence[:, out] = weights.evidence(corpus, out)
        found.prior[out] = weights.prior(corpus, out)
        found.similarity[out] = weights.similarity(corpus, out)
    return found


def _cluster_folds(nearest: Rows) -> Rows:
    """Folds of whole clusters, as even as they can be; all 0 for a single cluster. Shape ``(n,)``."""
    sizes = np.bincount(nearest)
    fold, filled = np.zeros(len(sizes), dtype=np.intp), np.zeros(FOLDS)
    for cluster in np.argsort(-sizes, kind="stable"):
        fold[cluster] = filled.argmin()
        filled[fold[cluster]] += sizes[cluster]
    return fold[nearest]


def _best(
    gates: Sequence[tuple[float, float]],
    parts: Sequence[Predicted],
    corpus: Corpus,
    rows: NDArray[np.bool_],
) -> tuple[float, float]:
    """The gate with the highest mean APGR; of equals, or where nothing is gained, the most careful one."""
    weak, strong = corpus.weak[rows], corpus.strong[rows]

    def worth(bounds: tuple[float, float]) -> float:
        raws = (part.raw(bounds) for part in parts)
        return sum(float(gap_curve((raw[1] - raw[0])[rows], weak, strong).apgr) for raw in raws)

    return max(gates, key=worth) if strong.mean() > weak.mean() else gates[0]


def _gate(similarity: Floats, quantiles: tuple[float, float]) -> tuple[float, float]:
    """The two similarities of a gate."""
    low, high = (float(value) for value in np.quantile(similarity, quantiles))
    return low, max(high, low + 1e-6)  # all alike: nothing is stranger than the rest


def group_offsets(corpus: Corpus, unseen: HeldOut, groups: Sequence[str]) -> dict[str, tuple[float, float]]:
    """What held-out predictions leave unexplained in each domain with enough rows, shrunk towards zero."""
    left = np.stack([corpus.weak - corpus.weak.mean(), corpus.strong - corpus.strong.mean()]) - unseen.raw
    names = np.array(groups)
    offsets = {}
    for name in sorted(set(groups) - {""}):
        rows = names == name
        if rows.sum() >= OFFSET_ROWS:
            weak, strong = left[:, rows].sum(axis=1) / (rows.sum() + OFFSET_ROWS)
            offsets[name] = (float(weak), float(strong))
    return offsets


def _presence(texts: Sequence[str]) -> Any:
    columns: list[int] = []
    ends = [0]
    for text in texts:
        columns.extend(sorted(ngrams(text)))
        ends.append(len(columns))
    ones = np.ones(len(columns))
    return sparse.csr_matrix((ones, columns, ends), shape=(len(texts), BUCKETS))
