"""The local scorer: an index with its calibration, built once per registry."""

from __future__ import annotations

import importlib
import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from pointsman.capabilities._ngrams import Frequencies, HeldOut, TrainingExample, Vector, training_rows
from pointsman.capabilities._registry import CapabilityRegistry
from pointsman.capabilities.calibration import (
    CALIBRATING,
    Calibration,
    default_calibration,
    fit,
    observe_held_out,
    observe_unserved,
)
from pointsman.errors import ConfigError
from pointsman.remembering import summed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pointsman.vocabulary import Encoder

    Matrix = NDArray[np.float32]

# The index with an encoder: kernel ridge regression over embeddings and n-grams.

_MEANING: Final = 0.8  # weight of the encoder's kernel; the rest is the n-grams'
_MEANING_WIDTH: Final = 3.0
_WORDING_WIDTH: Final = 2.0
_RIDGE: Final = 0.3
#: Features in more than a twentieth of the rows are left out of the n-grams' cosine: they are 92 % of the
#: entries a query touches and say nearly nothing. Small registries keep all.
_COMMON_SHARE: Final = 0.05
_COMMON_ROWS: Final = 50
_NO_FEATURE: Final = (1 << 32) - 1  # above every feature


class KernelIndex:
    """Kernel ridge regression, one column per capability."""

    def __init__(self, registry: CapabilityRegistry, encoder: Encoder) -> None:
        """Encode every guide and solve for the weights: 0.5 s for 2,000 examples with the static encoder."""
        self._numpy: Any = importlib.import_module("numpy")  # present wherever an encoder is
        self._encoder = encoder
        self.name = f"kernel/{encoder.name}"
        self._rows = training_rows(registry)
        texts = [row.text for row in self._rows]
        self._vectors = encoder.encode(texts)
        self._frequencies = Frequencies(texts)
        ngrams = [self._frequencies.vector(text) for text in texts]
        self._wording = _GramPostings(self._numpy, ngrams)
        wording = self._numpy.array(
            [self._wording.dots(vector) for vector in ngrams], dtype=self._numpy.float32
        )
        wording = wording.reshape(len(texts), len(texts))  # also when there are none
        self._learn(self._kernel(self._vectors @ self._vectors.T, wording), len(registry))

    def score(self, task: str) -> Sequence[float]:
        """One raw score per capability in registry order.

        ``vecdot`` and not ``@``: a threaded BLAS wakes a second thread for products of this size, and on a
        busy machine waiting for it took 7 ms where the product takes 0.06.
        """
        meaning = self._numpy.vecdot(self._vectors, self._encoder.encode([task])[0])
        wording = self._wording.dots(self._frequencies.vector(task))
        scores: list[float] = self._numpy.vecdot(self._weights, self._kernel(meaning, wording)).tolist()
        return scores

    def held_out(self) -> Iterator[HeldOut]:
        """Every example, scored without itself."""
        for row, line in zip(self._rows, self._without_itself.tolist(), strict=True):
            if row.example:
                yield HeldOut(row.capability, row.positive, line)

    def _learn(self, gram: Matrix, capabilities: int) -> None:
        """Fit the positive rows; then push each negative row down, for its capability alone.

        A query that is wrong for one capability is often right for another, so a negative row may not pull
        every column down, as a row of zeros would.
        """
        numpy = self._numpy
        owner = numpy.array([row.capability for row in self._rows], dtype=numpy.int64)
        positive = numpy.array([row.positive for row in self._rows], dtype=bool)
        targets = numpy.eye(capabilities, dtype=numpy.float32)[owner]
        weights = numpy.zeros_like(targets)
        inverse = self._inverse(gram[numpy.ix_(positive, positive)])
        weights[positive] = inverse @ targets[positive]
        base = gram @ weights
        leverage = inverse.diagonal()[:, None]
        base[positive] = targets[positive] - weights[positive] / leverage
        self._without_itself = base
        if not positive.all():
            wrong = numpy.where(positive[:, None], 0, -targets * (1 + base))  # to −1, as far as +1 from 0
            weights += self._inverse(gram) @ wrong
        self._weights = numpy.ascontiguousarray(weights.T, dtype=numpy.float32)

    def _inverse(self, gram: Matrix) -> Matrix:
        inverse: Matrix = self._numpy.linalg.inv(gram + _RIDGE * self._numpy.eye(len(gram), dtype=gram.dtype))
        return inverse

    def _kernel(self, meaning: Matrix, wording: Matrix) -> Matrix:
        exp = self._numpy.exp
        meaning_part: Matrix = _MEANING * exp(_MEANING_WIDTH * (meaning - 1))
        wording_part: Matrix = (1 - _MEANING) * exp(_WORDING_WIDTH * (wording - 1))
        return meaning_part + wording_part


