"""Short final answers: hits beside near misses."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.agreement.answers import final_answer, same_answer


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("18", "18.0", True),
        ("18", "19", False),
        ("$18", "18", True),
        ("1,100", "1100", True),
        ("18%", "18", True),
        ("5 km", "5km", True),
        ("5 km", "5 m", False),
        ("1/2", "0.5", True),
        (r"The sum is \boxed{\frac{1}{2}}", "0.5", True),
        (r"\boxed{3} or rather \boxed{4}", "4", True),
        (r"\boxed{3", "3", False),
        ('{"reason": "x", "answer": "7"}', '{"answer": 7, "reason": "y"}', True),
        ('{"answer": "7"}', '{"answer": "8"}', False),
        ("It adds up.\nAnswer: 42", "The answer is 42", True),
        ("#### 42", "42", True),
        ("[1, 2]", "[1,2]", True),
        ("[1, 2]", "[12]", False),
        ('{"answer": [1, 2]}', "[1, 2]", True),
        ('{"answer": [1, 2', "[1, 2]", False),
        ("'x'", '"x"', True),
        ("(A)", "(B)", False),
        ("B", "b", True),
        ("Paris is the capital of France.", "Paris is the capital of France.", False),  # free text
        ("", "", False),
        ("yes\nno", "yes\nno", False),
        ("3in", "3 in", True),  # of which Python would warn
        ("'3in'", '"3in"', True),
    ],
)
def test_pairs(first: str, second: str, same: bool) -> None:
    assert same_answer(final_answer(first), final_answer(second)) is same
    assert same_answer(final_answer(second), final_answer(first)) is same


@pytest.mark.parametrize("text", ["3in", "0xfor 1", "1or 2", "Answer: 5if"])
def test_no_answer_makes_python_warn(text: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        final_answer(text)
    assert told == []


@given(st.text(max_size=400))
def test_any_text_is_read_without_an_error(text: str) -> None:
    found = final_answer(text)
    assert found is None or same_answer(found, final_answer(text))
