"""Bodies of the largest size allowed, in every shape that is dear to read; and bodies without an end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

from attacks.base import Attack, Bound, large_answer, post, running, talk
from attacks.healthy import healthy, percentile

__all__ = ["ATTACKS", "SHAPES"]

_SIZE: Final = 31_000_000
_SECONDS: Final = 3.0
#: Milliseconds at the 99th percentile: twice what one decoding of an allowed body takes.
_SLOWEST: Final = 150.0
_LARGEST: Final = 300.0  # MB of memory

_HEAD: Final = b'{"model":"auto","messages":['
_SPOKEN: Final = b'{"role":"user","content":"hi"}'
_CALL: Final = b'{"id":"c%d","type":"function","function":{"name":"f","arguments":"{}"}}'
_CALLED: Final = (
    b'{"role":"assistant","tool_calls":[' + _CALL + b']},{"role":"tool","tool_call_id":"c%d","content":"ok"}'
)


def _said(inside: bytes) -> bytes:
    return _HEAD + b'{"role":"user","content":' + inside + b"}]}"


def _beside(member: bytes) -> bytes:
    return _HEAD + _SPOKEN + b"]," + member + b"}"


def _many(unit: bytes, between: bytes = b",") -> bytes:
    return between.join([unit] * (_SIZE // (len(unit) + len(between))))


SHAPES: Final[dict[str, Callable[[], bytes]]] = {
    "tool calls": lambda: _HEAD + b",".join(_CALLED % (n, n) for n in range(190_000)) + b"]}",
    "calls of one message": lambda: (
        _HEAD + b'{"role":"assistant","tool_calls":[' + b",".join(_CALL % n for n in range(400_000)) + b"]}]}"
    ),
    "members": lambda: _beside(b",".join(b'"m%d":1' % n for n in range(2_600_000))),
    "allowed members": lambda: _beside(b",".join(b'"m%d":1' % n for n in range(249_000))),
    "one name": lambda: _beside(_many(b'"x":1')),
    "items": lambda: _HEAD + _many(b"{}") + b"]}",
    "deep": lambda: _said(b"[" + _many(b"[" * 900 + b"]" * 900) + b"]"),
    "allowed depth": lambda: _said(b"[" + b",".join([b"[" * 900 + b"]" * 900] * 270) + b"]"),
    "wide": lambda: _said(b"[" + _many(b"{}") + b"]"),
    "half surrogates": lambda: _said(b'"' + _many(rb"\ud83d", b"") + b'"'),
    "escapes": lambda: _said(rb'"\ud83d' + _many(rb"\n", b"") + b'"'),
    "huge number": lambda: _beside(b'"x":' + b"9" * _SIZE),
    "long string": lambda: _said(b'"' + _many(b"word ", b"") + b'"'),
}


def _sent_again_and_again(name: str, folder: Path) -> Iterable[Bound]:
    asked = post(SHAPES[name]())
    # "demo:" would read the body once more, on the loop: not what a provider does
    with large_answer(10) as url, running(folder, url) as gateway:
        with healthy(gateway) as waited:
            until = time.monotonic() + _SECONDS
            while time.monotonic() < until:
                with gateway.connect() as connection:
                    talk(connection, asked, b"}")
        yield Bound("99th percentile of others, ms", percentile(waited), _SLOWEST, is_time=True)
        yield Bound("peak memory, MB", gateway.peak(), _LARGEST)


def _unfinished(folder: Path) -> Iterable[Bound]:
    """Twenty callers send all of a body but its end."""
    asked = post(_said(b'"' + b"x" * _SIZE + b'"'))[:-10]
    with running(folder) as gateway, contextlib.ExitStack() as held:
        with healthy(gateway) as waited:
            for _ in range(20):
                connection = held.enter_context(gateway.connect())
                with contextlib.suppress(ConnectionError, TimeoutError):
                    connection.sendall(asked)
            time.sleep(1)
        yield Bound("99th percentile of others, ms", percentile(waited), _SLOWEST, is_time=True)
        yield Bound("memory, MB", gateway.memory(), _LARGEST)
        yield Bound("others are served", gateway.serves(), 1, 1)


ATTACKS: Final = (
    *(
        Attack(f"a body of {name}", partial(_sent_again_and_again, name), is_quick=name == "tool calls")
        for name in SHAPES
    ),
    Attack("bodies without an end", _unfinished),
)
