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
        log = logging.getLogger("unused")
        cycle = kind(
            scope=cast("Any", {"method": method}),
            transport=cast("Any", transport),
            flow=FlowControl(cast("Any", transport)),
            logger=log,
            access_logger=log,
            access_log=False,
            default_headers=[(b"x-content-type-options", b"nosniff")],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=lambda: closed.append(False),
        )
        try:
            for message in messages:
                await cycle.send(message)
        except RuntimeError as error:
            return str(error)
        return f"{cycle.response_complete}"

    return asyncio.run(run()), b"".join(writes), closed


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
