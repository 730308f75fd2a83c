"""Two workers in one process: what one passes on to the other, and what both publish."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from pointsman.config import Config
from pointsman.decision.policy import Policy
from pointsman.factory import build_engine
from pointsman.gateway._live_state import Published, build_live_state
from pointsman.gateway.app import Gateway
from pointsman.gateway.serve import Server
from pointsman.gateway.workers import WorkerLink, WorkerPeers
from pointsman.gateway.workers._figures import added_up, families_of, lasting, publish, read
from pointsman.gateway.workers._forward import FORWARDED
from pointsman.gateway.workers._peers import Holders
from pointsman.runtime import Runtime, decode_memory
from pointsman.shadow_policy import ShadowPolicy
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.stores.workers import Worker
from pointsman.tiers import builtin_profile
from pointsman.upstreams.port import ServerSpec, UpstreamSpec
from pointsman.vocabulary import ModelSpec, Tier, WireFormat
from support.requests_by_format import PATHS, answer, events, format_of, request, start_stream
from support.servers import Asked, Running, ScriptedUpstream, reply, state_for
from support.waiting import until

pytestmark = pytest.mark.integration

_JSON = "content-type: application/json"


class Link(WorkerLink):
    def __init__(self) -> None:
        self.told: list[str] = []

    def serving(self) -> None:
        self.told.append("serving")

    def closing(self) -> None:
        self.told.append("closing")


async def well(asked: Asked, send: Any) -> None:
    if b'"stream": true' in asked.body or b'"stream":true' in asked.body:
        await start_stream(send, *events(format_of(asked.path)))
        await send({"type": "http.response.body"})
    else:
        await reply(send, 200, answer(format_of(asked.path)))


@contextmanager
def two(folder: Path) -> Iterator[tuple[list[Running], list[Link], ScriptedUpstream]]:
    upstream, links = ScriptedUpstream(well), [Link(), Link()]
    with upstream.running() as url:
        servers = [
            Server(Gateway(state_for(f"{url}/v1")), peers=WorkerPeers(Worker(number, 2, folder), link))
            for number, link in enumerate(links, 1)
        ]
        with Running(servers[0]) as one, Running(servers[1]) as other:
            yield [one, other], links, upstream


def ask(server: Running, wire: WireFormat = WireFormat.CHAT, key: str = "") -> httpx.Response:
    headers = {"idempotency-key": key} if key else {}
    with httpx.Client(trust_env=False, timeout=60) as client:
        got = client.post(server.url + PATHS[wire], json=request(wire), headers=headers)
    assert got.status_code == 200, got.text
    return got


def test_a_key_belongs_to_one_worker_and_counts_add_up(tmp_path: Path) -> None:
    with two(tmp_path) as (servers, links, upstream):
        for key in ("a", "b", "c", "d"):
            answers = [ask(server, key=key) for server in servers]
            assert [each.headers.get("x-pointsman-replayed") for each in answers] == [None, "1"]
        assert len(upstream.asked) == 4
        pages = [httpx.get(f"{server.url}/metrics", trust_env=False).text for server in servers]
    for page in pages:
        assert 'pointsman_requests_total{format="chat",status="2xx"} 8.0' in page
        assert "pointsman_workers 2.0" in page
    assert [link.told for link in links] == [["serving", "closing"]] * 2


def test_a_stream_is_passed_on_as_it_comes(tmp_path: Path) -> None:
    with two(tmp_path) as (servers, _, _upstream):
        body = json.dumps({**request(WireFormat.CHAT), "stream": True}).encode()
        texts = set()
        for server in servers:
            for key in ("a", "b", "c"):
                headers = {"idempotency-key": key + server.url, "content-type": "application/json"}
                got = httpx.post(
                    server.url + PATHS[WireFormat.CHAT], content=iter([body]), headers=headers, timeout=60
                )
                texts.add(got.content)
        assert len(texts) == 1


@pytest.mark.parametrize("posed", [{}, {FORWARDED.decode(): "1"}], ids=["plain", "posing as a worker"])
def test_an_answer_is_gone_on_from_where_it_is_kept(tmp_path: Path, posed: dict[str, str]) -> None:
    with two(tmp_path) as (servers, _, upstream):
        name = ask(servers[0], WireFormat.RESPONSES).json()["id"]
        more = {**request(WireFormat.RESPONSES), "previous_response_id": name}
        got = httpx.post(servers[1].url + PATHS[WireFormat.RESPONSES], json=more, headers=posed, timeout=60)
        assert got.status_code == 200
        page = httpx.get(f"{servers[1].url}/metrics", trust_env=False).text
    assert 'pointsman_continued_total{before="known"} 1.0' in page
    assert len(upstream.asked) == 2


def test_a_request_that_another_worker_answers_is_in_progress_once(tmp_path: Path) -> None:
    asked_again, go = threading.Event(), threading.Event()

    async def waiting(asked: Asked, send: Any) -> None:
        asked_again.set()
        await asyncio.to_thread(go.wait, 60)
        await well(asked, send)

    with two(tmp_path) as (servers, _, upstream):
        name = ask(servers[0], WireFormat.RESPONSES).json()["id"]
        upstream.answering = waiting
        more = {**request(WireFormat.RESPONSES), "previous_response_id": name}
        url = servers[1].url + PATHS[WireFormat.RESPONSES]
        with ThreadPoolExecutor(1) as threads:
            got = threads.submit(httpx.post, url, json=more, timeout=60)
            assert asked_again.wait(60)
            pages = [httpx.get(f"{server.url}/metrics", trust_env=False).text for server in servers]
            go.set()
            assert got.result(60).status_code == 200
        until(lambda: "in_progress 0.0" in httpx.get(f"{servers[1].url}/metrics", trust_env=False).text)
    assert ["pointsman_requests_in_progress 1.0" in page for page in pages] == [True, True]


def test_an_answer_is_gone_on_from_whichever_worker_has_the_key(tmp_path: Path) -> None:
    """Once, the worker of an ``Idempotency-Key`` did not ask the one that held the conversation."""
    with two(tmp_path) as (servers, _, upstream):
        name = ask(servers[0], WireFormat.RESPONSES).json()["id"]
        more = {**request(WireFormat.RESPONSES), "previous_response_id": name}
        for key in ("a", "b", "c", "d"):
            for server, replayed in zip(servers, (None, "1"), strict=True):
                path, headers = server.url + PATHS[WireFormat.RESPONSES], {"idempotency-key": key}
                got = httpx.post(path, json=more, headers=headers, timeout=60)
                assert (got.status_code, got.headers.get("x-pointsman-replayed")) == (200, replayed)
        page = httpx.get(f"{servers[1].url}/metrics", trust_env=False).text
    assert 'pointsman_continued_total{before="known"} 4.0' in page
    assert len(upstream.asked) == 5


def test_a_session_goes_on_with_its_memory_in_whichever_worker_is_asked(tmp_path: Path) -> None:
    """The memory of the policy in force and that of the one on trial."""
    models = {"m0": ModelSpec("m0", "up", "m")}
    policy = Policy(profile=builtin_profile("seed"), models=models, tier_models=dict.fromkeys(Tier, "m0"))
    asked = request(WireFormat.CHAT)
    messages, stores, trials, servers = list(asked["messages"]), [], [], []
    with ScriptedUpstream(well).running() as url, contextlib.ExitStack() as opened:
        for number in (1, 2):
            engine, ledger = build_engine(policy), MemoryLedger()
            trial = ShadowPolicy(engine, ledger, MemorySessions())
            runtime = Runtime(engine, sessions=MemorySessions(), ledger=ledger, observe=trial)
            upstream = UpstreamSpec("up", f"{url}/v1", retries=0)
            config = Config(models=models, upstreams={"up": upstream}, server=ServerSpec(port=0))
            state = build_live_state(runtime, config, shadow_policy=trial)
            peers = WorkerPeers(Worker(number, 2, tmp_path), Link())
            servers.append(opened.enter_context(Running(Server(Gateway(state), peers=peers))))
            stores += [runtime.sessions, trial.sessions]
            trials.append(trial)
        for turn, place in enumerate((0, 1, 1, 0, 1, 0)):
            got = httpx.post(
                servers[place].url + PATHS[WireFormat.CHAT],
                json={**asked, "messages": messages},
                headers={"x-session-id": "walking"},
                timeout=60,
            )
            assert got.status_code == 200, got.text
            said = {"role": "user", "content": f"go on, {turn}"}
            messages += [{"role": "assistant", "content": "done"}, said]
            trials[place].flush()
        turns = [decode_memory(store.get("walking")).turns for store in stores]
    assert turns == [6, 6, 5, 5]


def test_a_worker_that_is_gone_leaves_its_requests_to_the_other(tmp_path: Path) -> None:
    with two(tmp_path) as (servers, _, _upstream):
        for peer in (tmp_path / "1.sock", tmp_path / "2.sock"):
            until(peer.exists)  # bound while the server begins
            peer.unlink()
        statuses = set()
        for key in ("a", "b", "c", "d"):
            got = httpx.post(
                servers[0].url + PATHS[WireFormat.CHAT],
                json=request(WireFormat.CHAT),
                headers={"idempotency-key": key},
                timeout=60,
            )
            statuses.add(got.status_code)
    assert statuses <= {200, 503}


def test_what_is_refused_unread_is_not_passed_on(tmp_path: Path) -> None:
    """Once, a large body without a key was a 503 "is being replaced" where another worker refused it."""
    with two(tmp_path) as (servers, _, upstream):
        statuses = {refused(server.port, key) for server in servers for key in "abcdef"}
    assert statuses == {b"401"}
    assert upstream.asked == []


@pytest.mark.parametrize(
    ("path", "lines", "status"),
    [
        (PATHS[WireFormat.CHAT], "host: localhost\r\ncontent-type: text/plain", b"415"),
        (PATHS[WireFormat.CHAT], f"host: localhost\r\n{_JSON}\r\ncontent-encoding: gzip", b"415"),
        ("/v1/unknown", f"host: localhost\r\n{_JSON}", b"404"),
    ],
)
def test_what_another_worker_refuses_unread_gets_its_answer(
    tmp_path: Path, path: str, lines: str, status: bytes
) -> None:
    """Once it was a 503 that SDKs retry, or no answer: the sending failed before the answer was read."""
    with two(tmp_path) as (servers, _, upstream):
        statuses = [refused(server.port, key, path, lines, 8 << 20) for server in servers for key in "abcdef"]
    assert statuses == [status] * 12
    assert upstream.asked == []


def refused(
    port: int,
    key: str,
    path: str = PATHS[WireFormat.CHAT],
    lines: str = f"host: a\r\n{_JSON}",
    size: int = 1 << 30,
) -> bytes:
    """Send a large body for as long as it is taken, and return the status."""
    head = f"POST {path} HTTP/1.1\r\n{lines}\r\n"
    head += f"idempotency-key: {key}\r\ncontent-length: {size}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), 60) as caller:
        caller.sendall(head.encode())
        answer = threading.Thread(target=lambda: got.append(caller.recv(12)))
        got: list[bytes] = []
        answer.start()
        with contextlib.suppress(OSError):
            for _ in range(min(400, size >> 16)):
                if got:
                    break
                caller.sendall(b" " * (1 << 16))
        answer.join(60)
    return got[0].split()[1]


def test_a_body_over_the_limit_is_refused_by_its_size_wherever_it_is_read(tmp_path: Path) -> None:
    def spaces() -> Iterator[bytes]:
        for _ in range(34 << 4):
            yield b" " * (1 << 16)

    with two(tmp_path) as (servers, _, _upstream):
        for key in ("b0", "b1", "b2", "b3"):
            headers = {"idempotency-key": key, "content-type": "application/json"}
            url = servers[0].url + PATHS[WireFormat.CHAT]
            got = httpx.post(url, content=spaces(), headers=headers, timeout=60, trust_env=False)
            assert (got.status_code, got.headers.get("x-should-retry")) == (413, "false"), got.text


def test_a_head_of_the_console_is_passed_on_without_a_body(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with two(tmp_path) as (servers, _, _upstream), httpx.Client(trust_env=False) as client:
        for server in servers:
            got = [client.head(f"{server.url}/console") for _ in range(2)]
            assert [each.status_code for each in got] == [got[0].status_code] * 2
            assert all(each.content == b"" for each in got)
    assert "a worker ended" not in caplog.text


def test_no_caller_can_pose_as_a_worker(tmp_path: Path) -> None:
    with two(tmp_path) as (servers, _, _upstream):
        for path in ("/-/flush", "/-/publish"):
            posed = httpx.post(servers[0].url + path, headers={FORWARDED.decode(): "1"}, trust_env=False)
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(tmp_path / "1.sock"))) as worker:
                known = worker.post("http://worker" + path)
            assert (posed.status_code, known.status_code) == (404, 204)


def test_a_name_is_its_latest_holders(tmp_path: Path) -> None:
    one, other = Holders(tmp_path / "holders", 1), Holders(tmp_path / "holders", 2)
    assert one.elsewhere("s") == 0
    one.note("s")
    assert (one.elsewhere("s"), other.elsewhere("s")) == (0, 1)
    other.note("s")
    assert (one.elsewhere("s"), other.elsewhere("s"), one.elsewhere("t")) == (2, 0, 0)
    assert (one.claim("s"), one.claim("t"), one.claim("t"), other.claim("t")) == (2, 0, 0, 1)
    assert (one.elsewhere("s"), other.elsewhere("t")) == (2, 1)
    one.close()
    other.close()


def test_flags_and_times_are_not_added_up() -> None:
    counter = CounterMetricFamily("pointsman_requests", "text", labels=("format",))
    counter.add_metric(("chat",), 2.0)
    flag = GaugeMetricFamily("pointsman_circuit_open", "text", labels=("upstream",))
    flag.add_metric(("up",), 1.0)
    held = GaugeMetricFamily("pointsman_body_bytes_held", "text", value=5.0)
    families = families_of([counter, flag, held])
    found = {metric.name: metric.samples[0].value for metric in added_up([families, families])}
    assert found == {
        "pointsman_requests": 4.0,
        "pointsman_circuit_open": 1.0,
        "pointsman_body_bytes_held": 10.0,
    }
    assert [each[0] for each in lasting(families)] == ["pointsman_requests"]


def test_what_is_published_comes_back(tmp_path: Path) -> None:
    assert read(tmp_path, 1) is None
    publish(tmp_path, 1, Published(active=3, open_circuits=("up",)))
    assert read(tmp_path, 1) == Published(active=3, open_circuits=("up",))
    (tmp_path / "2.json").write_bytes(b"torn")
    assert read(tmp_path, 2) is None
