"""The names at the top level of a request body: each once, and each as its format spells it.

JSON does not say which of two members of a name counts. Some readers take the first, most the last; some
compare names without regard to case. What the gateway decides on must be what the upstream reads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final

import msgspec

from pointsman.errors import MalformedRequest, shown

__all__ = ["NAME", "check_names", "decoded_name", "member_spans"]

#: A member's name up to its value; the first one also takes the opening brace.
NAME: Final = re.compile(rb'[\s,{]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"\s*+:\s*+')
_END: Final = re.compile(rb"[\s{]*+}\s*+")

_decode_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_HINT: Final = "send each key once, in lower case and without escapes"


def decoded_name(name: bytes) -> str:
    """Return a name as it is meant, from between its quotes."""
    return _decode_text(b'"%s"' % name) if b"\\" in name else name.decode()


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
    members = _decode_members(json)

    def end_of(name: str, start: int) -> int:
        value = memoryview(members[name])
        return start + value.nbytes if json.startswith(value, start) else -1

    member_spans(json, end_of, known)


def _duplicate(name: str) -> MalformedRequest:
    message = f'duplicate key "{shown(name)}" in the request body'
    return MalformedRequest(message, hint=_HINT, param=name)
