"""Loading a learned router file with the encoder it requires."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from pkgutil import get_data
from typing import Final

from pointsman.encoders import StaticEncoder, load_encoder
from pointsman.errors import ConfigError, MissingExtra
from pointsman.tiers.kinds import Kinds, PromptKinds, read_kinds
from pointsman.tiers.learned_router import KindsHead, LearnedRouter, LearnedScorer, read_learned_router
from pointsman.vocabulary import Encoder

__all__ = ["encoder_of", "load_kinds", "load_learned_router", "load_scorer", "open_kinds", "table_hash"]


# Opening a file of kinds with the static encoder it was made for.

#: Every so many rows of the table are hashed: a megabyte of 33, in a millisecond.
_EVERY: Final = 31

_warned: set[str] = set()

log = logging.getLogger(__name__)


def load_kinds(name: str) -> PromptKinds | None:
    """The shipped kinds ("default"), those in a file, or None ("off").

    Raises:
        ConfigError: the file cannot be read or is no file of kinds.
    """
    if name == "off":
        return None
    if name == "default":
        return read_kinds(get_data("pointsman.tiers", "kinds.json") or b"", "the shipped kinds")
    try:
        data = Path(name).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot read the kinds {name}: {error.strerror}", hint='kinds is "default", a path or "off"'
        ) from error
    return read_kinds(data, name)


def open_kinds(file: PromptKinds | None) -> Kinds | None:
    """Make kinds ready; None without any, or where the static encoder is not installed, which is logged once.

    Raises:
        ConfigError: the file was made for another encoder or table.
    """
    if file is None:
        return None
    try:
        encoder = StaticEncoder()
    except MissingExtra as error:
        if not _warned:
            log.warning("kinds of prompts are not used: %s", error)
            _warned.add(file.encoder)
        return None
    return Kinds(file, encoder, table_hash(encoder))


def table_hash(encoder: StaticEncoder) -> str:
    """Identity of an encoder's table: SHA-256 over its shape and every 31st row."""
    table = encoder.table
    return hashlib.sha256(repr(table.shape).encode() + table[::_EVERY].tobytes()).hexdigest()


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
    """Return the scorer of a router file. Raises as ``load_learned_router`` and ``encoder_of`` do."""
    learned_router = load_learned_router(path)
    return LearnedScorer(learned_router, encoder_of(learned_router))
