"""More callers than the gateway serves at once: who is refused, in which words, and who is served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from pointsman.gateway import _protocol as protocol
from pointsman.upstreams.port import Limits, ServerSpec, hash_key
from support.raw_http import ASKED, JSON, head, is_closed, statuses, talk
from support.servers import Asked, Running, ScriptedUpstream, gateway, reply, state_for
from support.waiting import until

pytestmark = pytest.mark.integration

CHAT, RESPONSES, MESSAGES = b"/v1/chat/completions", b"/v1/responses", b"/v1/messages"
LIVE = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n"
CLAUDE = b"anthropic-version: 2023-06-01"


def shape(answer: bytes) -> set[str]:
    """The members of an error, which tell the formats apart."""
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    return set(body) | {f"error.{name}" for name in body["error"]}


OPENAI = {"error", "error.message", "error.type", "error.param", "error.code"}
ANTHROPIC = {"type", "error", "error.type", "error.message"}
ANY = OPENAI | ANTHROPIC
LONG = b"x: " + b"v" * 30_000


def bounded(**limits: Any) -> ServerSpec:
    return ServerSpec(port=0, limits=Limits(**limits))


class Held:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()

    async def __call__(self, asked: Asked, send: Any) -> None:
        while not (self.may_answer.is_set() or asked.disconnected.is_set()):  # noqa: ASYNC110 - a thread's
            await asyncio.sleep(0.01)
        await reply(send, 200, b'{"choices":[{"message":{"content":"hi"}}]}')


@contextlib.contextmanager
def busy(most: int, **limits: Any) -> Iterator[tuple[Running, Held]]:
    """A gateway with ``most`` requests in progress, each on a connection of its own."""
    held = Held()
    upstream = ScriptedUpstream(held)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(upstream.running())
        running = stack.enter_context(gateway(state_for(f"{url}/v1", server=bounded(**limits))))
        pool = stack.enter_context(ThreadPoolExecutor(most))
        try:
            asking = [pool.submit(talk, running.port, head(JSON) + ASKED) for _ in range(most)]
            until(lambda: len(upstream.asked) == most)
            yield running, held
        finally:
            held.may_answer.set()
        assert [statuses(each.result()) for each in asking] == [[b"200"]] * most


@pytest.mark.parametrize(("path", "members"), [(CHAT, OPENAI), (RESPONSES, OPENAI), (MESSAGES, ANTHROPIC)])
def test_requests_beyond_the_limit_get_503(path: bytes, members: set[str]) -> None:
    with busy(2, requests=2) as (running, _):
        answer = talk(running.port, head(JSON, path=path) + ASKED, until=b"never")
        assert talk(running.port, LIVE + b"\r\n").startswith(b"HTTP/1.1 200")  # its pages go on
    assert statuses(answer) == [b"503"]
    assert b"retry-after: 1" in answer
    assert shape(answer) == members


@pytest.mark.parametrize("path", [CHAT, b"/v1/embeddings"])
def test_one_of_several_callers_leaves_room_for_the_others(path: bytes) -> None:
    held = Held()
    upstream = ScriptedUpstream(held)
    keys = (hash_key("alice"), hash_key("bob"))
    server = ServerSpec(port=0, keys=keys, limits=Limits(requests=4), passthrough="up0")
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(upstream.running())
        running = stack.enter_context(gateway(state_for(f"{url}/v1", server=server)))
        pool = stack.enter_context(ThreadPoolExecutor(4))

        def ask(caller: bytes) -> Future[bytes]:
            asked = head(JSON, b"authorization: Bearer " + caller, path=path) + ASKED
            return pool.submit(talk, running.port, asked)

        try:
            asking = [ask(b"bob") for _ in range(3)]
            until(lambda: len(upstream.asked) == 3)
            refused = ask(b"bob").result()
            asking.append(ask(b"alice"))
            until(lambda: len(upstream.asked) == 4)
        finally:
            held.may_answer.set()
        assert [statuses(each.result()) for each in asking] == [[b"200"]] * 4
        assert statuses(ask(b"bob").result()) == [b"200"]
    assert statuses(refused) == [b"503"]
    assert b"too many requests of this caller" in refused


@pytest.mark.parametrize(
    ("sent", "members"),
    [(head(JSON), OPENAI), (head(JSON, path=MESSAGES), ANTHROPIC), (LIVE + CLAUDE + b"\r\n\r\n", ANTHROPIC)],
)
def test_connections_beyond_the_limit_get_503(sent: bytes, members: set[str]) -> None:
    with busy(2, connections=2) as (running, held):
        answer = talk(running.port, sent, until=b"never")
        held.may_answer.set()
        until(lambda: not running.server.server_state.connections)
        assert statuses(talk(running.port, head(JSON) + ASKED)) == [b"200"]
    assert statuses(answer) == [b"503"]
    assert b"retry-after: 1" in answer
    assert shape(answer) == members


@pytest.mark.parametrize(
    "sent", [b"", b"POST /v1/chat", LIVE + b"\r\n"], ids=["nothing", "half", "kept alive"]
)
def test_who_asks_nothing_makes_room(sent: bytes) -> None:
    """A request is served however many connections lie idle."""
    with gateway(state_for(server=bounded(connections=4))) as running, contextlib.ExitStack() as stack:
        idle = []
        for _ in range(4):
            connection = socket.create_connection(("127.0.0.1", running.port), timeout=60)
            idle.append(stack.enter_context(connection))
            connection.sendall(sent)
            if sent.startswith(b"GET"):
                assert connection.recv(1 << 16)
        until(lambda: len(running.server.server_state.connections) == 4)
        assert statuses(talk(running.port, head(JSON) + ASKED)) == [b"200"]
        if not sent.startswith(b"GET"):
            assert is_closed(idle[0])  # the oldest
        until(lambda: len(running.server.server_state.connections) == 3)


def test_far_beyond_the_limit_connections_are_cut_at_once() -> None:
    with busy(1, connections=1) as (running, _), contextlib.ExitStack() as stack:
        surplus = []
        for _ in range(40):
            connection = socket.create_connection(("127.0.0.1", running.port), timeout=60)
            surplus.append(stack.enter_context(connection))
        assert [is_closed(one) for one in surplus[: 40 - 17]] == [True] * 23  # all but the latest
        until(lambda: len(running.server.server_state.connections) == 17)


@pytest.mark.parametrize(
    ("sent", "members"),
    [
        (head(JSON, LONG), OPENAI),
        (head(JSON, LONG, path=RESPONSES), OPENAI),
        (head(JSON, LONG, path=MESSAGES), ANTHROPIC),
        (head(JSON, *[b"a:"] * 300, path=MESSAGES), ANTHROPIC),
        (head(JSON, b"bad header", path=MESSAGES), ANTHROPIC),
        (head(JSON, CLAUDE, b"x: y", b"bad header", path=b"/"), ANTHROPIC),
        (head(JSON, b"bad header"), OPENAI),
        (b"hello\r\n\r\n", ANY),
        (b"x" * 30_000, ANY),
    ],
    ids=["431 chat", "431 responses", "431 messages", "many headers", "400 messages", "400 Claude",
         "400 chat", "no HTTP", "long"],
)  # fmt: skip
def test_what_is_no_request_is_refused_in_the_callers_format(sent: bytes, members: set[str]) -> None:
    with gateway(state_for(server=bounded(header_bytes=20_000))) as running:
        answer = talk(running.port, sent, until=b"never")
    assert statuses(answer)[0] in {b"400", b"431"}
    assert shape(answer) == members


@pytest.mark.parametrize(
    ("beginning", "members"),
    [
        (b"POST /v1/mess", OPENAI),
        (b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n", ANTHROPIC),
        (head(JSON, length=90_000) + b"{", OPENAI),
        (head(JSON, length=90_000, path=MESSAGES) + b"{", ANTHROPIC),
    ],
    ids=["half a line", "half a head", "half a body", "half a body of messages"],
)
def test_who_sends_too_slowly_is_told(
    monkeypatch: pytest.MonkeyPatch, beginning: bytes, members: set[str]
) -> None:
    monkeypatch.setattr(protocol, "_SWEEP_EVERY", 0.01)
    with gateway(state_for()) as running:
        answer = talk(running.port, beginning, until=b"never")
    assert statuses(answer) == [b"408"]
    assert shape(answer) == members


def seconds_until_closed(running: Running, *sent: bytes) -> float:
    """How long a connection stays open that sends this and then nothing; its looks are made at once."""
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
        for part in sent:
            connection.sendall(part)
            if part.endswith(b"\r\n\r\n"):
                assert connection.recv(1 << 16)
        connections = running.server.server_state.connections
        until(lambda: connections)
        one: Any = next(iter(connections))
        looks: Future[int] = Future()

        def look() -> None:
            count = 0
            while not (one.transport.is_closing() or one._to_discard is not None) and count < 100:
                one.close_if_slow()
                count += 1
            looks.set_result(count)

        if sent and not sent[-1].endswith(b"\r\n\r\n"):
            until(lambda: one._arriving.size)
        one.loop.call_soon_threadsafe(look)
        found = looks.result(60) * protocol_sweep
        assert is_closed(connection)
    until(lambda: not connections)
    return found


protocol_sweep = protocol._SWEEP_EVERY  # before a test changes it


def test_a_connection_without_a_request_is_closed_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_SWEEP_EVERY", 1e9)
    with gateway(state_for()) as running:
        assert seconds_until_closed(running) == 20
        assert seconds_until_closed(running, b"POST /v1/chat") == 20
        assert seconds_until_closed(running, LIVE + b"\r\n", b"POST /v1/chat") == 25  # one for the change
        assert 60 < seconds_until_closed(running, LIVE + b"\r\n") == 85


def ready(running: Running) -> bytes:
    return talk(running.port, b"GET /health/ready HTTP/1.1\r\nhost: localhost\r\n\r\n")


def test_readiness_says_503_while_requests_are_still_served() -> None:
    """New connections were refused in the same moment in which load balancers could have learnt it."""
    with gateway(state_for(server=ServerSpec(port=0, drain_notice=600))) as running:
        assert statuses(ready(running)) == [b"200"]
        running.server._captured_signals.append(signal.SIGTERM)  # as the handler in the main thread does
        running.server.should_exit = True
        until(lambda: statuses(ready(running)) == [b"503"])
        assert b'"status":"draining"' in ready(running)
        assert statuses(talk(running.port, head(JSON) + ASKED)) == [b"200"]
        running.server._captured_signals.append(signal.SIGTERM)  # who asks twice does not want to wait


@pytest.mark.parametrize(
    ("signals", "asks"), [([signal.SIGTERM], False), ([signal.SIGINT], True), ([signal.SIGTERM] * 2, True)]
)
def test_nobody_waits_for_load_balancers_in_vain(signals: list[signal.Signals], asks: bool) -> None:
    with gateway(state_for(server=ServerSpec(port=0, drain_notice=600))) as running:
        if asks:
            ready(running)
        running.server._captured_signals.extend(signals)
    assert not running.server.server_state.connections
