"""Requests with an ``Idempotency-Key``: what a second one gets, and what nobody gets."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import pytest
import uvloop

from pointsman.config import Config
from pointsman.gateway import _idempotency as idempotency
from pointsman.gateway._idempotency import IdempotentAnswers
from pointsman.gateway._inbound import InboundRequest
from pointsman.gateway._live_state import build_live_state
from pointsman.gateway._metrics import Metrics
from pointsman.gateway.app import Gateway
from pointsman.testing import MemoryLedger
from pointsman.upstreams.connections import Connections
from pointsman.upstreams.port import Call, Exchange, Headers, ServerSpec, UpstreamSpec, hash_key
from pointsman.vocabulary import ModelSpec, WireFormat
from pointsman.wire import FORMATS, Body
from support.deciders import ScriptedDecider
from support.in_process import Received, ask
from support.requests_by_format import PATHS, answer, events, format_of, request

KEY = {"idempotency-key": "k-1"}


class Waiting:
    """An ``UpstreamClient`` whose answers end when they are let go; keeps what it was sent."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.calls: list[Call] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def send(self, call: Call) -> Exchange:
        self.calls.append(call)
        return _Answer(self, call)

    def close(self) -> None: ...


class _Answer:
    def __init__(self, upstream: Waiting, call: Call) -> None:
        wire, is_stream = format_of(call.path.decode()), b'"stream": true' in call.body
        self.status = upstream.status
        kind = b"text/event-stream" if is_stream else b"application/json"
        self.headers: Headers = [(b"content-type", kind)]
        self._may_end = upstream.may_end
        self._left = events(wire) if is_stream else [answer(wire)]
        if upstream.status != 200:
            self._left = [b'{"error":{"message":"no"}}']

    async def read(self) -> bytes:
        return await self.next()

    async def next(self) -> bytes:
        if not self._left:
            return b""
        part = self._left.pop(0)
        if not self._left:
            await self._may_end.wait()
        return part

    def close(self) -> None: ...


def served(upstream: Waiting, *keys: str, **spec: Any) -> Gateway:
    up = UpstreamSpec("up0", "http://up/v1", retries=0, **spec)
    return Gateway(
        build_live_state(
            ScriptedDecider("m0", ledger=MemoryLedger()),
            Config(
                models={"m0": ModelSpec("m0", "up0", "model-0", formats=frozenset(WireFormat))},
                upstreams={"up0": up},
                server=ServerSpec(keys=tuple(map(hash_key, keys))),
            ),
            connections=Connections({up: upstream}),
        )
    )


async def post(gateway: Gateway, wire: WireFormat = WireFormat.CHAT, **given: Any) -> Received:
    headers = given.pop("headers", KEY)
    return await ask(gateway, PATHS[wire], request(wire, **given), headers)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WireFormat)
def test_the_second_gets_the_answer_to_the_first_afterwards(wire: WireFormat, stream: bool) -> None:
    async def run() -> tuple[Received, Received]:
        upstream = Waiting()
        gateway = served(upstream)
        first = await post(gateway, wire, stream=stream)
        second = await post(gateway, wire, stream=stream)
        assert len(upstream.calls) == 1
        return first, second

    first, second = uvloop.run(run())
    assert first.body == second.body == (b"".join(events(wire)) if stream else answer(wire))
    assert second.headers == first.headers | {"x-pointsman-replayed": "1"}
    assert second.status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_all_others_wait_while_it_is_in_progress(stream: bool) -> None:
    async def run() -> list[Received]:
        upstream = Waiting()
        upstream.may_end.clear()
        gateway = served(upstream)
        asking = [asyncio.ensure_future(post(gateway, stream=stream)) for _ in range(10)]
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(upstream.calls) == 1
        assert not any(each.done() for each in asking)
        upstream.may_end.set()
        got = await asyncio.gather(*asking)
        assert len(upstream.calls) == 1
        assert b"pointsman_replayed_total 9.0" in gateway.metrics.page()
        return got

    got = uvloop.run(run())
    assert {each.status for each in got} == {200}
    assert len({each.body for each in got}) == 1


