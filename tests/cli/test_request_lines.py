"""One line for each request of a running gateway, the summary at its end, and the demo's scripted agents."""

import asyncio
import io
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pointsman.cli._listening import has_other_clients
from pointsman.cli._served import RequestLines, Totals, heading, request_line
from pointsman.cli.demo_traffic import CLIENT, DemoTraffic, ScriptedRequest, one_round
from pointsman.config import Config
from pointsman.config.shapes import demo_config
from pointsman.gateway import request_feed
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.gateway.request_log import RequestLog, ServedRequest
from pointsman.telemetry import request_record
from support.in_process import ask


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_feed, "_PATIENCE", 60.0)  # what waits is written on any machine


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """Of the demo, with a ledger that is thrown away."""
    path = tmp_path_factory.mktemp("demo") / "demo.sqlite"

    def config() -> Config:
        found = demo_config()
        return msgspec.structs.replace(found, ledger=msgspec.structs.replace(found.ledger, path=path))

    with closing(Builder(config)) as built:
        yield built


def served_by(builder: Builder, *requests: ScriptedRequest) -> list[ServedRequest]:
    told: list[ServedRequest] = []
    application: Any = RequestLog(Gateway(builder()), told.append)

    async def send_all() -> None:
        for each in requests:
            await ask(application, each.path, each.body, {"x-session-id": each.session})

    asyncio.run(send_all())
    return told


def line_of(served: ServedRequest, builder: Builder) -> str:
    return request_line(request_record(served, builder.config.models))


def asked(model: str = "auto", text: str = "Hello!", path: str = "/v1/chat/completions") -> ScriptedRequest:
    return ScriptedRequest("", path, {"model": model, "messages": [{"role": "user", "content": text}]})


def test_a_round_of_the_demo_shows_the_small_model_the_large_one_and_one_hint(builder: Builder) -> None:
    told = served_by(builder, *one_round("a"))
    lines = [line_of(each, builder) for each in told]
    of = {
        each.decision.input.session if each.decision else "": line
        for each, line in zip(told, lines, strict=True)
    }
    assert re.search(r"SIMPLE +demo-small +200", of["demo-question-a"])
    numbers = r"1 +[\d.]+ +[\d.]+ +\d+ +\d+ +\$0\.\d+"  # attempts, times, tokens, cost
    assert re.search(
        r"info +d-\w{20} +demo-proof-a +REASONING +demo-large +200 +" + numbers, of["demo-proof-a"]
    )
    hinted = [line for line in lines if "+guidance (error_streak)" in line]
    assert len(hinted) == 1
    totals = Totals()
    for each in told:
        totals.add(each, builder.config.models)
    said = "\n".join(totals.lines("/a/demo.sqlite", demo=True))
    assert said.startswith(f"Requests: {len(told)}\nTokens: ")
    [stuck] = [
        each.decision.id
        for each in told
        if each.decision and each.decision.guidance and each.decision.guidance.firing
    ][:1]
    assert f"Stuck sessions: 1 (error_streak); where: pointsman decisions show {stuck} --demo\n" in said
    assert "Ledger: /a/demo.sqlite (pointsman decisions list --demo)" in said


def test_a_round_is_the_same_each_time() -> None:
    assert list(one_round("a")) == list(one_round("a"))
    assert {each.session for each in one_round("a")}.isdisjoint(each.session for each in one_round("b"))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (asked("gtp"), r"-  +/chat/completions +404 .*unknown model \"gtp\"; known: auto"),
        (asked("demo-large"), r"-  +demo-large +200"),
        (ScriptedRequest("", "/v1/responses", {"input": "Hello!"}), r"/responses +400"),
        (asked(path="/v1/embeddings"), r"-  +/embeddings +40\d"),
    ],
)
def test_refusals_and_what_was_not_routed_have_a_line(
    builder: Builder, request_: ScriptedRequest, expected: str
) -> None:
    (told,) = served_by(builder, request_)
    line = line_of(told, builder)
    assert re.search(expected, line)
    assert (" info " if told.status == 200 else " warning ") in line


