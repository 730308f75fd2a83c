"""Values are counted as a decoder would find them, without one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.wire import names as values
from pointsman.wire.names import count_values

TEXTS = st.text(alphabet='ab"\\,[{ \u00e9\n')
JSON = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def marks(value: Any) -> int:
    """One for each list and object, and one for each comma in them."""
    if not isinstance(value, list | dict):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(0, len(value) - 1) + sum(map(marks, inner))


@pytest.mark.parametrize("piece", [1, 2, 5, 1 << 16])
@given(value=JSON, ascii_=st.booleans())
def test_as_a_decoder_finds_them(piece: int, value: Any, ascii_: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "_PIECE", piece)
        assert count_values(json.dumps(value, ensure_ascii=ascii_).encode(), 10_000) == marks(value)


@pytest.mark.parametrize(
    "raw", [b"[" * 1_000_000, b"{}," * 1_000_000, b'""' * 1_000_000, b'"a":1,' * 1_000_000]
)
def test_it_ends_soon_after_the_limit(raw: bytes) -> None:
    assert 1_000 < count_values(raw, 1_000) < 100_000


def test_a_long_text_is_one_value() -> None:
    assert count_values(b'["' + b"[1, 2, {" * 100_000 + b'"]', 10) == 1