class _GramPostings:
    """Sparse rows turned on their side, so that a query touches only the rows that share a feature."""

    def __init__(self, numpy: Any, vectors: Sequence[Vector]) -> None:
        self._numpy = numpy
        self._count = len(vectors)
        held = Counter(key for vector in vectors for key in vector)
        common = max(_COMMON_ROWS, len(vectors) * _COMMON_SHARE)
        triples = sorted(
            (key, row, weight)
            for row, vector in enumerate(vectors)
            for key, weight in vector.items()
            if held[key] <= common
        )
        keys = numpy.array([key for key, _, _ in triples], dtype=numpy.uint32)
        self._rows = numpy.array([row for _, row, _ in triples], dtype=numpy.int32)
        self._weights = numpy.array([weight for _, _, weight in triples], dtype=numpy.float32)
        unique, starts = numpy.unique(keys, return_index=True)
        # A last key, so that every search lands on one.
        self._keys = numpy.append(unique, numpy.uint32(_NO_FEATURE))
        self._starts = numpy.append(starts, len(keys))
        self._lengths = numpy.diff(self._starts, append=len(keys))

    def dots(self, vector: Vector) -> Matrix:
        """The dot product of ``vector`` with every row."""
        numpy = self._numpy
        asked = numpy.fromiter(vector, dtype=numpy.uint32, count=len(vector))
        found = numpy.searchsorted(self._keys[:-1], asked)
        hit = self._keys[found] == asked
        starts, lengths = self._starts[found[hit]], self._lengths[found[hit]]
        # The entries of all found features, as one index: each feature's start, plus 0, 1, 2 … within it.
        within = numpy.arange(lengths.sum()) - numpy.repeat(numpy.cumsum(lengths) - lengths, lengths)
        entries = numpy.repeat(starts, lengths) + within
        values = numpy.fromiter(vector.values(), dtype=numpy.float32, count=len(vector))[hit]
        products = self._weights[entries] * numpy.repeat(values, lengths)
        dots: Matrix = numpy.bincount(self._rows[entries], products, self._count).astype(numpy.float32)
        return dots


# The index without an encoder: cosine similarity of weighted n-gram profiles, in pure Python.

_DAMPING: Final = 0.75
_SHARED_OFFSET: Final = 3.0  # added to log(capabilities / capabilities with the feature)


class LexicalIndex:
    """Cosine with each capability's damped n-gram profile."""

    name = "lexical/1"

    def __init__(self, registry: CapabilityRegistry) -> None:
        """Read every guide."""
        self._size = len(registry)
        self._rows = training_rows(registry)
        self._frequencies = Frequencies([row.text for row in self._rows])
        wanted = {at: self._sum(rows, positive=True) for at, rows in self._by_capability()}
        self._rarity = _Rarity(wanted.values(), self._size)
        self._for = _Postings({at: self._direction(profile) for at, profile in wanted.items()}, self._size)
        unwanted = {at: self._sum(rows, positive=False) for at, rows in self._by_capability()}
        self._against = _Postings({at: self._direction(p) for at, p in unwanted.items() if p}, self._size)

    def score(self, task: str) -> Sequence[float]:
        """One raw score per capability in registry order.

        A task closer to a capability's negative examples than to the rest of its guide loses the difference.
        """
        vector = self._rarity.stretch(self._frequencies.vector(task))
        wanted, unwanted = self._for.dots(vector), self._against.dots(vector)
        return [good - max(bad - good, 0.0) for good, bad in zip(wanted, unwanted, strict=True)]

    def held_out(self) -> Iterator[HeldOut]:
        """Every example, scored without itself."""
        for at, rows in self._by_capability():
            profile = self._sum(rows, positive=True)
            for row in rows:
                if not row.example:
                    continue
                own = self._frequencies.vector(row.text)
                vector = self._rarity.stretch(own)
                scores = self._for.dots(vector)
                if row.positive:
                    rest = {key: value - own.get(key, 0.0) for key, value in profile.items()}
                    found = self._direction(rest)
                    scores[at] = sum([weight * found.get(key, 0.0) for key, weight in vector.items()])
                yield HeldOut(at, row.positive, scores)

    def _by_capability(self) -> Iterator[tuple[int, list[TrainingExample]]]:
        for at, rows in groupby(self._rows, key=lambda row: row.capability):
            yield at, list(rows)

    def _sum(self, rows: Sequence[TrainingExample], *, positive: bool) -> Vector:
        vectors = (self._frequencies.vector(row.text) for row in rows if row.positive is positive)
        return summed((weight for vector in vectors for weight in vector.items()), 0.0)

    def _direction(self, profile: Mapping[int, float]) -> Vector:
        damped = {key: value**_DAMPING * self._rarity[key] for key, value in profile.items() if value > 1e-9}
        length = math.sqrt(sum([value * value for value in damped.values()])) or 1.0
        return {key: value / length for key, value in damped.items()}


