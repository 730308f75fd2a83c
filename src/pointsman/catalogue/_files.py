"""The files of the catalogue: the one shipped, and the user's own."""

from __future__ import annotations

import os
import re
from datetime import date
from pathlib import Path
from typing import Any, Final

import msgspec

from pointsman.catalogue._entry import Catalogue, CatalogueEntry
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import ConfigError

__all__ = ["ENTRIES", "LARGEST", "decode", "encode", "installed", "read_bytes", "user_file"]

SHIPPED: Final = Path(__file__).with_name("models.json")

#: Bytes of a file at most: LiteLLM's price map has 4 MB.
LARGEST: Final = 32_000_000
#: Entries of a file at most: LiteLLM's price map has 4,553.
ENTRIES: Final = 20_000


class CatalogueFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file as it is written; its entries are read one by one, so that an error names its entry."""

    as_of: date
    origin: str = ""
    models: list[msgspec.Raw]


_file: Final = msgspec.json.Decoder(CatalogueFile)
_entry: Final = msgspec.json.Decoder(CatalogueEntry)
_name: Final = msgspec.json.Decoder(dict[str, Any])


def user_file() -> Path:
    """Return where the user's catalogue is, beside the user's configuration; it need not exist."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return folder / "pointsman" / "models.json"


def installed() -> tuple[Catalogue, ...]:
    """Return the catalogues in force: the user's, where there is one, then the one shipped.

    Raises:
        ConfigError: the user's is wrong.
    """
    own = user_file()
    found = [SHIPPED]
    if own.is_file():
        found.insert(0, own)
    return tuple(decode(read_bytes(file), str(file)) for file in found)


def read_bytes(file: Path) -> bytes:
    """Return the bytes of a file, and not many more than a catalogue may have.

    Raises:
        ConfigError: it cannot be read, or is too large.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from None
    if len(data) > LARGEST:
        raise ConfigError(f"a catalogue has at most {LARGEST:,} bytes", place=str(file))
    return data


def decode(data: bytes, place: str) -> Catalogue:
    """Return the catalogue in the bytes of a file.

    Args:
        data: JSON: ``{"as_of": "2026-11-22", "origin": "…", "models": [{"provider", "id", …}, …]}``.
        place: What messages name it by.

    Raises:
        ConfigError: it is not JSON, has too many entries, or an entry is wrong; the message names the entry.
    """
    try:
        read = _file.decode(data)
    except UNREADABLE as error:
        raise ConfigError(f"not a catalogue: {why_unreadable(error)}", place=place, hint=_SHAPE) from None
    if len(read.models) > ENTRIES:
        raise ConfigError(
            f"a catalogue has at most {ENTRIES:,} models, not {len(read.models):,}", place=place
        )
    entries: dict[tuple[str, str], CatalogueEntry] = {}
    for number, raw in enumerate(read.models):
        entry = _decoded(raw, number, place)
        if (entry.provider, entry.id) in entries:
            raise ConfigError(f'two entries "{entry.id}" of provider "{entry.provider}"', place=place)
        entries[entry.provider, entry.id] = entry
    return Catalogue(tuple(entries.values()), as_of=read.as_of, origin=read.origin)


def encode(catalogue: Catalogue) -> str:
    """Return a catalogue as the text of a file, one line for each model."""
    head = msgspec.json.encode({"as_of": catalogue.as_of, "origin": catalogue.origin}).decode()
    lines = ",\n".join(msgspec.json.encode(_ordered(each)).decode() for each in catalogue.entries)
    return f'{head[:-1]},"models":[\n{lines}\n]}}\n'


def _ordered(entry: CatalogueEntry) -> dict[str, Any]:
    """What a person looks for first comes first."""
    values: dict[str, Any] = msgspec.to_builtins(entry, order="deterministic")
    first = {name: values.pop(name) for name in ("provider", "id") if name in values}
    return first | values


#: How msgspec names the key of a wrong value, a bound, and types.
_AT_KEY: Final = re.compile(r"(?P<what>.+) - at `\$\.(?P<key>\w+)(\[\.\.\.\])?`")
_BOUND: Final = re.compile(r"(`\w+(?: \| null)?`) >= (\d+)(?:\.0)?")
_TYPES: Final = {
    "float": "a number",
    "int": "a whole number",
    "str": "a text",
    "array": "a list",
    "object": "an object",
    "bool": "true or false",
}
_SHAPE: Final = '{"as_of": "2026-11-22", "origin": "…", "models": [{"provider": "openai", "id": "…", …}]}'


def _decoded(raw: msgspec.Raw, number: int, place: str) -> CatalogueEntry:
    try:
        entry = _entry.decode(raw)
    except UNREADABLE as error:
        raise ConfigError(f"models[{number}]{_named(raw)}: {_in_words(error)}", place=place) from None
    lower = entry.id.lower()
    return entry if lower == entry.id else msgspec.structs.replace(entry, id=lower)


def _in_words(error: Exception) -> str:
    """What is wrong with an entry: its key first, and JSON's names of types."""
    found = _AT_KEY.fullmatch(why_unreadable(error))
    if found is None:
        return why_unreadable(error)
    expected = _BOUND.sub(r"\1 of at least \2", found["what"])
    for name, word in _TYPES.items():
        expected = expected.replace(f"`{name}`", word).replace(f"`{name} | null`", word)
    return f"`{found['key']}`: {expected[0].lower()}{expected[1:]}"


def _named(raw: msgspec.Raw) -> str:
    """The id of an entry that is wrong, where it has one."""
    try:
        found = _name.decode(raw).get("id")
    except UNREADABLE:
        return ""
    return f' "{found}"' if isinstance(found, str) else ""
