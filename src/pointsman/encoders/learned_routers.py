"""Loading a learned router file with the encoder it requires."""

from __future__ import annotations

from pathlib import Path

from pointsman.encoders import StaticEncoder, load_encoder
from pointsman.encoders.kinds import table_hash
from pointsman.errors import ConfigError
from pointsman.tiers.learned_router import KindsHead, LearnedRouter, LearnedScorer, read_learned_router
from pointsman.vocabulary import Encoder

__all__ = ["encoder_of", "load_learned_router", "load_scorer"]


def load_learned_router(path: Path) -> LearnedRouter:
    """Read a learned router file.

    Raises:
        ConfigError: the file cannot be read or is not a learned router.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the learned router {path}: {error.strerror}") from error
    return read_learned_router(data, str(path))


def encoder_of(learned_router: LearnedRouter) -> Encoder | None:
    """The encoder a learned router was trained with.

    Raises:
        MissingExtra: it is not installed.
        ConfigError: the kinds of the learned router were made for another encoder or table.
    """
    if learned_router.head:
        return _static(learned_router.head)
    return load_encoder(learned_router.dense.kind) if learned_router.dense else None


def _static(head: KindsHead) -> StaticEncoder:
    encoder, kinds = StaticEncoder(), head.kinds
    table = table_hash(encoder)
    if (kinds.encoder, kinds.table) != (encoder.name, table):
        raise ConfigError(
            f'the learned router was made with the encoder "{kinds.encoder}" and table {kinds.table[:12]}; '
            f'installed is "{encoder.name}" with table {table[:12]}',
            hint="make it again: pointsman fit tiers --features kinds",
        )
    return encoder


def load_scorer(path: Path) -> LearnedScorer:
    """Read a router file and make it ready to score. Raises what ``load_head`` and ``encoder_of`` raise."""
    learned_router = load_learned_router(path)
    return LearnedScorer(learned_router, encoder_of(learned_router))
