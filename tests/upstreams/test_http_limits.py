"""Bounds of the upstream client: connections, idle ones among them, headers, and what is sent twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import uvloop
from msgspec.structs import replace

from pointsman.errors import UpstreamBusy, UpstreamError, UpstreamTimeout, UpstreamUnavailable
from pointsman.upstreams import _connection, http
from pointsman.upstreams.http import HttpClient
from pointsman.upstreams.port import Timeouts, UpstreamSpec
from support.scripted_upstreams import CALL, OK, PATIENT, Server, ask, client_of, listening
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.integration

STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Counting:
    """Answers each request when it is told to, and knows how many are under way at most."""

    def __init__(self) -> None:
        self.open = 0
        self.most = 0
        self.connections = 0
        self.may_answer = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            await reader.readuntil(CALL.body)
            self.open += 1
            self.most = max(self.most, self.open)
            await self.may_answer.wait()
            await asyncio.sleep(0)
            self.open -= 1
            writer.write(OK)


def test_no_more_connections_than_allowed() -> None:
    async def run() -> tuple[int, int, list[tuple[int, bytes]]]:
        server = Counting()
        async with client_of(server, connections=3) as client:
            asking = [asyncio.ensure_future(ask(client)) for _ in range(20)]
            await eventually(lambda: server.open == 3 and len(client._waiting) == 17)
            server.may_answer.set()
            answers = await asyncio.gather(*asking)
        return server.most, server.connections, answers

    most, connections, answers = uvloop.run(run())
    assert (most, connections) == (3, 3)
    assert answers == [(200, b"hello")] * 20


def test_requests_wait_in_the_order_they_came() -> None:
    async def run() -> list[int]:
        served: list[int] = []
        server = Counting()
        async with client_of(server, connections=1) as client:

            async def one(number: int) -> None:
                await ask(client)
                served.append(number)

            asking = [asyncio.ensure_future(one(number)) for number in range(5)]
            await eventually(lambda: len(client._waiting) == 4)
            server.may_answer.set()
            await asyncio.gather(*asking)
        return served

    assert uvloop.run(run()) == [0, 1, 2, 3, 4]


def test_who_waits_too_long_for_a_connection_is_told_why() -> None:
    async def run() -> None:
        server = Counting()
        async with client_of(server, connections=1) as client:
            first = asyncio.ensure_future(ask(client))
            await eventually(lambda: server.open)
            client._spec = replace(client._spec, timeouts=Timeouts(connect=0.05))
            with pytest.raises(UpstreamBusy, match="all connections to the upstream are in use") as caught:
                await ask(client)
            assert caught.value.status == 503
            server.may_answer.set()
            assert await first == (200, b"hello")
            assert await ask(client) == (200, b"hello")

    uvloop.run(run())


@pytest.mark.parametrize(
    "answer", [OK, OK[:-1], b"nonsense\r\n\r\n", b""], ids=["whole", "cut", "no HTTP", "nothing"]
)
def test_a_place_is_given_back_however_an_answer_ends(answer: bytes) -> None:
    async def run() -> int:
        server = Server(*[answer] * 5, then_close=True)
        async with client_of(server, connections=2) as client:
            for _ in range(5):
                try:
                    await ask(client)
                except UpstreamError:
                    assert answer != OK
            return client._free

    assert uvloop.run(run()) == 2


def test_a_place_is_given_back_when_nobody_listens_or_waits_any_more() -> None:
    async def run() -> int:
        async with listening(Server()) as port:
            pass
        client = HttpClient(UpstreamSpec("up", f"http://127.0.0.1:{port}/v1", connections=1))
        with pytest.raises(UpstreamUnavailable, match="cannot be reached"):
            await client.send(CALL)
        server = Counting()
        async with client_of(server, connections=1) as client:
            first = asyncio.ensure_future(ask(client))
            await asyncio.sleep(0)
            others = [asyncio.ensure_future(ask(client)) for _ in range(3)]
            await eventually(lambda: len(client._waiting) == 3)
            first.cancel()  # gives its place away in the same moment as the next two give up
            others[0].cancel()
            others[1].cancel()
            ended = await asyncio.gather(first, *others[:2], return_exceptions=True)
            assert [type(each) for each in ended] == [asyncio.CancelledError] * 3
            server.may_answer.set()
            assert await others[2] == (200, b"hello")
            return client._free

    assert uvloop.run(run()) == 1


def test_an_answer_that_is_closed_twice_gives_one_place_back() -> None:
    async def run() -> int:
        async with client_of(Server(OK[:-1]), connections=2) as client:
            exchange = await client.send(CALL)
            exchange.close()
            exchange.close()
            return client._free

    assert uvloop.run(run()) == 2


def test_connections_that_lie_idle_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_IDLE", 0.05)
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(CALL.body)
        writer.write(OK)
        await reader.read()
        left.set()

    async def run() -> int:
        async with client_of(serve) as client:
            assert await ask(client) == (200, b"hello")
            await asyncio.wait_for(left.wait(), 30)  # nobody asks for anything
            return len(client._idle)

    assert uvloop.run(run()) == 0


def test_time_is_bounded_in_the_second_loop_too() -> None:
    """A loop that ends takes its timers with it; a client may be used from one after another."""
    answers = [OK, b""]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(CALL.body)
        if answer := answers.pop(0):
            writer.write(answer)
        else:
            await reader.read()

    async def run() -> None:
        async with listening(serve) as port, asyncio.timeout(30):
            client._route._port = port
            await ask(client)

    times = Timeouts(first_byte=0.2)
    client = HttpClient(UpstreamSpec("up", "http://127.0.0.1/v1", timeouts=times))
    uvloop.run(run())
    with pytest.raises(UpstreamTimeout):
        uvloop.run(run())


def _lines(count: int, size: int) -> bytes:
    return b"".join(b"x-%d: %s\r\n" % (number, b"a" * size) for number in range(count))


LONG_HEADS = {
    "one header": b"HTTP/1.1 200 OK\r\nx: " + b"a" * 100_000 + b"\r\ncontent-length: 0\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + _lines(1000, 100) + b"content-length: 0\r\n\r\n",
    "without an end": b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000,
    "words before": b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 10_000 + OK,
    "trailers": STREAM + b"5\r\nhello\r\n0\r\n" + _lines(3000, 100),
    "a chunk's extension": STREAM + b"5;x=" + b"a" * 300_000 + b"\r\nhello\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("one_by_one", [False, True], ids=["at once", "in parts"])
@pytest.mark.parametrize("answer", LONG_HEADS.values(), ids=LONG_HEADS)
def test_what_is_no_body_is_bounded(answer: bytes, one_by_one: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(CALL.body)
        step = 10_000 if one_by_one else len(answer)
        for start in range(0, len(answer), step):
            writer.write(answer[start : start + step])
            await writer.drain()
        await reader.read()

    async def run() -> None:
        async with client_of(serve) as client, asyncio.timeout(30):
            await ask(client)

    with pytest.raises(UpstreamError, match="more than 64 kB of headers"):
        uvloop.run(run())


def test_large_headers_and_small_chunks_are_within_bounds() -> None:
    head = b"HTTP/1.1 200 OK\r\n" + _lines(100, 500) + b"transfer-encoding: chunked\r\n\r\n"
    server = Server(head + b"1\r\na\r\n" * 50_000 + b"0\r\n\r\n")

    async def run() -> int:
        async with client_of(server) as client:
            return len((await ask(client))[1])

    assert uvloop.run(run()) == 50_000


def test_trailers_are_no_headers_of_the_next_answer() -> None:
    trailed = STREAM + b"5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n"

    async def run() -> Any:
        async with client_of(Server(trailed, OK)) as client:
            await ask(client)
            exchange = await client.send(CALL)
            await exchange.read()
            return exchange.headers

    assert uvloop.run(run()) == [(b"content-length", b"5")]


def cut_at_the_second(rest: bytes) -> Callable[..., Any]:
    """A server that answers the first request of a connection and cuts the second off after ``rest``."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(CALL.body))
        writer.write(OK)
        asked.append(await reader.readuntil(CALL.body))
        writer.write(rest)

    serve.asked = asked  # type: ignore[attr-defined]
    return serve


