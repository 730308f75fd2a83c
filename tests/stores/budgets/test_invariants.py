"""Whatever is reserved and settled, in any order: no reservation exceeds a limit, and totals add up."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from pointsman.stores.budgets import Claim, MemoryBudgets, Settlement

_COUNTERS = {"key": 50, "team": 80}
_AMOUNTS = st.dictionaries(st.sampled_from(sorted(_COUNTERS)), st.integers(0, 40), min_size=1)
#: A reservation; or the end of an earlier one, with what it used of each counter.
_STEPS = st.lists(st.one_of(_AMOUNTS, st.tuples(st.integers(0, 30), st.integers(0, 60))), max_size=40)


def _claims(amounts: dict[str, int]) -> Iterator[Claim]:
    for counter, amount in amounts.items():
        yield Claim(counter, amount, _COUNTERS[counter], 600.0)


@given(_STEPS)
def test_totals_are_what_is_held_and_what_was_used(steps: list[dict[str, int] | tuple[int, int]]) -> None:
    store = MemoryBudgets()
    held: dict[str, dict[str, int]] = {}
    used = dict.fromkeys(_COUNTERS, 0)
    for number, step in enumerate(steps):
        if isinstance(step, dict):
            before = dict(zip(_COUNTERS, store.totals(list(_COUNTERS)), strict=True))
            fits = all(before[name] + amount <= _COUNTERS[name] for name, amount in step.items())
            assert store.reserve(f"r{number}", list(_claims(step))).ok is fits
            if fits:
                held[f"r{number}"] = step
        elif held:
            name = sorted(held)[step[0] % len(held)]
            ended = held.pop(name)
            store.settle([Settlement(name, dict.fromkeys(ended, step[1]))])
            for counter in ended:
                used[counter] += step[1]
        expected = [used[name] + sum(amounts.get(name, 0) for amounts in held.values()) for name in _COUNTERS]
        assert list(store.totals(list(_COUNTERS))) == expected
