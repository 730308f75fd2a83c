"""Reads the input of ``pointsman models update``, and writes the user's catalogue."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

import msgspec

from pointsman.catalogue._entry import HIGHEST_PRICE, Catalogue, CatalogueEntry
from pointsman.decoding import UNREADABLE, decoded_or, why_unreadable
from pointsman.errors import ConfigError

# The files of the catalogue: the one shipped, and the user's own.

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
_file_entry: Final = msgspec.json.Decoder(CatalogueEntry)
_name: Final = msgspec.json.Decoder(dict[str, Any])


def user_file() -> Path:
    """Return where the user's catalogue is, next to the user's configuration; it need not exist."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return folder / "pointsman" / "models.json"


def installed() -> tuple[Catalogue, ...]:
    """Return the catalogues in force: the user's, if there is one, then the one shipped.

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
    """The most useful field comes first."""
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
        entry = _file_entry.decode(raw)
    except UNREADABLE as error:
        raise ConfigError(f"models[{number}]{_named(raw)}: {_in_words(error)}", place=place) from None
    lower = entry.id.lower()
    return entry if lower == entry.id else msgspec.structs.replace(entry, id=lower)


def _in_words(error: Exception) -> str:
    """Problem of an entry: its key first, and JSON's names of types."""
    found = _AT_KEY.fullmatch(why_unreadable(error))
    if found is None:
        return why_unreadable(error)
    expected = _BOUND.sub(r"\1 of at least \2", found["what"])
    for name, word in _TYPES.items():
        expected = expected.replace(f"`{name}`", word).replace(f"`{name} | null`", word)
    return f"`{found['key']}`: {expected[0].lower()}{expected[1:]}"


def _named(raw: msgspec.Raw) -> str:
    """The id of an entry that is wrong, if it has one."""
    found = decoded_or({}, _name.decode, raw).get("id")
    return f' "{found}"' if isinstance(found, str) else ""


# Reads the price map of LiteLLM (``model_prices_and_context_window.json``) as a catalogue.

#: Kinds of models that serve the requests decided here.
_MODES: Final = frozenset({"chat", "completion", "responses"})
#: Its names of providers that are called otherwise here.
_PROVIDERS: Final[Mapping[str, str]] = {"gemini": "google", "text-completion-openai": "openai"}

_PRICES: Final[Mapping[str, str]] = {
    "input_cost_per_token": "input_per_million",
    "output_cost_per_token": "output_per_million",
    "cache_read_input_token_cost": "cached_input_per_million",
    "cache_creation_input_token_cost": "cache_write_per_million",
}
_LENGTHS: Final[Mapping[str, str]] = {
    "max_input_tokens": "context_window",
    "max_output_tokens": "max_output_tokens",
}
_FEATURES: Final[Mapping[str, str]] = {
    "supports_function_calling": "tools",
    "supports_vision": "vision",
    "supports_response_schema": "structured",
}


def from_litellm(models: Mapping[str, Any], *, place: str, as_of: date, origin: str) -> Catalogue:
    """Return a price map as a catalogue.

    Args:
        models: Information by id, as decoded from JSON.
        place: What messages name the file by.
        as_of: Date of the map, which does not say it itself.
        origin: The source.

    Raises:
        ConfigError: an entry is wrong; the message names it.
    """
    if len(models) > ENTRIES:
        raise ConfigError(f"a catalogue has at most {ENTRIES:,} models, not {len(models):,}", place=place)
    found: dict[tuple[str, str], CatalogueEntry] = {}
    for id_, info in models.items():
        if id_ == "sample_spec":  # describes the keys
            continue
        entry = _entry(id_, info, place)
        if entry is not None:
            found.setdefault((entry.provider, entry.id), entry)
    return Catalogue(tuple(found.values()), as_of=as_of, origin=origin)


def _entry(id_: str, info: Any, place: str) -> CatalogueEntry | None:
    if not isinstance(info, dict):
        raise ConfigError(f'"{id_}" is not an object', place=place)
    provider = info.get("litellm_provider")
    if not isinstance(provider, str) or info.get("mode", "chat") not in _MODES:
        return None
    values = {
        **_scaled(info),
        **{ours: info[theirs] for theirs, ours in _LENGTHS.items() if info.get(theirs)},
        "id": id_.removeprefix(f"{provider}/").lower(),
        "provider": _PROVIDERS.get(provider, provider),
    }
    features = [ours for theirs, ours in _FEATURES.items() if info.get(theirs)]
    if any(theirs in info for theirs in _FEATURES):
        values["features"] = features
    try:
        return msgspec.convert(values, CatalogueEntry)
    except msgspec.ValidationError as error:
        raise ConfigError(f'"{id_}": {error}', place=place) from None


def _per_million(price: float) -> float:
    """A price per token as one per million tokens; infinite where no float holds it, which is refused."""
    return round(float(price) * 1e6, 6) if abs(price) <= HIGHEST_PRICE else math.inf


def _scaled(info: Mapping[str, Any]) -> dict[str, Any]:
    """The prices per million tokens. Other values are unchanged, for the check of types."""
    found: dict[str, Any] = {}
    for theirs, ours in _PRICES.items():
        value = info.get(theirs)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None:
            found[ours] = _per_million(value) if is_number else value
    for ours in ("cached_input_per_million", "cache_write_per_million"):
        if found.get(ours) == 0:
            del found[ours]
    if not any(found.values()):
        return {}
    return found


def read_source(file: Path, as_of: date) -> Catalogue:
    """Return the catalogue in a file: one in the shape of ``decode``, or LiteLLM's price map.

    Args:
        file: JSON.
        as_of: Date of a price map, which has none.

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
    from pointsman.stores.replacing import replaced  # every command that reads a configuration imports this

    file = user_file().resolve()  # through a link to the file it leads to
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replaced(file) as draft:
            draft.write_text(encode(catalogue), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error
