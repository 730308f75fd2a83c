"""Kinds of prompts and how hard each is for models in general, from public outcomes.

What transfers between data sets is how often models fail at a kind of prompt, not which of two similar
prompts is harder. So a kind shifts the score of the rules, and the rules rank within it. A prompt that is
like no kind gets no shift. Made by ``pointsman fit kinds``; the file holds no prompt text.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from pointsman.errors import ConfigError
from pointsman.vocabulary import Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BUILTIN_KINDS", "LIKE", "Kind", "KindShift", "Kinds", "Origin", "PromptKinds", "read_kinds"]

#: What ``[tiers] kinds`` says for the shipped ones, and for none; anything else is a file.
BUILTIN_KINDS: Final = ("default", "off")

#: Cosines to the nearest kind between which its difficulty gains its say, from none to all.
LIKE: Final = (0.25, 0.60)

#: User messages whose shift is remembered: an agent sends the same words with every result of a tool.
_REMEMBERED: Final = 1_024
#: Characters of one that is: what a person types, not what is pasted.
_LONGEST: Final = 4_000

#: What an integer of a vector stands for: -127..127 is -1..1.
SCALE: Final = 127.0

#: Most kinds and dimensions of a file: four times what is shipped, 1 MB of numbers.
_MOST: Final = 1_024


class Origin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data set that kinds were made from."""

    name: str
    source: str
    licence: str
    sha256: str
    rows: int


class Kind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of prompts."""

    sentence: str  # what it is like, for a person
    difficulty: float  # mean share of failures, shrunk towards the mean of all prompts; 0..1
    prompts: int


class PromptKinds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of kinds: JSON, the vectors as base64 of signed bytes, row by row."""

    format: Literal["pointsman-kinds"] = "pointsman-kinds"
    version: Literal[1] = 1
    encoder: str
    table: str  # hash of the encoder's table: vectors of another one mean something else
    mean: float  # difficulty of all prompts
    weight: float  # of a difference in difficulty, in units of ln(characters)
    origins: tuple[Origin, ...]
    kinds: tuple[Kind, ...]
    vectors: bytes

    @property
    def digest(self) -> str:
        """Twelve hex digits over the file: recorded with its decisions."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:12]


class KindShift(msgspec.Struct, frozen=True, gc=False):
    """The addition to a prompt's score by the kinds near it."""

    shift: float  # in units of ln(characters): weight * w * (difficulty - mean)
    likeness: float  # w, 0..1
    difficulty: float
    sentence: str  # of the nearest kind

    def __str__(self) -> str:
        return f"{self.sentence}, of which models fail {self.difficulty:.0%}"


_decode: Final = msgspec.json.Decoder(PromptKinds).decode


class Kinds:
    """A file of kinds made ready for one encoder. Safe to share; its cache is bounded."""

    def __init__(self, file: PromptKinds, encoder: Encoder, table: str) -> None:
        """Unpack the vectors.

        Args:
            file: the kinds.
            encoder: turns the user's words into a vector.
            table: hash of the encoder's table.

        Raises:
            ConfigError: the file was made for another encoder or table, or is damaged.
        """
        import numpy as np  # the encoder brings it

        if (file.encoder, file.table) != (encoder.name, table):
            raise ConfigError(
                f'the kinds were made for the encoder "{file.encoder}" with table {file.table[:12]}; '
                f'installed is "{encoder.name}" with table {table[:12]}',
                hint='make them again: pointsman fit kinds; or kinds = "off" under [tiers]',
            )
        rows = np.frombuffer(file.vectors, np.int8).astype(np.float32) / SCALE
        self._vectors: NDArray[np.float32] = rows.reshape(len(file.kinds), -1)
        self._difficulties = np.array([kind.difficulty for kind in file.kinds], np.float32)
        self._clip: Any = np.clip
        self._encoder = encoder
        self.file: Final = file
        self._kept: Final[Callable[[str], KindShift | None]] = lru_cache(_REMEMBERED)(self._of)

    def of(self, text: str) -> KindShift | None:
        """Return the shift of the user's words; None if they are like no kind."""
        return self._kept(text) if len(text) <= _LONGEST else self._of(text)

    def shift(self, text: str) -> float:
        """The shift by the kinds near the user's words, in units of ln(characters); 0 without any."""
        found = self.of(text)
        return found.shift if found else 0.0

    def _of(self, text: str) -> KindShift | None:
        low, high = LIKE
        near = self._vectors @ self._encoder.encode([text])[0]
        weights = self._clip((near - low) / (high - low), 0.0, 1.0)
        likeness = float(weights.max())
        if not likeness:
            return None
        squares = weights * weights
        difficulty = float(squares @ self._difficulties / squares.sum())
        shift = self.file.weight * likeness * (difficulty - self.file.mean)
        kind = self.file.kinds[int(near.argmax())]
        return KindShift(round(shift, 6), round(likeness, 6), round(difficulty, 6), kind.sentence)


def read_kinds(data: bytes, source: str) -> PromptKinds:
    """Read a file of kinds; ``source`` is its name in errors.

    Raises:
        ConfigError: not a file of kinds, of another version, or damaged.
    """
    hint = "make one: pointsman fit kinds"
    try:
        file = _decode(data)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"not a file of kinds this version can read: {error}", place=source, hint=hint
        ) from None
    count = len(file.kinds)
    numbers = (file.mean, file.weight, *(kind.difficulty for kind in file.kinds))
    whole = 0 < count <= _MOST and len(file.vectors) % count == 0 and len(file.vectors) <= _MOST * count
    if not whole or not file.vectors or not all(map(math.isfinite, numbers)):
        raise ConfigError("the file of kinds is damaged: its vectors do not fit", place=source, hint=hint)
    return file
