"""The learned router: probabilities that a weak and a strong model serve a prompt well, from outcomes.

A linear model over hashed words and word pairs, on top of a prior: a longer prompt, and one that the rules
score higher, gains more from the strong model. The evidence of the n-grams is added to the prior only as far
as the prompt is like a kind of prompt known from training; an unknown one is ranked by length and rules
alone, because a learned router does harm outside its training data (docs/decisions/0060, 0061). Made by
``pointsman fit tiers``; read here without any numerical library.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from operator import itemgetter, mul, or_
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from pointsman.errors import ConfigError
from pointsman.tiers.kinds import SCALE, Kinds, PromptKinds
from pointsman.tiers.ngrams import BUCKETS, ngrams
from pointsman.vocabulary import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "EVIDENCE",
    "Calibration",
    "Centre",
    "Claim",
    "Dense",
    "KindsHead",
    "LearnedRouter",
    "LearnedScore",
    "LearnedScorer",
    "ScoreSource",
    "read_learned_router",
]


# The head of a learned router that reads kinds of prompts and a static vector instead of n-grams.

#: User messages whose evidence is remembered: an agent sends the same words with every result of a tool.
_REMEMBERED: Final = 1_024

#: Decimals kept of sums, whose last bits are the machine's.
_KINDS_DIGITS: Final = 6


class KindsHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The inputs in place of n-grams: kinds and length as the prior, and a static vector."""

    kinds: PromptKinds
    centres: bytes  # of training prompts, signed bytes row by row, as the vectors of the kinds
    weak: bytes  # weights over the vector, little-endian float16
    strong: bytes


class KindsReader:
    """A head made ready for its encoder. Safe to share; its cache is bounded."""

    def __init__(self, head: KindsHead, encoder: Encoder | None) -> None:
        """Unpack the arrays.

        Raises:
            ConfigError: the encoder is not the one of the head, or the arrays do not fit one another.
        """
        import numpy as np  # the encoder brings it

        if encoder is None:
            raise ConfigError(f'the learned router needs the encoder "{head.kinds.encoder}"')
        size = len(head.kinds.vectors) // max(len(head.kinds.kinds), 1)
        whole = size and len(head.weak) == len(head.strong) == 2 * size
        if not whole or not head.centres or len(head.centres) % size:
            raise ConfigError("the learned router file is damaged: an array has the wrong length")
        self._centres = np.frombuffer(head.centres, np.int8).astype(np.float32).reshape(-1, size) / SCALE
        self._weights = np.stack([np.frombuffer(each, "<f2") for each in (head.weak, head.strong)]).astype(
            np.float32
        )
        self._encode = encoder.encode
        # The hash of the table was compared when the encoder was opened (``encoder_of``).
        self.shift: Final = Kinds(head.kinds, encoder, head.kinds.table).shift
        #: The weights of the weak and the strong model over the user's words, and the cosine to the nearest
        #: centre of training prompts.
        self.evidence: Final[Callable[[str], tuple[float, float, float]]] = lru_cache(_REMEMBERED)(
            self._evidence
        )

    def _evidence(self, text: str) -> tuple[float, float, float]:
        vector = self._encode([text])[0]
        weak, strong = (self._weights @ vector).tolist()
        near = min(max(float((self._centres @ vector).max()), 0.0), 1.0)
        return round(weak, _KINDS_DIGITS), round(strong, _KINDS_DIGITS), round(near, _KINDS_DIGITS)


# Sums of several columns of numbers over the same few rows, in one pass.

#: Bits of one number: rounding is then 1/2**18 of a column's range, finer than the float16 of a learned
#: router file.
_NUMBER: Final = 18

#: Bits between columns: room for the sum of 2**14 rows; a text of 8,000 characters has at most 16,000.
_FIELD: Final = 32


