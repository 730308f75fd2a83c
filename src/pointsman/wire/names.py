"""The names at the top level of a request body: each once, and each as its format spells it.

JSON does not say which of two members of a name counts. Some readers take the first, most the last; some
compare names without regard to case. The gateway must decide on the values that the upstream reads. Below the
top level, which holds the ids of objects, every member is examined that some reader may take.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from json import JSONDecoder
from typing import Any, Final, NoReturn

from pointsman.decoding import decode_members, decode_text
from pointsman.errors import MalformedRequest, TooLarge, shown
from pointsman.vocabulary import LARGE

__all__ = ["NAME", "check_names", "decoded_name", "member_spans", "named_texts"]


# Counts the values of a JSON document before it is decoded.
#: Bytes read in one go: about a millisecond at most, so that other threads go on.
_PIECE: Final = 1 << 16
#: What begins a list or an object, or stands before a further value.
_MARKS: Final = b",[{"
_OTHERS: Final = bytes(set(range(256)) - set(_MARKS))


def count_values(json: bytes, limit: int) -> int:
    """Count the lists, objects and commas outside strings; stop soon after ``limit`` is passed.

    The values of a document are no more than these and one. Time is linear, and longest where quotes abound;
    a long string costs as much as to look for its end.
    """
    found, quotes, inside, start = 0, 0, False, 0
    while start < len(json) and found <= limit and quotes <= 4 * limit:  # a member has two strings at most
        piece, start = _piece(json, start)
        if b"\\" in piece:
            piece = piece.replace(rb"\\", b"").replace(rb"\"", b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[inside::2])
        found += len(outside.translate(None, _OTHERS))
        quotes += len(parts) - 1
        inside ^= not len(parts) % 2
    return found if quotes <= 4 * limit else max(found, quotes // 4)


def _piece(json: bytes, start: int) -> tuple[bytes, int]:
    """Return the next bytes, and their end; never between a backslash and the character it escapes."""
    piece = json[start : start + _PIECE]
    if piece.endswith(b"\\") and start + _PIECE < len(json):
        run = len(piece) - len(piece.rstrip(b"\\"))
        if run % 2:
            piece = json[start : start + _PIECE + 1]
    return piece, start + len(piece)


#: A member's name up to its value; the first one also takes the opening brace.
NAME: Final = re.compile(rb'[\s,{]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"\s*+:\s*+')
_END: Final = re.compile(rb"[\s{]*+}\s*+")

#: Values of a body in which names are looked for at every level; an embeddings request has 300,000.
_MOST_VALUES: Final = 1_000_000
_HINT: Final = "send each key once, in lower case and without escapes"


def decoded_name(name: bytes) -> str:
    """Return a name as it is meant, from between its quotes."""
    return decode_text(b'"%s"' % name) if b"\\" in name else name.decode()


def member_spans(
    json: bytes, end_of: Callable[[str, int], int], known: Collection[str]
) -> dict[str, tuple[int, int]]:
    """Return where the value of each member of an object begins and ends.

    Args:
        json: An object that a decoder has read.
        end_of: Where the value of a member ends that begins at a place; -1 where another value is there than
            the decoder returned.
        known: The names that have a meaning.

    Raises:
        MalformedRequest: a name is a duplicate, or another spelling of a known one: in other cases, or with
            escapes.
    """
    spans: dict[str, tuple[int, int]] = {}
    at = 0
    while found := NAME.match(json, at):
        start, name = found.end(), decoded_name(found[1])
        meant = name if name in known else name.casefold()
        if meant in known and meant.encode() != found[1]:
            message = (
                f'the key "{shown(found[1].decode())}" of the request body is another spelling of "{meant}"'
            )
            raise MalformedRequest(message, hint=_HINT, param=meant)
        at = -1 if name in spans else end_of(name, start)
        if at < 0:
            raise _duplicate(name)
        spans[name] = start, at
    if not _END.fullmatch(json, at):  # the value returned is the beginning of the one that stands first
        raise _duplicate(next(reversed(spans), ""))
    return spans


def check_names(json: bytes, known: Collection[str]) -> None:
    """Refuse an object as ``member_spans`` does.

    Raises:
        MalformedRequest: a name is a duplicate, or another spelling of a known one.
        msgspec.MsgspecError: it is no object.
        UnicodeError: a name is not UTF-8.
        RecursionError: it is nested too deep.
    """
    members = decode_members(json)

    def end_of(name: str, start: int) -> int:
        value = memoryview(members[name])
        return start + value.nbytes if json.startswith(value, start) else -1

    member_spans(json, end_of, known)


def named_texts(json: bytes, names: Collection[str]) -> set[str]:
    """Return the texts under some names, wherever in a body: alone, in a list, or as the ``id`` of an object.

    For a duplicate name in an object, both values count; a name in other cases counts as the name.

    Args:
        json: A body.
        names: In lower case.

    Raises:
        MalformedRequest: it is not JSON (RFC 8259) in UTF-8, so that readers could differ on its content.
        TooLarge: it is nested too deep, or has too many values.
    """
    if len(json) > LARGE and count_values(json, _MOST_VALUES) > _MOST_VALUES:
        raise TooLarge(
            f"the request body holds more than {_MOST_VALUES} values", hint="send several requests"
        )
    found: set[str] = set()
    decoder = JSONDecoder(
        object_pairs_hook=partial(_note_object, found, names),
        parse_float=str,  # numbers name nothing, and are not to overflow
        parse_int=str,
        parse_constant=_refuse_constant,
    )
    try:
        decoder.decode(json.decode())
    except ValueError as error:
        raise MalformedRequest(
            f"the request body is not valid JSON: {error}",
            hint="with keys of several callers a body must be JSON in UTF-8, without a byte order mark",
        ) from None
    except RecursionError:
        raise TooLarge("the request body is nested too deep") from None
    return found


def _note_object(found: set[str], names: Collection[str], members: list[tuple[str, Any]]) -> tuple[Any, ...]:
    """Note the texts under names; an object is its ids for what holds it."""
    ids = []
    for name, value in members:
        folded = name.casefold()
        if folded in names:
            # Some readers drop the half of a pair, which no id holds.
            found.update(text.encode("utf-8", "ignore").decode() for text in _texts(value))
        elif folded == "id":
            ids.append(value)
    return tuple(ids)


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, list | tuple):
            waiting += each


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


def _duplicate(name: str) -> MalformedRequest:
    message = f'duplicate key "{shown(name)}" in the request body'
    return MalformedRequest(message, hint=_HINT, param=name)
