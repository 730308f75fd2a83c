"""Draws of a share: the same everywhere and always."""

from hypothesis import given
from hypothesis import strategies as st

from pointsman.text.extract import draw


@given(st.lists(st.one_of(st.text(), st.integers())))
def test_a_draw_lies_from_0_up_to_1(key: list[object]) -> None:
    assert 0.0 <= draw(*key) < 1.0
    assert draw(*key) == draw(*key)


def test_a_draw_is_the_same_on_every_machine() -> None:
    """Sides of experiments that run already would change with it."""
    assert draw(0, "s") == 0.24372717642062702
    assert draw("shadow", 0, "s") != draw("escalation", 0, "s")


def test_a_share_of_many_is_drawn() -> None:
    assert 900 < sum(draw(7, number) < 0.1 for number in range(10_000)) < 1_100
