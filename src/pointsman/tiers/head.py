"""The learned head: how likely a weak and a strong model serve a prompt well, learned from outcomes.

A linear model over hashed words and word pairs, on top of a prior: a longer prompt gains more from the strong
model. What the n-grams say is added to the prior only as far as the prompt's words are known from training;
an unknown prompt is ranked by its length alone, because a head does harm outside what it has seen
(docs/decisions/0060). Made by ``pointsman fit tiers``; read here without any numerical library.
"""

from __future__ import annotations

import math
import struct
from enum import StrEnum
from operator import itemgetter, mul
from typing import Final, Literal

import msgspec

from pointsman.errors import ConfigError
from pointsman.tiers.ngrams import BUCKETS, word_buckets, word_pairs, words
from pointsman.types import Encoder

__all__ = ["Calibration", "Claim", "Dense", "Head", "HeadScore", "HeadScorer", "Spoke", "read_head"]

_NOTHING: Final = (0.0, 0.0, 0.0)


class Spoke(StrEnum):
    """Which part of the head a score comes from."""

    HEAD = "head"  # the prompt is like the training data: the n-grams count in full
    BLEND = "blend"  # the n-grams count in part
    LENGTH = "length"  # the prompt is unlike the training data: the prior alone


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
    known: bytes  # one bit per word bucket: seen in at least two training prompts
    weak: bytes
    strong: bytes
    weak_mean: float  # what the n-grams of an average prompt add up to; subtracted
    strong_mean: float
    log_length: float  # mean natural logarithm of the characters of a training prompt
    length_slope: float  # gain per unit of that logarithm
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
    familiarity: float  # share of the prompt's words known from training, weighted by rarity: 0..1
    spoke: Spoke


class HeadScorer:
    """A head made ready to score. Holds no state between prompts; safe to share."""

    def __init__(self, head: Head, encoder: Encoder | None = None) -> None:
        """Unpack a head.

        Raises:
            ConfigError: the arrays do not have their length, or the encoder is not the head's.
        """
        self.head = head
        self._weak = _floats(head.weak, 2 * BUCKETS)
        self._strong = _floats(head.strong, 2 * BUCKETS)
        self._squares = tuple(value * value for value in _floats(head.rarity, 2 * BUCKETS))
        if len(head.known) * 8 != BUCKETS:
            raise _damaged()
        self._known = tuple(
            square if head.known[bucket >> 3] >> (bucket & 7) & 1 else 0.0
            for bucket, square in enumerate(self._squares[:BUCKETS])
        )
        self._dense = _Vector(head.dense, encoder) if head.dense else None

    def score(self, text: str, domain: str = "") -> HeadScore:
        """Score a person's words. ``domain`` selects an offset where the head has learned one."""
        head = self.head
        length = math.log(max(len(text), 1)) - head.log_length
        weak, strong, familiarity = self._evidence(text)
        low, high = head.familiarity
        trust = min(max((familiarity - low) / (high - low), 0.0), 1.0)
        more = head.offsets.get(domain, (0.0, 0.0))
        weak = trust * weak - head.length_slope * length + more[0]
        strong = trust * strong + more[1]
        return HeadScore(
            score=strong - weak,
            p_weak=head.weak_calibration.probability(weak),
            p_strong=head.strong_calibration.probability(strong),
            familiarity=familiarity,
            spoke=Spoke.HEAD if trust == 1.0 else Spoke.BLEND if trust else Spoke.LENGTH,
        )

    def _evidence(self, text: str) -> tuple[float, float, float]:
        """What n-grams and vector say of the weak and the strong model, and the familiarity."""
        hashes = words(text)
        single = set(word_buckets(hashes))
        if len(single) <= 1:  # ``itemgetter`` of one index gives no tuple, and one word is no evidence
            return _NOTHING
        pick_words = itemgetter(*single)
        pick = itemgetter(*single, *set(word_pairs(hashes)))
        norm = math.sqrt(sum(pick(self._squares)))
        weak = sum(pick(self._weak)) / norm - self.head.weak_mean
        strong = sum(pick(self._strong)) / norm - self.head.strong_mean
        familiarity = sum(pick_words(self._known)) / sum(pick_words(self._squares))
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
