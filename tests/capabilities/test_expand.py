"""Dependency expansion: a fixed point, with cycles, several providers and none."""

import hypothesis.strategies as st
from hypothesis import given

from pointsman.capabilities import Capability, CapabilityRegistry, TaskClassifierGuide, expand


def registry(**kinds: tuple[str, str]) -> CapabilityRegistry:
    """name=(provides, requires), each a string of one-letter kinds."""
    return CapabilityRegistry(
        Capability(name, TaskClassifierGuide(name), provides=list(provides), requires=list(requires))
        for name, (provides, requires) in kinds.items()
    )


def names(selected: list[str], of: CapabilityRegistry, **options: object) -> list[str]:
    return expand(selected, of, **options)[0]  # type: ignore[arg-type]


def test_a_chain_is_followed_to_its_end() -> None:
    chain = registry(a=("", "X"), b=("X", "Y"), c=("Y", ""))
    assert names(["a"], chain) == ["a", "b", "c"]
    assert names(["a"], chain, held="X") == ["a"]
    assert names(["a", "b"], chain, held="Y") == ["a", "b"]
    assert names(["c"], chain) == ["c"]


def test_a_cycle_ends() -> None:
    assert names(["a"], registry(a=("X", "Y"), b=("Y", "X"))) == ["a", "b"]
    assert names(["a"], registry(a=("X", "X"))) == ["a"]


def test_of_several_providers_the_selected_then_the_likelier_then_the_earlier_serves() -> None:
    two = registry(a=("", "X"), b=("X", ""), c=("X", ""))
    assert names(["a"], two) == ["a", "b"]
    assert names(["a", "c"], two) == ["a", "c"]
    assert names(["a"], two, scores={"b": 0.1, "c": 0.2}) == ["a", "c"]


def test_what_nothing_provides_is_said_once() -> None:
    chosen, reasons = expand(["a", "b", "ghost"], registry(a=("", "X"), b=("", "X")))
    assert chosen == ["a", "b", "ghost"]
    assert [reason.code for reason in reasons] == ["capabilities.unprovided"]


KINDS = st.lists(st.sampled_from("WXYZ"), max_size=3, unique=True).map("".join)


@given(st.lists(st.tuples(KINDS, KINDS), min_size=1, max_size=8), st.data(), KINDS)
def test_the_result_is_a_fixed_point_that_keeps_its_beginning(
    kinds: list[tuple[str, str]], data: st.DataObject, held: str
) -> None:
    of = registry(**{f"c{at}": pair for at, pair in enumerate(kinds)})
    all_names = [each.name for each in of.get_all_capabilities()]
    selected = data.draw(st.lists(st.sampled_from(all_names), unique=True))
    chosen = names(selected, of, held=held)
    assert chosen[: len(selected)] == selected
    assert len(set(chosen)) == len(chosen)
    assert names(chosen, of, held=held) == chosen
    for name in chosen:
        for kind in of.get_capability(name).requires:  # type: ignore[union-attr]
            providers = set(of.providers(kind))
            assert kind in held or providers & set(chosen) or not providers
