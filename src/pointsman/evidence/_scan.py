"""One scan of a text: ``Evidence``, with the writing system of the text and an estimate of its tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from functools import lru_cache
from typing import Final

from pointsman.evidence._engines import Matcher
from pointsman.evidence._signals import Kind, Signal, SignalTable
from pointsman.evidence.normal import (
    ASCII_LETTER,
    LEAST,
    MAY_BE_LOOSE,
    MAY_QUOTE,
    WORD,
    WORDS_THEMSELVES,
    KeywordLists,
    spaced,
    without_lookalikes,
    without_quotations,
)
from pointsman.vocabulary import Evidence, Script

__all__ = ["READ", "Reading", "Scanner", "Spelling", "detect_script", "estimate_tokens"]

#: Kept evidence, in each of two generations: the latest words of two thousand sessions that are at work. An
#: entry of a short prompt takes about 0.5 kB.
_ENTRIES: Final = 1_024
_BYTES: Final = 4 << 20

#: Letters looked at in a long text, evenly spread. Sixty-four give the majority script of anything that is
#: not half and half, in 5 µs; a text of 400,000 characters costs no more.
_SAMPLE: Final = 64

#: First and last code point of each script's blocks. Source: the Unicode character database, Blocks.txt.
#: Every edge lies on a multiple of 16, and no 16 code points hold letters of two of these scripts.
_RANGES: Final = (
    (Script.LATIN, ((0x0040, 0x02AF), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F))),
    (Script.LATIN, ((0xA720, 0xA7FF), (0xAB30, 0xAB6F), (0xFF20, 0xFF5F))),
    (Script.GREEK, ((0x0370, 0x03FF), (0x1F00, 0x1FFF))),
    (Script.CYRILLIC, ((0x0400, 0x052F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F))),
    (Script.HEBREW, ((0x0590, 0x05FF), (0xFB20, 0xFB4F))),
    (Script.ARABIC, ((0x0600, 0x06FF), (0x0750, 0x077F), (0x0870, 0x08FF))),
    (Script.ARABIC, ((0xFB50, 0xFDFF), (0xFE70, 0xFEFF))),
    (Script.DEVANAGARI, ((0x0900, 0x097F), (0xA8E0, 0xA8FF))),
    (Script.THAI, ((0x0E00, 0x0E7F),)),
    (Script.HANGUL, ((0x1100, 0x11FF), (0x3130, 0x318F), (0xA960, 0xA97F))),
    (Script.HANGUL, ((0xAC00, 0xD7FF), (0xFFA0, 0xFFDF))),
    (Script.KANA, ((0x3040, 0x30FF), (0x31F0, 0x31FF), (0xFF60, 0xFF9F))),
    (Script.HAN, ((0x2E80, 0x2FDF), (0x3000, 0x300F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF))),
    (Script.HAN, ((0xF900, 0xFAFF), (0x20000, 0x3FFFF))),
)

_SCRIPTS: Final = tuple(Script)
_OTHER: Final = _SCRIPTS.index(Script.OTHER)


def _by_sixteen() -> bytes:
    table = bytearray([_OTHER]) * (0x110000 >> 4)
    for script, ranges in _RANGES:
        for first, last in ranges:
            start, end = first >> 4, (last >> 4) + 1
            table[start:end] = bytes([_SCRIPTS.index(script)]) * (end - start)
    return bytes(table)


#: Script of each 16 code points, as a position among the scripts. A mapping of them took 0.9 MB.
_BY_SIXTEEN: Final = _by_sixteen()
_LETTER: Final = re.compile(r"[^\W\d_]")
_HEAD: Final = 4096  # characters searched for a first letter where the sample holds none


#: Letters from which a word with two letters swapped, or one doubled, is corrected.
_SWAPPED: Final = 4
#: Letters from which a keyword is found with a letter left out, one too many, and one replaced: of shorter
#: words too many are words themselves ("probes" and "proves", "contract" and "contrast").
_SHORTENED: Final = 5
_LENGTHENED: Final = 9
_DOUBLED: Final = 6
_REPLACED: Final = 9

#: Longest texts of which anything is undone, and of which words are corrected, in characters. In a longer one
#: the length decides and no keyword (docs/decisions/0150), and a hostile one costs no more.
READ: Final = 1_000
SHORT: Final = 256

#: Words whose correction is remembered: about 1 MB.
_REMEMBERED: Final = 8_192


class Scanner:
    """Turns the user's words into evidence, once for each text. May be shared between threads.

    Agents resend the same user message with every tool iteration; its evidence is cached. The cache has
    two generations: when the young one is full it becomes the old one. Its entries are dropped at the
    next turn unless they were read again. Every step is one operation on a dict, so no lock is needed, and
    the count of bytes cannot drift, for it starts again with each generation.
    """

    def __init__(
        self,
        table: SignalTable,
        matcher: Matcher,
        *,
        reading: Reading | None = None,
        cache_entries: int = _ENTRIES,
        cache_bytes: int = _BYTES,
    ) -> None:
        """Make ready to scan.

        Args:
            table: names the signals.
            matcher: finds them.
            reading: normalisation of a text before the scan; None scans it as written.
            cache_entries: texts in each of the two generations.
            cache_bytes: of those texts.
        """
        self._reading: Final = reading
        self.table: Final = table
        self._matcher: Final = matcher
        self._entries: Final = cache_entries  # of one generation
        self._bytes: Final = cache_bytes  # of the texts of one generation
        self._young: dict[str, Evidence] = {}
        self._old: dict[str, Evidence] = {}
        self._young_bytes = 0

    def scan(self, text: str) -> Evidence:
        """Scan one text, or return its cached evidence. Evidence is immutable."""
        known = self._young.get(text)
        if known is not None:
            return known
        evidence = self._old.get(text) or self._examine(text)
        size = text.__sizeof__()
        if size <= self._bytes:
            self._young_bytes += size
            if len(self._young) >= self._entries or self._young_bytes > self._bytes:
                self._old, self._young, self._young_bytes = self._young, {}, size
            self._young[text] = evidence
        return evidence

    def _examine(self, text: str) -> Evidence:
        reading = self._reading
        read = reading.plain(text) if reading else text
        lowered = read.lower()
        stray = ""
        if reading:
            hits, stray = reading.hits(lowered, self._matcher.match)
        else:
            hits = self._matcher.match(lowered)
        length, questions, script = len(read), read.count("?"), detect_script(read)
        if not stray and read.isascii():
            return Evidence(text, hits, length, length, length // 4, questions, script)
        units = length if read.isascii() else len(read.encode("utf-16-le", "surrogatepass")) // 2
        return Evidence(
            text=text,
            hits=hits,
            characters=max(length - len(stray), 0),
            utf16_units=max(units - len(stray), 0),
            tokens=max(estimate_tokens(read) - estimate_tokens(stray), 0),
            questions=questions,
            script=script,
        )


def detect_script(text: str) -> Script:
    """The script most letters belong to; between equals, the one that comes first in the text."""
    if text.isascii():
        return Script.LATIN if ASCII_LETTER.search(text) else Script.NONE
    sample = text if len(text) <= _SAMPLE else text[:: len(text) // _SAMPLE]
    letters = "".join(filter(str.isalpha, sample))
    if not letters:
        first = _LETTER.search(text, 0, _HEAD)
        letters = first[0] if first else ""
    scripts = [_BY_SIXTEEN[ord(letter) >> 4] for letter in letters]
    return _SCRIPTS[max(dict.fromkeys(scripts), key=scripts.count)] if scripts else Script.NONE


def estimate_tokens(text: str) -> int:
    """UTF-8 bytes // 4: 0.9 of the exact count for Chinese, where characters // 4 gives 0.42.

    Source: docs/explanation/evidence.md, "Token estimate". ASCII text needs no encoding to be measured.
    """
    return (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))) // 4


class Spelling:
    """The words of a lexicon, ready to be recognised with one slip of the keys in them."""

    def __init__(self, signals: Iterable[Signal]) -> None:
        """Take the words of the keywords that are matched as whole words."""
        words = {
            word
            for signal in signals
            if signal.kind in {Kind.WORD, Kind.PREFIX}
            for word in WORD.findall(signal.pattern.lower())
            if len(word) >= _SWAPPED
        }
        self._words: Final = frozenset(words)
        self._known: Final = self._words | WORDS_THEMSELVES
        #: A word with one letter left out -> the word.
        self._slips: Final[dict[str, str]] = {}
        for word in sorted(words):
            for place in range(1, len(word) - 1) if len(word) >= _SHORTENED else ():
                self._slips.setdefault(word[:place] + word[place + 1 :], word)
        # Most words of a text are common ones: looked at once, they cost a tenth.
        self._meant: Final = lru_cache(_REMEMBERED)(self._mean)

    def corrected(self, lowered: str) -> str:
        """A short text with each word that is one slip from a keyword made that keyword.

        A slip is a letter left out, doubled or added, two swapped, or one replaced.
        """
        if len(lowered) > SHORT:
            return lowered
        unknown = set(WORD.findall(lowered)) - self._known
        if not any(map(self._meant, unknown)):
            return lowered
        meant = {word: self._meant(word) for word in unknown}
        return WORD.sub(lambda found: meant.get(found[0]) or found[0], lowered)

    def _mean(self, word: str) -> str:
        """The keyword that a word is one slip from; empty where it is none."""
        size = len(word)
        if size < _SWAPPED:
            return ""
        missing = self._slips.get(word)
        if missing:
            return missing
        words = self._words
        for at in range(size - 1):
            one, two = word[at], word[at + 1]
            if one != two and (meant := f"{word[:at]}{two}{one}{word[at + 2 :]}") in words:
                return meant
            if size >= (_DOUBLED if one == two else _LENGTHENED):
                meant = word[:at] + word[at + 1 :]
                if meant in words:
                    return meant
        return self._replaced(word) if size >= _REPLACED else ""

    def _replaced(self, word: str) -> str:
        for place in range(1, len(word) - 1):
            meant = self._slips.get(word[:place] + word[place + 1 :], "")
            if len(meant) == len(word) and meant[place + 1 :] == word[place + 1 :]:
                return meant
        return ""


class Reading:
    """How one lexicon wants texts read before they are scanned."""

    def __init__(self, table: SignalTable, lexicon: str, lowering: Container[str] = ()) -> None:
        """Collect the lexicon's words.

        Args:
            table: of all signals.
            lexicon: its words are corrected, and quotations are not searched for them.
            lowering: its groups that no list is made of, because they raise nothing.
        """
        own = [signal for signal in table.signals if signal.lexicon == lexicon]
        raising = [signal for signal in own if signal.group not in lowering]
        self._spelling = Spelling(own)
        self._lists = KeywordLists(raising)
        self._listed = sum(table.bit(signal) for signal in raising)
        self._others = len(own) < len(table)
        self._own = sum(table.bit(signal) for signal in own)

    def plain(self, text: str) -> str:
        """The text with look-alike letters and loose spacing undone, for the measures."""
        # Loose: more than one space between words, or words spelt letter by letter.
        if len(text) > READ or (
            text.isascii()
            and 3 * text.count(" ") <= len(text)
            and not any(map(text.__contains__, MAY_BE_LOOSE))
        ):
            return text
        return spaced(without_lookalikes(text))

    def hits(self, lowered: str, match: Callable[[str], int]) -> tuple[int, str]:
        """The signals of a lower-cased text, and the lists of keywords that are not part of its message.

        The lexicon's own signals are those outside quotations and lists, words corrected.
        """
        if len(lowered) > READ:
            return match(lowered), ""
        outside, stray = self._spelling.corrected(lowered), ""
        seen, found = outside, match(outside)
        if (found & self._listed).bit_count() >= LEAST:
            outside, stray = self._lists.without(outside)
        if any(map(outside.__contains__, MAY_QUOTE)):
            outside = self._spelling.corrected(without_quotations(outside))
        if outside != seen:
            found = match(outside)
        if outside == lowered or not self._others:
            return found, stray
        return (found & self._own) | (match(lowered) & ~self._own), stray