def test_few_wait_for_the_first_of_a_key() -> None:
    async def run() -> list[Received]:
        upstream = Waiting()
        upstream.may_end.clear()
        gateway = served(upstream)
        asking = [asyncio.ensure_future(post(gateway)) for _ in range(14)]
        for _ in range(50):
            await asyncio.sleep(0)
        refused = [each.result() for each in asking if each.done()]
        upstream.may_end.set()
        assert sorted(each.status for each in await asyncio.gather(*asking)) == [200] * 11 + [409] * 3
        assert (await post(gateway)).headers["x-pointsman-replayed"] == "1"
        assert len(upstream.calls) == 1
        return refused

    refused = uvloop.run(run())
    assert len(refused) == 3
    for each in refused:
        assert each.json()["error"]["code"] == "idempotency_key_busy"
        assert each.headers["retry-after"] == "1"
        assert "x-should-retry" not in each.headers


@pytest.mark.parametrize("size", [150, 20_000])
def test_what_is_kept_is_counted_as_it_is_held(size: int) -> None:
    async def run() -> tuple[int, int]:
        kept = Kept()
        kept.headers = [(b"content-type", b"application/json"), (b"x-request-id", b"r-1")]
        await kept.ask("first", size)
        counted = kept.answers._kept.held
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for number in range(300):
            await kept.ask(f"k-{number}", size, parts=10)
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        return kept.answers._kept.held - counted, held

    counted, held = uvloop.run(run())
    assert 0.9 * held <= counted <= 3 * held


def test_the_second_takes_the_place_of_a_first_that_is_cancelled() -> None:
    async def run() -> None:
        upstream = Waiting()
        upstream.may_end.clear()
        gateway = served(upstream)
        asking = [asyncio.ensure_future(post(gateway, stream=True)) for _ in range(3)]
        for _ in range(50):
            await asyncio.sleep(0)
        asking[0].cancel()
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(upstream.calls) == 2
        upstream.may_end.set()
        got = await asyncio.gather(*asking[1:])
        assert [each.body for each in got] == [b"".join(events(WireFormat.CHAT))] * 2
        assert len(upstream.calls) == 2

    uvloop.run(run())


def test_after_an_error_it_is_tried_anew() -> None:
    async def run() -> list[int]:
        upstream = Waiting(500)
        gateway = served(upstream)
        got = [(await post(gateway)).status]
        upstream.status = 200
        got += [(await post(gateway)).status for _ in range(2)]
        assert len(upstream.calls) == 2
        return got

    assert uvloop.run(run()) == [500, 200, 200]


@pytest.mark.parametrize("wire", WireFormat)
def test_another_body_with_the_same_key_is_refused(wire: WireFormat) -> None:
    async def run() -> Received:
        upstream = Waiting()
        gateway = served(upstream)
        await post(gateway, wire)
        got = await post(gateway, wire, user="another")
        assert len(upstream.calls) == 1
        return got

    got = uvloop.run(run())
    assert got.status == 422
    assert "was used for another request" in got.json()["error"]["message"]
    assert got.headers["x-should-retry"] == "false"
    if wire is not WireFormat.MESSAGES:
        assert got.json()["error"]["code"] == "idempotency_key_reused"


OTHERS: dict[str, tuple[Mapping[str, str], Mapping[str, str]]] = {
    "another key": (KEY, {"idempotency-key": "k-2"}),
    "no key": ({}, {}),
    "another caller": (KEY | {"x-api-key": "one"}, KEY | {"x-api-key": "two"}),
    "another credential": (
        KEY | {"x-pointsman-key": "one", "authorization": "Bearer a"},
        KEY | {"x-pointsman-key": "one", "authorization": "Bearer b"},
    ),
    "parts moved": (
        KEY | {"x-pointsman-key": "one", "authorization": "ab", "x-api-key": "c"},
        KEY | {"x-pointsman-key": "one", "authorization": "a", "x-api-key": "bc"},
    ),
}


@pytest.mark.parametrize(("first", "second"), OTHERS.values(), ids=OTHERS)
def test_what_is_another_request(first: Mapping[str, str], second: Mapping[str, str]) -> None:
    async def run() -> None:
        upstream = Waiting()
        gateway = served(upstream, *(("one", "two") if len(first) > 1 else ()))
        for headers in (first, second):
            got = await post(gateway, headers=headers)
            assert (got.status, got.headers.get("x-pointsman-replayed")) == (200, None)
        assert len(upstream.calls) == 2

    uvloop.run(run())


