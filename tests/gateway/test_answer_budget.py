"""Large whole answers wait for each other, and are refused when nothing becomes free."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pointsman.errors import Overloaded
from pointsman.gateway import _answer_budget as budget_module
from pointsman.gateway._answer_budget import AnswerBudget


def run(act: Callable[[AnswerBudget], Awaitable[None]]) -> AnswerBudget:
    budget = AnswerBudget(100)

    async def main() -> None:
        async with asyncio.timeout(30):
            await act(budget)

    asyncio.run(main())
    return budget


async def started(*coroutines: Awaitable[None]) -> list[asyncio.Task[None]]:
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    await asyncio.sleep(0)
    return tasks


def test_they_wait_in_order() -> None:
    async def act(budget: AnswerBudget) -> None:
        await budget.take(80)
        large, small = await started(budget.take(90), budget.take(10))
        assert not large.done()
        assert not small.done()  # though it would fit: else a large one waits for ever
        budget.give(80)
        await asyncio.gather(large, small)
        assert budget.held == 100

    run(act)


def test_one_larger_than_all_is_read_alone() -> None:
    async def act(budget: AnswerBudget) -> None:
        await budget.take(500)
        [other] = await started(budget.take(1))
        assert not other.done()
        budget.give(500)
        await other

    assert run(act).held == 1


def test_who_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "_PATIENCE", 0.001)

    async def act(budget: AnswerBudget) -> None:
        await budget.take(100)
        with pytest.raises(Overloaded):
            await budget.take(1)
        budget.give(100)
        await budget.take(100)

    assert run(act).held == 100


@pytest.mark.parametrize("given", [False, True], ids=["while it waits", "in the moment it is served"])
def test_a_caller_who_leaves_takes_nothing_along(given: bool) -> None:
    async def act(budget: AnswerBudget) -> None:
        await budget.take(100)
        first, second = await started(budget.take(60), budget.take(40))
        if given:
            budget.give(100)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        if not given:
            budget.give(100)
        await second

    assert run(act).held == 40


def test_an_answer_without_a_length_is_counted_as_it_comes() -> None:
    budget = AnswerBudget(100)
    budget.take_now(60)
    with pytest.raises(Overloaded):
        budget.take_now(60)
    assert budget.held == 60
