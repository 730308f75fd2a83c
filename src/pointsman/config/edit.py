"""Change one value of a configuration file and leave everything else, comments included, as it is."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from pointsman.config.convert import keys
from pointsman.config.files import is_trusted, read, trust
from pointsman.config.load import AnyKey, examine, load
from pointsman.config.serving import KEY_NAME
from pointsman.config.shapes import Config
from pointsman.decoding import parse_toml, without_nulls
from pointsman.errors import ConfigError
from pointsman.guidance import ProviderSpec
from pointsman.toml_source import KeyPath, key_places
from pointsman.upstreams.port import JsonTemplate, Secret, ServerSpec, UpstreamSpec, hash_key
from pointsman.vocabulary import ModelSpec

__all__ = [
    "NewKey",
    "as_toml",
    "changing",
    "new_key",
    "plain",
    "policy_tables",
    "revoke_key",
    "set_value",
    "write_checked",
    "write_file",
    "write_key",
]


def set_value(text: str, path: KeyPath, literal: str) -> str:
    """Return a TOML document with one key set.

    Args:
        text: the document.
        path: the key; the tables above it are made if missing.
        literal: the value as it is written in TOML.

    Raises:
        ConfigError: the document writes that table in a way this cannot extend.
    """
    edited = _with_value(text, path, literal)
    value = parse_toml(f"x = {literal}")["x"]
    if _parsed(edited) != _with(parse_toml(text), path, value):
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
    from pointsman.stores.replacing import replaced  # most commands that import this write nothing

    target = file.resolve()  # through a link to the file it leads to
    was_trusted = is_trusted(target)
    try:
        with replaced(target) as draft:
            draft.write_text(text, encoding="utf-8")
            if was_trusted:  # first: a gateway reads the file again as soon as it is there
                trust(target, text)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error


@contextmanager
def changing(file: Path) -> Iterator[None]:
    """Let others that change a file this way wait: what was read is what is replaced.

    The lock is of the file's folder: the file itself becomes another.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with ExitStack() as opened:
        with suppress(OSError):  # a file system without locks, or no folder: whoever reads the file says so
            folder = os.open(file.resolve().parent, os.O_RDONLY)
            opened.callback(os.close, folder)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield


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
        return parse_toml(text)
    except tomllib.TOMLDecodeError:
        return None


def _with(table: Any, path: KeyPath, value: object) -> object:
    """Return a parsed table with one key set; other values are unchanged."""
    if not isinstance(table, dict):
        return table
    key, *below = path
    return table | {key: _with(table.get(key, {}), tuple(below), value) if below else value}


# The effective configuration with defaults, as plain values and as TOML; API keys as references.

#: Tables that decide, beside upstreams and models; and what of an upstream does not.
_DECIDE: Final = ("tiers", "aliases", "guidance", "domains", "capabilities")
_MAY_BE_SECRET: Final = ("api_key", "headers", "query", "body", "proxy", "ca_file")


def plain(file: Config) -> dict[str, Any]:
    """Return the tables of a file as JSON values. A key with neither a value nor a default is left out."""
    built = msgspec.to_builtins(file, enc_hook=_written, order="deterministic")
    tables: dict[str, Any] = without_nulls(built)
    for kind in ("upstreams", "models", "keys", "teams"):
        for name, entry in getattr(file, kind).items():
            table, of = tables[kind][name], cast("type[msgspec.Struct]", type(entry))
            tables[kind][name] = {key: table[key] for key in keys(of) if key in table and table[key] != {}}
    known = keys(ProviderSpec)
    tables["guidance"]["providers"] = [
        {key: value for key, value in provider.items() if key in known}
        for provider in tables["guidance"]["providers"]
    ]
    tables["server"] = {key: tables["server"][key] for key in keys(ServerSpec) if key in tables["server"]}
    del tables["source"]
    tables["aliases"] = dict(file.aliases)  # in the order of the file, in which they are tried
    return tables


def policy_tables(config: Config) -> dict[str, Any]:
    """Return the tables of a configuration that decide, without defaults.

    What of an upstream may hold a secret is left out: it decides nothing.
    """
    decides = {name: getattr(config, name) for name in _DECIDE}
    tables = plain(Config(upstreams=config.upstreams, models=config.models, **decides))
    plainest = {name: UpstreamSpec(name, "") for name in config.upstreams}
    usual = plain(
        Config(upstreams=plainest, models={name: ModelSpec(name, "", "") for name in config.models})
    )
    for table in tables["upstreams"].values():
        for key in _MAY_BE_SECRET:
            table.pop(key, None)
    kept = {
        name: _apart(tables.get(name, {}), usual.get(name, {})) for name in ("upstreams", "models", *_DECIDE)
    }
    return {name: value for name, value in kept.items() if value}


