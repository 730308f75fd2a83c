"""Bytes of bodies are bounded over all requests, and what is large is read beside the event loop."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pointsman.errors import Overloaded
from pointsman.gateway import _inbound as inbound
from pointsman.gateway._inbound import BodyBudget, BodyReservation
from pointsman.upstreams.port import Limits, ServerSpec, hash_key
from pointsman.vocabulary import LARGE, AgentRequest, WireFormat
from pointsman.wire import Body, Format
from pointsman.wire.request import read_request
from support.raw_http import ASKED, JSON, head, statuses, talk
from support.requests_by_format import PATHS, post, request
from support.servers import Running, gateway, state_for
from support.waiting import until

TOTAL = 2_000_000
PART = b'{"x":"' + b"x" * 499_994


def held(running: Running) -> int:
    alice = {"authorization": "Bearer alice"}
    text = httpx.get(f"{running.url}/metrics", headers=alice, trust_env=False).text
    found = re.search(r"pointsman_body_bytes_held (\d\S*)", text)
    assert found
    return int(float(found[1]))


@pytest.fixture
def running() -> Iterator[Running]:
    limits = Limits(body_bytes=1_000_000, total_body_bytes=TOTAL)
    with gateway(state_for(server=ServerSpec(port=0, limits=limits))) as running:
        yield running


@contextlib.contextmanager
def unfinished(running: Running, count: int, part: bytes, *more: bytes) -> Iterator[None]:
    """Keep some requests open whose body has not ended."""
    with contextlib.ExitStack() as open_ones:
        for _ in range(count):
            address = ("127.0.0.1", running.port)
            connection = open_ones.enter_context(socket.create_connection(address, timeout=60))
            connection.sendall(head(JSON, *more, length=900_000) + part)
        yield


@pytest.mark.integration
@pytest.mark.parametrize("wire", WireFormat)
def test_beyond_the_budget_a_large_body_is_refused_for_now(running: Running, wire: WireFormat) -> None:
    large = json.dumps(request(wire, metadata={"x": "x" * 600_000}))
    with unfinished(running, 3, PART):
        until(lambda: held(running) == 3 * len(PART))
        got = post(running.url + PATHS[wire], content=large, headers={"content-type": "application/json"})
        assert got.status_code == 503
        assert (got.headers["retry-after"], got.headers["connection"]) == ("1", "close")
        assert "exceed the limit" in got.json()["error"]["message"]
        small = post(running.url + PATHS[wire], json=request(wire))
        assert small.status_code == 200, "large bodies leave a quarter of the budget to the others"
    until(lambda: held(running) == 0)
    got = post(running.url + PATHS[wire], content=large, headers={"content-type": "application/json"})
    assert got.status_code == 200


@pytest.mark.integration
def test_one_of_several_callers_leaves_room_for_the_bodies_of_others() -> None:
    keys = (hash_key("alice"), hash_key("bob"))
    limits = Limits(body_bytes=1_000_000, total_body_bytes=TOTAL)
    large = json.dumps(request(WireFormat.CHAT, metadata={"x": "x" * 300_000})).encode()

    def ask(caller: bytes) -> bytes:
        asked = head(JSON, b"authorization: Bearer " + caller, length=len(large)) + large
        return talk(served.port, asked)

    with gateway(state_for(server=ServerSpec(port=0, keys=keys, limits=limits))) as served:
        part = PART[: int(0.55 * TOTAL / 3)]
        with unfinished(served, 3, part, b"authorization: Bearer alice"):
            until(lambda: held(served) == 3 * len(part))
            refused = ask(b"alice")
            assert statuses(ask(b"bob")) == [b"200"]
        until(lambda: held(served) == 0)
        assert statuses(ask(b"alice")) == [b"200"]
    assert statuses(refused) == [b"503"]
    assert b"exceed its share" in refused


@pytest.mark.integration
def test_small_bodies_of_one_of_several_callers_leave_room_too() -> None:
    keys = (hash_key("alice"), hash_key("bob"))
    limits = Limits(body_bytes=1_000_000, total_body_bytes=TOTAL)
    with gateway(state_for(server=ServerSpec(port=0, keys=keys, limits=limits))) as served:
        part = PART[:200_000]
        with unfinished(served, 10, part, b"authorization: Bearer alice"):
            until(lambda: held(served) == 6 * len(part))  # two thirds of the total
            assert statuses(talk(served.port, head(JSON, b"authorization: Bearer bob") + ASKED)) == [b"200"]
        until(lambda: held(served) == 0)
        assert statuses(talk(served.port, head(JSON, b"authorization: Bearer alice") + ASKED)) == [b"200"]


@pytest.mark.integration
def test_unfinished_bodies_never_hold_more_than_the_budget(running: Running) -> None:
    with unfinished(running, 20, PART):
        assert statuses(talk(running.port, head(JSON) + ASKED)) == [b"200"]
        assert held(running) <= TOTAL


@pytest.mark.integration
def test_a_length_that_is_only_announced_takes_nothing(running: Running) -> None:
    with unfinished(running, 20, b""):
        assert held(running) == 0
        large = json.dumps(request(WireFormat.CHAT, metadata={"x": "x" * 600_000}))
        path = running.url + PATHS[WireFormat.CHAT]
        assert post(path, content=large, headers={"content-type": "application/json"}).status_code == 200


def test_the_largest_body_fits_whatever_the_total() -> None:
    limits = Limits(body_bytes=10 * LARGE, total_body_bytes=LARGE)
    BodyReservation(BodyBudget(), limits.total).take(limits.body_bytes)


def test_small_bodies_may_fill_the_whole_budget_and_no_more() -> None:
    budget = BodyBudget()
    for _ in range(10):
        BodyReservation(budget, 1_000).take(100)
    late = BodyReservation(budget, 1_000)
    with pytest.raises(Overloaded):
        late.take(1)
    late.release()
    assert budget.held == 1_000


def test_what_is_counted_is_given_back_once() -> None:
    budget = BodyBudget()
    share = BodyReservation(budget, 10 * LARGE)
    share.take(5)
    share.take(LARGE)
    assert budget.held == LARGE + 5
    share.release()
    share.release()
    assert budget.held == 0


@pytest.mark.integration
def test_a_thread_beside_the_event_loop_gives_way_soon(running: Running) -> None:
    assert running.port
    assert sys.getswitchinterval() == pytest.approx(0.001)


@pytest.mark.integration
@pytest.mark.parametrize(("size", "thread"), [(100, ""), (LARGE + 1, "large_0"), ((4 << 20) + 1, "huge_0")])
def test_large_bodies_are_read_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, size: int, thread: str
) -> None:
    seen: list[str] = []

    def body(wire: Format, raw: bytes) -> Body:
        seen.append(threading.current_thread().name)
        return Body(wire, raw)

    def turn(*given: Any, **more: Any) -> AgentRequest:
        seen.append(threading.current_thread().name)
        return read_request(*given, **more)

    monkeypatch.setattr(inbound, "Body", body)
    monkeypatch.setattr("pointsman.gateway._reading.read_request", turn)
    with gateway(state_for()) as running:
        asked = request(WireFormat.CHAT, metadata={"x": "x" * size})
        assert post(running.url + PATHS[WireFormat.CHAT], json=asked).status_code == 200
    assert len(seen) == 2
    assert all(name == thread for name in seen) if thread else not {"large_0", "huge_0"}.intersection(seen)
