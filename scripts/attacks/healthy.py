"""A caller that does nothing wrong, and how long it waits."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence

from attacks.base import ASKED, Gateway, post, talk

__all__ = ["healthy", "percentile"]


def _waits(gateway: Gateway, stop: threading.Event, waited: list[float]) -> None:
    """Ask small questions one after the other, and note the milliseconds that each answer took."""
    asked = ASKED.replace(b"auto", gateway.healthy_model)
    with gateway.connect() as connection:
        while not stop.is_set():
            began = time.perf_counter()
            if not talk(connection, post(asked, b"x-n: %d" % len(waited)), b"}").startswith(b"HTTP/1.1 200"):
                connection.close()
                return
            waited.append((time.perf_counter() - began) * 1e3)
            time.sleep(0.004)


@contextlib.contextmanager
def healthy(gateway: Gateway) -> Iterator[list[float]]:
    """Ask as a healthy caller does meanwhile; the list is complete behind the block."""
    waited: list[float] = []
    stop = threading.Event()
    thread = threading.Thread(target=_waits, args=(gateway, stop, waited))
    thread.start()
    try:
        yield waited
    finally:
        stop.set()
        thread.join()


def percentile(waited: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return sorted(waited)[int(len(waited) * 0.99)] if waited else float("inf")
