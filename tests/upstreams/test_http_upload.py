"""Bodies that the client sends while they arrive: their framing, their connection, and how they break off."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop

from pointsman.errors import TooLarge, UpstreamError
from pointsman.upstreams.port import Call, Timeouts
from support.scripted_upstreams import CALL, OK, client_of

pytestmark = pytest.mark.integration


class Body:
    """An ``Upload`` of some parts; an error among them is raised in its turn."""

    def __init__(self, *parts: bytes | Exception, size: int | None = None) -> None:
        self.size = size
        self.parts: list[bytes | Exception] = list(parts)

    async def next(self) -> bytes:
        await asyncio.sleep(0)
        part = self.parts.pop(0) if self.parts else b""
        if isinstance(part, Exception):
            raise part
        return part


def upload(*parts: bytes | Exception, size: int | None = None) -> Call:
    return Call(b"/files", [(b"content-type", b"a/b")], b"", upload=Body(*parts, size=size))


class Recorder:
    """Keeps what each connection was sent until a mark, and answers."""

    def __init__(self, *marks: bytes, answer: bytes = OK) -> None:
        self.marks = list(marks)
        self.answer = answer
        self.sent: list[bytes] = []
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while got := await reader.read(1 << 16):
            mark = self.marks.pop(0)
            while not got.endswith(mark):
                more = await reader.read(1 << 16)
                if not more:
                    self.sent.append(got)
                    return
                got += more
            self.sent.append(got)
            writer.write(self.answer)
            await writer.drain()


async def _ask_all(recorder: Recorder, calls: Iterable[Call]) -> list[bytes]:
    answers = []
    async with client_of(recorder) as client:
        for call in calls:
            exchange = await client.send(call)
            answers.append(await exchange.read())
            exchange.close()
    return answers


def test_the_framing() -> None:
    recorder = Recorder(b"one-two", b"0\r\n\r\n", b"\r\n\r\n", b"\r\n\r\n")
    calls = [
        upload(b"one", b"-two", size=7),
        upload(b"one", b"-two" * 5),
        upload(size=0),
        Call(b"/files/f", [], b"", b"DELETE"),
    ]
    assert uvloop.run(_ask_all(recorder, calls)) == [b"hello"] * 4
    sized, chunked, empty, delete = (sent.partition(b"\r\n\r\n") for sent in recorder.sent)
    assert sized[0].endswith(b"\r\ncontent-length: 7")
    assert sized[2] == b"one-two"
    assert chunked[0].endswith(b"\r\ntransfer-encoding: chunked")
    assert chunked[2] == b"3\r\none\r\n14\r\n" + b"-two" * 5 + b"\r\n0\r\n\r\n"
    assert empty[0].endswith(b"\r\ncontent-length: 0")
    assert delete[0].startswith(b"DELETE /v1/files/f HTTP/1.1\r\n")
    assert b"content-length" not in delete[0]


def test_an_upload_takes_a_new_connection_and_leaves_it_to_others() -> None:
    """A kept one might turn out to be closed, and a body that was not kept cannot be sent again."""
    recorder = Recorder(CALL.body, b"end", CALL.body)
    assert uvloop.run(_ask_all(recorder, [CALL, upload(b"end", size=3), CALL])) == [b"hello"] * 3
    assert recorder.connections == 2


@pytest.mark.parametrize("error", [TooLarge("too large"), RuntimeError("left")])
def test_what_ends_the_body_ends_the_request(error: Exception) -> None:
    recorder = Recorder(b"never")
    with pytest.raises(type(error), match=str(error)):
        uvloop.run(_ask_all(recorder, [upload(b"begun", error, size=100)]))
    [got] = recorder.sent
    assert got.endswith(b"begun"), "the upstream must not take it for whole"


def test_an_answer_before_the_end_of_the_body() -> None:
    """It is the answer; what is left of the body is not sent, and the connection is not used again."""
    recorder = Recorder(b"begun", CALL.body)

    async def run() -> bytes:
        async with client_of(recorder) as client:
            body = Body(b"begun", size=100)
            waiting = asyncio.Event()

            async def never() -> bytes:
                if body.parts:
                    return bytes(body.parts.pop() or b"")  # type: ignore[arg-type]
                await waiting.wait()
                return b""

            body.next = never  # type: ignore[method-assign]
            exchange = await client.send(Call(b"/files", [], b"", upload=body))
            answer = await exchange.read()
            exchange.close()
            return answer + await (await client.send(CALL)).read()

    assert uvloop.run(run()) == b"hellohello"
    assert recorder.connections == 2


def test_an_upload_into_silence_ends_with_the_timeout() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(-1)

    async def run() -> None:
        async with client_of(silent, Timeouts(connect=10, first_byte=0.2, total=60)) as client:
            await client.send(upload(b"end", size=3))

    with pytest.raises(UpstreamError, match="did not answer in time"):
        uvloop.run(run())


class Unread:
    """Answers once the head of a request has come; a large body is not read at all."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.connections = 0
        self.ended = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while not self.ended.is_set():
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(self.answer)
            await writer.drain()
            if b"content-length: %d\r" % _MUCH in head:
                await self.ended.wait()
            else:
                await reader.readexactly(len(CALL.body))


#: Bytes of a body: more than the sockets of both ends hold.
_MUCH = 16 << 20


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_an_answer_to_a_body_that_is_not_read(connection: str, *, is_encrypted: bool, tmp_path: Path) -> None:
    """The rest of the body lies before the next request, which would wait for an answer behind it."""
    server = Unread(OK.replace(b"\r\n\r\n", b"\r\nconnection: %b\r\n\r\n" % connection.encode()))
    spec: dict[str, Any] = {}
    if is_encrypted:
        authority = trustme.CA()
        spec["ca_file"] = tmp_path / "ca.pem"
        authority.cert_pem.write_to_path(str(spec["ca_file"]))
        spec["tls"] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(spec["tls"])

    async def run() -> list[bytes]:
        answers = []
        async with client_of(server, **spec) as client:
            for body in (b"a" * _MUCH, CALL.body, CALL.body):
                exchange = await client.send(Call(b"/chat/completions", [], body))
                answers.append(await exchange.read())
                exchange.close()
            assert len(client._idle) == (1 if connection == "keep-alive" else 0)
            server.ended.set()
        return answers

    async def run_in_time() -> list[bytes]:
        try:
            return await asyncio.wait_for(run(), 5)
        finally:
            server.ended.set()

    assert uvloop.run(run_in_time()) == [b"hello"] * 3
    assert server.connections == (2 if connection == "keep-alive" else 3)
