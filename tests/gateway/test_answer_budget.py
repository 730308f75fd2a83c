"""Large whole answers wait for each other, and are refused when nothing becomes free."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from pointsman.errors import Overloaded
from pointsman.gateway import _answer_budget as budget_module
from pointsman.gateway._answer_budget import AnswerBudget
from pointsman.gateway.app import Gateway
from pointsman.testing import MemoryLedger
from pointsman.vocabulary import WireFormat
from support.deciders import ScriptedDecider
from support.requests_by_format import PATHS, request
from support.servers import Answering, Asked, ScriptedUpstream, gateway, reply, state_for
from support.waiting import until


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


LARGE = json.dumps({"choices": [], "text": "x" * 1_000_000}).encode()


async def with_length(_: Asked, send: Any) -> None:
    await reply(send, 200, LARGE, ("content-type", "application/json"), ("content-length", str(len(LARGE))))


async def in_chunks(_: Asked, send: Any) -> None:
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
    )
    for start in range(0, len(LARGE), 50_000):
        part = LARGE[start : start + 50_000]
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.integration
@pytest.mark.parametrize("answering", [with_length, in_chunks])
@pytest.mark.parametrize(("total", "status"), [(1 << 30, 200), (500_000, None)], ids=["room", "no room"])
def test_a_large_answer_takes_its_share_and_gives_it_back(
    monkeypatch: pytest.MonkeyPatch, answering: Answering, total: int, status: int | None
) -> None:
    ledger, upstream = MemoryLedger(), ScriptedUpstream(answering)
    decider = ScriptedDecider("m0", ledger=ledger)
    with upstream.running() as url:
        app = Gateway(state_for(f"{url}/v1", decider=decider))
        app.bodies.answers = AnswerBudget(total)
        taken: list[int] = []
        give = app.bodies.answers.give

        def noted(size: int) -> None:
            taken.append(size)
            give(size)

        monkeypatch.setattr(app.bodies.answers, "give", noted)
        with gateway(app) as running:
            path = PATHS[WireFormat.CHAT]
            got = httpx.post(running.url + path, json=request(WireFormat.CHAT), trust_env=False, timeout=60)
            until(lambda: app.active == 0)
    assert app.bodies.answers.held == 0
    if status or answering is with_length:  # alone, one larger than all is read
        assert (got.status_code, got.content, sum(taken)) == (200, LARGE, len(LARGE))
    else:
        assert (got.status_code, got.headers["retry-after"]) == (503, "1")
        assert [attempt.error for attempt in ledger.attempts("d-1")] == ["busy"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("first", "of"),
    [(LARGE[:-1], "application/json"), (b"data: " + LARGE[:-6], "text/event-stream")],
    ids=["the last bracket is missing", "an event without an end"],
)
def test_a_second_attempt_does_not_wait_for_the_first(first: bytes, of: str) -> None:
    answers = iter([(first, of), (LARGE, "application/json")])

    async def answering(_: Asked, send: Any) -> None:
        body, kind = next(answers)
        await reply(send, 200, body, ("content-type", kind), ("content-length", str(len(body))))

    with ScriptedUpstream(answering).running() as url:
        app = Gateway(state_for(f"{url}/v1", retries=1))
        app.bodies.answers = AnswerBudget(len(LARGE))
        with gateway(app) as running:
            path = PATHS[WireFormat.CHAT]
            got = httpx.post(running.url + path, json=request(WireFormat.CHAT), trust_env=False, timeout=60)
            until(lambda: app.active == 0)
    assert (got.status_code, got.content == LARGE, app.bodies.answers.held) == (200, True, 0)


@pytest.mark.integration
def test_a_small_answer_takes_no_share() -> None:
    async def small(_: Asked, send: Any) -> None:
        await reply(send, 200, b'{"choices":[]}')

    with ScriptedUpstream(small).running() as url:
        app = Gateway(state_for(f"{url}/v1"))
        app.bodies.answers = AnswerBudget(0)
        with gateway(app) as running:
            path = PATHS[WireFormat.CHAT]
            got = httpx.post(running.url + path, json=request(WireFormat.CHAT), trust_env=False, timeout=60)
    assert got.status_code == 200
