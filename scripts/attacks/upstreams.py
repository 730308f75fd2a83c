"""Upstreams that send what none should, and large answers to many keys."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attacks.base import ANSWER, ASKED, Attack, Bound, Gateway, Upstream, post, running, whole

__all__ = ["ATTACKS"]

_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
_EVENT = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
_SHOWN = 1_000_000  # bytes of an answer that are looked at
_POISON = ASKED.replace(b'"hi"', b'"poison"')


def _ask(gateway: Gateway, body: bytes, *headers: bytes) -> bytes:
    """Ask on a new connection, and return the answer: its beginning and its end, if it is long."""
    first, last = b"", b""
    with gateway.connect() as connection, contextlib.suppress(ConnectionError, TimeoutError):
        connection.settimeout(60)
        connection.sendall(post(body, b"connection: close", *headers))
        while more := connection.recv(1 << 18):
            if len(first) < _SHOWN:
                first += more
            else:
                last = (last + more)[-_SHOWN:]
    return first + last


#: What an upstream sends, then without end, and the status that the caller gets.
_SENT: dict[str, tuple[bytes, bytes, int]] = {
    "an answer": (b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n", b"x" * 65_536, 502),
    "an event": (_STREAM + b"data: ", b"x" * 65_536, 502),
    "an event in small parts": (_STREAM + b"data: ", b"x" * 500, 502),
    "comments": (_STREAM, b": wait\n\n" * 50, 502),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 100, 502),
    "status 103": (b"", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", 502),
    "events after the first": (_STREAM + _EVENT, _EVENT * 500, 200),
    "status 101": (b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", b"", 502),
    "status 999": (whole(b"999 X"), b"", 502),
    "lines with CR": (_STREAM + b"data: {}\r\rdata: {}\r\r", b"", 502),
}


def _without_end(folder: Path) -> Iterator[Bound]:
    """Answers, events, comments and headers that do not end, one after the other."""
    sent = [""]

    def says(body: bytes) -> tuple[bytes, bytes]:
        return (whole(b"200 OK"), b"") if b"poison" not in body else _SENT[sent[0]][:2]

    with Upstream(says).running() as url, running(folder, url) as gateway:
        before, right = gateway.memory(), 0
        for name, (_, _, status) in _SENT.items():
            sent[0] = name
            got = _ask(gateway, _POISON)
            right += got.startswith(b"HTTP/1.1 %d" % status) and b'"error"' in got[-1_000:]
        yield Bound("told as an error", right, len(_SENT), len(_SENT))
        yield Bound("MB held afterwards", gateway.memory() - before, 100)
        yield Bound("s of CPU", gateway.cpu() / 1_000, 20, is_time=True)
        yield Bound("serves others", gateway.serves(), 1, 1)


def _repeated(folder: Path) -> Iterator[Bound]:
    """One request with an idempotency key, sent 50 times at once, and large answers to many keys."""
    long = whole(b"200 OK", ANSWER.replace(b'"hi"', b'"' + b"x" * 900_000 + b'"'))
    upstream = Upstream(lambda body: (long if b"poison" in body else whole(b"200 OK"), b""))
    with upstream.running() as url, running(folder, url) as gateway:
        before = len(upstream.heads)
        with ThreadPoolExecutor(50) as pool:
            got = list(pool.map(lambda _: _ask(gateway, ASKED, b"idempotency-key: k"), range(50)))
        yield Bound("of 50 served", sum(each.startswith(b"HTTP/1.1 200") for each in got), 50, 50)
        yield Bound("requests upstream for 50 of one key", len(upstream.heads) - before, 1, 1)
        held = gateway.memory()
        for number in range(100):
            _ask(gateway, _POISON, b"idempotency-key: k-%d" % number)
        yield Bound("MB held for 100 answers of .9 MB", gateway.memory() - held, 60)


ATTACKS = (
    Attack(f"upstream that sends what none should, {len(_SENT)} ways", _without_end),
    Attack("upstream asked with one idempotency key", _repeated, is_quick=True),
)
