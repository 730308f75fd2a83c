"""The head of a learned router that reads kinds of prompts and a static vector instead of n-grams."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from pointsman.errors import ConfigError
from pointsman.tiers.kinds import SCALE, Kinds, PromptKinds
from pointsman.vocabulary import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KindsHead", "KindsReader"]

#: User messages whose evidence is remembered: an agent sends the same words with every result of a tool.
_REMEMBERED: Final = 1_024

#: Decimals kept of sums, whose last bits are the machine's.
_DIGITS: Final = 6


class KindsHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is read instead of n-grams: kinds beside length as the prior, and a static vector."""

    kinds: PromptKinds
    centres: bytes  # of training prompts, signed bytes row by row, as the vectors of the kinds
    weak: bytes  # weights over the vector, little-endian float16
    strong: bytes


class KindsReader:
    """A head made ready for its encoder. Safe to share; what it remembers is bounded."""

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
        return round(weak, _DIGITS), round(strong, _DIGITS), round(near, _DIGITS)
