"""What is another caller's; bodies read in two ways; pages whose name leads here; words on disk."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from attacks.base import ASKED, Attack, Bound, post, running, talk

__all__ = ["ATTACKS"]

_HASHES = [f'"sha256:{hashlib.sha256(name).hexdigest()}"' for name in (b"alice", b"bob")]
_KEYS = f"[server]\nkeys = [{', '.join(_HASHES)}]"
_CANARY = "canary-0f3a"


def _as(caller: bytes) -> bytes:
    return b"authorization: Bearer " + caller


def _get(path: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join((b"GET %s HTTP/1.1" % path, b"host: localhost", *headers, b"", b""))


def _status(connection: socket.socket, request: bytes) -> int:
    """Send a request, and return the status of its answer; 0 where none came."""
    found = re.match(rb"HTTP/1\.1 (\d{3})", talk(connection, request, b"\r\n\r\n"))
    return int(found[1]) if found else 0


def _others(folder: Path) -> Iterator[Bound]:
    """What one key made, asked for with another: each was answered."""
    with running(folder, more=_KEYS, headers=(_as(b"alice"),)) as gateway:

        def ask(request: bytes) -> bytes:
            with gateway.connect() as connection:
                return talk(connection, request.replace(b"\r\n", b"\r\nconnection: close\r\n", 1))

        answer = ask(post(b'{"model":"auto","input":"hi"}', _as(b"alice"), path=b"/v1/responses"))
        decision = re.search(rb"x-pointsman-decision-id: (\S+)", answer)
        made = re.search(rb'"id": ?"(resp[^"]+)"', answer)
        if decision is None or made is None:
            raise SystemExit(f"no decision, or no response: {answer!r}")
        goes_on = b'{"model":"auto","input":"on","previous_response_id":"%s"}' % made[1]
        asked = [
            _get(b"/v1/decisions/" + decision[1], _as(b"bob")),
            post(b'{"score":0}', _as(b"bob"), path=b"/v1/decisions/%s/outcome" % decision[1]),
            post(goes_on, _as(b"bob"), path=b"/v1/responses"),
        ]
        yield Bound("of 3 answered with 200 or 202", sum(b" 20" in ask(each)[:13] for each in asked), 0)
        own = _get(b"/v1/decisions/" + decision[1], _as(b"alice"))
        yield Bound("the caller's own", float(ask(own).startswith(b"HTTP/1.1 200")), 1, 1)


def _read_in_two_ways(folder: Path) -> Iterator[Bound]:
    """Bodies of which two readers could read two models."""
    names = (
        b'"model":"other"',
        b'"Model":"other"',
        b'"MODEL":"other"',
        b'"mod\\u0065l":"other"',
        b'"n":1,"n":2',
    )
    with running(folder) as gateway:
        found = []
        for name in names:
            for body in (ASKED[:-1] + b"," + name + b"}", b"{" + name + b", " + ASKED[1:]):
                with gateway.connect() as connection:
                    found.append(_status(connection, post(body)))
        yield Bound("answered 400", found.count(400), len(found), len(found))


def _unreadable(folder: Path) -> Iterator[Bound]:
    """JSON that names an object and that only some readers read, to a path that is passed on."""
    named = b'{"input_file_id":"file-1","x":%s}'
    values = (b"NaN", b'"\t"', b'"\xe9"', b"1 // x\n", b"[" * 1_100 + b"]" * 1_100)
    plain = named % b"1"
    more = f'{_KEYS}\npassthrough = "main"'
    bodies = [named % value for value in values]
    bodies += [b"\xef\xbb\xbf" + plain, plain.decode().encode("utf-16"), plain[:-1]]
    with running(folder, more=more, headers=(_as(b"alice"),)) as gateway:
        found = []
        for body in bodies:
            with gateway.connect() as connection:
                found.append(_status(connection, post(body, _as(b"bob"), path=b"/v1/batches")))
        refused = sum(status in {400, 413} for status in found)
        yield Bound("answered 400 or 413", refused, len(bodies), len(bodies))


def _rebound(folder: Path) -> Iterator[Bound]:
    """A page's own name resolves to this machine."""
    paths = (b"/", b"/health/ready", b"/metrics", b"/v1/models", b"/v1/decisions/d-1")
    with running(folder) as gateway:
        found = []
        for path in paths:
            with gateway.connect() as connection:
                request = _get(path).replace(b"host: localhost", b"host: rebound.example")
                found.append(_status(connection, request))
        yield Bound("answered 401", found.count(401), len(paths), len(paths))


def _on_disk(folder: Path) -> Iterator[Bound]:
    """An agent whose every call fails with the same words."""
    sessions = (
        f'[guidance]\nmode = "on"\ncontrol = 0.0\n[sessions]\nstore = "sqlite"\npath = "{folder}/s.sqlite"'
    )
    history: list[dict[str, object]] = [{"role": "user", "content": f"fix it {_CANARY}"}]
    with running(folder, more=sessions) as gateway, gateway.connect() as connection:
        for number in range(8):
            function = {"name": "bash", "arguments": json.dumps({"n": f"{_CANARY}{number}"})}
            call = {"id": f"c{number}", "type": "function", "function": function}
            history += [
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": f"Error: no such file {_CANARY}"},
            ]
            body = json.dumps({"model": "auto", "messages": history}).encode()
            talk(connection, post(body, b"x-session-id: s"), b'"usage"')
        time.sleep(1)  # in which the stores write
    files = [path for path in folder.rglob("*") if path.is_file()]
    yield Bound("files", len(files), 99, 3)
    yield Bound("files with its words", sum(_CANARY.encode() in path.read_bytes() for path in files), 0)


ATTACKS = (
    Attack("another caller's decision and conversation", _others, is_quick=True),
    Attack("bodies read in two ways", _read_in_two_ways, is_quick=True),
    Attack("bodies that are not JSON, passed on", _unreadable, is_quick=True),
    Attack("names that lead here", _rebound, is_quick=True),
    Attack("words of a conversation on disk", _on_disk, is_quick=True),
)
