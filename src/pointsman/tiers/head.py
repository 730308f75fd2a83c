"""The learned head: how likely a weak and a strong model serve a prompt well, learned from outcomes.

A linear model over hashed words and word pairs, on top of a prior: a longer prompt, and one that the rules
score higher, gains more from the strong model. What the n-grams say is added to the prior only as far as the
prompt's word pairs are known from training; an unknown prompt is ranked by length and rules alone, because a
head does harm outside what it has seen (docs/decisions/0060). Made by ``pointsman fit tiers``; read here
without any numerical library.
"""

from __future__ import annotations

import math
import struct
from enum import StrEnum
from operator import mul
from typing import Final, Literal

import msgspec

from pointsman.errors import ConfigError
from pointsman.tiers.fixed_point import FixedPoint
from pointsman.tiers.ngrams import BUCKETS, ngrams
from pointsman.types import Encoder

__all__ = ["Calibration", "Claim", "Dense", "Head", "HeadScore", "HeadScorer", "Spoke", "read_head"]

_NOTHING: Final = (0.0, 0.0, 0.0)


class Spoke(StrEnum):
    """Which part of the head a score comes from."""

    HEAD = "head"  # the prompt is like the training data: the n-grams count in full
    BLEND = "blend"  # the n-grams count in part
    PRIOR = "length and rules"  # the prompt is unlike the training data: the n-grams are not heard


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Platt scaling: probability = 1 / (1 + exp(-(offset + slope * raw))). Source: Platt (1999)."""

    offset: float
    slope: float
    error: float  # expected calibration error on held-out prompts

    def probability(self, raw: float) -> float:
        """The calibrated probability of a raw value."""
        return 1.0 / (1.0 + math.exp(-(self.offset + self.slope * raw)))


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What held-out prompts showed when the head was made. Values are APGR, bounds 95 % intervals."""

    rows: int
    apgr: float
    low: float
    high: float
    against: dict[str, tuple[float, float, float]]  # ranker -> head minus ranker, with interval
    improves: bool  # every interval in ``against`` lies above 0


class Dense(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights over an encoder's vector, little-endian float16."""

    encoder: str  # name and version of the table or model
    kind: str  # which extra provides it: "static" or "sentence"
    weak: bytes
    strong: bytes


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A head file: JSON, arrays as base64 of little-endian float16, one value per bucket."""

    format: Literal["pointsman-head"] = "pointsman-head"
    version: Literal[1] = 1
    rows: int  # prompts it was trained on
    weak_model: str = ""
    strong_model: str = ""
    rarity: bytes  # weight of an n-gram: square root of its inverse document frequency
    credibility: bytes  # per bucket of pairs: 0 never seen in training .. towards 1, seen often
    weak: bytes
    strong: bytes
    weak_mean: float  # what the n-grams of an average prompt add up to; subtracted
    strong_mean: float
    log_length: float  # mean natural logarithm of the characters of a training prompt
    length_slope: float  # gain per unit of that logarithm
    rules: str  # tier profile whose score is part of the prior
    rules_mean: float  # mean of that score over training prompts
    rules_slope: float  # gain per unit of that score
    familiarity: tuple[float, float]  # up to the first the prior speaks alone, from the second the head
    weak_calibration: Calibration
    strong_calibration: Calibration
    offsets: dict[str, tuple[float, float]] = {}  # domain -> added to the raw weak and strong value
    dense: Dense | None = None
    claim: Claim
    lengths: tuple[float, ...]  # deciles of the logarithm of training lengths, for the drift check
    familiarities: tuple[float, ...]  # deciles of held-out familiarity, for the drift check


_decode: Final = msgspec.json.Decoder(Head).decode


class HeadScore(msgspec.Struct, frozen=True, gc=False):
    """What a head says of one prompt."""

    score: float  # rank by this for the strong model: gain over that of an average training prompt
    p_weak: float  # probability that the weak model serves it well
    p_strong: float
    familiarity: float  # how well the prompt's word pairs are known from training: 0..1
    spoke: Spoke


class HeadScorer:
    """A head made ready to score. Holds no state between prompts; safe to share."""

    def __init__(self, head: Head, encoder: Encoder | None = None) -> None:
        """Unpack a head.

        Raises:
            ConfigError: the arrays do not have their length, or the encoder is not the head's.
        """
        self.head = head
        self._sums = FixedPoint(
            [value * value for value in _floats(head.rarity, 2 * BUCKETS)],
            _floats(head.weak, 2 * BUCKETS),
            _floats(head.strong, 2 * BUCKETS),
            (*[0.0] * BUCKETS, *_floats(head.credibility, BUCKETS)),
        )
        self._dense = _Vector(head.dense, encoder) if head.dense else None

    def score(self, text: str, *, rules: float | None = None, domain: str = "") -> HeadScore:
        """Score a person's words.

        Args:
            text: The words.
            rules: Score of the tier profile the head was fitted beside; None where another is in use.
            domain: Selects an offset where the head has learned one.
        """
        head = self.head
        prior = head.length_slope * (math.log(max(len(text), 1)) - head.log_length)
        if rules is not None:
            prior += head.rules_slope * (rules - head.rules_mean)
        weak, strong, familiarity = self._evidence(text)
        low, high = head.familiarity
        trust = min(max((familiarity - low) / (high - low), 0.0), 1.0)
        more_weak, more_strong = head.offsets.get(domain, (0.0, 0.0))
        weak = trust * weak - prior + more_weak
        strong = trust * strong + more_strong
        return HeadScore(
            score=strong - weak,
            p_weak=head.weak_calibration.probability(weak),
            p_strong=head.strong_calibration.probability(strong),
            familiarity=familiarity,
            spoke=Spoke.HEAD if trust == 1.0 else Spoke.BLEND if trust else Spoke.PRIOR,
        )

    def _evidence(self, text: str) -> tuple[float, float, float]:
        """What n-grams and vector say of the weak and the strong model, and the familiarity."""
        words, pairs = ngrams(text)
        if len(pairs) < 2:  # one pair is no evidence
            return _NOTHING
        squares, weak, strong, known = self._sums.over([*words, *pairs])
        norm = math.sqrt(squares)
        weak = weak / norm - self.head.weak_mean
        strong = strong / norm - self.head.strong_mean
        familiarity = known / len(pairs)
        if self._dense:
            more_weak, more_strong = self._dense.evidence(text)
            weak, strong = weak + more_weak, strong + more_strong
        return weak, strong, familiarity


class _Vector:
    """The part of a head that reads an encoder's vector."""

    def __init__(self, dense: Dense, encoder: Encoder | None) -> None:
        if encoder is None or encoder.name != dense.encoder:
            raise ConfigError(f'the head needs the encoder "{dense.encoder}"')
        self._encode = encoder.encode
        self._weak = _floats(dense.weak, len(dense.weak) // 2)
        self._strong = _floats(dense.strong, len(self._weak))

    def evidence(self, text: str) -> tuple[float, float]:
        vector = self._encode([text])[0].tolist()
        return sum(map(mul, self._weak, vector)), sum(map(mul, self._strong, vector))


def read_head(data: bytes, source: str) -> Head:
    """Read a head file; ``source`` is its name in errors.

    Raises:
        ConfigError: not a head file, of another version, or damaged.
    """
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"not a head this version can read: {error}", place=source, hint="make one: pointsman fit tiers"
        ) from None


def _floats(data: bytes, count: int) -> tuple[float, ...]:
    if len(data) != 2 * count:
        raise _damaged()
    return struct.unpack(f"<{count}e", data)


def _damaged() -> ConfigError:
    return ConfigError("the head file is damaged: an array has the wrong length")
