"""Reads what an operator hands to ``pointsman models update``, and writes the user's catalogue."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec

from pointsman.catalogue._entry import Catalogue
from pointsman.catalogue._files import decode, encode, read_bytes, user_file
from pointsman.catalogue._litellm import from_litellm
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import ConfigError

__all__ = ["read_source", "write_user_file"]


def read_source(file: Path, as_of: date) -> Catalogue:
    """Return the catalogue in a file: one in the shape of ``decode``, or LiteLLM's price map.

    Args:
        file: JSON.
        as_of: Date of a price map, which says none.

    Raises:
        ConfigError: it cannot be read, is too large or neither of the two, or an entry is wrong.
    """
    data = read_bytes(file)
    try:
        found = msgspec.json.decode(data)
    except UNREADABLE as error:
        raise ConfigError(f"not JSON: {why_unreadable(error)}", place=str(file)) from None
    if not isinstance(found, dict):
        hint = 'an object with "as_of" and "models", where "models" is the list of entries'
        raise ConfigError("neither a catalogue nor a price map: not an object", place=str(file), hint=hint)
    if isinstance(found.get("models"), list):
        return decode(data, str(file))
    if not any(isinstance(info, dict) and "litellm_provider" in info for info in found.values()):
        hint = 'a catalogue has "as_of" and "models"; entries of a price map have "litellm_provider"'
        raise ConfigError("neither a catalogue nor a price map", place=str(file), hint=hint)
    return from_litellm(found, place=str(file), as_of=as_of, origin=f"{file.name} (LiteLLM's price map)")


def write_user_file(catalogue: Catalogue) -> None:
    """Replace the user's catalogue atomically.

    Raises:
        ConfigError: it cannot be written.
    """
    from tempfile import mkstemp  # every command that reads a configuration imports this module

    file = user_file().resolve()  # through a link to the file it leads to
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = mkstemp(dir=file.parent, prefix=f".{file.name}.")
        with open(descriptor, "w", encoding="utf-8") as temporary:  # noqa: PTH123 - a descriptor, not a path
            temporary.write(encode(catalogue))
        Path(name).replace(file)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error