def _apart(value: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from the default, table by table."""
    found: dict[str, Any] = {}
    for key, item in value.items():
        known = usual.get(key)
        if isinstance(item, dict) and isinstance(known, dict):
            if inner := _apart(item, known):
                found[key] = inner
        elif item != known:
            found[key] = item
    return found


def as_toml(tables: Mapping[str, Any], *path: str) -> str:
    """Return plain values as a TOML document."""
    values = {key: value for key, value in tables.items() if not isinstance(value, dict)}
    lines = [f"{_key(key)} = {_literal(value)}" for key, value in values.items()]
    if path and (lines or not tables):
        lines.insert(0, f"[{'.'.join(map(_key, path))}]")
    text = "".join(f"{line}\n" for line in lines)
    below = [as_toml(value, *path, key) for key, value in tables.items() if isinstance(value, dict)]
    return "\n".join(part for part in (text, *below) if part)


def _written(value: object) -> object:
    if isinstance(value, JsonTemplate):
        return json.loads(value.reference)
    if isinstance(value, Secret):
        return value.reference
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"no plain value for a {type(value).__name__}")


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _literal(value: object) -> str:
    if isinstance(value, dict):
        members = ", ".join(f"{_key(key)} = {_literal(item)}" for key, item in value.items())
        return f"{{ {members} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float):
        return repr(value)  # inf as in TOML; JSON writes Infinity
    return json.dumps(value, ensure_ascii=False)  # text, integers, true and false are written as in TOML


# Makes the key of a caller, and the configuration that holds its hash.


#: Random bytes of a key, and how it begins: a scanner of repositories can look for it.
_BYTES: Final = 32
_PREFIX: Final = "pm-"


class NewKey(NamedTuple):
    """A key that was made. It is shown once; the configuration holds its hash."""

    name: str
    team: str
    key: str
    sha256: str

    @property
    def table(self) -> str:
        """The table of the configuration."""
        header = self.name if "." not in self.name else json.dumps(self.name)
        lines = [f"[keys.{header}]", f'sha256 = "{self.sha256}"']
        return "\n".join([*lines, f"team = {json.dumps(self.team)}"] if self.team else lines) + "\n"


def new_key(name: str, team: str = "") -> NewKey:
    """Make a key.

    Raises:
        ConfigError: the name cannot name one.
    """
    if not re.fullmatch(KEY_NAME, name):
        hint = "letters, digits, '.', '_' and '-', at most 64"
        raise ConfigError(f'"{name}" cannot name a key', hint=hint)
    import secrets  # most commands that import this make no key

    key = _PREFIX + secrets.token_urlsafe(_BYTES)
    return NewKey(name, team, key, hash_key(key).hex())


def write_key(file: Path, made: NewKey) -> bool:
    """Add the hash to a configuration file. A name that is there gets a further key: both are valid.

    Returns:
        Whether it is the first key of the gateway: callers needed none until now.

    Raises:
        ConfigError: the configuration would be wrong; it stays as it is.
    """
    with changing(file):
        text, before = read(file), load(file, AnyKey())
        keys = before.keys
        if made.name not in keys:
            separator = "" if not text or text.endswith("\n") else "\n"
            text = f"{text}{separator}\n{made.table}"
        elif made.team and made.team != keys[made.name].team:
            hint = "a further key of a name has the name's team"
            raise ConfigError(f'"{made.name}" has another team', hint=hint)
        else:
            more = json.dumps([*keys[made.name].more_sha256, made.sha256])
            text = set_value(text, ("keys", made.name, "more_sha256"), more)
        write_checked(file, text)
    return not before.server.keys


def revoke_key(file: Path, name: str) -> None:
    """Refuse all keys of a name in a configuration file.

    Raises:
        ConfigError: there is no such name, or the configuration would be wrong.
    """
    with changing(file):
        known = load(file, AnyKey()).keys
        if name not in known:
            raise ConfigError(f'unknown key "{name}"', hint=f"there are: {', '.join(known) or 'none'}")
        write_checked(file, set_value(read(file), ("keys", name, "revoked"), "true"))


def write_checked(file: Path, text: str) -> None:
    """Write a configuration, unless it would be wrong.

    Raises:
        ConfigError: it would.
    """
    errors = examine(file, AnyKey(), text=text).errors
    if errors:
        raise errors[0]
    write_file(file, text)
