"""Half surrogate pairs are found among everything that looks like one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.text import turn_from_text
from pointsman.text.foreign import without_halves


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"\ud83d", "\ufffd"),
        (rb"\uDE00", "\ufffd"),
        (rb"a\ud83d b", "a\ufffd b"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\ud83d\ude00", "\U0001f600"),
        (rb"\\ud83d", "\\ud83d"),  # a backslash, and letters
        (rb"\\\ud83d", "\\\ufffd"),
        (rb"\u00e9\n", "\u00e9\n"),
    ],
)
def test_only_halves_are_replaced(written: bytes, read: str) -> None:
    whole = without_halves(b'"' + written + b'"')
    assert len(whole) == len(written) + 2
    assert json.loads(whole) == read


@given(st.text())
def test_what_has_none_stays(text: str) -> None:
    written = json.dumps(text).encode()
    assert without_halves(written) == written


def test_a_text_of_ones_own_may_hold_them() -> None:
    assert turn_from_text("hi \ud83d").history[0].texts == ("hi ?",)
