"""The upstream client against servers that say exactly what a test lets them say, with and without TLS."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import trustme
import uvloop

from pointsman.errors import UpstreamError, UpstreamTimeout, UpstreamUnavailable
from pointsman.upstreams.port import Exchange, Timeouts
from support.scripted_upstreams import CALL, OK, Serve, Server, ask, client_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration

#: More than an answer's buffer and what the kernel holds for two sockets.
LONG = 16 << 20


WHOLE = {
    "length": OK,
    "chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    "trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n",
    "a word before": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK,
    "lower-case reason, no reason": b"HTTP/1.1 200\r\nCONTENT-LENGTH: 5\r\n\r\nhello",
    "until it closes": b"HTTP/1.1 200 OK\r\n\r\nhello",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\nhello",
}


@pytest.mark.parametrize("one_by_one", [False, True], ids=["at once", "byte by byte"])
@pytest.mark.parametrize("answer", WHOLE.values(), ids=WHOLE)
def test_an_answer_is_read_however_it_is_framed(answer: bytes, one_by_one: bool) -> None:
    server = Server(answer, then_close=True, one_by_one=one_by_one)

    async def run() -> tuple[int, bytes]:
        async with client_of(server) as client:
            return await ask(client)

    assert uvloop.run(run()) == (200, b"hello")
    [asked] = server.asked
    assert asked.startswith(b"POST /v1/chat/completions?a=b HTTP/1.1\r\nhost: 127.0.0.1:")
    assert asked.endswith(b'content-length: 13\r\n\r\n{"model":"m"}')


BROKEN = {
    "cut in the body": OK[:-1],
    "cut in the head": OK[:20],
    "cut in a chunk": WHOLE["chunks"][:-12],
    "cut before the last chunk": WHOLE["chunks"][:-5],
    "a chunk of no size": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
    "not HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
def test_half_an_answer_is_never_taken_for_a_whole_one(answer: bytes) -> None:
    async def run() -> None:
        async with client_of(Server(answer, then_close=True)) as client:
            await ask(client)

    with pytest.raises(UpstreamError):
        uvloop.run(run())


@pytest.mark.parametrize(
    ("answers", "connections"),
    [
        ([OK, OK, OK], 1),
        ([WHOLE["chunks"], WHOLE["trailers"], OK], 1),
        ([OK[:15] + b"\r\nconnection: close" + OK[15:]] * 3, 3),
        ([b"HTTP/1.1 204 No Content\r\n\r\n", OK, OK], 1),
    ],
    ids=["length", "chunks", "close", "no content"],
)
def test_a_connection_is_used_again_where_the_upstream_keeps_it(
    answers: list[bytes], connections: int
) -> None:
    server = Server(*answers)

    async def run() -> None:
        async with client_of(server) as client:
            for _ in answers:
                await ask(client)

    uvloop.run(run())
    assert (server.connections, len(server.asked)) == (connections, 3)


def test_a_connection_that_is_closed_while_idle_costs_no_request() -> None:
    may_close = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(CALL.body)
        writer.write(OK)
        await may_close.wait()

    async def run() -> None:
        async with client_of(serve) as client:
            assert await ask(client) == (200, b"hello")
            may_close.set()  # the next request may come before this is seen, or after: both must do
            assert await ask(client) == (200, b"hello")

    uvloop.run(run())


@pytest.mark.parametrize(
    "word",
    [
        b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n",
    ],
    ids=["408", "connection: close"],
)
def test_a_parting_word_on_an_idle_connection_answers_nothing(word: bytes) -> None:
    hung_up = asyncio.Event()
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(CALL.body)
        writer.write(OK)
        while hung_up.is_set():
            await reader.readuntil(CALL.body)
            writer.write(OK)
        if not hung_up.is_set():
            await asyncio.sleep(0)
            writer.write(word)
            await reader.read()
            hung_up.set()

    async def run() -> None:
        async with client_of(serve) as client:
            assert await ask(client) == (200, b"hello")
            await asyncio.wait_for(hung_up.wait(), 60)
            assert [await ask(client) for _ in range(3)] == [(200, b"hello")] * 3
            assert connections == 2  # it was said for that connection alone

    uvloop.run(run())


@pytest.mark.parametrize("apart", [False, True])
def test_an_upstream_that_answers_twice_gets_a_connection_for_each_request(
    caplog: pytest.LogCaptureFixture, *, apart: bool
) -> None:
    """What came second would answer the next request on that connection, which may be another caller's."""
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(CALL.body)
        writer.write(OK if apart else OK * 2)
        if apart and not closed.is_set():
            await asyncio.sleep(0.05)  # the answer has been read by then
            writer.write(OK)
        await reader.read()  # until the client hangs up
        closed.set()

    async def run() -> None:
        async with client_of(serve) as client:
            for _ in range(3):
                assert await asyncio.wait_for(ask(client), 60) == (200, b"hello")
                await asyncio.wait_for(closed.wait(), 60)

    uvloop.run(run())
    [warning] = [
        record.getMessage() for record in caplog.records if record.name == "pointsman.upstreams.http"
    ]
    assert warning.startswith('upstream "up" sent an unsolicited response')


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()  # until the client has had enough


