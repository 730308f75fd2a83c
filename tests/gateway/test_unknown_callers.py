"""What callers without a key may hold of a gateway with keys: no connection that another caller needs."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from pointsman.console import _login
from pointsman.gateway import _protocol as protocol
from pointsman.upstreams.port import Limits
from support.consoles import KEY, console_gateway, with_keys
from support.raw_http import ASKED, JSON, head, is_closed, statuses, talk
from support.servers import Running, gateway
from support.waiting import until

pytestmark = pytest.mark.integration

MOST = 4
LIVE = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"
STATIC = b"GET /console/static/vendor/uPlot.iife.min.js HTTP/1.1\r\nhost: localhost\r\n\r\n"
SIGNED_IN = b"key=" + KEY.encode()


def login(length: int) -> bytes:
    form = b"content-type: application/x-www-form-urlencoded"
    return head(form, path=b"/console/login", length=length)


@contextlib.contextmanager
def guarded(**limits: Any) -> Iterator[Running]:
    config = with_keys(KEY)
    server = msgspec.structs.replace(config.server, port=0, limits=Limits(**limits))
    with gateway(console_gateway(msgspec.structs.replace(config, server=server))) as running:
        yield running


def ask(running: Running) -> bytes:
    return talk(running.port, head(JSON, b"authorization: Bearer " + KEY.encode()) + ASKED)


def connected(stack: contextlib.ExitStack, running: Running, *parts: bytes) -> socket.socket:
    """Ask, and read the answers to all parts but the last; a file finds the smallest window there is."""
    connection = stack.enter_context(socket.socket())
    if STATIC in parts:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", running.port))
    for number, part in enumerate(parts):
        if number:
            assert statuses(connection.recv(1 << 16)) == [b"200"]
        connection.sendall(part)
    return connection


def all_have(running: Running, condition: Any) -> bool:
    found = list(running.server.server_state.connections)
    return len(found) == MOST and all(condition(one) for one in found)


WAYS: dict[str, tuple[tuple[bytes, ...], Callable[[Any], Any]]] = {
    "half a second head": ((LIVE, b"G"), lambda one: one._arriving.size),
    "an answer not taken": (
        (STATIC,),
        lambda one: one.cycle and one.cycle.response_complete and one.transport.get_write_buffer_size(),
    ),
    "a login that does not arrive": ((login(10),), lambda one: one.cycle),
}


@pytest.mark.parametrize(("parts", "condition"), WAYS.values(), ids=WAYS)
def test_who_holds_a_connection_makes_room(parts: tuple[bytes, ...], condition: Any) -> None:
    with guarded(connections=MOST) as running, contextlib.ExitStack() as stack:
        for _ in range(MOST):
            connected(stack, running, *parts)
        until(lambda: all_have(running, condition))
        assert statuses(ask(running)) == [b"200"]
        until(lambda: len(running.server.server_state.connections) == MOST - 1)


def test_who_is_idle_goes_before_who_is_in_the_midst_of_something() -> None:
    with guarded(connections=MOST) as running, contextlib.ExitStack() as stack:
        busy = [
            connected(stack, running, LIVE, b"GET /health"),
            connected(stack, running, STATIC),
            connected(stack, running, login(len(SIGNED_IN))),
        ]
        idle = connected(stack, running, LIVE)
        assert statuses(idle.recv(1 << 16)) == [b"200"]
        until(lambda: len(running.server.server_state.connections) == MOST)
        assert statuses(ask(running)) == [b"200"]
        assert is_closed(idle)
        busy[2].sendall(SIGNED_IN)
        assert statuses(busy[2].recv(1 << 16)) == [b"303"]


def test_a_login_is_short() -> None:
    """It was read up to 256 kB, of every caller at once."""
    with guarded() as running:
        got = talk(running.port, login(4_097), until=b"</html>")
        assert statuses(got) == [b"413"]
        chunked = login(0).replace(b"content-length: 0", b"transfer-encoding: chunked")
        got = talk(running.port, chunked + b"1001\r\n" + b"x" * 4_097, until=b"</html>")
        assert statuses(got) == [b"413"]
        got = talk(running.port, login(len(SIGNED_IN)) + SIGNED_IN, until=b"\r\n\r\n")
        assert statuses(got) == [b"303"]


def test_a_body_that_nobody_reads_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_SWEEP_EVERY", 0.01)
    monkeypatch.setattr(protocol, "_WITHOUT_REQUEST", 1 << 40)
    with guarded() as running, contextlib.ExitStack() as stack:
        refused = connected(stack, running, head(JSON, length=60_000) + b"x" * 50_000)
        assert statuses(refused.recv(1 << 16)) == [b"401"]
        [connection] = running.server.server_state.connections
        until(lambda: not connection.cycle.body)  # type: ignore[union-attr]
        refused.sendall(b"x" * 10_000 + LIVE)
        assert statuses(refused.recv(1 << 16)) == [b"200"]


def test_a_login_arrives_soon_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_login, "_LOGIN_SECONDS", 0.05)
    with guarded() as running:
        got = talk(running.port, login(10) + b"key", until=b"</html>")
    assert statuses(got) == [b"400"]
    assert b"did not arrive in time" in got


def test_nobody_keeps_an_operator_out_with_logins_that_do_not_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_login, "_MOST_ARRIVING", 2)
    monkeypatch.setattr(_login, "_LOGIN_SECONDS", 600.0)
    with guarded() as running, contextlib.ExitStack() as stack:
        first, second = (connected(stack, running, login(len(SIGNED_IN))) for _ in range(2))
        until(lambda: len(running.server.server_state.tasks) == 2)
        got = talk(running.port, login(len(SIGNED_IN)) + SIGNED_IN, until=b"\r\n\r\n")
        assert statuses(got) == [b"303"]
        endings = sorted((first, second), key=lambda one: one.getsockname())
        ended = [one for one in endings if _has_answer(one)]
        assert len(ended) == 1, "the oldest alone"
        [left] = [one for one in endings if one is not ended[0]]
        left.sendall(SIGNED_IN)
        assert statuses(left.recv(1 << 16)) == [b"303"]


def _has_answer(connection: socket.socket) -> bool:
    connection.settimeout(0.5)
    try:
        return statuses(connection.recv(1 << 16)) == [b"503"]
    except TimeoutError:
        return False
    finally:
        connection.settimeout(60)


def test_a_login_that_breaks_off_is_no_failure_of_the_gateway(caplog: pytest.LogCaptureFixture) -> None:
    """Each one logged a traceback."""
    with caplog.at_level(logging.INFO), guarded() as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
            connection.sendall(login(10) + b"key")
            until(lambda: running.server.server_state.tasks)
        until(lambda: not running.server.server_state.tasks)
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []
    assert not [record for record in caplog.records if record.exc_info]
