"""Head files, read and given the encoder they ask for."""

from __future__ import annotations

from pathlib import Path

from pointsman.encoders import load_encoder
from pointsman.errors import ConfigError
from pointsman.tiers.head import Head, HeadScorer, read_head
from pointsman.vocabulary import Encoder

__all__ = ["encoder_of", "load_head", "load_scorer"]


def load_head(path: Path) -> Head:
    """Read a head file.

    Raises:
        ConfigError: the file cannot be read or is not a head.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the head {path}: {error.strerror}") from error
    return read_head(data, str(path))


def encoder_of(head: Head) -> Encoder | None:
    """The encoder a head was trained with.

    Raises:
        MissingExtra: it is not installed.
    """
    return load_encoder(head.dense.kind) if head.dense else None


def load_scorer(path: Path) -> HeadScorer:
    """Read a head file and make it ready to score. Raises what ``load_head`` and ``encoder_of`` raise."""
    head = load_head(path)
    return HeadScorer(head, encoder_of(head))