@pytest.mark.parametrize("path", ["/health/live", "/metrics", "/v1/models", "/v1/messages/count_tokens"])
def test_what_monitors_ask_has_none(builder: Builder, path: str) -> None:
    async def get(application: Any) -> int:
        method = "POST" if path.endswith("tokens") else "GET"
        return (await ask(application, path, asked().body, method=method)).status

    told: list[ServedRequest] = []
    assert asyncio.run(get(RequestLog(Gateway(builder()), told.append))) == 200
    assert told == []


def test_a_line_holds_nothing_that_acts(builder: Builder) -> None:
    (told,) = served_by(builder, asked("\x1b[31mred\u202e"))
    record = request_record(told, builder.config.models)
    assert request_line(record).isprintable()
    assert "\x1b" in request_line(record, colour=True)  # of ours alone


def test_a_narrow_terminal_gets_the_short_line(builder: Builder) -> None:
    (told,) = served_by(builder, asked())
    record = request_record(told, builder.config.models)
    line = request_line(record, wide=False)
    assert record.decision
    assert record.decision in request_line(record)
    assert record.decision not in line
    assert heading(wide=False).split() == [
        "time",
        "tier",
        "model",
        "status",
        "total",
        "ms",
        "in",
        "out",
        "cost",
        "added",
    ]
    assert len(line) < 100


def test_a_stopped_terminal_holds_up_no_request() -> None:
    """Ctrl-S: writing blocks. What does not fit is counted, and said when the terminal goes on."""
    goes_on = threading.Event()

    class Stopped(io.StringIO):
        def write(self, text: str) -> int:
            goes_on.wait()
            return super().write(text)

    stream = Stopped()
    lines = RequestLines(dict, stream)
    for _ in range(2_500):
        lines.tell(ServedRequest("POST", b"/v1/chat/completions"))
    assert lines.totals.requests == 2_500
    goes_on.set()
    lines.close()
    shown = stream.getvalue()
    assert shown.startswith("time ")
    left_out = re.findall(r"([\d,]+) more requests were not shown", shown)
    assert left_out
    assert shown.count("left ") + sum(int(each.replace(",", "")) for each in left_out) == 2_500


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no pseudo-terminals here")
@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_colours_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, no_colour: str, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_colour)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        lines = RequestLines(dict, terminal)
        lines.tell(ServedRequest("POST", b"/v1/x"))
        lines.close()
        shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert ("\x1b[" in shown) == coloured


def test_the_traffic_plays_until_it_is_stopped() -> None:
    sent: list[ScriptedRequest] = []
    DemoTraffic("", 0, "x", send=sent.append, wait=lambda _: len(sent) == 20).play()
    assert len(sent) == 20
    assert {each.session.rpartition("-")[2] for each in sent} == {"1", "2"}


def test_the_traffic_ends_when_a_person_begins(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger names the client of each request: the first of another ends the scripted ones."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    began, sent = time.time(), list[str]()
    with closing(Builder(demo_config)) as built:
        live: Any = built()
        gateway: Any = Gateway(live)

        def send(request: ScriptedRequest) -> None:
            client = CLIENT if len(sent) < 3 else "curl"
            headers = {"x-session-id": request.session, "user-agent": f"{client}/1"}
            asyncio.run(ask(gateway, request.path, request.body, headers))
            live.runtime.ledger.flush()
            sent.append(client)

        DemoTraffic(
            "", 0, "x", send=send, wait=lambda _: False, is_in_use=lambda: has_other_clients(began)
        ).play()
    assert sent == [CLIENT, CLIENT, CLIENT, "curl"]
    assert not has_other_clients(time.time() + 60)  # those of an earlier start do not count


def test_the_traffic_ends_with_the_gateway() -> None:
    def refuse(_: ScriptedRequest) -> None:
        raise ConnectionRefusedError

    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return False

    DemoTraffic("", 0, "x", send=refuse, wait=wait).play()
    assert len(waited) == 1
