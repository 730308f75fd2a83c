"""More connections and log lines than anybody means; and every kind of attack at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from attacks.base import ASKED, Attack, Bound, Gateway, large_answer, post, running, talk
from attacks.healthy import healthy, percentile

__all__ = ["ATTACKS"]

_CONNECTIONS: Final = 2_000  # nearly twice the default limit
_LIMIT: Final = 1_024 + 128  # with those that wait for their 503
_SECONDS: Final = 8.0
_LARGEST: Final = 300.0  # MB of memory
#: Milliseconds at the 99th percentile, and how many times what the same machine takes without an attack.
_SLOWEST: Final = 50.0

_HALF_HEAD: Final = post(ASKED, b"x: " + b"v" * 60_000)[:-100]
_UNKNOWN: Final = b'{"model":"there-is-none","messages":[{"role":"user","content":"hi"}]}'


def _opened(gateway: Gateway, count: int, sent: bytes, held: contextlib.ExitStack) -> None:
    """Open connections that send something and stay."""
    for _ in range(count):
        with contextlib.suppress(OSError):
            connection = held.enter_context(gateway.connect())
            connection.sendall(sent)


def _idle(sent: bytes, count: int, folder: Path) -> Iterator[Bound]:
    with running(folder) as gateway, contextlib.ExitStack() as held:
        before = gateway.memory()
        _opened(gateway, count, sent, held)
        yield Bound("serves others", gateway.serves(), 1, 1)
        yield Bound("connections open", gateway.connections(), _LIMIT)
        yield Bound("MB more", gateway.memory() - before, 150)


def _refused(folder: Path) -> Iterator[Bound]:
    """One kind of refusal, thousands of times: each was a line of the log."""
    with running(folder) as gateway, gateway.connect() as connection:
        before = gateway.logged()
        for _ in range(2_000):
            talk(connection, post(_UNKNOWN), b"}}")
        yield Bound("log bytes for 2,000", gateway.logged() - before, 10_000)


def _again_and_again(act: Callable[[], object], stop: threading.Event) -> None:
    while not stop.is_set():
        with contextlib.suppress(OSError):
            act()


def _talk_once(gateway: Gateway, sent: bytes, until: bytes | None = None) -> None:
    with gateway.connect() as connection:
        talk(connection, sent, until)


def _loads(gateway: Gateway, held: contextlib.ExitStack) -> list[Callable[[], object]]:
    """Each kind of attack once, to be made again and again."""
    from attacks.bodies import SHAPES

    shapes = [
        post(SHAPES[name]()) for name in ("tool calls", "members", "half surrogates", "allowed members")
    ]
    turn = iter(range(1 << 30))

    def half_heads() -> None:
        _opened(gateway, 20, _HALF_HEAD, held)
        time.sleep(0.2)

    return [
        lambda: _talk_once(gateway, b"CONNECT a:1 HTTP/1.1\r\n\r\n" * 50),
        lambda: _talk_once(gateway, shapes[next(turn) % len(shapes)], b"}"),
        lambda: _talk_once(gateway, post(_UNKNOWN) * 20, b"}}"),
        lambda: _talk_once(gateway, post(b'{"score":1}', path=b"/v1/decisions/d-0-1/outcome") * 20, b"}}"),
        half_heads,
    ]


def _together(folder: Path) -> Iterator[Bound]:
    """Unread answers, unfinished bodies, half heads, and what is refused, while a healthy caller asks."""
    with (
        large_answer(28_000_000) as url,
        running(folder, url, healthy_model=b"demo") as gateway,
        contextlib.ExitStack() as held,
    ):
        with healthy(gateway) as alone:
            time.sleep(3)
        stop = threading.Event()
        threads = [
            threading.Thread(target=_again_and_again, args=(act, stop)) for act in _loads(gateway, held)
        ]
        with healthy(gateway) as waited:
            _opened(gateway, 10, post(ASKED.replace(b"auto", b"small")), held)
            body = b'{"model":"auto","messages":[{"role":"user","content":"' + b"x" * 31_000_000
            unfinished = threading.Thread(target=_opened, args=(gateway, 6, post(body)[:-10], held))
            for thread in (*threads, unfinished):
                thread.start()
            time.sleep(_SECONDS)
            stop.set()
            for thread in (*threads, unfinished):
                thread.join()
        alone_slowest = percentile(alone)
        yield Bound("99th percentile without an attack, ms", alone_slowest, float("inf"), is_time=True)
        slowest = max(_SLOWEST, 2 * alone_slowest)  # a machine that is busy with something else
        yield Bound("99th percentile of others, ms", percentile(waited), slowest, is_time=True)
        yield Bound("others asked", len(waited), float("inf"), 20)
        yield Bound("peak memory, MB", gateway.peak(), _LARGEST)
        yield Bound("serves others", gateway.serves(), 1, 1)


def _connections(sent: bytes, count: int) -> Callable[[Path], Iterator[Bound]]:
    return lambda folder: _idle(sent, count, folder)


ATTACKS: Final = (
    Attack(f"{_CONNECTIONS:,} connections that send nothing", _connections(b"", _CONNECTIONS), is_quick=True),
    Attack(f"{_CONNECTIONS:,} half heads of 60 kB", _connections(_HALF_HEAD, _CONNECTIONS)),
    Attack("2,000 requests for an unknown model", _refused, is_quick=True),
    Attack("all at once", _together),
)
