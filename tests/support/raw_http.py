"""Bytes to a server and back, for what no HTTP library would send."""

import socket
import time
from collections.abc import Sequence

ASKED = b'{"model":"auto","messages":[{"role":"user","content":"hi"}]}'
JSON = b"content-type: application/json"


def head(*headers: bytes, path: bytes = b"/v1/chat/completions", length: int | None = len(ASKED)) -> bytes:
    """The head of a request that says how long its body is."""
    sized = [b"content-length: %d" % length] if length is not None else []
    return b"\r\n".join([b"POST %s HTTP/1.1" % path, b"host: localhost", *sized, *headers, b"", b""])


def talk(port: int, *parts: bytes, until: bytes = b"}") -> bytes:
    """Send the parts one after the other; return what comes until something was seen or the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for number, part in enumerate(parts):
            if number:
                time.sleep(0.02)  # so that it arrives apart
            connection.sendall(part)
        return _read(connection, until)


def is_closed(connection: socket.socket) -> bool:
    """Wait for the server to close a connection."""
    try:
        return b"" in iter(lambda: connection.recv(1 << 16), None)
    except ConnectionError:
        return True


def _read(connection: socket.socket, until: bytes) -> bytes:
    got = b""
    while until not in got:
        more = connection.recv(1 << 16)
        if not more:
            break
        got += more
    return got


def statuses(answers: bytes) -> Sequence[bytes]:
    """The status of each answer in some bytes."""
    return [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]]
