"""Lexicon files: groups of terms as TOML. The format is described in docs/reference/lexicon.md."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from pointsman.decoding import syntax_error
from pointsman.errors import LexiconError, did_you_mean
from pointsman.evidence._patterns import PatternSet
from pointsman.evidence._signals import Kind, Signal, SignalTable
from pointsman.toml_source import TomlSource, path_in

__all__ = ["Lexicon", "Term", "load_lexicon"]


@dataclass(frozen=True, slots=True)
class Term:
    """A signal, and its source."""

    signal: Signal
    place: str = ""  # "file:line", where known


@dataclass(frozen=True, slots=True)
class Lexicon:
    """A named collection of terms."""

    name: str
    terms: tuple[Term, ...]

    @classmethod
    def of(cls, name: str, signals: Iterable[Signal], *, place: str = "") -> Lexicon:
        """A lexicon with terms of another file, such as a tier profile or a set of domains."""
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
        self._text = text
        self._source = TomlSource(text, source)

    def lexicon(self) -> Lexicon:
        file = self._file()
        terms = [term for name, group in file.groups.items() for term in self._terms(file.name, name, group)]
        return Lexicon(file.name, tuple(terms))

    def _file(self) -> _File:
        try:
            table = tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            message, line = syntax_error(error, self._text)
            raise LexiconError(message, place=f"{self._source.name}:{line}") from None
        try:
            return msgspec.convert(table, _File)
        except msgspec.ValidationError as error:
            raise self._explained(str(error)) from None

    def _explained(self, message: str) -> LexiconError:
        """Turn msgspec's "Object contains unknown field `x` - at `$.groups[...]`" into a place and a hint."""
        reason, path = path_in(message)
        place = self._source.at(path)
        if "unknown field" not in reason:
            at = message.partition(" - at ")[2] or "`$`"
            return LexiconError(f"{reason} at {at}", place=place)
        *above, key = path
        known = _KEYS["group" if above else "file"]
        meant = did_you_mean(str(key), known) or f"; known are {', '.join(known)}"
        return LexiconError(f'unknown key "{key}"{meant}', place=place)

    def _terms(self, lexicon: str, group: str, entries: _Group) -> Iterator[Term]:
        seen: set[Signal] = set()
        for key, number, written, signal in _signals(lexicon, group, entries):
            place = self._source.at(("groups", group, key, number))
            if signal in seen:
                raise LexiconError(f'"{written}" is twice in group "{group}"', place=place)
            seen.add(signal)
            try:
                PatternSet(SignalTable([signal]))
            except LexiconError as error:
                raise LexiconError(error.message, place=place, hint=error.hint) from None
            yield Term(signal, place)


def _signals(lexicon: str, group: str, entries: _Group) -> Iterator[tuple[str, int, str, Signal]]:
    """Each term: key, index, as it is written, and its signal; a final ``*`` matches any more letters."""
    for number, word in enumerate(entries.words):
        kind = Kind.PREFIX if word.endswith("*") else Kind.WORD
        yield "words", number, word, Signal(lexicon, group, word.removesuffix("*").lower(), kind)
    for number, substring in enumerate(entries.substrings):
        yield "substrings", number, substring, Signal(lexicon, group, substring.lower(), Kind.SUBSTRING)
    for number, pattern in enumerate(entries.patterns):
        yield "patterns", number, pattern, Signal(lexicon, group, pattern, Kind.REGEX)
