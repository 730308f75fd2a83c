"""A caller that does nothing wrong, and how long it waits.

It is a process of its own: threads of the attacker would hold its interpreter longer than the gateway takes.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks.base import ASKED, Gateway, post, talk

__all__ = ["healthy", "percentile"]


@contextlib.contextmanager
def healthy(gateway: Gateway) -> Iterator[list[float]]:
    """Ask as a healthy caller does meanwhile; the list is complete behind the block."""
    waited: list[float] = []
    command = [sys.executable, __file__, str(gateway.port), gateway.healthy_model.decode()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        try:
            yield waited
        finally:
            said, _ = process.communicate(b"enough\n", timeout=60)
            waited += json.loads(said)


def percentile(waited: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return sorted(waited)[int(len(waited) * 0.99)] if waited else float("inf")


def _ask(port: int, model: bytes, stop: threading.Event) -> list[float]:
    """Ask small questions one after the other; return the milliseconds that each answer took."""
    import socket

    waited: list[float] = []
    asked = ASKED.replace(b"auto", model)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        while not stop.is_set():
            began = time.perf_counter()
            if not talk(connection, post(asked, b"x-n: %d" % len(waited)), b"}").startswith(b"HTTP/1.1 200"):
                break
            waited.append((time.perf_counter() - began) * 1e3)
            time.sleep(0.004)
    return waited


def _main() -> None:
    stop = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        stop.set()

    threading.Thread(target=listen, daemon=True).start()
    print("begins", flush=True)
    print(json.dumps(_ask(int(sys.argv[1]), sys.argv[2].encode(), stop)))


if __name__ == "__main__":
    _main()
