"""Outcomes of decisions that there are not, and outcomes without end."""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from attacks.base import ASKED, Attack, Bound, Gateway, post, running, talk

__all__ = ["ATTACKS"]

_LONGEST = b'{"score": 1, "comment": "%s"}' % (b"x" * 3_900)
_PIPELINED = 20  # requests on a connection at once


def _statuses(connection: socket.socket, requests: Sequence[bytes]) -> Counter[bytes]:
    """Send requests, some at once, and count the statuses of their answers."""
    found: Counter[bytes] = Counter()
    for start in range(0, len(requests), _PIPELINED):
        some = requests[start : start + _PIPELINED]
        connection.sendall(b"".join(some))
        got = b""
        seen: list[bytes] = []
        while len(seen) < len(some) and (more := connection.recv(1 << 16)):
            got += more
            seen = re.findall(rb"HTTP/1\.1 (\d{3})", got)
        found.update(seen)
    return found


def _outcome(decision: bytes, body: bytes = _LONGEST) -> bytes:
    return post(body, path=b"/v1/decisions/%s/outcome" % decision)


def _decided(connection: socket.socket) -> bytes:
    """Have one decision made and return its id."""
    answer = talk(connection, post(ASKED), b'"usage"')
    found = re.search(rb"x-pointsman-decision-id: (\S+)", answer)
    if found is None:
        raise SystemExit(f"no decision in the answer: {answer!r}")
    return found[1]


def _written(gateway: Gateway, folder: Path, decision: bytes) -> float:
    """Return the MB of the files of the ledger. Reads a decision first, which waits for the writer."""
    with gateway.connect() as connection:
        talk(
            connection,
            b"GET /v1/decisions/%s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n" % decision,
        )
    return sum(file.stat().st_size for file in folder.glob("ledger.sqlite*")) / 1e6


def _unknown(folder: Path) -> Iterator[Bound]:
    """Outcomes of 5,000 ids that were never given: they were written at 113 MB/s."""
    with running(folder) as gateway, gateway.connect() as connection:
        decision = _decided(connection)
        before, spent = _written(gateway, folder, decision), gateway.cpu()
        found = _statuses(connection, [_outcome(b"d-0-%x" % number) for number in range(5_000)])
        yield Bound("answered 404", found[b"404"], 5_000, 5_000)
        yield Bound("CPU ms each", (gateway.cpu() - spent) / 5_000, 2, is_time=True)
        yield Bound("MB written", _written(gateway, folder, decision) - before, 0.1)
        yield Bound("serves others", gateway.serves(), 1, 1)


def _of_all(folder: Path) -> Iterator[Bound]:
    """All the outcomes there may be of each of 300 decisions: 23 MB for a ledger of 4."""
    with running(folder, more="max_mb = 4") as gateway, gateway.connect() as connection:
        decisions = []
        for _ in range(300):
            with gateway.connect() as other:
                decisions.append(_decided(other))
            _statuses(connection, [_outcome(decisions[-1])] * 20)
        yield Bound("MB of the file", _written(gateway, folder, decisions[0]) - _log(folder), 5)
        asked = [b"GET /v1/decisions/%s HTTP/1.1\r\nhost: localhost\r\n\r\n" % each for each in decisions]
        yield Bound("decisions kept", sum(_is_kept(gateway, each) for each in asked), 300, 300)
        yield Bound("serves others", gateway.serves(), 1, 1)


def _log(folder: Path) -> float:
    """Return the MB of SQLite's log, which has a bound of its own (16 MiB)."""
    return sum(file.stat().st_size for file in folder.glob("ledger.sqlite-*")) / 1e6


def _is_kept(gateway: Gateway, request: bytes) -> int:
    with gateway.connect() as connection:
        return _statuses(connection, [request])[b"200"]


ATTACKS = (
    Attack("outcomes of 5,000 unknown decisions", _unknown),
    Attack("20 outcomes of 300 decisions", _of_all),
)
