"""Change one value of a configuration file and leave everything else, comments included, as it is."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pointsman.config.trust import is_trusted, trust
from pointsman.errors import ConfigError
from pointsman.toml_source import KeyPath, key_places

__all__ = ["set_value", "write_file"]


def set_value(text: str, path: KeyPath, literal: str) -> str:
    """Return a TOML document with one key set.

    Args:
        text: the document.
        path: the key; the tables above it are made where they are missing.
        literal: the value as it is written in TOML.

    Raises:
        ConfigError: the document writes that table in a way this cannot extend.
    """
    edited = _with_value(text, path, literal)
    value = tomllib.loads(f"x = {literal}")["x"]
    if _parsed(edited) != _with(tomllib.loads(text), path, value):
        key = ".".join(map(str, path))
        raise ConfigError(
            f"cannot set {key} without rewriting the file", hint=f"write it yourself: {key} = {literal}"
        )
    return edited


def write_file(file: Path, text: str) -> None:
    """Replace a file atomically, so that no reader sees a partial file. A trusted one stays trusted.

    Raises:
        ConfigError: it cannot be written.
    """
    from tempfile import mkstemp  # most commands that import this write nothing

    target = file.resolve()  # through a link to the file it leads to
    was_trusted = is_trusted(target)
    try:
        descriptor, name = mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with open(descriptor, "w", encoding="utf-8") as temporary:  # noqa: PTH123 - a descriptor, not a path
            temporary.write(text)
        if target.exists():
            Path(name).chmod(target.stat().st_mode & 0o777)
        if was_trusted:  # first: a gateway reads the file again as soon as it is there
            trust(target, text)
        Path(name).replace(target)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error


def _with_value(text: str, path: KeyPath, literal: str) -> str:
    places = key_places(text)
    if (place := places.get(path)) is not None:
        return text[: place.value_start] + literal + text[place.value_end :]
    table, key = path[:-1], path[-1]
    if table not in places:
        if len(table) > 1:
            return _with_value(text, table, f"{{ {key} = {literal} }}")
        separator = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{separator}\n[{table[0]}]\n{key} = {literal}\n"
    place = places[table]
    written = text[place.value_start : place.value_end]
    if written.startswith("{"):
        inside = written[1:-1].strip()
        members = f"{inside}, {key} = {literal}" if inside else f"{key} = {literal}"
        return f"{text[: place.value_start]}{{ {members} }}{text[place.value_end :]}"
    end = text.find("\n", place.value_end)
    line = f"{key} = {literal}\n"
    return f"{text}\n{line}" if end < 0 else text[: end + 1] + line + text[end + 1 :]


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _with(table: Any, path: KeyPath, value: object) -> object:
    """Return a parsed table with one key set; what is not a table cannot have one and stays."""
    if not isinstance(table, dict):
        return table
    key, *below = path
    return table | {key: _with(table.get(key, {}), tuple(below), value) if below else value}
