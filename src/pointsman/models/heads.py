"""Head files, read and given the encoder they ask for."""

from __future__ import annotations

from pathlib import Path

from pointsman.errors import ConfigError
from pointsman.models.encoders import load_encoder
from pointsman.tiers.head import HeadScorer, read_head

__all__ = ["load_scorer"]


def load_scorer(path: Path) -> HeadScorer:
    """Load a head.

    Raises:
        ConfigError: the file cannot be read, is not a head, or its encoder is another version.
        MissingExtra: the encoder it was trained with is not installed.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the head {path}: {error.strerror}") from error
    head = read_head(data, str(path))
    return HeadScorer(head, load_encoder(head.dense.kind) if head.dense else None)
