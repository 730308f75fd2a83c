"""Members inside a request that its reader has no name for.

The structs of a reader are the list of what is known: nothing else has to be kept up to date. Most requests
hold nothing unknown, and a strict decoder says so at no cost; only the others are gone through here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, Final, TypeAlias, get_args

import msgspec

__all__ = ["MOST", "YES", "Known", "unknown_members"]

#: How many places of one request are told: a body may hold thousands.
MOST: Final = 16

#: The value of a member of which nothing but its place counts.
YES: Final = msgspec.Raw(b"true")

#: A reader's struct for an object.
Known: TypeAlias = type[msgspec.Struct]


def unknown_members(
    json: bytes | msgspec.Raw,
    known: Known,
    place: str = "",
    skips: Callable[[Known, Mapping[str, Any]], bool] = lambda _, __: False,
) -> dict[str, msgspec.Raw]:
    """Return the places of members that no struct has a field for, as ``tools.brand_new``; none that is null.

    Args:
        json: The value.
        known: The struct it is read as, or of what it is a list.
        place: Where it stands in the request, with a dot at its end.
        skips: Whether an object is not looked into, by its struct and its members.

    Raises:
        msgspec.MsgspecError, UnicodeError, RecursionError: it is not JSON.
    """
    found = dict.fromkeys(_walk(msgspec.json.decode(json), known, place, skips), YES)
    return dict(islice(found.items(), MOST))


def _walk(
    value: object, known: Known, place: str, skips: Callable[[Known, Mapping[str, Any]], bool]
) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _walk(each, known, place, skips)
    elif isinstance(value, dict) and not skips(known, value):
        names = _names(known)
        for name, inner in value.items():
            if inner is None:
                continue
            if name not in names:
                yield place + name
            elif (struct := names[name]) is not None:
                yield from _walk(inner, struct, f"{place}{name}.", skips)


@cache
def _names(known: Known) -> Mapping[str, Known | None]:
    """The fields of a struct, and the struct that each holds, itself or in a list."""
    return {field.encode_name: _struct(field.type) for field in msgspec.structs.fields(known)}


def _struct(kind: Any) -> Known | None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for each in get_args(kind) if (found := _struct(each))), None)
