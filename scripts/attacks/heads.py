"""Heads of requests that are none, or too many, or too long."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from attacks.base import ASKED, Attack, Bound, post, running, talk

__all__ = ["ATTACKS"]

_CONNECT = b"CONNECT a:1 HTTP/1.1\r\n\r\n"
_UPGRADE = (b"connection: upgrade, http2-settings", b"upgrade: h2c", b"http2-settings: AAMAAABkAAQAAP__")
_TIMES = 100


def _repeated(sent: bytes, times: int, cpu: float, folder: Path) -> Iterator[Bound]:
    """Send the same on one connection after the other; ``cpu``: ms that one may cost."""
    with running(folder) as gateway:
        spent, logged, memory = gateway.cpu(), gateway.logged(), gateway.memory()
        for _ in range(times):
            with gateway.connect() as connection:
                talk(connection, sent)
        yield Bound("CPU ms each", (gateway.cpu() - spent) / times, cpu, is_time=True)
        yield Bound("log bytes each", (gateway.logged() - logged) / times, 200)
        yield Bound("peak MB more", gateway.peak() - memory, 10)
        yield Bound("serves others", gateway.serves(), 1, 1)


def _trickled(folder: Path) -> Iterator[Bound]:
    """One head, byte by byte."""
    with running(folder) as gateway, gateway.connect() as connection:
        spent, sent = gateway.cpu(), 0
        with contextlib.suppress(ConnectionError):
            for sent in range(8_000):
                connection.send(
                    b"v" if sent > 30 else b"GET / HTTP/1.1\r\nx-trickled-head: "[sent : sent + 1]
                )
                time.sleep(0)
        yield Bound("CPU ms for 8,000 bytes", gateway.cpu() - spent, 1_000, is_time=True)
        yield Bound("serves others", gateway.serves(), 1, 1)


def _flood(folder: Path) -> Iterator[Bound]:
    """Offers of another protocol, thousands in one write: each once made the next one go a level deeper."""
    with running(folder) as gateway, gateway.connect() as connection:
        spent, logged = gateway.cpu(), gateway.logged()
        last = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        offer = b"\r\n".join((b"GET /health/live HTTP/1.1", b"host: localhost", *_UPGRADE, b"", b""))
        got = talk(connection, offer * 2_000 + last)
        yield Bound("answers", got.count(b"HTTP/1.1 200"), 2_001, 100)
        yield Bound("CPU ms each", (gateway.cpu() - spent) / 2_001, 2, is_time=True)
        yield Bound("log bytes", gateway.logged() - logged, 1_000)


_WIDE = _CONNECT[:-2] + b"a:b\r\n" * 10_800 + b"\r\n"  # 54 kB

ATTACKS = (
    Attack("CONNECT with 10,800 headers", partial(_repeated, _WIDE, 10, 5), is_quick=True),
    Attack("CONNECT", partial(_repeated, _CONNECT, _TIMES, 2)),
    Attack("CONNECT with requests behind it", partial(_repeated, _CONNECT + post(ASKED) * 50, _TIMES, 2)),
    Attack(
        "CONNECT with a head of 54 kB", partial(_repeated, _CONNECT[:8] + b"a" * 54_000 + _CONNECT[9:], 10, 5)
    ),
    Attack(
        "head of 54 kB", partial(_repeated, post(b"{}", b"connection: close", b"x: " + b"v" * 54_000), 10, 5)
    ),
    Attack("head of 1 MB", partial(_repeated, post(ASKED, b"x: " + b"v" * 1_000_000), 10, 10), is_quick=True),
    Attack("10,000 headers", partial(_repeated, post(ASKED, *[b"a:"] * 10_000), 10, 10)),
    Attack("HTTP/2 at once", partial(_repeated, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(18), _TIMES, 2)),
    Attack("not HTTP", partial(_repeated, b"\x16\x03\x01\x02\x00" + bytes(512), _TIMES, 2)),
    Attack("head byte by byte", _trickled),
    Attack("2,000 upgrades in one write", _flood),
)
