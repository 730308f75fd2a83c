"""Several processes serve one address as one would: whole processes, each request on its own connection."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from pointsman.stores.ledger import DecisionFilter, SqliteLedger
from pointsman.vocabulary import WireFormat
from support import own_application
from support.requests_by_format import PATHS, post, request
from support.servers import Asked, ScriptedUpstream, reply
from support.waiting import until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc"),
]

CONFIG = """
[upstreams.up]
base_url = "{url}"
formats = ["chat"]
[models]
one = {{ upstream = "up", id = "model-0" }}
[tiers]
simple = "one"
medium = "one"
complex = "one"
reasoning = "one"
[ledger]
path = "{folder}/ledger.sqlite"
[server]
workers = 2
"""


class Serving(NamedTuple):
    process: subprocess.Popen[str]
    url: str
    file: Path

    def workers(self) -> dict[int, int]:
        """The process of each worker that serves, by its number."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(path.read_text().rpartition(")")[2].split()[1])
                command = (path.parent / "cmdline").read_bytes()
            except (OSError, ValueError):  # it has ended
                continue
            if parent == self.process.pid and b"spawn_main" in command:
                found[int(path.parent.name)] = parent
        return found

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        page = httpx.get(f"{self.url}/metrics", trust_env=False).text
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", page, re.MULTILINE))


