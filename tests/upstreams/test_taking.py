"""Bytes of an answer are given away when they arrive, but only to whom waits for them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pointsman.upstreams._connection import Connection, Response

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Client:
    """Owns the connection, and wants nothing of it."""

    answer_bytes = 1_000

    def release(self, connection: Connection, *, reusable: bool) -> None:
        """Let the connection be."""

    def distrust(self) -> None:
        """Think well of it."""

    def forget(self, answer: Response) -> None:
        """Let the answer be."""


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def begun(refused: bytes = b"") -> tuple[Connection, Response, list[bytes]]:
    """An answer whose head is there, and what it gives away: all but what holds ``refused``."""
    connection = Connection(Client(), asyncio.get_running_loop())
    calls = SimpleNamespace(write=lambda _: None, abort=lambda: None, close=lambda: None)
    transport: Any = calls
    connection.connection_made(transport)
    answer = connection.begin(b"", b"")
    head = asyncio.ensure_future(answer.head())
    await asyncio.sleep(0)
    connection.data_received(HEAD)
    await head
    taken: list[bytes] = []

    def take(data: bytes) -> bool:
        if refused and refused in data:
            return False
        taken.append(data)
        return True

    answer.take = take
    return connection, answer, taken


def test_who_waits_is_not_woken_for_what_was_taken() -> None:
    async def run() -> None:
        connection, answer, taken = await begun()
        reading = asyncio.ensure_future(answer.next())
        await asyncio.sleep(0)
        connection.data_received(chunk(b"one") + chunk(b"two"))
        await asyncio.sleep(0)
        assert taken == [b"one", b"two"]
        assert not reading.done()
        connection.data_received(b"0\r\n\r\n")
        assert await reading == b""

    asyncio.run(run())


def test_nothing_is_taken_while_the_reader_is_at_work() -> None:
    """It may still be sending what came before."""

    async def run() -> None:
        connection, answer, taken = await begun()
        connection.data_received(chunk(b"one"))
        assert taken == []
        assert await answer.next() == b"one"
        connection.data_received(chunk(b"two"))
        assert taken == []
        assert await answer.next() == b"two"

    asyncio.run(run())


def test_nothing_overtakes_what_was_refused() -> None:
    async def run() -> None:
        connection, answer, taken = await begun(b"two")
        reading = asyncio.ensure_future(answer.next())
        await asyncio.sleep(0)
        connection.data_received(chunk(b"one") + chunk(b"two") + chunk(b"three"))
        connection.data_received(chunk(b"four"))
        assert taken == [b"one"]
        assert await reading == b"twothreefour"

    asyncio.run(run())


def test_who_waits_learns_that_the_answer_broke_off() -> None:
    async def run() -> None:
        connection, answer, taken = await begun()
        reading = asyncio.ensure_future(answer.next())
        await asyncio.sleep(0)
        connection.data_received(chunk(b"one"))
        connection.connection_lost(None)
        with pytest.raises(Exception, match="broke off"):
            await reading
        assert taken == [b"one"]

    asyncio.run(run())


def test_what_is_taken_is_no_reason_for_back_pressure() -> None:
    async def run() -> None:
        connection, answer, taken = await begun()
        reading = asyncio.ensure_future(answer.next())
        await asyncio.sleep(0)
        for _ in range(100):
            connection.data_received(
                chunk(b"x" * 4_000)
            )  # the double of a transport has no ``pause_reading``
        assert len(taken) == 100
        reading.cancel()

    asyncio.run(run())
