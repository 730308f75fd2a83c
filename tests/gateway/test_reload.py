"""A changed configuration takes effect while serving; what cannot is named; a wrong one changes nothing."""

import asyncio
import dataclasses
import gc
import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from pointsman.access import PaidQuestions
from pointsman.config import Config, load
from pointsman.decision.decision import Decision
from pointsman.decision.policy import Policy
from pointsman.evidence._signals import SignalTable
from pointsman.factory import build_policy
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.gateway.reloading import Reloader
from pointsman.gateway.serve import Server
from pointsman.vocabulary import AgentRequest
from support.deciders import ScriptedDecider
from support.requests_by_format import PATHS, request
from support.servers import Running, gateway, state_for
from support.waiting import until

pytestmark = pytest.mark.integration

FILE = """
[upstreams.main]
base_url = "demo:"
[models]
one = { upstream = "main", id = "one-1" }
two = { upstream = "main", id = "two-2" }
[tiers]
simple = "one"
[ledger]
path = "ledger.sqlite"
"""
CANDIDATE = FILE.replace('simple = "one"', 'simple = "two"')


class Serving:
    """A gateway that watches its file."""

    def __init__(self, file: Path, url: str, gateway: Gateway) -> None:
        self.file, self.url, self.gateway = file, url, gateway
        self._sessions = 0

    def change(self, text: str) -> None:
        """Write the file as an editor does, and wait until it was read."""
        before = self.reloads()
        self.write(text)
        until(lambda: self.reloads() != before)

    def write(self, text: str) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self.file)

    def reloads(self) -> list[str]:
        page = self.gateway.metrics.page().decode().splitlines()
        return [line for line in page if re.match(r"pointsman_reloads_total.* [1-9]", line)]

    def model(self) -> str:
        body = request(next(iter(PATHS)))
        self._sessions += 1  # a conversation stays with its model
        headers = {"x-session-id": f"s{self._sessions}"}
        got = httpx.post(self.url + next(iter(PATHS.values())), json=body, headers=headers, timeout=30)
        return got.headers["x-pointsman-model"]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with started(tmp_path) as found:
        yield found


def at_any_port(config: Config) -> Config:
    port = config.server.port if config.server.port != 4747 else 0
    return msgspec.structs.replace(config, server=msgspec.structs.replace(config.server, port=port))


@contextmanager
def started(folder: Path, text: str = FILE) -> Iterator[Serving]:
    file = folder / "pointsman.toml"
    file.write_text(text, encoding="utf-8")

    builder = Builder(lambda: at_any_port(load(file)), file)
    try:
        gateway = Gateway(builder())
        with Running(Server(gateway, builder)) as running:
            yield Serving(file, running.url, gateway)
    finally:
        builder.close()


def test_another_model_serves_from_the_next_request_on(serving: Serving) -> None:
    assert serving.model() == "one"
    serving.change(FILE.replace('simple = "one"', 'simple = "two"'))
    assert serving.model() == "two"


def test_what_reloads_leave_is_freed(tmp_path: Path) -> None:
    """Parts of a policy refer to each other, and the collector is told to look seldom: 1 MB each stayed."""
    (file := tmp_path / "pointsman.toml").write_text(FILE + '[guidance]\nmode = "on"\n', encoding="utf-8")
    builder = Builder(lambda: at_any_port(load(file)), file)
    reloader = Reloader(Gateway(builder()), builder, lambda state: state)
    alive: list[int] = []  # tables of signals

    async def reload() -> None:
        for _ in range(8):
            assert await reloader.reload()
            alive.append(sum(isinstance(each, SignalTable) for each in gc.get_objects()))

    gc.disable()
    try:
        asyncio.run(reload())
    finally:
        gc.enable()
        builder.close()
    # The thread that read the last one may hold the one before for a moment, and an earlier test's may go.
    assert alive[-1] <= alive[2] + 2


def test_a_change_before_the_first_look_is_not_missed(tmp_path: Path) -> None:
    (file := tmp_path / "pointsman.toml").write_text(FILE, encoding="utf-8")
    builder = Builder(lambda: at_any_port(load(file)), file)
    gateway = Gateway(builder())
    server = Server(gateway, builder)
    file.write_text(CANDIDATE, encoding="utf-8")  # the server has not begun to look
    try:
        with Running(server) as running:
            serving = Serving(file, running.url, gateway)
            until(serving.reloads)
            assert serving.model() == "two"
    finally:
        builder.close()


