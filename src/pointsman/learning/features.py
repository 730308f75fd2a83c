"""Input features of a router. Separate from fitting, which needs the extra ``fit``."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Features"]


class Features(StrEnum):
    """Input features of a learned router."""

    AUTO = "auto"  # hashed: on the development data an embedding adds nothing (docs/decisions/0060)
    HASHED = "hashed"
    STATIC = "static"  # hashed, and a static embedding (extra ``static``)
    KINDS = "kinds"  # length and kinds of prompts as the prior, a static embedding for the rest
    SENTENCE = "sentence"  # hashed, and a sentence model (extra ``sentence``)
