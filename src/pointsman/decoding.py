"""Decoding untrusted JSON and TOML: error messages with a line, lone surrogates, and what messages repeat."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar, TypeVarTuple

import msgspec

__all__ = [
    "UNREADABLE",
    "Typed",
    "decode_items",
    "decode_members",
    "decode_text",
    "decode_typed",
    "decoded",
    "decoded_or",
    "encoded",
    "mapped",
    "parse_toml",
    "syntax_error",
    "whole_text",
    "why_unreadable",
    "without_halves",
    "without_nulls",
]

#: What decoding bytes that nobody has vetted can raise: no JSON or another shape, no UTF-8, too deep.
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)


class Typed(msgspec.Struct, gc=False):
    """An object of which only the type matters."""

    type: str = ""


#: Decoders of an object, a list and a string; what is inside the first two stays JSON. Raise ``UNREADABLE``.
decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
decode_items: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
decode_text: Final = msgspec.json.Decoder(str).decode
decode_typed: Final = msgspec.json.Decoder(Typed).decode

#: How the standard library ends its messages.
_SYNTAX_PLACE: Final = re.compile(r" \((?:at line (\d+), column \d+|at end of document)\)$")

#: How it names a table: as the parts of its name in a tuple.
_NAME: Final = r"'([^']*)'"
_TABLE: Final = re.compile(rf"\(({_NAME}(, )?)+,?\)")

_HEX: Final = rb"[0-9a-fA-F]"
#: Half of a pair without the other half, in a text in which every backslash begins an escape.
_HALF: Final = re.compile(
    rb"\\u[dD](?:[89abAB]%(hex)b{2}(?!\\u[dD][c-fC-F]%(hex)b{2})"
    rb"|(?<!\\u[dD][89abAB]%(hex)b{2}\\u[dD])[c-fC-F]%(hex)b{2})" % {b"hex": _HEX}
)
_PAIR: Final = re.compile(
    rb"\\u[dD][89abAB]%(hex)b{2}\\u[dD][c-fC-F]%(hex)b{2}" % {b"hex": _HEX},
)
_ESCAPE: Final = 6  # bytes of one
#: Two bytes that stand for an escaped backslash meanwhile; JSON holds no such byte.
_BACKSLASH: Final = b"\0\0"
#: Bytes read in one go: below a millisecond, so that other threads go on.
_PIECE: Final = 1 << 16


def mapped(value: Any, leaf: Callable[[Any], Any], *, nulls: bool = True) -> Any:
    """Return a copy of plain values in which ``leaf`` replaces each value that is no list and no table.

    Args:
        value: As JSON or TOML is decoded; a tuple counts as a list.
        leaf: Returns what replaces a value.
        nulls: Whether the copy has members that are null.
    """
    if isinstance(value, dict):
        return {
            name: mapped(each, leaf, nulls=nulls) for name, each in value.items() if nulls or each is not None
        }
    if isinstance(value, list | tuple):
        return [mapped(each, leaf, nulls=nulls) for each in value]
    return leaf(value)


def without_nulls(value: Any) -> Any:
    """Return a copy of plain values without the members of tables that are null."""
    return mapped(value, lambda each: each, nulls=False)


def why_unreadable(error: Exception) -> str:
    """Put one of ``UNREADABLE`` into words for the author of the line or file."""
    if isinstance(error, RecursionError):
        return "nested too deep"
    said = "not UTF-8" if isinstance(error, UnicodeError) else str(error)
    return f"{said}: a value has no end, so the rest of it is missing" if said.endswith("truncated") else said


#: Levels of tables and lists of a TOML document. What walks through one calls itself for each.
_DEEPEST: Final = 64


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML document.

    Raises:
        tomllib.TOMLDecodeError: it is none, or is nested more than 64 levels deep.
    """
    with suppress(RecursionError):
        found = tomllib.loads(text)
        inside: list[Any] = [found]
        for _ in range(_DEEPEST):
            members = (each.values() if isinstance(each, dict) else each for each in inside)
            inside = [each for some in members for each in some if isinstance(each, dict | list)]
        if not inside:
            return found
    levels = [sum(map(line.count, ".[{")) for line in text.split("\n")]
    most = max(levels)  # on a line of its own, as a long key or a list in lists is
    place = f" (at line {levels.index(most) + 1}, column 1)" if most >= _DEEPEST else ""
    raise tomllib.TOMLDecodeError(f"Nested more than {_DEEPEST} levels deep{place}")


def syntax_error(error: tomllib.TOMLDecodeError, text: str) -> tuple[str, int]:
    """The error of an invalid TOML text, and the number of the line."""
    found = _SYNTAX_PLACE.search(str(error))
    line = int(found[1]) if found and found[1] else text.count("\n") + 1
    return _in_words(_SYNTAX_PLACE.sub("", str(error))), line


def _in_words(message: str) -> str:
    if message == "Invalid value":  # words without quotes, as other formats allow
        return "Invalid value: text stands in quotes, a number begins with a digit"
    if message.startswith("Illegal character"):
        return f"{message}: remove it, or write it in a double-quoted text as an escape such as \\u0001"
    return _TABLE.sub(lambda found: f"[{'.'.join(re.findall(_NAME, found[0]))}]", message)


def whole_text(text: str) -> str:
    """Return a text with each half of a surrogate pair replaced: no UTF-8, and so no store, holds one."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def encoded(value: Any, enc_hook: Callable[[Any], Any]) -> bytes:
    """Encode Python values as JSON, with each half of a surrogate pair as the replacement character."""
    try:
        return msgspec.json.encode(value, enc_hook=enc_hook)
    except UnicodeEncodeError:
        return without_halves(json.dumps(msgspec.to_builtins(value, enc_hook=enc_hook)).encode())


def without_halves(json: bytes) -> bytes:
    """Return JSON of the same length in which every escaped half of a pair is the replacement character.

    JavaScript writes a half when it cuts a text inside an emoji; no UTF-8 holds one, and strict decoders
    refuse it. A relayed body contains it. Bytes that no JSON holds are returned as they came.
    """
    if b"\0" in json or (rb"\ud" not in json and rb"\uD" not in json):
        return json
    plain = json.replace(rb"\\", _BACKSLASH)
    return b"".join(_mended(plain)).replace(_BACKSLASH, rb"\\")


_Decoded = TypeVar("_Decoded")
_Given = TypeVarTuple("_Given")
_Other = TypeVar("_Other")


def decoded(decode: Callable[[bytes], _Decoded], json: bytes) -> _Decoded:
    """Decode JSON, half surrogate pairs replaced. Raises ``UNREADABLE``."""
    try:
        return decode(json)
    except UNREADABLE:
        mended = without_halves(json)
        if mended == json:
            raise
        return decode(mended)


def decoded_or(other: _Other, decode: Callable[[*_Given], _Decoded], *given: *_Given) -> _Decoded | _Other:
    """Return the result of ``decode``, given untrusted JSON; ``other`` if that is unreadable."""
    try:
        return decode(*given)
    except UNREADABLE:
        return other


def _mended(plain: bytes) -> Iterator[bytes]:
    """Cut before escapes, never inside a pair, and look only where escapes begin."""
    start = 0
    while start < len(plain):
        end = plain.find(rb"\u", start + _PIECE)
        if end < 0:
            end = len(plain)
        elif _PAIR.match(plain, max(start, end - _ESCAPE)):
            end += _ESCAPE
        edge = min(end, start + _PIECE + 2 * _ESCAPE)  # behind the last escape that begins in this piece
        yield _HALF.sub(rb"\\ufffd", plain[start:edge])
        yield plain[edge:end]
        start = end
