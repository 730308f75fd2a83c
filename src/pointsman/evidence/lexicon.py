"""Lexicon files: groups of terms as TOML. The format is described in docs/reference/lexicon.md."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from pointsman.decoding import syntax_error
from pointsman.errors import LexiconError
from pointsman.evidence.patterns import PatternSet
from pointsman.evidence.signals import Kind, Signal, SignalTable

__all__ = ["Lexicon", "Term", "load_lexicon"]


@dataclass(frozen=True, slots=True)
class Term:
    """A signal, and where it is written."""

    signal: Signal
    place: str = ""  # "file:line", where known


@dataclass(frozen=True, slots=True)
class Lexicon:
    """A named collection of terms."""

    name: str
    terms: tuple[Term, ...]

    @classmethod
    def of(cls, name: str, signals: Iterable[Signal], *, place: str = "") -> Lexicon:
        """A lexicon whose terms come from another file, such as a tier profile or a set of domains."""
        return cls(name, tuple(Term(signal, place) for signal in signals))

    def signals(self) -> Iterator[Signal]:
        """Every signal, in the order of the file."""
        return (term.signal for term in self.terms)


class _Group(msgspec.Struct, forbid_unknown_fields=True):
    words: tuple[str, ...] = ()
    substrings: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    groups: dict[str, _Group]


_KEYS: Final = {"file": _File.__struct_fields__, "group": _Group.__struct_fields__}


def load_lexicon(text: str, source: str) -> Lexicon:
    """Read a lexicon from TOML text.

    Args:
        text: The file's content.
        source: The file's name, for messages.

    Raises:
        LexiconError: not TOML, an unknown key (with the nearest valid one), a value of the wrong type, a term
            that is there twice, or a pattern that is refused; names file and line.
    """
    return _Reader(text, source).lexicon()


class _Reader:
    def __init__(self, text: str, source: str) -> None:
        self._lines = text.splitlines()
        self._text = text
        self._source = source

    def lexicon(self) -> Lexicon:
        file = self._file()
        terms = [term for name, group in file.groups.items() for term in self._terms(file.name, name, group)]
        return Lexicon(file.name, tuple(terms))

    def _file(self) -> _File:
        try:
            table = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            message, line = syntax_error(error, self._text)
            raise LexiconError(message, place=f"{self._source}:{line}") from None
        try:
            return msgspec.convert(table, _File)
        except msgspec.ValidationError as error:
            raise self._explained(str(error)) from None

    def _explained(self, message: str) -> LexiconError:
        """Turn msgspec's "Object contains unknown field `x` - at `$.groups[...]`" into a place and a hint."""
        reason, _, path = message.partition(" - at ")
        unknown = re.search(r"unknown field `(.+)`", reason)
        if not unknown:
            keys = re.findall(r"[a-z]+", path)
            return LexiconError(f"{reason} at {path or '`$`'}", place=self._place(keys[-1] if keys else ""))
        known = _KEYS["group" if path else "file"]
        near = difflib.get_close_matches(unknown[1], known, n=1)
        meant = f'; did you mean "{near[0]}"?' if near else f"; known are {', '.join(known)}"
        return LexiconError(f'unknown key "{unknown[1]}"{meant}', place=self._place(unknown[1]))

    def _terms(self, lexicon: str, group: str, entries: _Group) -> Iterator[Term]:
        seen: set[Signal] = set()
        header = self._line(group, 0)
        for written, signal in _signals(lexicon, group, entries):
            place = self._place(written, after=header, nth=2 if signal in seen else 1)
            if signal in seen:
                raise LexiconError(f'"{written}" is twice in group "{group}"', place=place)
            seen.add(signal)
            try:
                PatternSet(SignalTable([signal]))
            except LexiconError as error:
                raise LexiconError(error.message, place=place, hint=error.hint) from None
            yield Term(signal, place)

    def _place(self, what: str, *, after: int = 0, nth: int = 1) -> str:
        line = after
        for _ in range(nth):
            line = self._line(what, line)
        return f"{self._source}:{line}"

    def _line(self, what: str, after: int) -> int:
        """The first line beyond ``after`` that holds something as a whole; ``after`` when none does.

        ``tomllib`` tells no lines. A line that names a key or a term is near enough for a person to find it.
        """
        written = f"{re.escape(what)}|{re.escape(json.dumps(what, ensure_ascii=False))}"
        whole = re.compile(rf"(?<![\w.])(?:{written})(?!\w)")
        lines = enumerate(self._lines, 1)
        return next((number for number, line in lines if number > after and whole.search(line)), after or 1)


def _signals(lexicon: str, group: str, entries: _Group) -> Iterator[tuple[str, Signal]]:
    """Each term as it is written, and its signal; ``*`` at the end of a word stands for any more letters."""
    for word in entries.words:
        kind = Kind.PREFIX if word.endswith("*") else Kind.WORD
        yield word, Signal(lexicon, group, word.removesuffix("*").lower(), kind)
    for substring in entries.substrings:
        yield substring, Signal(lexicon, group, substring.lower(), Kind.SUBSTRING)
    for pattern in entries.patterns:
        yield pattern, Signal(lexicon, group, pattern, Kind.REGEX)
