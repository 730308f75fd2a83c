"""Limits of what an upstream sends: beyond each the caller gets one clear error, and nothing is held."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from pointsman.gateway import _answer_budget, _attempts, _relay
from pointsman.gateway._answer_budget import AnswerBudget
from pointsman.gateway.app import Gateway
from pointsman.testing import MemoryLedger
from pointsman.vocabulary import WireFormat
from pointsman.wire import sse
from support.deciders import ScriptedDecider
from support.in_process import Received, ask
from support.requests_by_format import PATHS, answer, events, request
from support.scripted_upstreams import listening
from support.servers import state_for
from support.waiting import eventually

pytestmark = pytest.mark.integration

LIMITS: dict[str, Any] = {"answer_bytes": 100_000, "stream_bytes": 400_000}
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
COMMENT = b": waiting\n\n"


def whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        status,
        len(body),
        body,
    )


class Raw:
    """Answers every connection with some bytes, then with more of the same until it is closed."""

    def __init__(self, first: bytes, then: bytes = b"", pause: float = 0.0) -> None:
        self.first, self.then, self.pause = first, then, pause
        self.asked = self.closed = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        self.asked += 1
        try:
            writer.write(self.first)
            await asyncio.sleep(0.02)  # so that the rest arrives apart; on a busy machine it may not
            while self.then:
                writer.write(self.then)
                await writer.drain()
                await asyncio.sleep(self.pause)
            await reader.read()
        finally:
            self.closed += 1


@asynccontextmanager
async def before(raw: Raw, **limits: Any) -> AsyncIterator[Gateway]:
    """A gateway before such an upstream."""
    async with listening(raw) as port:
        decider = ScriptedDecider("m0", ledger=MemoryLedger())
        state = state_for(f"http://127.0.0.1:{port}/v1", decider=decider, **LIMITS | limits)
        gateway = Gateway(state)
        try:
            yield gateway
        finally:
            state.close()


def asked(raw: Raw, wire: WireFormat, *, stream: bool) -> Received:
    async def run() -> Received:
        async with before(raw) as gateway, asyncio.timeout(60):
            got = await ask(gateway, PATHS[wire], request(wire, stream=stream))
            client = gateway.state.upstreams["up0"].client
            assert not client._active  # type: ignore[attr-defined]
            await eventually(lambda: raw.closed == raw.asked)
            return got

    got = uvloop.run(run())
    assert raw.asked == 1
    return got


#: What an upstream sends first and then without end, what the message says, and the end of the code.
BEFORE: dict[str, tuple[bytes, bytes, str, str]] = {
    "a long answer": (whole(b'"' + b"x" * 200_000), b"", "more than 100000 bytes", "too_large"),
    "an answer without end": (
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"x" * 10_000,
        "more than 100000 bytes",
        "too_large",
    ),
    "comments": (STREAM, COMMENT * 100, "before its first event", "too_large"),
    "blank lines": (STREAM, b"\n\n" * 1_000, "before its first event", "too_large"),
    "an event": (STREAM + b"data: ", b"x" * 10_000, "event of more than 100000 bytes", "too_large"),
    "CR": (STREAM + b"data: {}\r\rdata: {}\r\r", b"", "with CR alone", "malformed"),
    "status 101": (
        b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        b"",
        "switches protocols, with status 101",
        "malformed",
    ),
    "status 600": (whole(b"{}", b"600 Odd"), b"", "status 600", "malformed"),
    "status 999": (whole(b"{}", b"999 Odd"), b"", "status 999", "malformed"),
    "status 1xx": (b"", b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" * 9, "kB of headers", "too_large"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 99, "kB of headers", "too_large"),
    "300 headers": (
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 300 + b"content-length: 2\r\n\r\n{}",
        b"",
        "more than 256 of them",
        "too_large",
    ),
}


@pytest.mark.parametrize(("first", "then", "says", "code"), BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("wire", WireFormat)
def test_before_the_first_event(wire: WireFormat, first: bytes, then: bytes, says: str, code: str) -> None:
    got = asked(Raw(first, then), wire, stream=True)
    assert got.status == 502
    error = got.json()["error"]
    assert says in error["message"]
    if wire is WireFormat.MESSAGES:
        assert got.json()["type"] == "error"
    else:
        assert error["code"] == f"upstream_{code}"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (COMMENT * 100, b"stream of more than 400000 bytes"),
        (b"data: " + b"x" * 10_000, b"event of more than 100000 bytes"),
        (b"data: {}\r\r" * 1_000, b"with CR alone"),
    ],
    ids=["comments", "one event", "CR"],
)
@pytest.mark.parametrize("wire", WireFormat)
def test_after_the_first_event(wire: WireFormat, more: bytes, says: bytes) -> None:
    got = asked(Raw(STREAM + events(wire)[0], more), wire, stream=True)
    if got.status == 200:  # else all of it came at once, before the first event had gone out
        assert got.body.startswith(events(wire)[0])
        assert got.body.endswith(b"\n\n")
    assert says in got.body[-600:]
    assert b'"error"' in got.body[-600:]


#: The beginning of an event, and of what it goes on with.
WITHOUT_END = {"one line": (b"data: ", b"x" * 65_536), "many lines": (b"", b"data: x\n" * 8_192)}


@pytest.mark.parametrize("begins", [False, True], ids=["before an event", "after one"])
@pytest.mark.parametrize(("start", "part"), WITHOUT_END.values(), ids=WITHOUT_END)
@pytest.mark.parametrize("wire", WireFormat)
def test_an_event_without_end_is_not_read(wire: WireFormat, start: bytes, part: bytes, begins: bool) -> None:
    """What is cut off is held once and dropped; reading it took five to fifteen times its size."""
    raw, size = Raw(STREAM + events(wire)[0] * begins + start, part), 4_000_000

    async def run() -> int:
        async with before(raw, answer_bytes=size, stream_bytes=10 * size) as gateway, asyncio.timeout(60):
            tracemalloc.start()
            try:
                got = await ask(gateway, PATHS[wire], request(wire, stream=True))
                most = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert b"an event of more than" in got.body[-600:]
            assert gateway.bodies.answers.held == 0
            return most

    assert uvloop.run(run()) < 2 * size


@pytest.mark.parametrize("begins", [False, True], ids=["before an event", "after one"])
@pytest.mark.parametrize("wire", WireFormat)
def test_an_event_that_breaks_off_is_not_held(wire: WireFormat, begins: bool) -> None:
    """Cycles of references are looked for rarely: forty such streams held 90 MB until then."""
    head = STREAM.replace(b"connection: close", b"content-length: 1000000")

    class HangingUp(Raw):
        async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"}")
            writer.write(self.first)

    raw = HangingUp(head + events(wire)[0] * begins + b"data: " + b"x" * 50_000)

    async def run() -> tuple[bytes, int]:
        async with before(raw) as gateway, asyncio.timeout(60):
            got = await ask(gateway, PATHS[wire], request(wire, stream=True))
            return got.body, sum(isinstance(each, sse.Splitter) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        body, held = uvloop.run(run())
    finally:
        gc.enable()
    assert b"the connection to the upstream broke off" in body
    assert held == 0


@pytest.mark.parametrize("begins", [False, True], ids=["before an event", "after one"])
@pytest.mark.parametrize("wire", WireFormat)
def test_unfinished_events_share_the_room_of_large_answers(wire: WireFormat, begins: bool) -> None:
    """However many streams grow an event at once, they hold no more than one total."""
    raw = Raw(STREAM + events(wire)[0] * begins + b"data: ", b"x" * 65_536)

    async def run() -> Received:
        bounds: dict[str, Any] = {"answer_bytes": 4_000_000, "stream_bytes": 40_000_000}
        async with before(raw, **bounds) as gateway, asyncio.timeout(60):
            gateway.bodies.answers = AnswerBudget(4_000_000)
            gateway.bodies.answers.take_now(3_000_000)  # another's
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_answer_budget, "_PATIENCE", 0.01)
                got = await ask(gateway, PATHS[wire], request(wire, stream=True))
            assert gateway.bodies.answers.held == 3_000_000
            return got

    got = uvloop.run(run())
    assert b"the answers of all requests in progress exceed the limit" in got.body[-600:]
    assert got.status == (200 if begins else 503)


@pytest.mark.parametrize("lines", [1, 50_000])
@pytest.mark.parametrize("wire", WireFormat)
def test_a_large_event_that_ends_goes_through_as_it_came(wire: WireFormat, lines: int) -> None:
    first, *rest = events(wire)
    large = b"event: acme.picture\n" + b"data: %s\n" % (b"x" * (3_000_000 // lines)) * lines + b"\n"
    sent = first + large + large + b"".join(rest)
    raw = Raw(STREAM.replace(b"connection: close", b"content-length: %d" % len(sent)) + sent)

    async def run() -> Received:
        async with before(raw, answer_bytes=4_000_000, stream_bytes=40_000_000) as gateway:
            gateway.bodies.answers = AnswerBudget(100_000)  # alone, one larger than all of it has room
            async with asyncio.timeout(60):
                got = await ask(gateway, PATHS[wire], request(wire, stream=True))
            assert gateway.bodies.answers.held == 0
            return got

    assert uvloop.run(run()).body == sent


@pytest.mark.parametrize("begins", [False, True], ids=["before an event", "after one"])
@pytest.mark.parametrize("wire", WireFormat)
def test_comments_are_no_progress(wire: WireFormat, begins: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upstream that keeps a stream open without an event is given up as one that is silent."""
    clock = count(1.0, 200.0)
    steady = SimpleNamespace(**vars(time) | {"monotonic": lambda: next(clock)})
    monkeypatch.setattr(_attempts, "time", steady)
    monkeypatch.setattr(_relay, "time", steady)
    got = asked(Raw(STREAM + events(wire)[0] * begins, COMMENT, 0.001), wire, stream=True)
    said = b"sent no event for too long" if begins else b"sent only comments for too long"
    assert said in got.body[-600:]
    assert got.status == (200 if begins else 504)


@pytest.mark.parametrize("wire", WireFormat)
def test_a_long_error_keeps_its_status(wire: WireFormat) -> None:
    """Its text, which explains nothing at that length, is left out."""
    got = asked(Raw(whole(b"x" * 2_000_000, b"400 Bad Request")), wire, stream=False)
    assert got.status == 400
    assert "answered with status 400" in got.json()["error"]["message"]


@pytest.mark.parametrize("wire", WireFormat)
def test_what_stands_behind_an_answer_is_nobodys(wire: WireFormat) -> None:
    """The next request must not get what came unasked with the answer to the one before."""
    raw = Raw(whole(answer(wire)) + b"HTTP/1.1 200 OK\r\nx-of-another: 1\r\n")

    async def run() -> list[Received]:
        async with before(raw) as gateway, asyncio.timeout(60):
            return [await ask(gateway, PATHS[wire], request(wire)) for _ in range(2)]

    first, second = uvloop.run(run())
    assert first.body == second.body == answer(wire)
    assert "x-of-another" not in second.headers
    assert raw.asked == 2
