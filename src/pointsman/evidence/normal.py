"""A text as it is meant: look-alike letters, spacing and slips of the keys undone, quotations set apart.

The task of a prompt does not depend on any of these, so a decision should not either. Every step is linear in
the text and skips texts without such forms; slips are looked for in short texts only, where one keyword
decides.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

__all__ = [
    "MAY_BE_LOOSE",
    "MAY_QUOTE",
    "WORDS_THEMSELVES",
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
_WORD: Final = re.compile(r"[^\W\d_]+")
_ASCII_LETTER: Final = re.compile("[A-Za-z]")
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
    return _WORD.sub(_plain if len(_ASCII_LETTER.findall(text)) > 2 * foreign else _plain_if_mixed, text)


def _plain(word: re.Match[str]) -> str:
    found = word[0]
    if found.isascii() or not _FOREIGN_LETTER.search(found):
        return found
    changed = found.translate(_TO_ASCII)
    return changed if len(found) > 1 and not _FOREIGN_LETTER.search(changed) else found


def _plain_if_mixed(word: re.Match[str]) -> str:
    return _plain(word) if _ASCII_LETTER.search(word[0]) else word[0]


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
    is_code = found[0].startswith("```") and (_CODE.search(found[0]) or not _WORD.search(found[0]))
    return "```\n```" if is_code else '""'
