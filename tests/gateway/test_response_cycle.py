"""Answers are the same bytes as uvicorn's, and the same errors."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from pointsman.gateway._response_cycle import ResponseCycle

DEFAULT = [(b"x-content-type-options", b"nosniff")]
LENGTH = [(b"content-type", b"text/plain"), (b"content-length", b"5")]
HELLO = {"type": "http.response.body", "body": b"hello"}
PARTS = [
    {"type": "http.response.body", "body": b"hel", "more_body": True},
    {"type": "http.response.body", "body": b"", "more_body": True},
    {"type": "http.response.body", "body": b"lo", "more_body": True},
    {"type": "http.response.body", "body": b""},
]


def start(status: int = 200, headers: Any = LENGTH) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": headers}


def answered(
    kind: type[Any], method: str, messages: list[Any], *, keep_alive: bool = True
) -> tuple[Any, ...]:
    """What is written, and how it ends: the error, and whether the connection is closed."""
    writes: list[bytes] = []
    closed: list[bool] = []
    transport = SimpleNamespace(
        write=writes.append, close=lambda: closed.append(True), is_closing=lambda: False
    )

    async def run() -> str:
        cycle = made(kind, method, transport, lambda: closed.append(False), keep_alive=keep_alive)
        try:
            for message in messages:
                await cycle.send(message)
        except RuntimeError as error:
            return str(error)
        return f"{cycle.response_complete}"

    return asyncio.run(run()), b"".join(writes), closed


def made(kind: type[Any], method: str, transport: Any, on_response: Any, *, keep_alive: bool = True) -> Any:
    """A request that is answered over a transport."""
    scope, flow = {"method": method, "http_version": "1.1"}, FlowControl(transport)
    if kind is ResponseCycle:
        protocol = SimpleNamespace(
            transport=transport,
            flow=flow,
            server_state=SimpleNamespace(default_headers=DEFAULT),
            on_response_complete=on_response,
            expect_100_continue=False,
        )
        return ResponseCycle(cast("Any", protocol), cast("Any", scope), keep_alive=keep_alive)
    log = logging.getLogger("unused")
    return kind(
        scope=scope,
        transport=transport,
        flow=flow,
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=DEFAULT,
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=on_response,
    )


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize(
    "messages",
    [
        [start(), HELLO],
        [start(404), HELLO],
        [start(headers=[]), HELLO],
        [start(headers=tuple(LENGTH)), HELLO],
        [start(headers=[]), *PARTS],
        [start(), *PARTS],
        [start(204, []), {"type": "http.response.body"}],
        [start(304, []), {"type": "http.response.body"}],
        [start(headers=[(b"Content-Length", b"5")]), HELLO],
        [start(headers=[*LENGTH, (b"connection", b"close")]), HELLO],
        [start(headers=[(b"transfer-encoding", b"chunked")]), HELLO],
        [start(headers=[*LENGTH, (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]), HELLO],
        [start(headers=[*LENGTH, (b"x", b"caf\xe9\t ok")]), HELLO],
        # what no answer may hold, and what comes at the wrong time
        [start(headers=[(b"x", b"a\r\nset-cookie: b=1")]), HELLO],
        [start(headers=[(b"x", b"a\x00")]), HELLO],
        [start(headers=[(b"x\r\ny", b"a")]), HELLO],
        [start(headers=[(b"x y", b"a")]), HELLO],
        [start(headers=[(b"x: y", b"a")]), HELLO],
        [start(headers=[(b"content-length", b"4")]), HELLO],
        [start(headers=[(b"content-length", b"6")]), HELLO],
        [HELLO],
        [start(), start()],
        [start(), HELLO, HELLO],
        [start(), HELLO, start()],
    ],
)
def test_the_bytes_and_the_errors_are_those_of_uvicorn(
    messages: list[Any], method: str, keep_alive: bool
) -> None:
    theirs = answered(RequestResponseCycle, method, messages, keep_alive=keep_alive)
    assert answered(ResponseCycle, method, messages, keep_alive=keep_alive) == theirs


@given(st.lists(st.tuples(st.binary(max_size=6), st.binary(max_size=6)), max_size=3))
def test_any_headers_are_written_or_refused_as_by_uvicorn(headers: list[tuple[bytes, bytes]]) -> None:
    messages = [start(headers=headers), *PARTS]
    assert answered(ResponseCycle, "POST", messages) == answered(RequestResponseCycle, "POST", messages)


def written(method: str, *messages: Any) -> list[bytes]:
    """Each write of an application that sends these messages and ends."""
    writes: list[bytes] = []
    transport = SimpleNamespace(write=writes.append, close=lambda: writes.append(b"closed"))

    async def run() -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            for message in messages:
                await send(message)

        await made(ResponseCycle, method, transport, lambda: None).run_asgi(app)

    asyncio.run(run())
    return writes


def test_the_head_goes_out_with_the_first_of_the_body() -> None:
    assert len(written("POST", start(), HELLO)) == 1
    first, second, end = written("POST", start(headers=[]), PARTS[0], PARTS[2], PARTS[3])
    assert first.endswith(b"3\r\nhel\r\n")
    assert (second, end) == (b"2\r\nlo\r\n", b"0\r\n\r\n")


def test_of_a_page_the_head_does_not_wait() -> None:
    """A page may send its first event long after its head."""
    assert len(written("GET", start(), HELLO)) == 2


def test_an_answer_that_breaks_off_keeps_its_head(caplog: pytest.LogCaptureFixture) -> None:
    head, closed = written("POST", start())
    assert head.startswith(b"HTTP/1.1 200")
    assert closed == b"closed"
    assert "without completing response" in caplog.text


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("paused", [True, False])
def test_a_caller_of_http_1_0_gets_no_chunks(method: str, paused: bool) -> None:
    """It does not know them (RFC 9112, section 6.1): what it got was read as a part of the answer."""
    writes: list[bytes] = []
    transport = SimpleNamespace(write=writes.append, close=lambda: writes.append(b"closed"))

    async def run() -> None:
        cycle = made(ResponseCycle, method, transport, lambda: None, keep_alive=False)
        cycle.scope["http_version"] = "1.0"
        await cycle.send(start(headers=[(b"content-type", b"text/event-stream")]))
        assert not cycle.piece(b"hel")
        if paused:
            cycle.flow.pause_writing()
            asyncio.get_running_loop().call_soon(cycle.flow.resume_writing)
        await asyncio.gather(*map(cycle.send, PARTS[:3]))
        await cycle.send(PARTS[3])
        assert cycle.response_complete

    asyncio.run(run())
    assert writes.pop() == b"closed"
    head, _, body = b"".join(writes).partition(b"\r\n\r\n")
    assert body == b"hello"
    assert b"transfer-encoding" not in head
    assert head.endswith(b"connection: close")


def test_nothing_sent_is_an_error_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    [answer] = [b"".join(written("POST"))]
    assert answer.startswith(b"HTTP/1.1 500")
    assert "without starting response" in caplog.text
