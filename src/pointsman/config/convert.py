"""From parsed TOML to the types of ``shapes``, collecting every mistake with the path of its key."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from errno import ENAMETOOLONG
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_origin

import msgspec
from msgspec import inspect, structs

from pointsman.config.files import REFERENCE
from pointsman.config.serving import HASHED
from pointsman.config.shapes import POOL, Config
from pointsman.decoding import mapped
from pointsman.errors import ConfigError, did_you_mean
from pointsman.guidance import ClassifierError
from pointsman.model_choice.chains import TierModel
from pointsman.toml_source import BARE, KeyPath
from pointsman.upstreams.port import JsonTemplate, ProxyUrl, Secret, Template

# Keys of the founding documents that are called otherwise here, and where they went.

#: Table and key -> the way out. Source: docs/sources.
_KEYS: Final[Mapping[tuple[str, str], str]] = {
    ("tiers", "confidence"): "verify = { margin = 0.2 } asks a model below a confidence of .50 + .20",
    ("tiers", "classifier"): 'verify = { model = "…" } names the model that is asked',
    ("tiers", "fallback"): 'complex = ["a", "b"]: the models of a tier are each other\'s fallback',
    ("domains", "disabled_domains"): "profiles = DIR: a file for each model, with its disabled_domains",
    ("domains", "momentum_threshold"): "a pair is held from three turns on; that cannot be set",
    ("guidance", "doom_loop"): "loop_repetitions",
    ("guidance", "stall_threshold"): "stall",
    (
        "guidance",
        "max_per_turn",
    ): "a moment gets one text of each of [[guidance.providers]]",
    ("guidance", "cooldown_turns"): "a key of [[guidance.providers]]",
    ("guidance.providers", "max_per_turn"): "a moment gets one text of each provider, ordered by priority",
    ("guidance.providers", "doom_loop"): 'classifier = "doom_loop"',
}


def elsewhere(key: str, path: tuple[str | int, ...]) -> str:
    """Return where a key of a founding document went; empty for every other key."""
    return _KEYS.get((".".join(str(part) for part in path if isinstance(part, str)), key), "")


# The types of ``shapes`` in words: for messages about a wrong value, and for the reference page.

#: What the models of a tier look like.
POOL_WORDS: Final = "a model's name, a table, or a list of both"

_PLAIN: Final[dict[type[inspect.Type], str]] = {
    inspect.BoolType: "true or false",
    inspect.StrType: "a string",
    inspect.DateType: "a date such as 2026-01-31",
}
_CUSTOM: Final[dict[type, str]] = {
    Secret: 'a reference such as "${NAME}"',
    Template: "a string",
    JsonTemplate: "a JSON value",
    ProxyUrl: 'an address such as "http://proxy:3128"',
    Path: "a path",
}


def describe(of: object) -> str:
    """Describe the values of a type: ``a number from 0 to 1``."""
    return POOL_WORDS if is_pool(of) else _words(inspect.type_info(of))


def choices(of: object) -> tuple[str, ...]:
    """Return the values allowed, if they can be listed."""
    return _choices(inspect.type_info(of))


def _words(info: inspect.Type) -> str:
    if isinstance(info, inspect.Metadata) and (words := (info.extra or {}).get("words")):
        return str(words)
    info = _bare(info)
    if named := _choices(info):
        words = ", ".join(f'"{choice}"' for choice in named)
        return f"a list of {words}" if _items(info) else f"one of {words}"
    if items := _items(info):
        return f"a list of {_plural(items)}"
    match info:
        case inspect.IntType():
            return "a whole number" + _bounds(info.ge, info.le)
        case inspect.FloatType():
            return "a number" + (f" above {info.gt:g}" if info.gt is not None else _bounds(info.ge, info.le))
        case inspect.TupleType():
            kind = "strings" if isinstance(_bare(info.item_types[0]), inspect.StrType) else "numbers"
            return f"a list of {len(info.item_types)} {kind}"
        case inspect.CustomType():
            return _CUSTOM[info.cls]
        case inspect.StructType() | inspect.DictType():
            return "a table"
    return _PLAIN[type(info)]


def _bare(info: inspect.Type) -> inspect.Type:
    """Take off the wrappers: documentation, and the None that TOML cannot write."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        return _bare(next(kind for kind in info.types if not isinstance(kind, inspect.NoneType)))
    return info


