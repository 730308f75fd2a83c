"""The types of ``shapes`` in words: for messages about a wrong value, and for the reference page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from msgspec import inspect

from pointsman.upstreams.port import JsonTemplate, ProxyUrl, Secret, Template

__all__ = ["POOL_WORDS", "choices", "describe"]

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
    """Return what a value of a type looks like: ``a number from 0 to 1``."""
    return _words(inspect.type_info(of))


def choices(of: object) -> tuple[str, ...]:
    """Return the values allowed, where they can be listed."""
    return _choices(inspect.type_info(of))


def _words(info: inspect.Type) -> str:
    if _is_pool(info):
        return POOL_WORDS
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


def _is_pool(info: inspect.Type) -> bool:
    """Whether it is the models of a tier (``shapes.POOL``), the only union there is."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    return isinstance(info, inspect.UnionType) and len(info.types) > 2


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
