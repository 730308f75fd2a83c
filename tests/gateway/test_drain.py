"""SIGTERM ends the gateway after the answers under way, not in the middle of them."""

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from pointsman.stores.ledger import SqliteLedger
from pointsman.vocabulary import WireFormat
from support.requests_by_format import PATHS, events, format_of, request, start_stream
from support.servers import Asked, ScriptedUpstream
from support.waiting import until

pytestmark = pytest.mark.integration

STREAMS = 50
FORMATS = tuple(WireFormat)

CONFIG = """
[upstreams.slow]
base_url = "{url}"
formats = ["chat", "responses", "messages"]
[models]
one = {{ upstream = "slow", id = "model-0" }}
[tiers]
simple = "one"
medium = "one"
complex = "one"
reasoning = "one"
[ledger]
path = "{folder}/ledger.sqlite"
[server]
drain = {drain}
"""


@contextmanager
def serving(url: str, folder: Path, drain: float = 30.0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``pointsman serve`` as people start it, and where it listens."""
    file = folder / "pointsman.toml"
    file.write_text(CONFIG.format(url=url, folder=folder, drain=drain), encoding="utf-8")
    command = [sys.executable, "-m", "pointsman", "serve", "--config", str(file), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            yield process, first.split()[3].rstrip(".")
        finally:
            process.kill()


def listens(url: str) -> bool:
    try:
        socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), 1).close()
    except OSError:
        return False
    return True


def test_no_open_stream_is_lost(tmp_path: Path) -> None:
    stopping = threading.Event()

    async def halfway(asked: Asked, send: Any) -> None:
        parts = events(format_of(asked.path))
        await start_stream(send, *parts[:2])
        await asyncio.to_thread(stopping.wait, 60)
        for part in parts[2:]:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    async def read_all(process: subprocess.Popen[str], url: str) -> list[bytes]:
        open_streams = iter(range(STREAMS))
        begun: list[int] = []

        async def read(client: httpx.AsyncClient) -> bytes:
            wire = FORMATS[(number := next(open_streams)) % len(FORMATS)]
            body = request(wire, stream=True)
            async with client.stream("POST", url + PATHS[wire], json=body) as got:
                parts = got.aiter_raw()
                text = await anext(parts)
                begun.append(number)
                return text + b"".join([part async for part in parts])

        def stop() -> None:
            until(lambda: len(begun) == STREAMS)
            process.send_signal(signal.SIGTERM)
            until(lambda: not listens(url))  # it has heard, and takes nobody new
            stopping.set()

        limits = httpx.Limits(max_connections=STREAMS)
        async with httpx.AsyncClient(limits=limits, timeout=60, trust_env=False) as client:
            stopped = asyncio.create_task(asyncio.to_thread(stop))
            texts = await asyncio.gather(*(read(client) for _ in range(STREAMS)))
            await stopped
        return texts

    upstream = ScriptedUpstream(halfway)
    with upstream.running() as url, serving(f"{url}/v1", tmp_path) as (process, gateway_url):
        until(lambda: listens(gateway_url))
        texts = asyncio.run(read_all(process, gateway_url))
        ended = process.wait(60)
    assert texts == [b"".join(events(FORMATS[number % 3])) for number in range(STREAMS)]
    assert ended == 0


@pytest.mark.parametrize(
    ("drain", "signals"),
    [(1, [signal.SIGTERM]), (600, [signal.SIGINT, signal.SIGINT])],
    ids=["late", "twice"],
)
def test_what_is_open_when_the_time_is_over_is_refused_or_cut(
    tmp_path: Path, drain: float, signals: list[signal.Signals]
) -> None:
    async def never_ends(asked: Asked, send: Any) -> None:
        if b"stream" in asked.body:
            await start_stream(send, *events(format_of(asked.path))[:2])
        await asked.disconnected.wait()

    async def ask(process: subprocess.Popen[str], url: str) -> tuple[int, str]:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            unanswered = asyncio.ensure_future(client.post(url + PATHS[wire], json=request(wire)))
            async with client.stream("POST", url + PATHS[wire], json=request(wire, stream=True)) as got:
                parts = got.aiter_raw()
                begun = await anext(parts)
                await asyncio.to_thread(until, lambda: len(upstream.asked) == 2)
                for number in signals:
                    process.send_signal(number)
                    await asyncio.to_thread(until, lambda: not listens(url))
                with pytest.raises(httpx.TransportError):
                    begun += b"".join([part async for part in parts])
            assert b"[DONE]" not in begun
            refused = await unanswered
            return refused.status_code, refused.json()["error"]["code"]

    wire = WireFormat.CHAT
    upstream = ScriptedUpstream(never_ends)
    with upstream.running() as base, serving(f"{base}/v1", tmp_path, drain) as (process, url):
        until(lambda: listens(url))
        assert asyncio.run(ask(process, url)) == (503, "shutting_down")
        status = process.wait(60)
        assert process.stdout is not None
        said = process.stdout.read()
    assert status == (0 if signals == [signal.SIGTERM] else 130)
    assert "Traceback" not in said
    assert said.count("a request was cancelled") == 2


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_what_was_decided_last_is_written_down(tmp_path: Path, number: signal.Signals, status: int) -> None:
    with serving("demo:", tmp_path) as (process, url):
        until(lambda: listens(url))
        with httpx.Client(trust_env=False) as client:
            answers = [
                client.post(url + PATHS[wire], json=request(wire)) for wire in FORMATS for _ in range(5)
            ]
        process.send_signal(number)
        assert process.wait(60) == status
    with closing(SqliteLedger(tmp_path / "ledger.sqlite")) as ledger:
        kept = {decision.id: ledger.attempts(decision.id) for decision in ledger.decisions(limit=None)}
    assert set(kept) == {answer.headers["x-pointsman-decision-id"] for answer in answers}
    assert {len(attempts) for attempts in kept.values()} == {1}