async def _trickling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never silent for long, and never done."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    while not reader.at_eof() and not writer.is_closing():
        writer.write(b"x")
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("serve", "timeouts"),
    [(_silent, Timeouts(first_byte=0.05)), (_trickling, Timeouts(first_byte=30, total=0.05))],
    ids=["silent", "too long"],
)
def test_time_is_bounded(serve: Serve, timeouts: Timeouts) -> None:
    async def run() -> None:
        async with client_of(serve, timeouts) as client:
            await ask(client)

    with pytest.raises(UpstreamTimeout):
        uvloop.run(run())


def test_time_is_bounded_when_the_client_was_closed_meanwhile() -> None:
    async def run() -> None:
        asked = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await _silent(reader, writer)

        async with client_of(serve, Timeouts(first_byte=0.05)) as client, asyncio.timeout(30):
            asking = asyncio.ensure_future(ask(client))
            await asked.wait()
            client.close()
            await asking

    with pytest.raises(UpstreamTimeout):
        uvloop.run(run())


def test_an_upstream_that_waits_for_a_slow_caller_is_not_silent() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(CALL.body)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % LONG + bytes(LONG))
        await writer.drain()

    async def run() -> int:
        async with client_of(serve, Timeouts(first_byte=1.0)) as client:
            exchange = await client.send(CALL)
            length = len(await exchange.next())
            await asyncio.sleep(2.0)  # the caller takes nothing for longer than an upstream may be silent
            assert length < LONG  # it was held back
            return length + len(await exchange.read())

    assert uvloop.run(run()) == LONG


def test_nobody_listens() -> None:
    async def run() -> None:
        async with client_of(Server()) as client:
            taken = client
        await ask(taken)

    with pytest.raises(UpstreamUnavailable, match="cannot be reached"):
        uvloop.run(run())


def test_closing_an_unfinished_answer_hangs_up() -> None:
    left = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK[:-1])
        with suppress(ConnectionError):
            await reader.read()
        left.set()

    async def run() -> None:
        async with client_of(serve) as client:
            exchange: Exchange = await client.send(CALL)
            exchange.close()
            await asyncio.wait_for(left.wait(), 60)

    uvloop.run(run())


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def _identity(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """An authority of the operator's own, named as OpenSSL's programs are told of one."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return authority


async def ask_over_tls(serve: Serve, authority: trustme.CA, *, name: str = "localhost") -> tuple[int, bytes]:
    """Ask a server that proves to be ``name`` as "localhost"."""
    async with client_of(serve, tls=_identity(authority, name), host="localhost") as client:
        return await ask(client)


def test_over_tls(trusted: trustme.CA) -> None:
    server = Server(OK, WHOLE["chunks"])

    async def run() -> list[tuple[int, bytes]]:
        async with client_of(server, tls=_identity(trusted, "localhost"), host="localhost") as client:
            return [await ask(client), await ask(client)]

    assert uvloop.run(run()) == [(200, b"hello")] * 2
    assert server.connections == 1


def test_half_an_answer_over_tls(trusted: trustme.CA) -> None:
    with pytest.raises(UpstreamError):
        uvloop.run(ask_over_tls(Server(OK[:-1], then_close=True), trusted))


def test_a_certificate_that_nobody_vouches_for_is_refused(authority: trustme.CA) -> None:
    with pytest.raises(UpstreamUnavailable, match=r"certificate is refused: .*issuer"):
        uvloop.run(ask_over_tls(Server(OK), authority))


def test_a_certificate_of_another_name_is_refused(trusted: trustme.CA) -> None:
    with pytest.raises(UpstreamUnavailable, match=r"certificate is refused: .*localhost"):
        uvloop.run(ask_over_tls(Server(OK), trusted, name="example.org"))
