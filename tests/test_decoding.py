"""Half surrogate pairs are found among everything that looks like one."""

import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman import decoding
from pointsman.decoding import without_halves
from pointsman.wire.request import request_from_text


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


PARTS = [rb"\ud83d", rb"\ude00", rb"\uDbfF", rb"\uDC00", rb"\\\\", rb"\\", rb"\n", b"u", b"ud83d", b"x" * 9]
ONE_BY_ONE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


@pytest.mark.parametrize("piece", [1, 7, 16, 1 << 16])
@given(parts=st.lists(st.sampled_from(PARTS), max_size=40))
def test_in_pieces_of_any_size(piece: int, parts: list[bytes]) -> None:
    written = b'"' + b"".join(parts) + b'"'
    expected = ONE_BY_ONE.sub(lambda found: rb"\ufffd" if found[1] else found[0], written)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_PIECE", piece)
        assert without_halves(written) == expected


def test_nothing_is_called_for_each_escape() -> None:
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    written = rb'"\ud83d' + rb"\n\ud83d\u00e9" * 10_000 + b'"'
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        without_halves(written)
    finally:
        sys.setprofile(before)
    assert calls < 500


def test_a_byte_that_no_json_holds_stays() -> None:
    assert without_halves(b'"\0\0 \\ud83d"') == b'"\0\0 \\ud83d"'


def test_a_text_of_ones_own_may_hold_them() -> None:
    assert request_from_text("hi \ud83d").history[0].texts == ("hi \ufffd",)