class FixedPoint:
    """Columns of equal length, packed."""

    def __init__(
        self, columns: Sequence[Sequence[float]], sparse: Sequence[Mapping[int, float]] = ()
    ) -> None:
        """Pack.

        Args:
            columns: Numbers by row.
            sparse: Further columns by row: numbers above 0, with 0 in the rows not named.
        """
        self._floors = [min(column) for column in columns] + [0.0] * len(sparse)
        tops = [max(column) for column in columns] + [max(column.values(), default=0.0) for column in sparse]
        self._units = [
            (top - floor) / ((1 << _NUMBER) - 1) or 1.0 for top, floor in zip(tops, self._floors, strict=True)
        ]
        rows = [0] * len(columns[0])
        for place, column in enumerate(columns):
            floor, unit, shift = self._floors[place], self._units[place], place * _FIELD
            fields = [round((value - floor) / unit) << shift for value in column]
            rows = list(map(or_, rows, fields))
        for place, named in enumerate(sparse, start=len(columns)):
            for row, value in named.items():
                rows[row] |= round(value / self._units[place]) << place * _FIELD
        seen: dict[int, int] = {}  # equal rows as one object: fewer to keep in the processor's cache
        self._rows = tuple([seen.setdefault(row, row) for row in rows])
        self._split = struct.Struct(f"<{len(self._units)}I")

    def over(self, rows: Collection[int]) -> list[float]:
        """The sum of every column, the sparse ones last, over at least two rows, named by their index."""
        total = sum(itemgetter(*rows)(self._rows))
        count = len(rows)
        fields = self._split.unpack(total.to_bytes(self._split.size, "little"))
        return [
            field * unit + count * floor
            for field, unit, floor in zip(fields, self._units, self._floors, strict=True)
        ]


_NOTHING: Final = (0.0, 0.0, 0.0)

#: N-grams from which a text is evidence: three words and their two pairs. "yes" and "go on" are none.
EVIDENCE: Final = 5

#: Level of the one-sided test of the signal: as of a two-sided interval of 95 %.
_SIGNAL: Final = 0.025

#: Decimals kept of what a machine's own mathematical functions return.
_DIGITS: Final = 9


