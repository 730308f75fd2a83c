"""A caller who takes nothing of an answer is cut off, whatever was answered, and what it held is let go."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

import httpx
import pytest

from pointsman.gateway import _protocol as protocol
from pointsman.testing import MemoryLedger
from pointsman.upstreams.port import Limits, ServerSpec
from pointsman.vocabulary import WireFormat
from support.deciders import ScriptedDecider
from support.raw_http import ASKED, JSON, head
from support.requests_by_format import events, format_of, start_stream
from support.servers import Asked, Running, ScriptedUpstream, gateway, reply, state_for
from support.waiting import until

pytestmark = pytest.mark.integration

LARGE = 24_000_000  # bytes, more than all the system holds for a connection
STREAMED = ASKED[:-1] + b',"stream":true}'
IMPATIENT = ServerSpec(port=0, limits=Limits(unread_seconds=1))
PATIENT = ServerSpec(port=0)


async def whole(asked: Asked, send: Any) -> None:
    await reply(send, 200, json.dumps({"choices": [], "text": "x" * LARGE}).encode())


async def endless(asked: Asked, send: Any) -> None:
    event = events(format_of(asked.path))[0]
    await start_stream(send, event)
    while not asked.disconnected.is_set():
        await send({"type": "http.response.body", "body": event * 1_000, "more_body": True})


async def one_event(asked: Asked, send: Any) -> None:
    event = events(format_of(asked.path))[0]
    await start_stream(send, b"data: " + json.dumps({"choices": [], "text": "x" * LARGE}).encode() + b"\n\n")
    await send({"type": "http.response.body", "body": event})


def silent(running: Running, sent: bytes) -> socket.socket:
    """Ask and read nothing."""
    connection = socket.create_connection(("127.0.0.1", running.port), timeout=20)
    connection.sendall(sent)
    return connection


def page(running: Running) -> str:
    return httpx.get(f"{running.url}/metrics", trust_env=False).text


@pytest.mark.parametrize(
    ("answering", "sent"),
    [(whole, ASKED), (endless, STREAMED), (one_event, STREAMED)],
    ids=["whole", "stream", "one event"],
)
def test_who_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch, answering: Any, sent: bytes) -> None:
    monkeypatch.setattr(protocol, "_UNREAD_EVERY", 0.3)
    upstream, ledger = ScriptedUpstream(answering), MemoryLedger()
    decider = ScriptedDecider("m0", ledger=ledger)
    with (
        upstream.running() as url,
        gateway(state_for(f"{url}/v1", decider=decider, server=IMPATIENT)) as running,
        silent(running, head(JSON, length=len(sent)) + sent),
    ):
        until(lambda: "requests_in_progress 1" in page(running))
        until(lambda: ledger.attempts("d-1"), seconds=60)
        until(lambda: "pointsman_disconnects_total 1" in page(running))
        assert "requests_in_progress 0" in page(running)
        if answering is endless:
            assert upstream.closed.wait(60)
    assert [attempt.error for attempt in ledger.attempts("d-1")] == ["disconnect"]


@pytest.mark.parametrize(
    ("each_look", "idle"), [(0, 9), (1, 9), (1_000, 9), (16 << 10, 0), (20_000, 0), (9_000, 1)]
)
def test_a_trickle_does_not_count_as_reading(each_look: int, idle: int) -> None:
    """A caller that took a byte now and then was kept, with all of its answer."""

    class Waiting:
        size = 1_000_000

        def get_write_buffer_size(self) -> int:
            return self.size

    waiting = Waiting()
    one: Any = object.__new__(protocol._Bounded)
    one.transport, one.cycle = waiting, None
    for _ in range(10):
        assert one.unread() == waiting.size
        waiting.size -= each_look
    assert one.unread_since.looks == idle


def test_what_waits_has_a_bound_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it who takes nothing goes long before its time."""
    monkeypatch.setattr(protocol, "_UNREAD_EVERY", 0.1)
    monkeypatch.setattr(protocol, "_MOST_UNREAD", LARGE // 2)
    upstream = ScriptedUpstream(whole)
    with upstream.running() as url, gateway(state_for(f"{url}/v1", server=PATIENT)) as running:
        asking = [silent(running, head(JSON) + ASKED) for _ in range(3)]
        until(lambda: len(upstream.asked) == 3)
        until(lambda: "requests_in_progress 0" in page(running), seconds=60)
        for connection in asking:
            connection.close()


def test_a_page_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_UNREAD_EVERY", 0.1)
    with gateway(state_for(server=IMPATIENT)) as running:
        monkeypatch.setattr(
            running.server.config.loaded_app.metrics, "page_for", lambda *_: (b"x" * LARGE, "text/plain")
        )
        with silent(running, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"):
            connections = running.server.server_state.connections
            until(lambda: connections)
            until(lambda: not connections, seconds=60)


def test_who_reads_slowly_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_UNREAD_EVERY", 0.05)
    monkeypatch.setattr(protocol, "_MOST_UNREAD", 1 << 40)
    upstream = ScriptedUpstream(whole)
    with upstream.running() as url, gateway(state_for(f"{url}/v1", server=PATIENT)) as running:
        got = bytearray()
        with silent(running, head(JSON, b"connection: close") + ASKED) as connection:
            until(lambda: "requests_in_progress 1" in page(running))
            while more := connection.recv(1 << 18):
                got += more
    assert bytes(got).partition(b"\r\n\r\n")[2] == json.dumps({"choices": [], "text": "x" * LARGE}).encode()


def test_a_stream_that_is_read_slowly_keeps_its_order() -> None:
    """Events that go out the moment they arrive overtake none that waits for the caller."""
    numbered = [b'data: {"choices": [], "n": %d, "text": "%b"}\n\n' % (n, b"x" * 700) for n in range(16_000)]
    numbered[::50] = [b": quiet\n\n" + event for event in numbered[::50]]
    numbered[::199] = [event.replace(b"x" * 700, b"x" * 9_000) for event in numbered[::199]]
    first, *rest = events(WireFormat.CHAT)

    async def answering(asked: Asked, send: Any) -> None:
        await start_stream(send, first)
        for place, event in enumerate(numbered):
            for part in (event[:40], event[40:]) if place % 7 == 0 else (event,):
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"".join(rest)})

    upstream = ScriptedUpstream(answering)
    with upstream.running() as url, gateway(state_for(f"{url}/v1", server=PATIENT)) as running:
        asking = http.client.HTTPConnection("127.0.0.1", running.port, timeout=60)
        asking.request("POST", "/v1/chat/completions", STREAMED, {"content-type": "application/json"})
        connections: set[Any] = running.server.server_state.connections
        until(lambda: any(each.flow.write_paused for each in list(connections)), seconds=60)
        answer = asking.getresponse()
        got = bytearray()
        while more := answer.read(1 << 14):
            got += more
        asking.close()
    assert bytes(got) == first + b"".join(numbered) + b"".join(rest)
