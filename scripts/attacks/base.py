"""What an attack is, and what it is made on: a fresh gateway as a process, before an upstream of ours."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from real_agents.gateway import free_port, memory
from real_agents.gateway import running as serving

from support.threads import serving as in_thread

__all__ = [
    "ANSWER",
    "ASKED",
    "Attack",
    "Bound",
    "Gateway",
    "Upstream",
    "large_answer",
    "post",
    "running",
    "talk",
    "whole",
]

_CHOICE = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
ANSWER = json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [_CHOICE]}).encode()
ASKED = b'{"model":"auto","messages":[{"role":"user","content":"hi"}]}'

_CONFIG = """
[upstreams.main]
base_url = "{url}"
[upstreams.demo]
base_url = "demo:"
[models]
small = {{ upstream = "main", id = "small-1" }}
demo = {{ upstream = "demo", id = "demo-1" }}
[tiers]
simple = "small"
medium = "small"
complex = "small"
reasoning = "small"
[ledger]
path = "{folder}/ledger.sqlite"
{more}
"""


class Bound(NamedTuple):
    """One figure that an attack produced, and what it may be."""

    what: str
    seen: float
    most: float
    least: float = 0.0
    is_time: bool = False  # of a clock: another program on the machine may break it

    @property
    def is_kept(self) -> bool:
        """Whether the figure lies within."""
        return self.least <= self.seen <= self.most


class Attack(NamedTuple):
    """A name, and a function that makes the attack in a folder of its own and yields its figures."""

    name: str
    run: Callable[[Path], Iterable[Bound]]
    is_quick: bool = False  # seconds; made by CI


class Gateway(NamedTuple):
    """A gateway in a process of its own (Linux: its figures are read from /proc)."""

    port: int
    pid: int
    log: Path
    healthy_model: bytes  # what a caller asks for who does nothing wrong

    @property
    def _proc(self) -> Path:
        return Path(f"/proc/{self.pid}")

    def connect(self) -> socket.socket:
        """Return a new connection; what takes longer than ten seconds there fails."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def cpu(self) -> float:
        """Return the milliseconds of CPU used so far."""
        return (
            sum(int((t / "schedstat").read_text().split()[0]) for t in (self._proc / "task").iterdir()) / 1e6
        )

    def memory(self) -> float:
        """Return the resident memory in MB."""
        return memory(self.pid)

    def peak(self) -> float:
        """Return the largest resident memory so far, in MB."""
        found = re.search(r"VmHWM:\s+(\d+) kB", (self._proc / "status").read_text())
        return int(found[1]) * 1024 / 1e6 if found else 0.0

    def logged(self) -> int:
        """Return the bytes of its log."""
        return self.log.stat().st_size

    def connections(self) -> int:
        """Return how many connections of callers are open."""
        established, here = "01", f":{self.port:04X}"
        lines = (self._proc / "net" / "tcp").read_text().splitlines()[1:]
        fields = (line.split() for line in lines)
        return sum(one[1].endswith(here) and one[3] == established for one in fields)

    def serves(self) -> float:
        """Return 1 when a caller who does nothing wrong is served, else 0."""
        asked = ASKED.replace(b"auto", self.healthy_model)
        with self.connect() as connection:
            answer = talk(connection, post(asked), b"}")
            return float(answer.startswith(b"HTTP/1.1 200"))


@contextlib.contextmanager
def running(
    folder: Path,
    url: str = "demo:",
    more: str = "",
    *,
    healthy_model: bytes = b"auto",
) -> Iterator[Gateway]:
    """Start a fresh gateway, ask it once so that it is warm, and end it."""
    config, port = folder / "pointsman.toml", free_port()
    config.write_text(_CONFIG.format(url=url, folder=folder, more=more), encoding="utf-8")
    with serving(config, port) as process:
        gateway = Gateway(port, process.pid, folder / "gateway.log", healthy_model)
        if not gateway.serves():
            raise SystemExit(f"the gateway does not serve:\n{gateway.log.read_text('utf-8')}")
        yield gateway


def post(body: bytes, *headers: bytes, path: bytes = b"/v1/chat/completions") -> bytes:
    """Return a whole request."""
    lines = (b"POST %s HTTP/1.1" % path, b"host: localhost", b"content-type: application/json", *headers)
    return b"\r\n".join((*lines, b"content-length: %d" % len(body), b"", body))


def talk(connection: socket.socket, sent: bytes, until: bytes | None = None) -> bytes:
    """Send, and return what comes until something was seen or the server closes."""
    got = b""
    with contextlib.suppress(ConnectionError, TimeoutError):
        connection.sendall(sent)
        while more := connection.recv(1 << 16):
            got += more
            if until is not None and until in got:
                break
    return got


#: Reads one request's body, and returns what is sent and what is sent after it until nobody listens.
Says = Callable[[bytes], tuple[bytes, bytes]]


def whole(status: bytes, body: bytes = ANSWER, *headers: bytes) -> bytes:
    """Return an answer of an upstream."""
    lines = (b"HTTP/1.1 " + status, b"content-type: application/json", *headers)
    return b"\r\n".join((*lines, b"content-length: %d" % len(body), b"", body))


class Upstream:
    """An upstream in a thread of its own that sends bytes; keeps the heads of what it is asked."""

    def __init__(self, says: Says, *, answers: int = 1_000_000) -> None:
        self.heads: list[bytes] = []
        self._says = says
        self._answers = answers  # on one connection; the next request is read, and the connection closed

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            for number in range(self._answers + 1):
                head = await reader.readuntil(b"\r\n\r\n")
                found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(found[1]) if found else 0)
                self.heads.append(head)
                if number == self._answers:
                    break
                first, then = self._says(body)
                writer.write(first)
                while then:
                    writer.write(then)
                    await writer.drain()
        writer.close()

    def running(self) -> contextlib.AbstractContextManager[str]:
        """Serve; gives the address."""
        return in_thread(self._serve)


def large_answer(size: int) -> contextlib.AbstractContextManager[str]:
    """Run an upstream in this process whose every answer has ``size`` bytes of text; gives its address."""
    body = ANSWER.replace(b'"hi"', b'"' + b"x" * size + b'"')
    answer = whole(b"200 OK", body, b"connection: close")
    return Upstream(lambda _: (answer, b""), answers=1).running()