class _Rarity:
    """How few capabilities share a feature."""

    def __init__(self, profiles: Iterable[Vector], capabilities: int) -> None:
        held = Counter(key for profile in profiles for key in profile)
        self._top = math.log((capabilities + 1) / 2) + _SHARED_OFFSET
        self._keys = array("I", sorted(held))
        self._weights = array(
            "f", [math.log((capabilities + 1) / (held[key] + 1)) + _SHARED_OFFSET for key in self._keys]
        )

    def __getitem__(self, key: int) -> float:
        at = bisect_left(self._keys, key)
        return self._weights[at] if at < len(self._keys) and self._keys[at] == key else self._top

    def stretch(self, vector: Vector) -> Vector:
        """Weigh a task's features by rarity; dividing by the highest gives a length of at most 1."""
        return {key: weight * self[key] / self._top for key, weight in vector.items()}


class _Postings:
    """Profiles turned on their side: for each feature, who has it and how much. 12 bytes an entry."""

    def __init__(self, profiles: Mapping[int, Vector], capabilities: int) -> None:
        self._capabilities = capabilities
        entries = sorted(
            (key, at, weight) for at, profile in profiles.items() for key, weight in profile.items()
        )
        self._features = array("I", [key for key, _, _ in entries])
        self._owners = array("I", [at for _, at, _ in entries])
        self._weights = array("f", [weight for _, _, weight in entries])

    def dots(self, vector: Vector) -> list[float]:
        """The dot product of ``vector`` with every profile."""
        totals = [0.0] * self._capabilities
        features, owners, weights = self._features, self._owners, self._weights
        for key, weight in vector.items():
            start = bisect_left(features, key)
            for at in range(start, bisect_left(features, key + 1, start)):
                totals[owners[at]] += weight * weights[at]
        return totals


class LocalScorer:
    """Probabilities that a task needs each capability, from the guides alone."""

    def __init__(
        self,
        registry: CapabilityRegistry,
        encoder: Encoder | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """Read every guide and calibrate on its examples, each scored without itself, and on ordinary tasks.

        Args:
            registry: the capabilities.
            encoder: a local embedding model, or None for n-grams alone.
            calibration: a fitted one, in place of calibrating on the examples.

        Raises:
            ConfigError: the calibration was fitted for another kind of index.
        """
        self._names = [each.name for each in registry.get_all_capabilities()]
        #: Raw scores of a task: around 0 no relation, around 1 the same words.
        self.index = LexicalIndex(registry) if encoder is None else KernelIndex(registry, encoder)
        if calibration is None:
            start = default_calibration(self.index.name)
            held_out = list(self.index.held_out())
            unserved = observe_unserved(held_out, map(self.index.score, CALIBRATING))
            observations = [*observe_held_out(held_out), *unserved]
            calibration = fit(observations, start, names=self._names)
        elif calibration.index != self.index.name:
            raise ConfigError(
                f'this calibration is for the index "{calibration.index}", not "{self.index.name}"',
                hint="fit it again with the configured encoder",
            )
        self.calibration = calibration
        self.version = f"{registry.version}/{self.index.name}/{calibration.registry or 'own'}"

    def probabilities(self, task: str) -> Mapping[str, float]:
        """The calibrated probability of each capability, in registry order.

        A task of several clauses is also scored clause by clause, and the best counts: "the price of Apple
        and the news about it" is half a match for two capabilities, and each clause a whole one for its
        own.
        """
        if not self._names:
            return {}
        scores = map(self.index.score, (task, *clauses(task)))
        readings = [self.calibration.probabilities(each, self._names) for each in scores]
        return dict(zip(self._names, map(max, zip(*readings, strict=True)), strict=True))


def clauses(task: str) -> list[str]:
    """The requests a task joins; nothing when it is one. At most four, so that time stays bounded.

    Split at joining words and after questions, not after statements: those are mostly context. On MetaTool's
    two-tool queries this finds exactly the two among 199 several times as often, at a cost of at most a point
    where one is right (docs/notebook/0052).
    """
    for mark in _JOINTS:
        task = task.replace(mark, "\n")
    parts = [part for part in task.split("\n") if len(part.split()) >= _CLAUSE_WORDS]
    return parts[:_MAX_CLAUSES] if len(parts) > 1 else []


_JOINTS: Final = ("? ", "; ", ", and ", " and also ", " and ", " also ", " as well as ", " then ", ", plus ")
_CLAUSE_WORDS: Final = 3  # "bread and butter" is one request
_MAX_CLAUSES: Final = 4
