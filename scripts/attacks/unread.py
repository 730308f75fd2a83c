"""Callers who ask and read nothing of what they are answered."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from attacks.base import ASKED, Attack, Bound, large_answer, post, running

__all__ = ["ATTACKS"]

_CALLERS = 10
_ANSWER = 28_000_000  # bytes
_DEADLINE = 8  # seconds, as configured here


def _whole(folder: Path) -> Iterator[Bound]:
    """Large answers that are not streams."""
    limits = f"[server]\nlimits = {{ unread_seconds = {_DEADLINE} }}"
    with (
        large_answer(_ANSWER) as url,
        running(folder, url, limits) as gateway,
        contextlib.ExitStack() as open_,
    ):
        before = gateway.memory()
        for _ in range(_CALLERS):
            open_.enter_context(connection := gateway.connect())
            connection.sendall(post(ASKED))
        time.sleep(6)
        yield Bound("MB held after 6 s", gateway.memory() - before, 100)
        time.sleep(_DEADLINE + 2)
        yield Bound("MB held after the deadline", gateway.memory() - before, 40)


def _pages(folder: Path) -> Iterator[Bound]:
    """The gateway's own pages, asked for many times at once."""
    limits = f"[server]\nlimits = {{ unread_seconds = {_DEADLINE} }}"
    with running(folder, more=limits) as gateway, contextlib.ExitStack() as open_:
        before = gateway.memory()
        for _ in range(_CALLERS):
            open_.enter_context(connection := gateway.connect())
            connection.settimeout(0.5)
            with contextlib.suppress(OSError):
                connection.sendall(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n" * 5_000)
        time.sleep(_DEADLINE + 4)
        yield Bound("MB held after the deadline", gateway.memory() - before, 40)
        yield Bound("serves others", gateway.serves(), 1, 1)


def _trickled(folder: Path) -> Iterator[Bound]:
    """Large answers of which a byte is taken now and then: each was kept for ever."""
    limits = f"[server]\nlimits = {{ unread_seconds = {_DEADLINE} }}"
    with (
        large_answer(_ANSWER) as url,
        running(folder, url, limits) as gateway,
        contextlib.ExitStack() as open_,
    ):
        before = gateway.memory()
        callers = [open_.enter_context(gateway.connect()) for _ in range(_CALLERS)]
        for connection in callers:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.sendall(post(ASKED))
        end = time.monotonic() + 2 * _DEADLINE + 2
        while time.monotonic() < end:
            for connection in callers:
                with contextlib.suppress(OSError):
                    connection.recv(1, socket.MSG_DONTWAIT)
            time.sleep(0.5)
        yield Bound("MB held after twice the deadline", gateway.memory() - before, 40)
        yield Bound("connections open", gateway.connections(), 1)


ATTACKS = (
    Attack(f"{_CALLERS} callers who take a byte now and then", _trickled),
    Attack(f"{_CALLERS} callers who read nothing of {_ANSWER // 1_000_000} MB", _whole),
    Attack(f"{_CALLERS} callers who ask for pages and read none", _pages),
)