def _items(info: inspect.Type) -> inspect.Type | None:
    if isinstance(info, inspect.VarTupleType | inspect.FrozenSetType):
        return _bare(info.item_type)
    return None


def _choices(info: inspect.Type) -> tuple[str, ...]:
    info = _bare(info)
    match _items(info) or info:
        case inspect.LiteralType(values=values):
            return tuple(str(value) for value in values)
        case inspect.EnumType(cls=members):
            return tuple(str(member) for member in members)
    return ()


def _plural(items: inspect.Type) -> str:
    return {
        inspect.StrType: "strings",
        inspect.CustomType: 'references such as "${NAME}"',
        inspect.StructType: "tables",
    }[type(items)]


def _bounds(least: Any, most: Any) -> str:
    match least, most:
        case None, None:
            return ""
        case _, None:
            return f" of at least {least:g}"
        case _:
            return f" from {least:g} to {most:g}"


S = TypeVar("S", bound=msgspec.Struct)


#: Keys that had another name before 0.1.0, by the table they stand in; ``*`` is a name of the operator's own.
RENAMED: Final[Mapping[KeyPath, Mapping[str, str]]] = {
    ("upstreams", "*"): {"key": "api_key"},
    ("models", "*"): {
        "in": "input_per_million",
        "out": "output_per_million",
        "cached_in": "cached_input_per_million",
        "window": "context_window",
        "abilities": "features",
    },
    ("tiers",): {"head": "learned_router"},
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in the file."""

    path: KeyPath  # the key at fault
    message: str
    hint: str = ""  # the way out

    @classmethod
    def unknown(cls, path: KeyPath, kind: str, name: str, known: Iterable[str]) -> Problem:
        """Return the problem of an unknown name; its hint is the nearest, or all."""
        known = list(known)
        near = did_you_mean(name, known)
        own = name if BARE.fullmatch(name) else json.dumps(name)
        there_are = f"there are: {', '.join(known) or f'none; add [{kind}s.{own}]'}"
        return cls(path, f'unknown {kind} "{name}"{near}', "" if near else there_are)


def table(path: KeyPath) -> str:
    """Return a table's name as it is written in a file; one in a list, by the list and its place, from 1."""
    if path and isinstance(path[-1], int):
        return f"[{'.'.join(map(str, path[:-1]))}] entry {path[-1] + 1}"
    return f"[{'.'.join(map(str, path))}]"


class Converter:
    """Reads one file. Errors are in ``problems``; a struct comes back only when all of it is right.

    ``paths`` has the paths that could be read, by key, also those of tables with errors.
    """

    def __init__(self, env: Mapping[str, str], directory: Path) -> None:
        self._env = env
        self._directory = directory  # what relative paths are relative to
        self.problems: list[Problem] = []
        self.paths: dict[KeyPath, Path] = {}

    def struct(self, raw: object, of: type[S], path: KeyPath, *, name: str = "") -> S | None:
        """Return a table as ``of``. A field called ``name`` takes the table's own name."""
        if not isinstance(raw, dict):
            self.problems.append(Problem(path, f"{table(path)} must be a table"))
            return None
        before = len(self.problems)
        fields = keys(of)
        for key in raw.keys() - fields.keys():
            self._unknown(key, fields, path)
        values = {
            field.name: self._value(raw[key], field.type, (*path, key))
            for key, field in fields.items()
            if key in raw
        }
        for key, field in fields.items():
            if field.required and key not in raw:
                self.problems.append(
                    Problem(path, f'{table(path)} has no "{key}"', f"{key} = {_example(field.type)}")
                )
        if len(self.problems) > before:
            return None
        try:
            return of(**values, **({"name": name} if "name" in of.__struct_fields__ else {}))
        except (ConfigError, ValueError) as error:  # values that are right one by one and not together
            self._contradiction(error, raw, path)
        return None

    def _value(self, raw: object, of: Any, path: KeyPath) -> object:
        if is_pool(of):
            return self._pool(raw, path)
        kind = given(of)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.struct(raw, kind, path)
        if get_origin(kind) is dict:
            return self._tables(raw, get_args(kind)[1], path)
        if (listed := list_of(kind)) is not None:
            return self._list(raw, listed, path)
        return self._leaf(raw, of, path)

    def _tables(self, raw: object, of: Any, path: KeyPath) -> dict[str, object]:
        """Return a table with free keys: of tables, or of values."""
        if not isinstance(raw, dict):
            self.problems.append(Problem(path, f"{table(path)} must be a table"))
            return {}
        if not issubclass(of, msgspec.Struct):
            return {name: self._leaf(value, of, (*path, name)) for name, value in raw.items()}
        return {name: self.struct(value, of, (*path, name), name=name) for name, value in raw.items()}

    def _list(self, raw: object, of: type[msgspec.Struct], path: KeyPath) -> tuple[object, ...]:
        """Return a list of tables, ``[[…]]``."""
        if not isinstance(raw, list):
            self.problems.append(Problem(path, f"{table(path)} must be a list of tables, [[…]]"))
            return ()
        return tuple(self.struct(item, of, (*path, place)) for place, item in enumerate(raw))

    def _pool(self, raw: object, path: KeyPath) -> object:
        """Return the models of a tier as they are written: a name, a table, or a list of both."""
        if isinstance(raw, str):
            return self._leaf(raw, str, path)
        if isinstance(raw, dict):
            return self.struct(raw, TierModel, path)
        if isinstance(raw, list) and raw and all(isinstance(item, str | dict) for item in raw):
            return tuple(self._pool(item, (*path, place)) for place, item in enumerate(raw))
        shown = msgspec.json.encode(raw, enc_hook=str).decode()
        message = f'"{path[-1]}" in {table(path[:-1])} must be {POOL_WORDS}, not {shown}'
        hint = "leave the key out for a tier without a model" if raw == [] else ""
        self.problems.append(Problem(path, message, hint))
        return None

    def _leaf(self, raw: object, of: Any, path: KeyPath) -> object:
        try:
            value = raw if _holds_secret(of) else self._filled(raw)
            found = msgspec.convert(value, of, dec_hook=self._custom)
        except _Refused as refused:
            self.problems.append(Problem(path, *refused.args))
        except msgspec.ValidationError:
            self.problems.append(Problem(path, _wrong_value(raw, of, path)))
        else:
            if isinstance(found, Path):
                self.paths[path] = found
            return found
        return None

    def _custom(self, of: type, raw: object) -> object:
        if of is JsonTemplate:
            return self._json(raw)
        if not isinstance(raw, str):
            raise ValueError  # noqa: TRY004 - msgspec turns it into a ValidationError
        if of is Path:
            return self._path(raw)
        if of is Template:
            return Template(self._filled(raw), reference=raw, hidden=self._hidden(raw))
        return self._proxy(raw) if of is ProxyUrl else self._secret(raw)

    def _path(self, raw: str) -> Path:
        try:
            path = self._directory / Path(raw).expanduser()
            os.lstat(path)
        except (RuntimeError, ValueError):
            raise _Refused("this is no path: it holds a NUL, or begins with ~ and no user's name") from None
        except OSError as error:  # it need not exist
            if error.errno == ENAMETOOLONG:
                raise _Refused("this path is too long") from None
        return path

    def _json(self, raw: object) -> JsonTemplate:
        try:
            written = json.dumps(raw, allow_nan=False)
        except (TypeError, ValueError):  # a date, or no finite number
            raise _Refused("this is not a JSON value", "dates go into quotes") from None
        filled = msgspec.json.encode(self._filled(raw)).decode()
        return JsonTemplate(filled, reference=written, hidden=self._hidden(written))

    def _hidden(self, written: str) -> list[str]:
        """Return the values of a text's references."""
        return [self._variable(found) for found in REFERENCE.finditer(written)]

    def _secret(self, raw: str) -> Secret:
        if not REFERENCE.search(raw) and not raw.startswith(HASHED):
            raise _Refused(
                "a key must be a reference to an environment variable, never the key itself",
                'put the key into the environment and write "${NAME}" here',
            )
        return Secret(self._filled(raw), reference=raw)

    def _proxy(self, raw: str) -> ProxyUrl:
        user, at, _ = raw.rpartition("@")
        if at and REFERENCE.sub("", user.rpartition("//")[2]).strip(":"):
            raise _Refused(
                "user and password of a proxy must be references to environment variables",
                'as in "http://${PROXY_USER}:${PROXY_PASSWORD}@proxy.example.com:3128"',
            )
        return ProxyUrl(self._filled(raw), reference=raw)

    def _filled(self, raw: Any) -> Any:
        """Replace references to the environment in a string, or in the strings of a list or table."""
        return mapped(
            raw, lambda value: REFERENCE.sub(self._variable, value) if isinstance(value, str) else value
        )

    def _variable(self, found: re.Match[str]) -> str:
        name = found.group(1)
        if value := self._env.get(name):
            return value
        near = did_you_mean(name, self._env, cutoff=0.85)  # all names end in _API_KEY
        raise _Refused(f"environment variable {name} is not set{near}", f"export {name}=…")

    def _contradiction(self, error: Exception, raw: Mapping[str, object], path: KeyPath) -> None:
        """Report it at the key at fault, or at the first one that the message names."""
        if isinstance(error, ClassifierError):
            self.problems.append(Problem((*path, *error.path), error.message, error.hint))
            return
        words = re.findall(r"\w+", str(error))
        key = next((word for word in words if word in raw), None)
        hint = error.hint if isinstance(error, ConfigError) else ""
        message = error.message if isinstance(error, ConfigError) else str(error)
        self.problems.append(Problem((*path, key) if key else path, message, hint))

    def _unknown(self, key: str, known: Iterable[str], path: KeyPath) -> None:
        if new := _new_name(key, path):
            self.problems.append(Problem((*path, key), f'"{key}" in {table(path)} is now "{new}"'))
            return
        where = f" in {table(path)}" if path else ""
        near = did_you_mean(key, known)
        hint = elsewhere(key, path) or ("" if near else _belongs(key, path) or "known: " + ", ".join(known))
        self.problems.append(Problem((*path, key), f'unknown key "{key}"{where}{near}', hint))


class _Refused(Exception):
    """A value of the right type that cannot be used: a message and a hint."""


def is_pool(of: Any) -> bool:
    """Whether a key holds the models of a tier."""
    return any(meta.extra == POOL for meta in getattr(of, "__metadata__", ()))


def list_of(kind: Any) -> type[msgspec.Struct] | None:
    """Return the type of the tables in a list of tables; None for other types."""
    items = get_args(kind)[:1] if get_origin(kind) is tuple else ()
    return next((item for item in items if isinstance(item, type) and issubclass(item, msgspec.Struct)), None)


def given(of: Any) -> Any:
    """Return the type a value has when it is given: without documentation, and without None."""
    if hasattr(of, "__metadata__"):
        return given(get_args(of)[0])
    if type(None) in get_args(of):
        return given(next(kind for kind in get_args(of) if kind is not type(None)))
    return of


@cache
def keys(of: type[msgspec.Struct]) -> dict[str, structs.FieldInfo]:
    """The keys of a table: without its name and derived values."""
    return {
        field.encode_name: field
        for field in structs.fields(of)
        if field.name != "name" and not _is_derived(field.type)
    }


def _is_derived(of: Any) -> bool:
    return any((meta.extra or {}).get("derived") for meta in getattr(of, "__metadata__", ()))


def _new_name(key: str, path: KeyPath) -> str:
    """The new name of a renamed key; empty for other keys."""
    found = RENAMED.get(path) or RENAMED.get((*path[:-1], "*"), {})
    return found.get(key, "")


def _belongs(key: str, path: KeyPath) -> str:
    """Name the tables that have a misplaced key."""
    if key in keys(Config) and path:
        return f"it is a table of its own: [{key}]"
    sections = {field.encode_name: given(field.type) for field in keys(Config).values()}
    having = [table((name,)) for name, of in sections.items() if key in _fields(of)]
    return f"it belongs in {' or '.join(having)}" if having else ""


def _fields(of: Any) -> tuple[str, ...]:
    return tuple(keys(of)) if isinstance(of, type) and issubclass(of, msgspec.Struct) else ()


def _holds_secret(of: Any) -> bool:
    return (isinstance(of, type) and issubclass(of, Secret)) or any(
        _holds_secret(part) for part in get_args(of)
    )


def _wrong_value(raw: object, of: Any, path: KeyPath) -> str:
    shown = "" if _holds_secret(of) else ", not " + msgspec.json.encode(raw, enc_hook=str).decode()
    near = did_you_mean(raw, choices(of)) if isinstance(raw, str) else ""
    return f'"{path[-1]}" in {table(path[:-1])} must be {describe(of)}{shown}{near}'


def _example(of: Any) -> str:
    return '"…"' if given(of) is str else "…"
