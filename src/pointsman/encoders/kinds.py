"""Opening a file of kinds with the static encoder it was made for."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from pkgutil import get_data
from typing import Final

from pointsman.encoders import StaticEncoder
from pointsman.errors import ConfigError, MissingExtra
from pointsman.tiers.kinds import Kinds, PromptKinds, read_kinds

__all__ = ["load_kinds", "open_kinds", "table_hash"]

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
