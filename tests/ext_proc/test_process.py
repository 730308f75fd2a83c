"""The external processor as a process: pages beside it, signals, reload, the command and its errors."""

import asyncio
import os
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from typer.testing import CliRunner

from pointsman import ConfigError
from pointsman.cli import app
from pointsman.config import Config, load
from pointsman.config.serving import ExtProcSpec
from pointsman.ext_proc.server import ExtProcServer, gateway_for, run
from pointsman.gateway import reloading
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.gateway.listening import address, bound
from support.envoy import Processed, ScriptedEnvoy
from support.waiting import until

pytestmark = pytest.mark.integration

FILE = """
[ext_proc]
port = 0
http_port = 0
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
[models]
small = { upstream = "main", id = "small-1" }
[tiers]
simple = "small"
[ledger]
path = "ledger.sqlite"
"""
BODY = b'{"model": "auto", "messages": [{"role": "user", "content": "Hello!"}]}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (found := tmp_path / "pointsman.toml").write_text(FILE, encoding="utf-8")
    return found


async def asked(address: str) -> Processed:
    async with grpc.aio.insecure_channel(address) as channel:
        return await ScriptedEnvoy(channel).process(BODY, response=(200, {}, [b"{}"]))


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


IPV6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
HOSTS = ["127.0.0.1", pytest.param("::1", marks=IPV6), pytest.param("[::1]", marks=IPV6)]


def serve_while(
    server: ExtProcServer, gateway: Gateway, spec: ExtProcSpec, ask: Callable[[str], None]
) -> None:
    """Run the process until ``ask``, which is told in a thread what the process says, returns."""

    def ask_it(said: str) -> None:
        try:
            ask(said)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    threads: list[threading.Thread] = []

    def say(said: str) -> None:
        threads.append(threading.Thread(target=ask_it, args=(said,)))
        threads[0].start()

    # One that comes late must not end the tests.
    before = {each: signal.signal(each, lambda *_: None) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        run(server, gateway, spec, say)
        threads[0].join(60)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@pytest.mark.parametrize("host", HOSTS)
def test_it_serves_until_it_is_told_to_end(file: Path, host: str) -> None:
    """SIGTERM ends it; its pages are those for monitors alone, whatever name they call it by."""
    seen: list[str] = []

    def ask(said: str) -> None:
        at, pages = said.rpartition("listens on ")[2].split(", ")
        seen.append(asyncio.run(asked(at)).request_headers["x-ai-eg-model"])
        request = urllib.request.Request(pages, headers={"host": "10.1.2.3:9464"})
        with urllib.request.urlopen(request, timeout=60) as page:
            seen.append(str(b'pointsman_ext_proc_total{result="decided"} 1.0' in page.read()))
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(pages.replace("/metrics", "/v1/models"), timeout=60)

    with closing(Builder(lambda: load(file))) as builder:
        spec = ExtProcSpec(host=host, port=0, http_port=0)
        gateway = gateway_for(builder(), spec)
        serve_while(ExtProcServer(gateway, spec), gateway, spec, ask)
    assert seen == ["small-1", "True"]


def test_sighup_reloads_the_configuration(file: Path) -> None:
    seen: list[str] = []

    def ask(said: str) -> None:
        file.write_text(FILE.replace("small-1", "small-2"), encoding="utf-8")
        os.kill(os.getpid(), signal.SIGHUP)
        until(lambda: b'pointsman_reloads_total{result="done"} 1.0' in gateway.metrics.page())
        at = said.rpartition("listens on ")[2]
        seen.append(asyncio.run(asked(at)).request_headers["x-ai-eg-model"])

    with closing(Builder(lambda: load(file), file)) as builder:
        spec = ExtProcSpec(port=0)
        gateway = gateway_for(builder(), spec)
        serve_while(ExtProcServer(gateway, spec, builder=builder), gateway, spec, ask)
    assert seen == ["small-2"]


@pytest.mark.parametrize("host", HOSTS)
def test_a_port_in_use_is_a_clear_error(file: Path, host: str) -> None:
    with bound(host, 0) as taken, closing(Builder(lambda: load(file))) as builder:
        port = taken.getsockname()[1]
        state = builder()
        for spec in (ExtProcSpec(host=host, port=port), ExtProcSpec(host=host, port=0, http_port=port)):
            gateway = gateway_for(state, spec)
            with pytest.raises(ConfigError) as refused:
                run(ExtProcServer(gateway, spec), gateway, spec, lambda _: None)
            assert refused.value.message.startswith(f"cannot listen on {address(host, port)}")
            assert "[ext_proc] host and " in refused.value.hint


class Watched:
    """A file that changes when the test says so."""

    def __init__(self) -> None:
        self.changed = False

    def has_changed(self) -> bool:
        changed, self.changed = self.changed, False
        return changed


def test_a_changed_configuration_is_in_effect_and_a_wrong_one_is_not(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloading, "_LOOK_EVERY", 0.01)
    watch = Watched()

    def read() -> Config:
        text = file.read_text(encoding="utf-8")
        if "broken" in text:
            raise OSError("the disk is away")
        return load(file)

    async def test() -> None:
        with closing(Builder(read)) as builder:
            spec = ExtProcSpec(port=0)
            gateway = gateway_for(builder(), spec)
            builder.watch = watch  # type: ignore[assignment]
            server = ExtProcServer(gateway, spec, None, builder)
            await server.start()

            async def change(text: str, result: str, times: int = 1) -> None:
                await asyncio.to_thread(file.write_text, text, encoding="utf-8")
                watch.changed = True
                line = f'pointsman_reloads_total{{result="{result}"}} {times}.0'
                while line not in gateway.metrics.page().decode():  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.01)

            at = f"127.0.0.1:{server.port}"
            await change(FILE.replace("small-1", "small-2"), "done")
            assert (await asked(at)).request_headers["x-ai-eg-model"] == "small-2"
            await change("[models]\nx = 1\n", "failed")
            await change("broken", "failed", 2)
            assert (await asked(at)).request_headers["x-ai-eg-model"] == "small-2"
            await server.stop()

    asyncio.run(asyncio.wait_for(test(), 60))


def test_the_command_refuses_a_public_address_without_tls(file: Path) -> None:
    ran = CliRunner().invoke(app, ["ext-proc", "--config", str(file), "--host", "0.0.0.0"])
    assert ran.exit_code != 0
    assert isinstance(ran.exception, ConfigError)
    assert "refusing to listen on 0.0.0.0 without TLS" in str(ran.exception)


@pytest.mark.parametrize("option", [["--demo"], []])
def test_the_command_needs_a_free_port(file: Path, option: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        more = option or ["--config", str(file)]
        ran = CliRunner().invoke(app, ["ext-proc", *more, "--port", port, "--log-format", "json"])
    assert isinstance(ran.exception, ConfigError)
    assert f"cannot listen on 127.0.0.1:{port}" in str(ran.exception)