class Kept:
    """Answers of a test, by key, on a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.handled = 0
        self.headers: Headers = []
        self.answers = IdempotentAnswers(Metrics(), lambda: self.now)

    async def ask(
        self, key: str, size: int = 1_000, *, broken: bool = False, parts: int = 1, caller: str = ""
    ) -> bytes:
        """Ask with a key, and return the body; an answer handled here has ``size`` bytes."""
        wire, headers = FORMATS[WireFormat.CHAT], {b"idempotency-key": key.encode()}
        body = bytes(bytearray(b'{"model":"m"}'))  # each request has its own
        inbound = InboundRequest(wire, headers, [], b"", Body(wire, body), 0.0, caller=caller)
        got: list[bytes] = []

        async def send(message: MutableMapping[str, Any]) -> None:
            got.append(message.get("body", b""))

        async def handle(noting: Callable[[MutableMapping[str, Any]], Any]) -> int:
            self.handled += 1
            await noting({"type": "http.response.start", "status": 200, "headers": list(self.headers)})
            for number in range(parts):
                piece = b"x" * ((size - 1) // parts + ((size - 1) % parts if not number else 0))
                await noting({"type": "http.response.body", "body": piece, "more_body": True})
            if broken:
                raise ConnectionError
            await noting({"type": "http.response.body", "body": b"y"})
            return 200

        await self.answers.answer(inbound, send, handle)
        return b"".join(got)


def test_for_a_minute() -> None:
    async def run() -> None:
        kept = Kept()
        await kept.ask("a")
        kept.now = 59.9
        await kept.ask("a")
        assert kept.handled == 1
        kept.now = 60.1
        await kept.ask("a")
        assert kept.handled == 2
        kept.now = 200.0
        await kept.ask("b")
        beside = kept.answers._kept.held - (1_000 + len(b'{"model":"m"}'))
        assert beside == idempotency._PER_ENTRY

    uvloop.run(run())


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotency, "_TOTAL", 100_000)
    monkeypatch.setattr(idempotency, "_LONGEST", 10_000)

    async def run() -> None:
        kept = Kept()
        for number in range(50):
            assert len(await kept.ask(f"k-{number}", 5_000)) == 5_000
            assert kept.answers._kept.held <= 100_000
        assert kept.handled == 50
        await kept.ask("k-49")
        assert kept.handled == 50
        await kept.ask("k-0")
        assert kept.handled == 51, "the oldest went first"
        for _ in range(2):
            await kept.ask("long", 10_001)
        assert kept.handled == 53
        for _ in range(2):
            with pytest.raises(ConnectionError):
                await kept.ask("broken", broken=True)
        assert kept.handled == 55
        assert kept.answers.bytes_coming == 0

    uvloop.run(run())


def test_one_caller_pushes_out_its_own_answers_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, one caller that sent ever new keys made the answers to all others forgotten."""
    monkeypatch.setattr(idempotency, "_TOTAL", 100_000)

    async def run() -> None:
        kept = Kept()
        await kept.ask("k", 5_000, caller="alice")
        for number in range(50):
            await kept.ask(f"k-{number}", 5_000, caller="bob")
        await kept.ask("k", caller="alice")
        await kept.ask("k-49", caller="bob")
        assert kept.handled == 51
        await kept.ask("k-0", caller="bob")
        await kept.ask("k", caller="bob")
        assert kept.handled == 53

    uvloop.run(run())


def test_a_stream_that_breaks_is_not_repeated() -> None:
    class Broken(Waiting):
        async def send(self, call: Call) -> Exchange:
            exchange = await super().send(call)
            assert isinstance(exchange, _Answer)
            del exchange._left[2:]
            return exchange

    async def run() -> None:
        upstream = Broken()
        gateway = served(upstream)
        for number in (1, 2):
            assert b"before the answer was whole" in (await post(gateway, stream=True)).body
            assert len(upstream.calls) == number

    uvloop.run(run())
