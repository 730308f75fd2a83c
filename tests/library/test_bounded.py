"""The map that forgets its oldest entries."""

from pointsman.remembering import Bounded


def test_the_oldest_entry_makes_room_and_a_used_one_is_the_newest() -> None:
    kept = Bounded[str, int](2)
    for number, key in enumerate("aba"):
        kept.keep(key, number)
    assert list(kept.items()) == [("b", 1), ("a", 2)]
    assert (kept.use("b"), kept.use("none")) == (1, None)
    kept.keep("c", 3)
    assert list(kept) == ["b", "c"]


def test_a_map_without_room_keeps_nothing() -> None:
    kept = Bounded[str, int](0)
    kept.keep("a", 1)
    assert not kept


class _Emptied(Bounded[str, int]):
    """A map that another thread empties between two steps."""

    def move_to_end(self, key: str, last: bool = True) -> None:
        self.clear()
        super().move_to_end(key, last)


def test_an_entry_that_another_thread_removes_meanwhile_is_no_error() -> None:
    kept = _Emptied(2)
    kept.keep("a", 1)
    assert dict(kept) == {}
    kept["b"] = 2
    assert kept.use("b") == 2
    assert kept.use("b") is None
