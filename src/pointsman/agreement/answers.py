r"""Short final answers: numbers with their unit, choices, literals.

An answer has two normal forms, and two answers are the same if either form is equal. The text form is in
lower case, without spaces, commas, dollar and percent signs, and a number or fraction is a rounded number.
The value form is that of a Python or JSON literal, so that ``[1, 2]`` is ``[1,2]`` but not ``[12]``. Source
of both forms: docs/explanation/measuring.md.
"""

from __future__ import annotations

import ast
import json
import re
from fractions import Fraction
from typing import Final

import msgspec

__all__ = ["FinalAnswer", "final_answer", "normalised", "same_answer"]

#: Characters of the longest text that counts as a short answer, and of the longest marked answer.
_LONGEST: Final = 200
#: Digits behind the point that a number keeps: models round differently.
_DIGITS: Final = 6
_DROPPED: Final = str.maketrans("", "", " \t\n\r,$%")
_FIELD: Final = re.compile(r'"answer"\s*:\s*')
_DECODER: Final = json.JSONDecoder()  # reads a value and leaves what follows it
_MARKED: Final = re.compile(
    r"(?im)^[\s*#>]*(?:the\s+)?(?:final\s+)?answer(?:\s+is)?\s*[:=]?\**\s*(\S.*)$|^####\s*(\S.*)$"
)
_FRACTION: Final = re.compile(r"(-?)\\[dt]?frac\{(-?\d+)\}\{(-?\d+)\}")
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d{1,3})?|[-+]?\d+/\d+")
_UNIT: Final = re.compile(r"[-+$€£]?\s*\d[\d,.]*(?:/\d+)?\s*[^\W\d_]{0,12}[%°]?[.!]?")
_BOX: Final = "\\boxed{"
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_GLUED: Final = re.compile(r"[\w.](?:and|else|for|if|in|is|not|or)")
_CONTAINERS: Final = (list, tuple, dict, set)


class FinalAnswer(msgspec.Struct, frozen=True):
    """The two normal forms of one answer; None where an answer has no such form."""

    answer: str | None = None
    value: str | None = None


def same_answer(first: FinalAnswer | None, second: FinalAnswer | None) -> bool:
    """Whether two answers are the same: an equal text or an equal value. A missing form never agrees."""
    if first is None or second is None:
        return False
    return (first.answer is not None and first.answer == second.answer) or (
        first.value is not None and first.value == second.value
    )


def final_answer(text: str) -> FinalAnswer | None:
    r"""Find the short final answer in the text of a completion; None if there is none to compare.

    Looked for in this order: the last ``"answer"`` field, the last ``\boxed{}``, the last line that begins
    with ``Answer:`` or ``####``, and the whole text if it is one short word, number with unit, or literal.
    """
    found = _field(text)
    if found is None:
        found = _boxed(text)
    if found is None:
        found = _marked(text)
    if found is None:
        whole = text.strip()
        found = whole if _is_short(whole) else None
    if found is None or len(found) > _LONGEST:
        return None
    literal = _literal(found)
    if isinstance(literal, _CONTAINERS) and found.strip()[0] in "[({":  # whose commas count; not "1,100"
        return FinalAnswer(value=repr(literal))
    # Of any other text the value is that of a string, so that quotes make no difference.
    value = repr(found.strip()) if literal is None else repr(literal)
    return FinalAnswer(answer=normalised(found), value=value)


def normalised(text: str) -> str:
    """The text form of an answer."""
    plain = text.strip().removesuffix(".").translate(_DROPPED).lower()
    plain = _FRACTION.sub(r"\1\2/\3", plain)
    if _NUMBER.fullmatch(plain):
        try:
            return str(round(float(Fraction(plain)), _DIGITS))
        except (ZeroDivisionError, OverflowError):
            return plain
    return plain


def _literal(text: str) -> object:
    """The value of a Python or JSON literal; None if the text is none.

    Python warns of a backslash in a string, and of a number with a keyword right behind it: "3in".
    """
    if "\\" in text or _GLUED.search(_QUOTED.sub("", text)):
        return None
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _field(text: str) -> str | None:
    matches = list(_FIELD.finditer(text))
    if not matches:
        return None
    try:
        found, _ = _DECODER.raw_decode(text, matches[-1].end())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, str) else json.dumps(found)


def _boxed(text: str) -> str | None:
    start = text.rfind(_BOX)
    if start < 0:
        return None
    depth, begin = 1, start + len(_BOX)
    for at in range(begin, min(len(text), begin + _LONGEST)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[begin:at]
    return None


def _marked(text: str) -> str | None:
    matches = _MARKED.findall(text)
    if not matches:
        return None
    found: str = matches[-1][0] or matches[-1][1]
    return found.strip().strip("*`")


def _is_short(text: str) -> bool:
    """Whether a whole text is a short answer: one word, a number with a unit, or a literal."""
    if not text or len(text) > _LONGEST or "\n" in text:
        return False
    return not re.search(r"\s", text) or bool(_UNIT.fullmatch(text)) or _literal(text) is not None