@contextmanager
def serving(url: str, folder: Path, *more: str) -> Iterator[Serving]:
    file = folder / "pointsman.toml"
    file.write_text(CONFIG.format(url=f"{url}/v1", folder=folder), encoding="utf-8")
    command = [sys.executable, "-m", "pointsman", "serve", "--config", str(file), "--port", "0", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[3].rstrip(".")
            yield Serving(process, address, file)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


class Upstream:
    """Answers in the chat format, and keeps what it was asked; streams wait until they are let go."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.go = threading.Event()

    async def __call__(self, asked: Asked, send: Any) -> None:
        body = json.loads(asked.body)
        self.asked.append(body)
        number = len(self.asked)
        if not body.get("stream"):
            message = {"role": "assistant", "content": f"answer {number}"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            answer = {"id": f"c{number}", "object": "chat.completion", "created": 1, "model": "model-0"}
            await reply(send, 200, json.dumps({**answer, "choices": [choice], "usage": usage}).encode())
            return
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": event("Hello"), "more_body": True})
        await asyncio.to_thread(self.go.wait, 60)
        for part in (event(" there", "stop"), b"data: [DONE]\n\n"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})


def event(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


@pytest.fixture(scope="module")
def upstream() -> Iterator[tuple[Upstream, str]]:
    answering = Upstream()
    with ScriptedUpstream(answering).running() as url:
        yield answering, url


@pytest.fixture(scope="module")
def both(upstream: tuple[Upstream, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Two workers that have begun to serve."""
    with serving(upstream[1], tmp_path_factory.mktemp("workers")) as found:
        until(lambda: found.metric("pointsman_workers") == 2)
        yield found


def ask(url: str, wire: WireFormat = WireFormat.CHAT, **more: Any) -> httpx.Response:
    headers = more.pop("headers", {})
    answered = post(url + PATHS[wire], json={**request(wire), **more}, headers=headers)
    assert answered.status_code == 200, answered.text
    return answered


def test_counts_add_up(both: Serving) -> None:
    names = ("requests_total", "decisions_total", "overhead_seconds_count", "overhead_seconds_bucket")
    before = [both.metric(f"pointsman_{name}") for name in names]
    for _ in range(40):
        ask(both.url)
    for _ in range(4):
        after = [both.metric(f"pointsman_{name}") for name in names]
        grown = [late - early for late, early in zip(after, before, strict=True)]
        assert grown[:3] == [40, 40, 40]
        assert grown[3] >= 40
        assert both.metric("pointsman_build_info") == 1


def test_a_decision_is_known_at_once_whoever_is_asked(both: Serving) -> None:
    for _ in range(12):
        decision = ask(both.url).headers["x-pointsman-decision-id"]
        found = httpx.get(f"{both.url}/v1/decisions/{decision}", trust_env=False)
        assert found.status_code == 200
        assert len(found.json()["attempts"]) == 1
        said = post(f"{both.url}/v1/decisions/{decision}/outcome", json={"score": 1})
        assert said.status_code == 202


def test_a_session_goes_on_from_worker_to_worker(both: Serving) -> None:
    """Its turns follow one another in the ledger: the summary of each knows the one before it."""
    messages = [{"role": "user", "content": "Fix the parser of dates"}]
    headers = {"x-session-id": "walking-session"}
    for _ in range(12):
        said = ask(both.url, messages=messages, headers=headers).json()["choices"][0]["message"]
        messages = [*messages, said, {"role": "user", "content": "go on"}]
    path = both.file.parent / "ledger.sqlite"
    with closing(SqliteLedger(path)) as ledger:
        until(lambda: len(rows_of(ledger)) == 12)
        rows = rows_of(ledger)
    assert [row.gap >= 0 for row in rows] == [False] + [True] * 11


def rows_of(ledger: SqliteLedger) -> list[Any]:
    found = ledger.search(DecisionFilter(session="walking-session"), limit=100).rows
    return list(found)[::-1]


def test_a_request_that_is_sent_again_gets_the_same_answer(
    both: Serving, upstream: tuple[Upstream, str]
) -> None:
    for key in ("one", "another", "third"):
        asked = len(upstream[0].asked)
        answers = [ask(both.url, headers={"idempotency-key": key}) for _ in range(6)]
        assert len(upstream[0].asked) == asked + 1
        assert len({answer.content for answer in answers}) == 1
        assert [answer.headers.get("x-pointsman-replayed") for answer in answers] == [None] + ["1"] * 5


def test_an_answer_that_no_provider_keeps_is_gone_on_from(
    both: Serving, upstream: tuple[Upstream, str]
) -> None:
    """The upstream has no Responses API: the gateway puts the conversation together, in any worker."""
    for name in range(3):
        previous: dict[str, str] = {}
        for turn in range(6):
            given = {"input": f"turn {turn} of {name}", "store": True, **previous}
            answered = ask(both.url, WireFormat.RESPONSES, **given).json()
            previous = {"previous_response_id": answered["id"]}
            messages = upstream[0].asked[-1]["messages"]
            assert [each["role"] for each in messages] == ["user", "assistant"] * turn + ["user"]


def test_the_console_is_one(both: Serving) -> None:
    """Without keys one token guards all changes; it is drawn once, so all pages come from one process."""
    ask(both.url)
    pages = [httpx.get(f"{both.url}/console", trust_env=False) for _ in range(8)]
    assert {page.status_code for page in pages} == {200}
    tokens = {re.search(r'name="token" value="([^"]+)"|token=([\w-]+)', page.text) for page in pages}
    assert len({found[0] if found else "" for found in tokens}) == 1
    told = httpx.get(f"{both.url}/console/now.json", trust_env=False).json()
    assert told["figures"]["requests"] >= 1 if "figures" in told else told


def test_a_new_configuration_reaches_all(both: Serving) -> None:
    reloads = both.metric("pointsman_reloads_total")
    text = both.file.read_text().replace("one = {", 'two = { upstream = "up", id = "model-1" }\none = {')
    both.file.write_text(text)
    until(lambda: both.metric("pointsman_reloads_total") == reloads + 2)
    known = [httpx.get(f"{both.url}/v1/models/two", trust_env=False).status_code for _ in range(6)]
    assert known == [200] * 6
    both.process.send_signal(signal.SIGHUP)
    until(lambda: both.metric("pointsman_reloads_total") == reloads + 4)


class Stream(NamedTuple):
    port: int  # of the caller
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def begin_stream(url: str) -> Stream:
    """Ask for a stream, and read its beginning."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps({**request(WireFormat.CHAT), "stream": True}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    writer.write(head.encode() + b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body))
    await reader.readuntil(b"Hello")
    return Stream(writer.get_extra_info("sockname")[1], reader, writer)


async def rest_of(stream: Stream) -> bytes:
    try:
        return await stream.reader.read()
    except ConnectionError:
        return b""
    finally:
        stream.writer.close()


def held_by(process: int, port: int) -> set[int]:
    """The ports of callers whose connections a process holds."""
    links = set()
    for link in Path(f"/proc/{process}/fd").iterdir():
        try:
            links.add(os.readlink(link))  # noqa: PTH115 - a path does not read what is no path
        except OSError:
            continue
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = (int(fields[at].partition(":")[2], 16) for at in (1, 2))
        if local == port and remote and f"socket:[{fields[9]}]" in links:
            found.add(remote)
    return found


def test_a_killed_worker_loses_its_own_requests_and_no_others(
    upstream: tuple[Upstream, str], tmp_path: Path
) -> None:
    answering, url = upstream
    answering.go.clear()

    async def kill_one(found: Serving, victim: int) -> tuple[set[int], dict[int, bytes]]:
        streams = [await begin_stream(found.url) for _ in range(24)]
        lost = held_by(victim, int(found.url.rpartition(":")[2]))
        os.kill(victim, signal.SIGKILL)
        await asyncio.to_thread(until, lambda: victim not in found.workers())
        answering.go.set()
        return lost, {stream.port: await rest_of(stream) for stream in streams}

    with serving(url, tmp_path) as found:
        until(lambda: found.metric("pointsman_workers") == 2)
        for _ in range(10):
            ask(found.url)
        counted = found.metric("pointsman_requests_total")
        victim = min(found.workers())
        lost, rest = asyncio.run(kill_one(found, victim))
        assert {port for port, text in rest.items() if b"[DONE]" not in text} == lost
        assert 0 < len(lost) < 24
        until(lambda: found.metric("pointsman_workers") == 2)
        assert len(found.workers()) == 2
        assert found.metric("pointsman_worker_restarts_total") == 1
        until(lambda: found.metric("pointsman_requests_total") >= counted + 24 - len(lost))
        for _ in range(10):
            ask(found.url)
        found.process.send_signal(signal.SIGTERM)
        assert found.process.wait(60) == 0


def test_no_open_stream_is_lost_at_the_end(upstream: tuple[Upstream, str], tmp_path: Path) -> None:
    answering, url = upstream
    answering.go.clear()

    async def end(found: Serving) -> list[bytes]:
        streams = [await begin_stream(found.url) for _ in range(50)]
        found.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(until, lambda: not listens(found.url))
        answering.go.set()
        return [await rest_of(stream) for stream in streams]

    with serving(url, tmp_path) as found:
        until(lambda: found.metric("pointsman_workers") == 2)
        texts = asyncio.run(end(found))
        assert found.process.wait(60) == 0
    assert [text.count(b"[DONE]") for text in texts] == [1] * 50
    with closing(SqliteLedger(tmp_path / "ledger.sqlite")) as ledger:
        assert [row.status for row in ledger.search(DecisionFilter(), limit=100).rows] == [200] * 50


def listens(url: str) -> bool:
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("command", [["serve"], ["serve", "--workers", "2"], ["ext-proc"]], ids=" ".join)
def test_a_reload_ends_no_process_that_begins(tmp_path: Path, command: list[str]) -> None:
    """The application that a configuration names is run as it is read: the earliest that a test can be."""
    hung_up = "import os, signal\nos.kill(os.getpid(), signal.SIGHUP)\n"
    (tmp_path / "app.py").write_text(hung_up + Path(own_application.__file__).read_text("utf-8"), "utf-8")
    file = tmp_path / "pointsman.toml"
    text = CONFIG.format(url="http://127.0.0.1:9/v1", folder=tmp_path).replace("workers = 2", "workers = 1")
    file.write_text(f'{text}[ext_proc]\nhttp_port = 0\n[capabilities]\napplication = "app.py"\n', "utf-8")
    whole = [sys.executable, "-m", "pointsman", *command, "--config", str(file), "--port", "0"]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        process.communicate(timeout=60)
    assert "127.0.0.1:" in line


def test_a_reload_ends_no_worker_of_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has nothing to reload; each was killed, with its requests, and replaced."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    demo = ["serve", "--demo", "--no-traffic", "--workers", "2", "--port", "0"]
    command = [sys.executable, "-m", "pointsman", *demo]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        workers = Serving(process, "", tmp_path).workers()
        ignored = [
            re.search(r"SigIgn:\s*(\w+)", Path(f"/proc/{each}/status").read_text()) for each in workers
        ]
        process.terminate()
        process.communicate(timeout=60)
    assert [int(each[1], 16) & 1 for each in ignored if each] == [1, 1]
