"""The line of each key of a TOML file, which ``tomllib`` does not tell: for every message about a file.

Reads only documents that ``tomllib`` has accepted: it looks for structure and validates nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from pointsman.decoding import parse_toml, syntax_error
from pointsman.errors import ConfigError

__all__ = ["KeyPath", "Place", "TomlSource", "key_places", "path_in"]

#: Keys, and the places of elements in arrays, from 0.
KeyPath: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Positions of a key and its value in the text."""

    line: int  # of the key, from 1
    value_start: int  # offset; of a table header, that of its end
    value_end: int  # offset, exclusive


#: Delimiters of strings, longest first, and whether a backslash escapes inside.
_STRINGS: Final = (('"""', True), ("'''", False), ('"', True), ("'", False))
_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR: Final = re.compile(r"[^,\]}#\n\r]*")
_ESCAPE: Final = re.compile(r'\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|["\\bfnrte])')
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "e": "\x1b", '"': '"', "\\": "\\"}


class TomlSource:
    """A TOML document and the name of its file, for messages."""

    def __init__(self, text: str, name: str) -> None:
        self.text: Final = text
        self.name: Final = name

    def read(self, refused: type[ConfigError] = ConfigError) -> dict[str, Any]:
        """Return the document's values.

        Raises:
            refused: not TOML; names the file and the line.
        """
        try:
            return parse_toml(self.text)
        except tomllib.TOMLDecodeError as error:
            message, line = syntax_error(error, self.text)
            raise refused(message, place=f"{self.name}:{line}") from None

    @cached_property
    def _places(self) -> dict[KeyPath, Place]:
        return key_places(self.text)

    def at(self, path: tuple[str | int | None, ...]) -> str:
        """``file:line`` of a key, see ``line``."""
        return f"{self.name}:{self.line(path)}"

    def line(self, path: tuple[str | int | None, ...]) -> int:
        """The line of a key, or of the last table above it that is there; 1 when none is.

        ``None`` matches any key or element.
        """
        for end in range(len(path), 0, -1):
            for found, place in self._places.items():
                if len(found) == end and all(a in (None, b) for a, b in zip(path, found, strict=False)):
                    return place.line
        return 1

    def line_naming(self, message: str) -> int:
        """The line a message about the whole document is about: the last one with the quoted text."""
        lines = self.text.splitlines()
        found = [1]
        for word in re.findall(r'"([^"]+)"', message):
            for form in (f'name = "{word}"', f'"{word}"', word):
                at = next((number for number, line in enumerate(lines, 1) if form in line), 0)
                if at:
                    found.append(at)
                    break
        return max(found)


def path_in(message: str) -> tuple[str, tuple[str | int | None, ...]]:
    """Split msgspec's ``what - at `$.dimensions[2].weight``` into the problem and the path of the key.

    The path ends with the key that is unknown or missing, if that is the problem. msgspec writes
    ``[...]`` for a key of a dictionary: it is None.
    """
    what, _, at = message.partition(" - at `$")
    path: list[str | int | None] = [
        int(index) if index else name or None for index, name in re.findall(r"\[(\d+)\]|\[\.\.\.\]|(\w+)", at)
    ]
    if unknown := re.search(r"unknown field `(.+?)`", what):
        path.append(unknown[1])
    return what, tuple(path)


def key_places(text: str) -> dict[KeyPath, Place]:
    """Return the place of every key, table header and element of an array of a valid TOML document."""
    return _Scanner(text).document()


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._found: dict[KeyPath, Place] = {}
        self._implied: dict[KeyPath, Place] = {}  # tables that exist only because of what is in them
        self._lengths: dict[KeyPath, int] = {}  # of the arrays of tables so far

    def document(self) -> dict[KeyPath, Place]:
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self._implied | self._found

    def _header(self) -> KeyPath:
        start = self._at
        is_array = self._text.startswith("[[", self._at)
        self._at += 1 + is_array
        path = self._resolved(self._key())
        self._at += 1 + is_array
        if is_array:
            self._record(path, start, self._at, self._at)
            self._lengths[path] = length = self._lengths.get(path, 0) + 1
            path = (*path, length - 1)
        elif path in self._lengths:
            path = (*path, self._lengths[path] - 1)
        self._record(path, start, self._at, self._at)
        return path

    def _resolved(self, names: KeyPath) -> KeyPath:
        """A header's path: for an array of tables, of its last element."""
        path: KeyPath = ()
        for name in names:
            if path in self._lengths:
                path = (*path, self._lengths[path] - 1)
            path = (*path, name)
        return path

    def _pair(self, table: KeyPath) -> None:
        start = self._at
        path = table + self._key()
        self._at += 1  # the equals sign
        self._skip(_SPACE)
        value = self._at
        self._value(path)
        self._record(path, start, value, self._at)

    def _key(self) -> KeyPath:
        """Read a dotted key, and the blanks around it."""
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            parts.append(self._key_part())
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return tuple(parts)
            self._at += 1

    def _key_part(self) -> str:
        start = self._at
        if bare := BARE.match(self._text, start):
            self._at = bare.end()
            return bare.group()
        self._string()
        quoted = self._text[start + 1 : self._at - 1]
        return _ESCAPE.sub(_unescape, quoted) if self._text[start] == '"' else quoted

    def _value(self, path: KeyPath) -> None:
        match self._text[self._at : self._at + 1]:
            case "{":
                self._members("}", path, self._pair)
            case "[":
                self._elements(path)
            case '"' | "'":
                self._string()
            case _:
                start = self._at
                self._skip(_SCALAR)
                self._at = start + len(self._text[start : self._at].rstrip())

    def _members(self, close: str, path: KeyPath, read: Callable[[KeyPath], None]) -> None:
        self._at += 1
        self._skip(_BLANK)
        while self._text[self._at] != close:
            read(path)
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1
                self._skip(_BLANK)
        self._at += 1

    def _elements(self, path: KeyPath) -> None:
        number = 0

        def element(array: KeyPath) -> None:
            nonlocal number
            start = self._at
            self._value((*array, number))
            self._record((*array, number), start, start, self._at)
            number += 1

        self._members("]", path, element)

    def _string(self) -> None:
        """Move past the string that begins here."""
        quote, escapes = next(q for q in _STRINGS if self._text.startswith(q[0], self._at))
        self._at += len(quote)
        while not self._text.startswith(quote, self._at):
            self._at += 2 if escapes and self._text[self._at] == "\\" else 1
        self._at += len(quote)
        # Up to two quotes may stand directly before the closing three.
        while len(quote) == 3 and self._text.startswith(quote[0], self._at):
            self._at += 1

    def _skip(self, pattern: re.Pattern[str]) -> None:
        skipped = pattern.match(self._text, self._at)
        self._at = skipped.end() if skipped else self._at

    def _record(self, path: KeyPath, start: int, value_start: int, value_end: int) -> None:
        line = self._text.count("\n", 0, start) + 1
        for depth in range(1, len(path)):
            self._implied.setdefault(path[:depth], Place(line, value_end, value_end))
        self._found.setdefault(path, Place(line, value_start, value_end))


def _unescape(found: re.Match[str]) -> str:
    code = found.group(1)
    return chr(int(code[1:], 16)) if code[0] in "uU" else _ESCAPED[code]
