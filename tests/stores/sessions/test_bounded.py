"""What is kept in memory stays within its bytes, and what was used last stays longest."""

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import given

from pointsman.stores.sessions import Bounded
from pointsman.stores.sessions._memory import MOST_OWNERS
from pointsman.vocabulary import DAY


@dataclass
class Value:
    weight: int
    at: float = 0.0


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "take", "find", "peek"]), st.sampled_from("abcdefg"), st.integers(0, 60)
    )
)


@given(STEPS)
def test_the_bytes_held_are_those_of_the_values_and_never_more_than_the_bound(
    steps: list[tuple[str, str, int]],
) -> None:
    gone: list[Value] = []
    kept: Bounded[Value] = Bounded(100, gone=gone.append)
    expected: dict[str, Value] = {}  # the one unused longest first
    for what, key, weight in steps:
        if what == "put":
            value = Value(weight)
            gone.clear()
            kept.put(key, value)
            expected.pop(key, None)
            expected[key] = value
            for each in gone:
                oldest = next(iter(expected))
                assert expected.pop(oldest) is each
        elif what == "take":
            assert kept.take(key) is expected.pop(key, None)
        elif what == "find":
            assert kept.find(key, 1.0) is expected.get(key)
            if key in expected:
                expected[key] = expected.pop(key)
        else:
            assert kept.peek(key) is expected.get(key)
        assert list(kept.values()) == list(expected.values())
        assert kept.held == sum(each.weight for each in expected.values()) <= kept.size
        assert len(kept) == len(expected)


def test_what_is_larger_than_the_bound_is_not_kept() -> None:
    gone: list[Value] = []
    kept: Bounded[Value] = Bounded(10, gone=gone.append)
    small, large = Value(5), Value(11)
    kept.put("small", small)
    kept.put("large", large)
    assert gone == [small, large]
    assert (len(kept), kept.held) == (0, 0)


def test_a_value_past_its_time_to_live_is_removed() -> None:
    kept: Bounded[Value] = Bounded(10)
    kept.put("a", Value(5, at=100.0))
    assert kept.find("a", 100.0 + DAY) is not None
    assert kept.find("a", 100.5 + DAY) is None
    assert kept.held == 0


def test_one_owner_makes_room_of_its_own() -> None:
    """Once, what one caller kept pushed out what all others had kept."""
    kept: Bounded[Value] = Bounded(100)
    kept.put("alice/1", Value(30))
    for number in range(50):
        kept.put(f"bob/{number}", Value(10))
    assert kept.peek("alice/1") is not None
    assert len(kept) == 1 + 7
    kept.put("carol/1", Value(60))
    assert kept.peek("alice/1") is not None
    assert kept.held == 80, "a value makes room itself if with it its owner holds the most"


def test_among_more_owners_than_are_compared_the_largest_still_makes_room() -> None:
    """Once, beyond 256 callers one that named ever new sessions pushed out those of all others."""
    others = [f"{number}/x" for number in range(MOST_OWNERS + 10)]
    kept: Bounded[Value] = Bounded(10 * len(others) + 100)
    for name in others:
        kept.put(name, Value(10))
    for number in range(1_000):
        kept.put(f"bob/{number}", Value(10))
        kept.find("bob/0", 0.0)
    assert all(kept.peek(name) is not None for name in others)
    assert kept.peek("bob/999") is not None
    assert kept.held == kept.size
    kept.clear()
    kept.put("carol/1", Value(kept.size + 1))
    assert len(kept) == kept.held == 0


def test_a_put_removes_values_past_their_time_to_live() -> None:
    gone: list[Value] = []
    kept: Bounded[Value] = Bounded(100, 60.0, gone.append)
    first, second = Value(5, at=100.0), Value(5, at=130.0)
    kept.put("a", first)
    kept.put("b", second)
    kept.put("c", Value(5, at=161.0))
    assert gone == [first]
    assert kept.peek("b") is second