@pytest.mark.parametrize("rest", [OK[:20], b"HTTP/1.1 100 Continue\r\n\r\n", OK[:-1]])
def test_a_request_that_was_begun_is_not_sent_again(rest: bytes) -> None:
    server = cut_at_the_second(rest)

    async def run() -> None:
        async with client_of(server) as client:
            await ask(client)
            with pytest.raises(UpstreamError, match="broke off"):
                await ask(client)

    uvloop.run(run())
    assert len(server.asked) == 2  # type: ignore[attr-defined]


def test_a_request_that_an_upstream_held_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connection, "_CLOSE_RACE", 0.0)
    server = cut_at_the_second(b"")

    async def run() -> None:
        async with client_of(server, PATIENT) as client:
            await ask(client)
            with pytest.raises(UpstreamError, match="broke off"):
                await ask(client)

    uvloop.run(run())
    assert len(server.asked) == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("streams", "begun", "seconds"),
    [(True, False, 60), (True, True, 300), (False, False, 300), (False, True, 300)],
)
def test_silence_that_is_waited_for_by_default(
    monkeypatch: pytest.MonkeyPatch, streams: bool, begun: bool, seconds: float
) -> None:
    monkeypatch.setattr(http, "_SWEEP_EVERY", 0.01)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(CALL.body)
        if begun:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n")
        await reader.read()

    async def run() -> None:
        async with client_of(serve, Timeouts()) as client, asyncio.timeout(30):
            asking = asyncio.ensure_future(client.send(msgspec.structs.replace(CALL, streams=streams)))
            while not client._active:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.001)
            [answer] = client._active
            if begun:
                await asking
            answer.silence = seconds - 1  # as the sweep counts
            await asyncio.sleep(0.05)
            assert answer in client._active
            answer.silence = seconds
            with pytest.raises(UpstreamTimeout):
                await (await asking).read()

    uvloop.run(run())
