"""Keywords in a row: a list of words that no sentence holds together is no instruction.

"prove theorem lemma" behind a question asks for nothing. Where three keywords or more, with commas or nothing
between them, are a whole sentence or quotation beside others, they do not count, nor does their length. With
nothing between them at the end of a sentence, they count as the first of them. Data of each choice:
docs/notebook/0168.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from pointsman.evidence._signals import Kind, Signal

__all__ = ["LEAST", "KeywordLists"]

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
        self._phrases: Final = {word: sorted(found, key=len, reverse=True) for word, found in phrases.items()}
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
            if _is_sentence(words, row):
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


def _is_sentence(words: list[str], row: _Row) -> bool:
    return (row.start == 0 or words[row.start - 1] in _ENDS) and _ends(words, row)


def _ends(words: list[str], row: _Row) -> bool:
    return row.end == len(words) or words[row.end] in _ENDS
