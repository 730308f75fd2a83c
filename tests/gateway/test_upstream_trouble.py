"""Upstreams in trouble: one caller's requests take nothing from others, and no failure is multiplied."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from pointsman.config import Config
from pointsman.gateway import _attempts as attempts
from pointsman.gateway import _circuit_breaker as circuit_breaker
from pointsman.gateway import _failures as retry
from pointsman.gateway._live_state import build_live_state
from pointsman.gateway.app import Gateway
from pointsman.testing import MemoryLedger
from pointsman.upstreams.connections import Connections
from pointsman.upstreams.port import Call, Exchange, Headers, ServerSpec, UpstreamSpec
from pointsman.vocabulary import ModelSpec, WireFormat
from support.deciders import ScriptedDecider
from support.in_process import Received, ask
from support.requests_by_format import PATHS, answer, request
from support.scripted_upstreams import OK, listening
from support.servers import state_for

CHAT = PATHS[WireFormat.CHAT]
JSON: Headers = [(b"content-type", b"application/json")]
ERROR = b'{"error":{"message":"no"}}'


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST", 0.0)


class Answered:
    """An ``Exchange`` that is already there."""

    def __init__(self, status: int, headers: Headers = JSON) -> None:
        self.status, self.headers = status, headers
        self._left = [answer(WireFormat.CHAT) if status == 200 else ERROR]

    async def read(self) -> bytes:
        return await self.next()

    async def next(self) -> bytes:
        return self._left.pop() if self._left else b""

    def close(self) -> None: ...


class Scripted:
    """An ``UpstreamClient`` that answers each call as a function says, a moment later."""

    def __init__(self, status: Callable[[Call], int], headers: Headers = JSON) -> None:
        self.status, self.headers = status, headers
        self.calls = 0

    async def send(self, call: Call) -> Exchange:
        self.calls += 1
        await asyncio.sleep(0)
        return Answered(self.status(call), self.headers)

    def close(self) -> None: ...


def gateway(*clients: Scripted, models: int = 1, **spec: Any) -> Gateway:
    """A gateway before upstreams up0, up1 ..., each with some models; all are one chain."""
    upstreams = [UpstreamSpec(f"up{n}", f"http://up{n}/v1", **spec) for n in range(len(clients))]
    names = {f"m{n}{k}": f"up{n}" for n in range(len(clients)) for k in range(models)}
    state = build_live_state(
        ScriptedDecider(*names, ledger=MemoryLedger()),
        Config(
            models={
                name: ModelSpec(name, up, name, formats=frozenset(WireFormat)) for name, up in names.items()
            },
            upstreams={each.name: each for each in upstreams},
            server=ServerSpec(passthrough="up0"),
        ),
        connections=Connections(dict(zip(upstreams, clients, strict=True))),
    )
    return Gateway(state)


async def post(served: Gateway, session: str, **more: Any) -> Received:
    return await ask(served, CHAT, request(WireFormat.CHAT, **more), {"x-session-id": session})


def test_bad_requests_of_one_caller_are_no_trouble_of_others() -> None:
    """Once, two of them gave 20 of 20 other callers a 503."""
    upstream = Scripted(lambda call: 500 if b"poison" in call.body else 200)

    async def run() -> list[int]:
        served = gateway(upstream, retries=2)
        for _ in range(20):
            assert (await post(served, "bad", user="poison")).status == 500
        assert not served.state.upstreams["up0"].breaker.is_open
        return [(await post(served, f"s-{number}")).status for number in range(20)]

    assert uvloop.run(run()) == [200] * 20


def test_a_primary_that_fails_three_times_in_ten_answers_the_rest() -> None:
    """Once, it answered 7 % of the requests."""
    chance = random.Random(3)
    primary, other = Scripted(lambda _: 200 if chance.random() < 0.7 else 500), Scripted(lambda _: 200)

    async def run() -> Counter[str]:
        served = gateway(primary, other, retries=0)
        return Counter([(await post(served, f"s-{n}")).headers["x-pointsman-model"] for n in range(400)])

    answered = uvloop.run(run())
    assert answered["m00"] > 0.65 * 400
    assert answered.total() == 400


def test_one_agent_does_not_wait_for_a_dead_upstream() -> None:
    """Once, 30 of 30 requests of a session waited for it; now five do, and no other session is moved."""
    primary, other = Scripted(lambda _: 500), Scripted(lambda _: 200)

    async def run() -> tuple[int, str]:
        served = gateway(primary, other, retries=0)
        for turn in range(30):
            got = await post(served, "agent", user=f"turn {turn}")
            assert (got.status, got.headers["x-pointsman-model"]) == (200, "m10")
        asked, primary.status = primary.calls, lambda _: 200
        return asked, (await post(served, "another")).headers["x-pointsman-model"]

    assert uvloop.run(run()) == (5, "m00")


def test_a_bad_request_that_grows_is_no_trouble_of_others() -> None:
    """Each request of an agent holds those before it: a text at which the upstream fails fails them all."""
    primary = Scripted(lambda call: 500 if b"poison" in call.body else 200)
    other = Scripted(lambda _: 200)

    async def run() -> Counter[str]:
        served = gateway(primary, other, retries=0)
        for turn in range(30):
            await post(served, "bad", user=f"poison {turn}")
        return Counter([(await post(served, f"s-{n}")).headers["x-pointsman-model"] for n in range(20)])

    assert uvloop.run(run()) == {"m00": 20}


def test_a_primary_that_breaks_three_of_ten_at_once_answers_the_rest() -> None:
    """Once, ten failures opened it: what was answered before the first one did not count."""
    chance = random.Random(5)

    class Slow(Scripted):
        async def send(self, call: Call) -> Exchange:
            failed = chance.random() < 0.3
            for _ in range(50 if failed else 1):  # who fails, fails late
                await asyncio.sleep(0)
            return Answered(500 if failed else 200)

    primary, other = Slow(lambda _: 200), Scripted(lambda _: 200)

    async def run() -> Counter[str]:
        served = gateway(primary, other, retries=0)
        got: Counter[str] = Counter()
        for batch in range(8):
            sent = await asyncio.gather(*(post(served, f"s-{batch}-{n}") for n in range(40)))
            got.update(each.headers["x-pointsman-model"] for each in sent)
        return got

    assert uvloop.run(run())["m00"] > 0.6 * 320


@pytest.mark.parametrize(("answers", "asked"), [("-", 3), ("--.", 60), ("-.", 60), (".--.", 60)])
def test_a_rate_limit_that_says_no_time_is_not_asked_first_by_each(answers: str, asked: int) -> None:
    """A model that limits three requests in a row is asked last for a second, then for longer."""
    said = itertools.cycle(answers)
    primary, other = Scripted(lambda _: 429 if next(said) == "-" else 200), Scripted(lambda _: 200)

    async def run() -> int:
        served = gateway(primary, other, retries=0)
        got = [(await post(served, f"s-{n}")).status for n in range(60)]
        assert got == [200] * 60
        return primary.calls

    assert uvloop.run(run()) == asked


def test_the_last_upstream_that_is_left_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuit_breaker, "_PAUSE", 20.0)  # as after probes that failed
    upstream = Scripted(lambda _: 500)

    async def run() -> list[int]:
        served = gateway(upstream, retries=2)
        got = [(await post(served, f"s-{number}")).status for number in range(12)]
        assert served.state.upstreams["up0"].breaker.is_open
        before = upstream.calls
        got.append((await post(served, "s")).status)
        assert upstream.calls == before + 1, "no retries at one that has failed so often"
        upstream.status = lambda _: 200
        got.append((await post(served, "s")).status)
        return got

    assert uvloop.run(run()) == [500] * 13 + [200]


@pytest.mark.parametrize(("at_once", "most"), [(100, 130), (1, 3)])
def test_retries_are_a_share_of_the_requests_under_way(at_once: int, most: int) -> None:
    """Once, each of 100 requests was sent three times. A single one keeps all of its retries."""
    upstream = Scripted(lambda _: 500)

    async def run() -> None:
        served = gateway(upstream, retries=2)
        got = await asyncio.gather(*(post(served, "s") for _ in range(at_once)))
        assert {each.status for each in got} == {500}
        up = served.state.upstreams["up0"]
        assert (up.waiting, up.retrying) == (0, 0)

    uvloop.run(run())
    assert at_once < upstream.calls <= most


RETRY_AFTER: Headers = [*JSON, (b"retry-after", b"30")]


@pytest.mark.parametrize("status", [500, 503])
def test_all_requests_turn_to_others_when_an_upstream_asks_to_wait(status: int) -> None:
    asked, other = Scripted(lambda _: status, RETRY_AFTER), Scripted(lambda _: 200)

    async def run() -> list[int]:
        served = gateway(asked, other, models=2, retries=2)
        return [(await post(served, f"s-{number}")).status for number in range(10)]

    assert uvloop.run(run()) == [200] * 10
    assert asked.calls == 1


@pytest.mark.parametrize("status", [408, 409, 425])
def test_an_answer_about_one_request_holds_no_other(status: int) -> None:
    """Once, a 409 of one caller took an upstream from everybody for its Retry-After."""
    upstream = Scripted(lambda call: status if b"poison" in call.body else 200, RETRY_AFTER)
    other = Scripted(lambda _: 200)

    async def run() -> list[str]:
        served = gateway(upstream, other, retries=0)
        await post(served, "bad", user="poison")
        assert not served.state.upstreams["up0"].holds
        return [(await post(served, f"s-{number}")).headers["x-pointsman-model"] for number in range(3)]

    assert uvloop.run(run()) == ["m00"] * 3


@pytest.mark.parametrize("status", [429, 503])
def test_the_last_upstream_that_is_left_is_never_held(status: int) -> None:
    upstream = Scripted(lambda call: status if b"poison" in call.body else 200, RETRY_AFTER)

    async def run() -> list[int]:
        served = gateway(upstream, retries=2)
        bad = await post(served, "bad", user="poison")
        assert (bad.status, bad.headers["retry-after"]) == (status, "30")
        assert served.state.upstreams["up0"].held("m00") > 25
        got = [(await post(served, "s")).status]
        assert not served.state.upstreams["up0"].holds, "an answer ends the hold"
        return [*got, (await post(served, "s")).status]

    assert uvloop.run(run()) == [200, 200]
    assert upstream.calls == 3, "a long Retry-After is no reason for a retry"


def test_what_is_passed_on_has_no_other_upstream() -> None:
    upstream = Scripted(lambda call: 503 if b"poison" in call.body else 200, RETRY_AFTER)

    async def run() -> list[int]:
        served = gateway(upstream)
        bodies = [{"input": "poison"}, {"input": "a"}]
        return [(await ask(served, "/v1/embeddings", body)).status for body in bodies]

    assert uvloop.run(run()) == [503, 200]


def test_one_request_probes_during_a_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream, other = Scripted(lambda _: 503, RETRY_AFTER), Scripted(lambda _: 200)

    async def run() -> list[str]:
        served = gateway(upstream, other, retries=0)
        held = served.state.upstreams["up0"]
        models: list[str] = []

        async def turn() -> None:
            models.append((await post(served, f"s-{len(models)}")).headers["x-pointsman-model"])

        await turn()
        await turn()
        assert upstream.calls == 1
        held._next_probe = 0.0  # as after some seconds
        await turn()
        await turn()
        assert upstream.calls == 2, "one probe, which failed"
        held._next_probe = 0.0
        upstream.status = lambda _: 200
        await turn()
        await turn()
        return models

    assert uvloop.run(run()) == ["m10"] * 4 + ["m00"] * 2


def test_a_rate_limit_is_of_one_model() -> None:
    upstream = Scripted(lambda call: 429 if b'"m00"' in call.body else 200, [*JSON, (b"retry-after", b"30")])

    async def run() -> list[int]:
        served = gateway(upstream, models=2, retries=2)
        return [(await post(served, f"s-{number}")).status for number in range(10)]

    assert uvloop.run(run()) == [200] * 10
    assert upstream.calls == 11


def test_a_short_wait_is_waited_where_no_other_answers() -> None:
    upstream = Scripted(lambda _: 200)

    async def run() -> Received:
        served = gateway(upstream, retries=0)
        served.state.upstreams["up0"].hold("", 0.01)
        return await post(served, "s")

    got = uvloop.run(run())
    assert (got.status, got.headers["x-pointsman-attempts"]) == (200, "1")


def test_a_limit_of_a_callers_own_credential_holds_nobody_else() -> None:
    served = gateway(Scripted(lambda _: 200), forward_auth=True)
    upstream = served.state.upstreams["up0"]
    upstream.hold("m00", 30.0)
    assert upstream.held("m00") == 0.0


def test_no_wait_is_longer_than_a_minute() -> None:
    served = gateway(Scripted(lambda _: 200))
    upstream = served.state.upstreams["up0"]
    upstream.hold("", 86_400.0)
    assert 59.0 < upstream.held("m00") <= 60.0


@pytest.mark.parametrize(("at_once", "most"), [(100, 130), (1, 3)])
def test_so_are_those_of_requests_that_are_passed_on(at_once: int, most: int) -> None:
    """Once, each of 100 requests that failed was sent three times."""
    upstream = Scripted(lambda _: 500)

    async def run() -> None:
        served = gateway(upstream, retries=2)
        asks = (ask(served, "/v1/files/f-1", b"", method="GET") for _ in range(at_once))
        assert {each.status for each in await asyncio.gather(*asks)} == {500}
        up = served.state.upstreams["up0"]
        assert (up.waiting, up.retrying) == (0, 0)

    uvloop.run(run())
    assert at_once < upstream.calls <= most


class Closing:
    """Answers the first request of each connection, and closes when it has read the second."""

    def __init__(self, body: bytes) -> None:
        self.answer = OK.replace(b"content-length: 5\r\n\r\nhello", b"content-length: %d\r\n\r\n" % len(body))
        self.answer += body
        self.asked = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.readuntil(b"}]}")
            self.asked += 1
            if _ == 0:
                writer.write(self.answer)


@pytest.mark.integration
def test_every_request_that_was_sent_is_told() -> None:
    """Once, six went out over connections that broke, and three were told."""
    closing, ledger = Closing(answer(WireFormat.CHAT)), MemoryLedger()

    async def run() -> list[Received]:
        async with listening(closing) as port:
            decider = ScriptedDecider("m0", ledger=ledger)
            state = state_for(f"http://127.0.0.1:{port}/v1", decider=decider)
            try:
                return [await post(Gateway(state), f"s-{number}") for number in range(4)]
            finally:
                state.close()

    got = uvloop.run(run())
    assert [each.status for each in got] == [200] * 4
    told = [int(each.headers["x-pointsman-attempts"]) for each in got]
    assert told == [1, 2, 2, 2]
    assert closing.asked == sum(told)
    rows = [[row.error for row in ledger.attempts(f"d-{number}")] for number in range(1, 5)]
    assert rows == [[""], *[["stale", ""]] * 3]


class Breaking:
    """Answers the first six requests, on six connections, and breaks every connection at what follows."""

    def __init__(self) -> None:
        self.asked = 0
        self.all_wait = asyncio.Event()
        body = answer(WireFormat.CHAT)
        self.answer = OK.replace(b"content-length: 5\r\n\r\nhello", b"content-length: %d\r\n\r\n" % len(body))
        self.answer += body

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"}]}")
            self.asked += 1
            if self.asked > 6:
                return
            if self.asked == 6:
                self.all_wait.set()
            await self.all_wait.wait()
            writer.write(self.answer)


@pytest.mark.integration
@pytest.mark.parametrize(("retries", "most"), [(0, 2), (1, 2), (2, 3)])
def test_kept_connections_that_break_multiply_no_request(retries: int, most: int) -> None:
    """Once, a request with two retries was sent six times."""

    async def run() -> tuple[Received, int]:
        breaking = Breaking()
        async with listening(breaking) as port:
            state = state_for(f"http://127.0.0.1:{port}/v1", retries=retries)
            served = Gateway(state)
            try:
                await asyncio.gather(*(post(served, f"s-{number}") for number in range(6)))
                assert breaking.asked == 6
                return await post(served, "s"), breaking.asked - 6
            finally:
                state.close()

    got, sent = uvloop.run(run())
    assert got.status >= 500
    assert int(got.headers["x-pointsman-attempts"]) == sent == most


@pytest.mark.integration
def test_so_is_one_that_is_passed_on() -> None:
    closing = Closing(b'{"data":[{}]}')
    body = {"input": [{"a": 1}]}

    async def run() -> list[Received]:
        async with listening(closing) as port:
            state = state_for(f"http://127.0.0.1:{port}/v1", server=ServerSpec(passthrough="up0"))
            try:
                return [await ask(Gateway(state), "/v1/embeddings", body) for _ in range(2)]
            finally:
                state.close()

    assert [each.headers["x-pointsman-attempts"] for each in uvloop.run(run())] == ["1", "2"]
    assert closing.asked == 3


def test_the_attempts_of_one_request_stay_bounded() -> None:
    upstreams = [Scripted(lambda _: 500) for _ in range(5)]
    uvloop.run(post(gateway(*upstreams, retries=4), "s"))
    assert sum(each.calls for each in upstreams) == attempts._MAX_ATTEMPTS