class ScoreSource(StrEnum):
    """Which part of the learned router a score comes from."""

    NGRAMS = "n-grams"  # the prompt is like the training data: the n-grams count in full
    BLEND = "blend"  # the n-grams count in part
    PRIOR = "length and rules"  # out of distribution: scored by the prior alone


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Platt scaling: probability = 1 / (1 + exp(-(offset + slope * raw))). Source: Platt (1999)."""

    offset: float
    slope: float
    error: float  # expected calibration error on held-out prompts

    def probability(self, raw: float) -> float:
        """The calibrated probability of a raw value."""
        return round(1.0 / (1.0 + math.exp(-(self.offset + self.slope * raw))), _DIGITS)

    def stated_error(self, probability: float, trust: float) -> float:
        """How far a probability may be off: the measured error where the prompt is like the training data.

        Of a stranger nothing is known, so it may be off by all there is. Between the two the parts are mixed
        (Huber's contamination model, 1964: docs/notebook/0170).
        """
        return trust * self.error + (1.0 - trust) * max(probability, 1.0 - probability)


class Centre(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The middle of one kind of training prompts: its heaviest n-grams."""

    buckets: bytes  # little-endian unsigned 16 bits, as returned by ``ngrams``
    weights: bytes  # little-endian float16, above 0: rarity of the n-gram times its part of the unit vector

    def by_bucket(self) -> dict[int, float]:
        """Weight of every n-gram named.

        Raises:
            ConfigError: the two arrays differ in length, or a weight is not above 0.
        """
        count = len(self.buckets) // 2
        weights = _floats(self.weights, count)
        if len(self.buckets) % 2 or not all(0.0 < weight < math.inf for weight in weights):
            raise _damaged()
        return dict(zip(struct.unpack(f"<{count}H", self.buckets), weights, strict=True))


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What held-out prompts showed when the router was made. Values are APGR, bounds 95 % intervals."""

    rows: int
    apgr: float
    low: float
    high: float
    against: dict[str, tuple[float, float, float]]  # ranker -> learned router minus ranker, with interval
    improves: bool  # every interval in ``against`` lies above 0
    #: Probability of gains so alike among alike prompts if only their length mattered; None: not tested.
    signal: float | None = None

    @property
    def beats_length(self) -> bool:
        """Whether the router is shown to rank better than length (docs/decisions/0169).

        The prompts say more than their length (one-sided test at .025), and held out the router ranks above
        length. Where the signal was not tested, the interval must lie above 0.
        """
        difference, low, _ = self.against.get("length", (0.0, 0.0, 0.0))
        return low > 0 if self.signal is None else difference > 0 and self.signal <= _SIGNAL


class Dense(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights over an encoder's vector, little-endian float16."""

    encoder: str  # name and version of the table or model
    kind: str  # which extra provides it: "static" or "sentence"
    weak: bytes
    strong: bytes


class LearnedRouter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A learned router file: JSON, arrays as base64 of little-endian float16, one value per bucket."""

    format: Literal["pointsman-learned-router"] = "pointsman-learned-router"
    version: Literal[1] = 1
    rows: int  # prompts it was trained on
    weak_model: str = ""
    strong_model: str = ""
    rarity: bytes  # weight of an n-gram: square root of its inverse document frequency
    centres: tuple[Centre, ...]  # of the kinds of training prompts
    weak: bytes
    strong: bytes
    weak_mean: float  # what the n-grams of an average prompt add up to; subtracted
    strong_mean: float
    log_length: float  # mean natural logarithm of the characters of a training prompt
    length_slope: float  # gain per unit of that logarithm
    rules: str  # tier profile whose score is part of the prior
    rules_mean: float  # mean of that score over training prompts
    rules_slope: float  # gain per unit of that score
    similarity: tuple[
        float, float
    ]  # up to the first the prior speaks alone, from the second the learned router
    #: The same for the stated error of a probability, which asks for more likeness; None: ``similarity``.
    error_similarity: tuple[float, float] | None = None
    weak_calibration: Calibration
    strong_calibration: Calibration
    offsets: dict[str, tuple[float, float]] = {}  # domain -> added to the raw weak and strong value
    dense: Dense | None = None
    head: KindsHead | None = None  # with one, there are no n-grams: their arrays are empty
    claim: Claim
    lengths: tuple[float, ...]  # deciles of the logarithm of training lengths, for the drift check
    similarities: tuple[float, ...]  # deciles of held-out similarity, for the drift check
    #: Smallest digests of the training prompts (``rankers.sketch_of``); absent in files of earlier versions,
    #: whose digest stays as it was.
    sketch: bytes | msgspec.UnsetType = msgspec.UNSET

    def digest(self) -> str:
        """Twelve hex digits over everything in the learned router: recorded with its decisions."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:12]


_decode: Final = msgspec.json.Decoder(LearnedRouter).decode


class LearnedScore(msgspec.Struct, frozen=True, gc=False):
    """The learned router's score of one prompt."""

    score: float  # rank by this for the strong model: gain over that of an average training prompt
    p_weak: float  # probability that the weak model serves it well
    p_strong: float
    similarity: float  # cosine to the nearest centre of training prompts: 0..1
    source: ScoreSource
    #: How far the two probabilities may be off; 1.0: not stated, in records of earlier versions.
    weak_error: float = 1.0
    strong_error: float = 1.0


class LearnedScorer:
    """A learned router made ready to score. Holds no state between prompts; safe to share."""

    def __init__(self, learned_router: LearnedRouter, encoder: Encoder | None = None) -> None:
        """Unpack a learned router.

        Raises:
            ConfigError: the arrays do not have their length, or the encoder is not the learned router's.
        """
        self.learned_router = learned_router
        self._kinds: KindsReader | None = None
        self._dense: _Vector | None = None
        if learned_router.head:
            self._kinds = KindsReader(learned_router.head, encoder)
            return
        columns = (
            [value * value for value in _floats(learned_router.rarity, BUCKETS)],
            _floats(learned_router.weak, BUCKETS),
            _floats(learned_router.strong, BUCKETS),
        )
        self._sums = FixedPoint(columns, [centre.by_bucket() for centre in learned_router.centres])
        self._dense = _Vector(learned_router.dense, encoder) if learned_router.dense else None

    def score(self, text: str, *, rules: float | None = None, domain: str = "") -> LearnedScore:
        """Score the user's words.

        Args:
            text: The words.
            rules: Score of the tier profile the learned router was fitted with; None if another is in use.
            domain: Selects an offset if the learned router has learned one.
        """
        learned_router = self.learned_router
        # Rounded, as are the probabilities: the last bit of a logarithm is the machine's.
        prior = learned_router.length_slope * (
            round(math.log(max(len(text), 1)), _DIGITS) - learned_router.log_length
        )
        if rules is not None:
            prior += learned_router.rules_slope * (rules - learned_router.rules_mean)
        if self._kinds:
            prior += learned_router.length_slope * self._kinds.shift(text)
        weak, strong, similarity = self._evidence(text)
        trust = _trust(similarity, learned_router.similarity)
        known = _trust(similarity, learned_router.error_similarity or learned_router.similarity)
        more_weak, more_strong = learned_router.offsets.get(domain, (0.0, 0.0))
        weak = trust * weak - prior + more_weak
        strong = trust * strong + more_strong
        p_weak = learned_router.weak_calibration.probability(weak)
        p_strong = learned_router.strong_calibration.probability(strong)
        return LearnedScore(
            score=strong - weak,
            p_weak=p_weak,
            p_strong=p_strong,
            similarity=similarity,
            source=ScoreSource.NGRAMS if trust == 1.0 else ScoreSource.BLEND if trust else ScoreSource.PRIOR,
            weak_error=round(learned_router.weak_calibration.stated_error(p_weak, known), _DIGITS),
            strong_error=round(learned_router.strong_calibration.stated_error(p_strong, known), _DIGITS),
        )

    def _evidence(self, text: str) -> tuple[float, float, float]:
        """What n-grams and vector say of the weak and the strong model, and the similarity."""
        buckets = ngrams(text)
        if len(buckets) < EVIDENCE:
            return _NOTHING
        if self._kinds:
            weak, strong, similarity = self._kinds.evidence(text)
            return weak - self.learned_router.weak_mean, strong - self.learned_router.strong_mean, similarity
        squares, weak, strong, *near = self._sums.over(buckets)
        norm = math.sqrt(squares)
        weak = weak / norm - self.learned_router.weak_mean
        strong = strong / norm - self.learned_router.strong_mean
        similarity = min(max(near, default=0.0) / norm, 1.0)
        if self._dense:
            more_weak, more_strong = self._dense.evidence(text)
            weak, strong = weak + more_weak, strong + more_strong
        return weak, strong, similarity


def _trust(similarity: float, bounds: tuple[float, float]) -> float:
    """Weight of the learned evidence, 0..1."""
    low, high = bounds
    return min(max((similarity - low) / (high - low), 0.0), 1.0)


class _Vector:
    """The part of a learned router that reads an encoder's vector."""

    def __init__(self, dense: Dense, encoder: Encoder | None) -> None:
        if encoder is None or encoder.name != dense.encoder:
            raise ConfigError(f'the learned router needs the encoder "{dense.encoder}"')
        self._encode = encoder.encode
        self._weak = _floats(dense.weak, len(dense.weak) // 2)
        self._strong = _floats(dense.strong, len(self._weak))

    def evidence(self, text: str) -> tuple[float, float]:
        vector = self._encode([text])[0].tolist()
        return sum(map(mul, self._weak, vector)), sum(map(mul, self._strong, vector))


def read_learned_router(data: bytes, source: str) -> LearnedRouter:
    """Read a learned router file; ``source`` is its name in errors.

    Raises:
        ConfigError: not a learned router file, of another version, or damaged.
    """
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"not a learned router this version can read: {error}",
            place=source,
            hint="make one: pointsman fit tiers",
        ) from None


def _floats(data: bytes, count: int) -> tuple[float, ...]:
    if len(data) != 2 * count:
        raise _damaged()
    return struct.unpack(f"<{count}e", data)


def _damaged() -> ConfigError:
    return ConfigError("the learned router file is damaged: an array has the wrong length")
