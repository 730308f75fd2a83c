"""A text as it is meant: look-alike letters, spacing and slips of the keys undone, quotations set apart.

The task of a prompt does not depend on any of these, so a decision should not either. Every step is linear in
the text and skips texts without such forms; slips are looked for in short texts only, where one keyword
decides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from pointsman.evidence._signals import Kind, Signal

__all__ = [
    "LEAST",
    "MAY_BE_LOOSE",
    "MAY_QUOTE",
    "WORDS_THEMSELVES",
    "KeywordLists",
    "spaced",
    "without_lookalikes",
    "without_quotations",
]


#: Letters of other scripts that look like an ASCII letter, lower case and capitals. Source: the Unicode
#: consortium's confusables.txt (UTS 39), the entries of Cyrillic, Greek and Armenian whose target is ASCII,
#: and the lower-case letters in common use beside them.
_ALIKE: Final = {
    "а": "a", "е": "e", "о": "o", "р": "p", "с": "c", "х": "x", "у": "y", "і": "i", "ј": "j", "ѕ": "s",
    "һ": "h", "ԁ": "d", "ԛ": "q", "ԝ": "w", "к": "k", "м": "m", "т": "t", "п": "n", "г": "r", "ь": "b",
    "А": "A", "В": "B", "Е": "E", "К": "K", "М": "M", "Н": "H", "О": "O", "Р": "P", "С": "C", "Т": "T",
    "Х": "X", "У": "Y", "І": "I", "Ј": "J", "Ѕ": "S", "Ԛ": "Q", "Ԝ": "W",
    "α": "a", "ο": "o", "ν": "v", "ρ": "p", "ι": "i", "κ": "k", "τ": "t", "υ": "u", "χ": "x", "ε": "e",
    "η": "n", "γ": "y", "ω": "w", "σ": "o", "ϲ": "c", "ϳ": "j", "β": "b", "μ": "u",
    "Α": "A", "Β": "B", "Ε": "E", "Ζ": "Z", "Η": "H", "Ι": "I", "Κ": "K", "Μ": "M", "Ν": "N", "Ο": "O",
    "Ρ": "P", "Τ": "T", "Υ": "Y", "Χ": "X",
    "օ": "o", "ո": "n", "ս": "u", "հ": "h", "զ": "q", "ց": "g", "յ": "j", "ք": "p",
    "ɑ": "a", "ɡ": "g", "ɩ": "i", "ʏ": "y", "ᴏ": "o", "ѵ": "v", "ɪ": "i", "ԍ": "g", "ԏ": "t",
}  # fmt: skip
_TO_ASCII: Final = str.maketrans(_ALIKE)

#: Wide, mathematical, circled and joined letters and digits. Only these: NFKC takes Thai vowels apart too.
_STYLED: Final = re.compile("[\u2100-\u214f\u2460-\u24ff\ufb00-\ufb06\uff01-\uff5e\U0001d400-\U0001d7ff]+")

#: Characters that show nothing: soft hyphen, zero-width space, word joiner, byte order mark.
_INVISIBLE: Final = re.compile("[\u00ad\u200b\u2060\ufeff]+")

#: Joiners and marks between or on ASCII letters, where no language puts them.
_ON_ASCII: Final = re.compile("(?<=[A-Za-z])[\u200c\u200d\u0300-\u036f]+")

_FOREIGN: Final = "\u0251\u0261\u0269\u026a\u028f\u0370-\u052f\u0531-\u0587\u1d0f"
_MIXED: Final = re.compile(f"[A-Za-z][{_FOREIGN}]|[{_FOREIGN}][A-Za-z]")
WORD: Final = re.compile(r"[^\W\d_]+")
ASCII_LETTER: Final = re.compile("[A-Za-z]")
_FOREIGN_LETTER: Final = re.compile(f"[{_FOREIGN}]")

#: Where spacing may be loose: each is found in a tenth of the time of one expression for all.
MAY_BE_LOOSE: Final = ("  ", "\t", "\r", "\n", " ,", " .", " ;", " :", " !", " ?", "\f", "\v")
_RUN: Final = re.compile(r"[^\S\n]+")
_AT_END: Final = re.compile(r" ?\n ?")
_LINES: Final = re.compile(r"\n{3,}")
#: An end of a line that is none of a paragraph, list, table or code: a small letter follows.
_SOFT: Final = re.compile(r"(?<=[\w,])\n(?=[a-z])")
_BEFORE_MARK: Final = re.compile(r" (?=[,.;:!?](?!\S))")

#: A word spelt with a space after each letter: four letters or more.
_LETTERS: Final = re.compile(r"(?<!\S)(?:[^\W\d_] ){3,}[^\W\d_](?!\S)")

#: A fence of code; a quotation within a line by one of the usual pairs; a span of code. What is quoted never
#: holds its own opening mark: else each of many would be read to the end of the line.
_QUOTED: Final = re.compile(
    r"```[^`]*(?:`{1,2}[^`]+)*(?:```|`{0,2}\Z)"
    r"|`[^`\n]+`"
    r'|"[^"\n]*"|“[^“”\n]*”|„[^„“”\n]*[“”]|«[^«»\n]*»|「[^「」\n]*」|『[^『』\n]*』'
    r"|(?<!\w)'[^'\n]*'(?!\w)|(?<!\w)‘[^‘’\n]*’(?!\w)"
)
#: What stands in code and hardly in prose: a fence around plain words is a quotation.
_CODE: Final = re.compile(r"[=;{}()\[\]<>|$#@\\_]|\w\.\w")
MAY_QUOTE: Final = ('"', "`", " '", "“", "„", "«", "「", "『", "‘")

#: Words one slip from a keyword that are words themselves: all that were met in the development data and
#: among the 32,000 tokens of the static encoder.
WORDS_THEMSELVES: Final = frozenset(
    """
    anleitung anne assim auer avid backed bass bild buen cain catching chan chin coherence compte conte
    covert crate definite depos deprivation deprive diana différentes drive driver emil excerpt extras
    falls fare fase faut filing fire fungi gear hate here hors inductive jake last leaning lego lest liked
    lined logs mens mins mois neutral noel pints principales prof quad reactor rect recurrence sack sand
    sands sell selling sever sharing simultane skip sole stad steam stores strands tale tarde thorough
    though throughout tracking util warm weren wold имени истории мене поле посе север aber arte bare bead
    combine dose emigration erst gain gina lied mest nuit pots quail quasi simplement soon uint veil weer
    """.split()  # noqa: SIM905 - a list literal would take a line a word
)


def without_lookalikes(text: str) -> str:
    """The text with letters of other scripts inside Latin words, wide and styled letters as plain ones.

    The same object if nothing changes. A word wholly of another script stays as it is, unless
    each of its letters looks Latin, another word mixes scripts, and most letters are Latin.
    """
    if text.isascii():
        return text
    text = _STYLED.sub(
        lambda found: unicodedata.normalize("NFKC", found[0]), unicodedata.normalize("NFC", text)
    )
    text = _ON_ASCII.sub("", _INVISIBLE.sub("", text))
    if not _MIXED.search(text):
        return text
    foreign = len(_FOREIGN_LETTER.findall(text))
    return WORD.sub(_plain if len(ASCII_LETTER.findall(text)) > 2 * foreign else _plain_if_mixed, text)


def _plain(word: re.Match[str]) -> str:
    found = word[0]
    if found.isascii() or not _FOREIGN_LETTER.search(found):
        return found
    changed = found.translate(_TO_ASCII)
    return changed if len(found) > 1 and not _FOREIGN_LETTER.search(changed) else found


def _plain_if_mixed(word: re.Match[str]) -> str:
    return _plain(word) if ASCII_LETTER.search(word[0]) else word[0]


def spaced(text: str) -> str:
    """The text with one space between words, none before a mark or at the end of a line.

    Words spelt letter by letter are closed up, and an end of a line before a small letter is a space. The
    same object if nothing changes.
    """
    if 3 * text.count(" ") > len(text):
        text = _LETTERS.sub(lambda found: found[0].replace(" ", ""), text)
    if text.isascii() and not any(mark in text for mark in MAY_BE_LOOSE):
        return text
    text = _AT_END.sub("\n", _RUN.sub(" ", text))
    text = _SOFT.sub(" ", text)
    return _BEFORE_MARK.sub("", _LINES.sub("\n\n", text))


def without_quotations(text: str) -> str:
    """The text without text in quotation marks or code fences, of which the marks stay.

    A fence that holds words and no mark of code is a quotation.

    The same object otherwise.
    """
    if text.startswith("'") or any(mark in text for mark in MAY_QUOTE):
        return _QUOTED.sub(_marks, text)
    return text


def _marks(found: re.Match[str]) -> str:
    is_code = found[0].startswith("```") and (_CODE.search(found[0]) or not WORD.search(found[0]))
    return "```\n```" if is_code else '""'


# Keywords in a row: a list of words that no sentence holds together is no instruction.
#
# "prove theorem lemma" behind a question asks for nothing. Where three keywords or more, with commas or
# nothing between them, are a whole sentence or quotation beside others, they do not count, nor does their
# length. With nothing between them at the end of a sentence, they count as the first of them. Data of each
# choice are in docs/notebook/0168.


#: Keywords in a row from which they are a list: two are often a name ("distributed system").
LEAST: Final = 3

#: Words of which it is remembered whether they begin like a keyword: about 1 MB.
_REMEMBERED: Final = 8_192

_TOKEN: Final = re.compile(r"\w+|[^\w\s]|\n")
#: What may stand between the keywords of a list, and what parts it from the sentence beside it.
_JOINTS: Final = frozenset(",/&+")
_ENDS: Final = frozenset(".!?\n;()。！？\"'`“”„«»‘’")


class _Row(NamedTuple):
    """Keywords with nothing or a joint between them, as places of tokens."""

    keywords: list[tuple[int, int]]  # start and end of each

    @property
    def start(self) -> int:
        return self.keywords[0][0]

    @property
    def end(self) -> int:
        return self.keywords[-1][1]

    def unjoined(self) -> _Row:
        """The end of it that has nothing between: a list with commas has its place in a sentence."""
        parted = [
            place for place, (one, other) in enumerate(pairwise(self.keywords), 1) if one[1] != other[0]
        ]
        return _Row(self.keywords[parted[-1] :]) if parted else self


class KeywordLists:
    """The keywords of a lexicon that are matched as whole words, ready to be found in a row."""

    def __init__(self, signals: Iterable[Signal]) -> None:
        """Take apart the keywords of several words. Those found inside words are left out."""
        phrases: dict[str, set[tuple[str, ...]]] = {}
        beginnings = set()
        for signal in signals:
            words = tuple(_TOKEN.findall(signal.pattern.lower()))
            if not words:
                continue
            if signal.kind is Kind.PREFIX and len(words) == 1:
                beginnings.add(words[0])
            elif signal.kind in {Kind.WORD, Kind.PREFIX}:
                phrases.setdefault(words[0], set()).add(words)
        #: First word -> the keywords that begin with it, the longest first.
        self._phrases: Final = {
            word: tuple(sorted(found, key=len, reverse=True)) for word, found in phrases.items()
        }
        sizes = sorted({len(word) for word in beginnings})
        # Most words of a text are common ones: looked at once, they cost a tenth.
        self._begins: Final = lru_cache(_REMEMBERED)(
            lambda word: any(word[:size] in beginnings for size in sizes)
        )

    def without(self, text: str) -> tuple[str, str]:
        """Return a lower-cased text without its lists, and those that were whole sentences, joined.

        A text that is nothing but one list is returned as it is: it is an order in few words.
        """
        words = _TOKEN.findall(text)
        rows = [row for row in self._rows(words) if len(row.keywords) >= LEAST]
        if not rows or (len(rows) == 1 and _is_all(words, rows[0])):
            return text, ""
        tokens = list(_TOKEN.finditer(text))
        cuts, alone = [], []
        for row in rows:
            start, end = tokens[row.start].start(), tokens[row.end - 1].end()
            if (row.start == 0 or words[row.start - 1] in _ENDS) and _ends(words, row):
                alone.append(text[start:end])
                cuts.append((start, end))
                continue
            behind = row.unjoined()
            if len(behind.keywords) >= LEAST and _ends(words, row):
                cuts.append((tokens[behind.keywords[0][1] - 1].end(), end))
        starts, ends = [0, *(end for _, end in cuts)], [*(start for start, _ in cuts), len(text)]
        return "".join(text[start:end] for start, end in zip(starts, ends, strict=True)), " ".join(alone)

    def _rows(self, words: list[str]) -> Iterator[_Row]:
        row: list[tuple[int, int]] = []
        at = 0
        while at < len(words):
            size = self._keyword(words, at)
            end = at + (size or 1)
            if size:
                row.append((at, end))
            elif row and words[at] not in _JOINTS:
                yield _Row(row)
                row = []
            at = end
        if row:
            yield _Row(row)

    def _keyword(self, words: list[str], at: int) -> int:
        """Tokens of the keyword that begins here; 0 without a keyword."""
        word = words[at]
        for phrase in self._phrases.get(word, ()):
            if len(phrase) == 1 or tuple(words[at : at + len(phrase)]) == phrase:
                return len(phrase)
        return int(self._begins(word))


def _is_all(words: list[str], row: _Row) -> bool:
    outside = words[: row.start] + words[row.end :]
    return not any(word.isalnum() for word in outside)


def _ends(words: list[str], row: _Row) -> bool:
    return row.end == len(words) or words[row.end] in _ENDS
