"""The input of a custom tool, from fragments of the arguments of the function that stands for it."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE

__all__ = ["CustomInput", "unwrapped"]

_HEAD: Final = re.compile(r'\s*\{\s*"input"\s*:\s*"')
#: Characters and whole escapes of a JSON string; a first half of a pair waits for the second.
_WHOLE: Final = re.compile(
    r'(?:[^"\\]|\\(?:["\\/bfnrt]|u(?![dD][89abAB])[0-9a-fA-F]{4}|u[dD][89abAB]..\\u[0-9a-fA-F]{4}))*'
)
#: Most characters of the head, and of an escape: where more are pending, neither comes any more.
_LONGEST_HEAD: Final = 64
_LONGEST_ESCAPE: Final = 12
_STRING: Final = re.compile(r'"(?:[^"\\]|\\[^\x00-\x1f])*+"')
#: Control characters, which JSON wants escaped: weak models write line breaks as they are.
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in range(0x20)}
_decode: Final = msgspec.json.Decoder(str).decode
_decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


def unwrapped(arguments: str) -> str:
    """Return the input of a custom tool from a function's arguments: these as they are if malformed."""
    try:
        found = _object(arguments)
    except UNREADABLE:
        return arguments
    text = found.get("input") if len(found) != 1 else next(iter(found.values()))
    return text if isinstance(text, str) else arguments


def _object(arguments: str) -> dict[str, Any]:
    try:
        return _decode_object(arguments)
    except UNREADABLE:
        return _decode_object(_STRING.sub(lambda found: found[0].translate(_ESCAPED), arguments))


class CustomInput:
    """Passes on what of the text is certain, and the rest when the arguments are whole."""

    def __init__(self) -> None:
        self._pending = ""  # what has not been decoded yet: never more than an escape, once the head is read
        self._begun = False  # ``{"input":"`` has been read
        self._over = False  # the text has ended, or cannot be told before the end
        self._sent: list[str] = []

    def feed(self, fragment: str) -> str:
        """Return the text that a fragment adds; empty while it cannot be told."""
        if self._over:
            return ""
        self._pending += fragment
        return self._more() if self._begun or self._begin() else ""

    def _begin(self) -> bool:
        head = _HEAD.match(self._pending)
        if head is None:
            self._over = len(self._pending) > _LONGEST_HEAD
            return False
        self._begun = True
        self._pending = self._pending[head.end() :]
        return True

    def _more(self) -> str:
        found = _WHOLE.match(self._pending)
        if found is None or not found[0]:
            self._over = self._pending.startswith('"') or len(self._pending) >= _LONGEST_ESCAPE
            return ""
        try:
            text = _decode(f'"{found[0].translate(_ESCAPED)}"')
        except UNREADABLE:  # half a pair: the whole is looked at in the end
            self._over = True
            return ""
        self._pending = self._pending[found.end() :]
        self._sent.append(text)
        return text

    def end(self, arguments: str) -> tuple[str, str]:
        """Return the whole text, and what of it has not been passed on."""
        whole, sent = unwrapped(arguments), "".join(self._sent)
        if not sent or whole.startswith(sent):
            return whole, whole[len(sent) :]
        return sent, ""  # malformed behind what was passed on, which cannot be taken back