def test_a_wrong_file_changes_nothing(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    serving.change(FILE.replace('simple = "one"', 'simple = "three"'))
    assert serving.model() == "one"
    assert f'the old one stays in effect: {serving.file}:8: unknown model "three"' in caplog.text
    assert serving.reloads() == ['pointsman_reloads_total{result="failed"} 1.0']


@pytest.mark.parametrize(
    "part", ["build.build_policy", "build.build_engine", "build.build_ask", "_live_state.targets"]
)
def test_a_fault_of_ours_in_reading_changes_nothing(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(f"pointsman.gateway.{part}", fail)
        serving.change(FILE.replace('simple = "one"', 'simple = "two"'))
    assert serving.model() == "one"
    assert "the configuration cannot be read, the old one stays" in caplog.text
    serving.change(FILE.replace('simple = "one"', 'simple = "two" '))
    assert serving.model() == "two"


def test_callers_are_served_while_it_is_read(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, served = threading.Event(), threading.Event()

    def slowly(config: Config) -> Policy:
        reading.set()
        assert served.wait(30)
        return build_policy(config)

    monkeypatch.setattr("pointsman.gateway.build.build_policy", slowly)
    serving.write(CANDIDATE)
    assert reading.wait(30)
    assert serving.model() == "one"
    served.set()
    until(serving.reloads)
    assert serving.model() == "two"


def test_a_request_keeps_the_state_it_began_with() -> None:
    class Replacing(ScriptedDecider):
        async def decide(
            self, agent_request: AgentRequest, payer: PaidQuestions | None = None, /
        ) -> Decision:
            decision = await super().decide(agent_request)
            app.replace(another)
            return decision

    state = state_for(decider=Replacing("m0"))
    another = dataclasses.replace(state, targets={"other": state.targets["m0"]})
    app = Gateway(state)
    [wire, *_] = PATHS
    with gateway(app) as running:
        got = httpx.post(running.url + PATHS[wire], json=request(wire), timeout=30)
    assert (got.status_code, got.headers["x-pointsman-model"]) == (200, "m0")
    assert set(app.state.targets) == {"other"}


def test_what_waits_for_a_restart_is_named(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    changed = FILE.replace('"ledger.sqlite"', '"other.sqlite"\ntext = "hash"')
    with caplog.at_level(logging.WARNING):
        serving.change(
            changed + "[sessions]\nttl = 60\n[server]\nport = 4801\nlimits = { header_bytes = 9_999 }\n"
        )
    [said] = [record.getMessage() for record in caplog.records if "next start" in record.getMessage()]
    assert said == (
        "changed, takes effect at the next start: [ledger] path, [ledger] text, [sessions] ttl, "
        "[server] port, [server.limits] header_bytes"
    )
    assert serving.model() == "one"
    caplog.clear()
    serving.change(FILE)
    assert "next start" not in caplog.text


def test_a_public_address_keeps_its_keys_until_a_restart_unbinds_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = f'keys = ["sha256:{"0" * 64}"]'
    [wire, *_] = PATHS
    with started(tmp_path, f'{FILE}[server]\nhost = "0.0.0.0"\n{keys}') as serving:
        serving.change(f'{FILE}[server]\nhost = "127.0.0.1"\n')
        got = httpx.post(serving.url + PATHS[wire], json=request(wire), timeout=30)
    assert got.status_code == 401
    assert "refusing to bind to 0.0.0.0 without a key" in caplog.text


def test_a_shadow_comes_and_goes(serving: Serving) -> None:
    def counted() -> bool:
        return (
            'pointsman_shadow_decisions_total{result="differs"} 1.0'
            in serving.gateway.metrics.page().decode()
        )

    (serving.file.parent / "candidate.toml").write_text(CANDIDATE, encoding="utf-8")
    shadow = '[shadow]\npolicy = "candidate.toml"\nmodel = "two"\nshare = 1.0\n'
    serving.change(FILE + shadow)
    assert serving.model() == "one"
    until(counted)
    until(
        lambda: 'shadow_answers_total{model="two",result="ok"} 1.0' in serving.gateway.metrics.page().decode()
    )
    serving.change(FILE + shadow.replace("candidate.toml", "absent.toml"))
    assert "failed" in serving.reloads()[-1]
    assert counted()
    serving.change(FILE)
    assert not counted()
    assert serving.model() == "one"
    assert serving.gateway.state.shadow_model is None
