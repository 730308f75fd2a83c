"""What is on trial, a policy or a second model, is seen by nobody who calls."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from pointsman.config import Config, ShadowSpec
from pointsman.decision.decision import Decision, Injection, RequestInput
from pointsman.gateway import _shadow_model as shadow_model
from pointsman.gateway._live_state import build_live_state
from pointsman.gateway._shadow_model import _ShadowAttempt, _spent
from pointsman.gateway.app import Gateway
from pointsman.stores.ledger import MemoryLedger, ShadowAnswer, ShadowDecision, SqliteLedger
from pointsman.vocabulary import ModelSpec, WireFormat
from pointsman.wire import FORMATS, Reply, Usage
from pointsman.wire.format import CompletionSummary
from support.deciders import ScriptedDecider
from support.requests_by_format import PATHS, answer, events, format_of, request
from support.servers import Answering, Asked, Running, ScriptedUpstream, gateway, reply, state_for
from support.stuck_agents import requests
from support.waiting import until

pytestmark = pytest.mark.integration

TOOL = Reply(id="cd34", model="second", tool="edit", arguments={"a": 1}, input_tokens=9, output_tokens=5)
BOTH = [(wire, stream) for wire in WireFormat for stream in (False, True)]


async def speak(asked: Asked, send: Any, reply_with: Reply | None = None) -> None:
    """Answer in the format and manner asked for."""
    wire = format_of(asked.path)
    if json.loads(asked.body).get("stream"):
        parts = events(wire) if reply_with is None else FORMATS[wire].answer_events(reply_with)
        await reply(send, 200, b"".join(parts), ("content-type", "text/event-stream"))
    else:
        await reply(send, 200, answer(wire) if reply_with is None else FORMATS[wire].answer(reply_with))


async def call_a_tool(asked: Asked, send: Any) -> None:
    await speak(asked, send, TOOL)


async def broken(asked: Asked, send: Any) -> None:
    await reply(send, 500, b"canary: out of memory")


async def cut(asked: Asked, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"99")]})
    raise ConnectionResetError


async def refuse(asked: Asked, send: Any) -> None:
    await reply(send, 404, b'{"error": {"message": "no such model"}}')


async def hang(asked: Asked, send: Any) -> None:
    await asked.disconnected.wait()


async def nonsense(asked: Asked, send: Any) -> None:
    await reply(send, 200, b"<html></html>")


class Trial:
    """A gateway with a second model, and what it wrote down."""

    def __init__(self, running: Running, gateway: Gateway, ledger: MemoryLedger) -> None:
        self.url, self.gateway, self.ledger, self._running = running.url, gateway, ledger, running

    def post(self, wire: WireFormat = WireFormat.CHAT, **more: Any) -> httpx.Response:
        return httpx.post(self.url + PATHS[wire], json=request(wire, **more), timeout=30)

    def shadow(self, decision: str = "d-1") -> ShadowAnswer:
        until(lambda: self.ledger.shadows(decision))
        [found] = self.ledger.shadows(decision)
        assert isinstance(found, ShadowAnswer)
        return found

    def counts(self) -> dict[str, int]:
        page = self.gateway.metrics.page().decode()
        name = 'pointsman_shadow_answers_total{model="m1",result="'
        lines = [line.removeprefix(name) for line in page.splitlines() if line.startswith(name)]
        return {line.split('"')[0]: int(float(line.split()[-1])) for line in lines}

    def stop(self) -> None:
        self._running.server.should_exit = True


Start = Callable[..., tuple[Trial, ScriptedUpstream, ScriptedUpstream]]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:

        def starting(
            answering: Answering = speak, *, decider: ScriptedDecider | None = None, **spec: Any
        ) -> tuple[Trial, ScriptedUpstream, ScriptedUpstream]:
            first, other = ScriptedUpstream(speak), ScriptedUpstream(answering)
            urls = [stack.enter_context(upstream.running()) + "/v1" for upstream in (first, other)]
            ledger = MemoryLedger()
            decider = decider or ScriptedDecider("m0", ledger=ledger)
            wanted = ShadowSpec(**{"model": "m1", "share": 1.0, **spec})
            running = stack.enter_context(gateway(state_for(*urls, decider=decider, shadow_model=wanted)))
            return Trial(running, running.gateway, ledger), first, other

        yield starting


@pytest.mark.parametrize(("wire", "stream"), BOTH)
def test_what_is_kept(start: Start, wire: WireFormat, stream: bool) -> None:
    trial, first, other = start(call_a_tool)
    more = {"stream_options": {"include_usage": True}} if wire is WireFormat.CHAT and stream else {}
    got = trial.post(wire, stream=stream, **more)
    assert got.content == (b"".join(events(wire)) if stream else answer(wire))
    kept = trial.shadow()
    finish = {"chat": "tool_calls", "responses": "completed", "messages": "tool_use"}
    ended = {"chat": "stop", "responses": "completed", "messages": "end_turn"}
    assert kept.said == CompletionSummary(finish[wire], ("edit",))
    assert kept.beside == CompletionSummary(ended[wire])
    assert (kept.model, kept.upstream, kept.status, kept.error) == ("m1", "up1", 200, "")
    if stream and wire is WireFormat.CHAT:
        assert kept.input_tokens is None  # the scripted answer has no usage chunk
    else:
        assert (kept.input_tokens, kept.output_tokens) == (9, 5)
    assert kept.first_byte_ms is not None
    assert kept.total_ms >= kept.first_byte_ms
    assert trial.counts() == {"ok": 1}
    assert len(first.asked) == len(other.asked) == 1


SECRET = Reply(id="ef56", model="second", text="Mail it to me@example.com, all of it.")


async def tell_a_secret(asked: Asked, send: Any) -> None:
    await speak(asked, send, SECRET)


@pytest.mark.parametrize(("wire", "stream"), BOTH)
def test_words_are_kept_only_when_asked_for(start: Start, wire: WireFormat, stream: bool) -> None:
    trial, _, _ = start(tell_a_secret)
    trial.post(wire, stream=stream)
    assert (trial.shadow().text, trial.shadow().beside_text) == (None, None)
    trial, _, _ = start(tell_a_secret, text="redacted")
    trial.post(wire, stream=stream)
    kept = trial.shadow()
    assert kept.text == "Mail it to [e-mail], all of it."
    assert kept.beside_text == "Paris, of course."


def test_what_its_answer_was_worth_can_be_said(start: Start) -> None:
    trial, _, _ = start()
    trial.post()
    said = {"score": 0.5, "model": "m1"}
    assert httpx.post(f"{trial.url}/v1/decisions/d-1/outcome", json=said).status_code == 202
    [outcome] = trial.ledger.outcomes("d-1")
    assert (outcome.model, outcome.score) == ("m1", 0.5)


def test_it_gets_the_same_request_with_what_was_added_once(start: Start) -> None:
    ledger = MemoryLedger()
    decider = ScriptedDecider("m0", injections=(Injection("guidance", "Try another tool."),), ledger=ledger)
    trial, first, other = start(decider=decider)
    trial.ledger = ledger
    trial.post()
    trial.shadow()
    [[was], [then]] = first.asked, other.asked
    assert was.body.replace(b'"model-0"', b'"model-1"') == then.body
    assert then.body.count(b"Try another tool.") == 1
    assert was.path == then.path


def test_a_key_that_makes_two_requests_one_is_not_passed_on(start: Start) -> None:
    trial, first, other = start()
    body, headers = request(WireFormat.CHAT), {"idempotency-key": "k-1", "traceparent": "00-1"}
    httpx.post(trial.url + PATHS[WireFormat.CHAT], json=body, headers=headers)
    trial.shadow()
    assert first.asked[0].headers["idempotency-key"] == "k-1"
    assert "idempotency-key" not in other.asked[0].headers
    assert other.asked[0].headers["traceparent"] == "00-1"


@pytest.mark.parametrize(
    ("answering", "status", "error"),
    [(broken, 500, "status"), (refuse, 404, "status"), (cut, 200, "cut"), (nonsense, 200, "malformed")],
)
def test_one_that_fails_is_tried_once_and_written_down(
    start: Start, answering: Answering, status: int, error: str
) -> None:
    trial, _, other = start(answering)
    for number in range(1, 8):  # more than open a breaker
        assert trial.post().content == answer(WireFormat.CHAT)
        kept = trial.shadow(f"d-{number}")
        assert (kept.status, kept.error) == (status, error)
        assert [attempt.error for attempt in trial.ledger.attempts(f"d-{number}")] == [""]
    assert len(other.asked) == 7
    assert not trial.gateway.state.targets["m1"].upstream.breaker.is_open
    assert trial.counts() == {error: 7}


def test_one_that_hangs_holds_nobody_up_and_is_broken_off_in_the_end(start: Start) -> None:
    trial, _, other = start(hang, concurrent=2)
    for _ in range(3):
        assert trial.post().content == answer(WireFormat.CHAT)
    until(lambda: len(other.asked) == 2)
    assert trial.counts() == {"skipped: busy": 1}
    trial.stop()
    assert trial.shadow("d-1").error == trial.shadow("d-2").error == "cancelled"
    assert trial.counts() == {"skipped: busy": 1, "cancelled": 2}


def test_one_that_is_cancelled_before_its_first_step_is_recorded(start: Start) -> None:
    """Once, on a busy machine, an answer was missing where the gateway stopped just then."""
    trial, _, other = start(hang)
    model = trial.gateway.state.shadow_model
    assert model is not None
    before = model._start

    def started(sample: Any) -> None:
        before(sample)
        model.stop()

    model._start = started  # type: ignore[method-assign]
    assert trial.post().status_code == 200
    assert trial.shadow().error == "cancelled"
    assert trial.counts() == {"cancelled": 1}
    assert other.asked == []


def test_the_rate_is_bounded(start: Start) -> None:
    trial, _, other = start(per_minute=2)
    for number in (1, 2, 3):
        trial.post()
        if number < 3:
            trial.shadow(f"d-{number}")
    assert trial.counts() == {"ok": 2, "skipped: rate": 1}
    assert len(other.asked) == 2


def test_the_money_is_bounded(start: Start) -> None:
    trial, _, _ = start(money_per_day=0.01)
    state = trial.gateway.state
    models = {name: target.model for name, target in state.targets.items()}
    models["m1"] = msgspec.structs.replace(models["m1"], input_per_million=0.0, output_per_million=2_000.0)
    upstreams = {target.upstream.spec.name: target.upstream.spec for target in state.targets.values()}
    spec = ShadowSpec(model="m1", share=1.0, money_per_day=0.01)
    config = Config(models=models, upstreams=upstreams, server=state.server, shadow=spec)
    priced = build_live_state(state.runtime, config, previous=state)
    trial.gateway.replace(priced)
    for number in (1, 2, 3):  # 4 tokens each: 0.008
        trial.post()
        if number < 3:
            trial.shadow(f"d-{number}")
    assert trial.counts() == {"ok": 2, "skipped: money": 1}


PRICED = ModelSpec("m", "up", "m", input_per_million=1.0, output_per_million=10.0)
WINDOW = msgspec.structs.replace(PRICED, context_window=100_000)


@pytest.mark.parametrize(
    ("model", "status", "error", "usage", "spent"),
    [
        (WINDOW, 200, "", Usage(1_000, None, 100), 0.002),
        (WINDOW, 200, "", Usage(), 1.1),  # a full window in and out
        (WINDOW, 200, "cut", Usage(1_000, None, None), 1.1),
        (WINDOW, 0, "timeout", Usage(), 1.1),
        (WINDOW, 0, "connect", Usage(), 0.0),
        (WINDOW, 429, "status", Usage(), 0.0),
        (msgspec.structs.replace(WINDOW, max_output_tokens=1_000), 200, "", Usage(), 0.11),
        (PRICED, 200, "", Usage(), float("inf")),
        (ModelSpec("m", "up", "m", input_per_million=0.0, output_per_million=0.0), 200, "", Usage(), 0.0),
    ],
)
def test_an_answer_without_usage_counts_at_the_most_that_it_can_have_cost(
    model: ModelSpec, status: int, error: str, usage: Usage, spent: float
) -> None:
    attempt = _ShadowAttempt(0.0, 0.0, status=status, error=error, usage=usage)
    assert _spent(model, attempt) == pytest.approx(spent)


def test_what_failed_for_the_caller_is_not_tried(start: Start) -> None:
    trial, first, other = start()
    first.answering = refuse
    assert trial.post().status_code == 404
    first.answering = speak
    trial.post()
    trial.shadow("d-2")
    assert len(other.asked) == 1


@pytest.mark.parametrize(
    ("wire", "more", "why"),
    [
        (WireFormat.RESPONSES, {"conversation": "conv_1"}, "effects"),
        (WireFormat.RESPONSES, {"previous_response_id": "resp_1"}, "effects"),
        (WireFormat.RESPONSES, {"background": True}, "effects"),
        (WireFormat.RESPONSES, {"background": False, "conversation": None}, ""),
        (WireFormat.RESPONSES, {"tools": [{"type": "mcp", "server_url": "https://a.example"}]}, "effects"),
        (WireFormat.RESPONSES, {"tools": [{"type": "function", "name": "f"}]}, ""),
        (WireFormat.MESSAGES, {"mcp_servers": [{"type": "url"}]}, "effects"),
        (WireFormat.MESSAGES, {"tools": [{"name": "f", "input_schema": {}}]}, ""),
    ],
)
def test_a_request_that_does_more_than_ask_is_not_sent_twice(
    start: Start, wire: WireFormat, more: dict[str, Any], why: str
) -> None:
    trial, _, other = start()
    assert trial.post(wire, **more).status_code == 200
    if why:
        assert trial.counts() == {f"skipped: {why}": 1}
    else:
        trial.shadow()
    assert len(other.asked) == (not why)


def test_a_model_that_served_already_is_not_asked_again(start: Start) -> None:
    trial, _, _ = start(decider=ScriptedDecider("m1", "m0"))
    trial.post()
    assert trial.counts() == {"skipped: same model": 1}


def test_a_fault_in_sampling_costs_nobody_an_answer(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(shadow_model, "unfit", fail)
    trial, _, _ = start()
    assert trial.post().content == answer(WireFormat.CHAT)
    assert trial.counts() == {"skipped: failed": 1}


@pytest.mark.parametrize(("longest", "error"), [(380, ""), (40, "cut")])
def test_what_is_too_long_to_look_at(
    start: Start, monkeypatch: pytest.MonkeyPatch, longest: int, error: str
) -> None:
    monkeypatch.setattr(shadow_model, "_LONGEST", longest)

    async def briefly(asked: Asked, send: Any) -> None:
        await reply(send, 200, b'{"choices": [{"finish_reason": "length"}]} ')

    trial, _, _ = start(briefly)
    assert len(trial.post().content) > 380
    kept = trial.shadow()
    assert (kept.error, kept.beside, kept.said.finish) == (error, None, "" if error else "length")


def test_a_fault_in_trying_is_counted(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(shadow_model, "_compare", fail)
    trial, _, _ = start()
    assert trial.post().content == answer(WireFormat.CHAT)
    assert trial.shadow().error == "failed"


def a_decision(session: str) -> Decision:
    return Decision(
        id="d",
        input=RequestInput(
            session=session,
            format=WireFormat.CHAT,
            model_asked="",
            arrived_at=0,
        ),
        policy="",
        tier=None,
        chain=(),
    )


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 1.0])
def test_the_share_is_drawn_by_session_and_seed(share: float) -> None:
    decisions = [a_decision(f"s{number}") for number in range(2_000)]

    def drawn(seed: int) -> list[bool]:
        return [shadow_model._sampled(decision, ShadowSpec(share=share, seed=seed)) for decision in decisions]

    assert drawn(1) == drawn(1)
    assert sum(drawn(1)) / 2_000 == pytest.approx(share, abs=0.03)
    assert (drawn(1) != drawn(2)) == (0 < share < 1)


def test_what_is_of_no_known_shape_says_nothing() -> None:
    for wire in WireFormat:
        for answered in (b"<html>", b'{"choices": 3, "content": 3, "output": 3}', b"data: {\n\n", b""):
            assert FORMATS[wire].completion(answered) == (CompletionSummary(), "")


CONFIG = """
[upstreams.main]
base_url = "{url}/v1"
[upstreams.other]
base_url = "{other}/v1"
[models]
one = {{ upstream = "main", id = "model-0", input_per_million = 1.0, output_per_million = 2.0 }}
two = {{ upstream = "other", id = "second", input_per_million = 1.0, output_per_million = 2.0 }}
[tiers]
simple = "one"
medium = "one"
complex = "one"
reasoning = "one"
[guidance]
mode = "on"
[ledger]
path = "{folder}/{name}.sqlite"
[server]
port = 0
{shadow}
"""
ON = """[shadow]
policy = "candidate.toml"
model = "two"
share = 1.0
concurrent = 100
per_minute = 1000
"""
CANDIDATE = """[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
[models]
two = { upstream = "main", id = "second" }
[tiers]
simple = "two"
[guidance]
mode = "off"
"""


@contextmanager
def serving(folder: Path, name: str, url: str, other: str, shadow: str) -> Iterator[str]:
    file = folder / f"{name}.toml"
    file.write_text(CONFIG.format(url=url, other=other, folder=folder, name=name, shadow=shadow), "utf-8")
    with gateway(file) as running:
        yield running.url


def stuck(wire: WireFormat) -> Any:
    """A conversation in which guidance speaks."""
    return list(requests(wire, 4))[-1]


Seen = tuple[int, list[tuple[bytes, bytes]], bytes]


def conversation(url: str) -> list[Seen]:
    """Requests of all formats, plain and streamed, at ease and stuck; and what came back."""
    found: list[Seen] = []
    with httpx.Client(base_url=url, timeout=30) as client:
        for number, (wire, stream) in enumerate(BOTH):
            for body in (request(wire, stream=stream), request(wire, stream=stream)):
                if len(found) % 2:
                    body[FORMATS[wire].items] = stuck(wire)
                got = client.post(PATHS[wire], json=body, headers={"x-session-id": f"s{number}"})
                own = [(n, v) for n, v in got.headers.raw if n.lower() != b"x-pointsman-overhead-ms"]
                found.append((got.status_code, own, got.content))
    return found


def decided(folder: Path, name: str) -> list[Decision]:
    ledger = SqliteLedger(folder / f"{name}.sqlite")
    found = [
        msgspec.structs.replace(
            decision, input=msgspec.structs.replace(decision.input, arrived_at=0.0), elapsed_us=0.0
        )
        for decision in ledger.decisions(limit=None, newest_first=False)
    ]
    ledger.close()
    return found


BESIDE: dict[str, Callable[[Asked, Any], Awaitable[None]] | None] = {
    "answers": speak,
    "calls a tool": call_a_tool,
    "fails": broken,
    "cuts": cut,
    "talks nonsense": nonsense,
    "hangs": hang,
    "is not there": None,
}


@pytest.mark.parametrize("beside", BESIDE)
def test_bytes_headers_and_decisions_are_those_without_it(
    tmp_path: Path, beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pointsman.runtime.new_ids", lambda: map("d-{}".format, count(1)).__next__)
    (tmp_path / "candidate.toml").write_text(CANDIDATE, encoding="utf-8")
    first, other = ScriptedUpstream(speak), ScriptedUpstream(BESIDE[beside] or speak)
    with first.running() as url, other.running() as up:
        address = up if BESIDE[beside] else "http://127.0.0.1:9"
        with serving(tmp_path, "off", url, address, "") as without:
            expected = conversation(without)
        bodies = [asked.body for asked in first.asked]
        first.asked.clear()
        with serving(tmp_path, "on", url, address, ON) as gateway:
            assert conversation(gateway) == expected
        assert [asked.body for asked in first.asked] == bodies
    assert any(b"pointsman" in body for body in bodies), "guidance never spoke"
    assert decided(tmp_path, "on") == decided(tmp_path, "off") != []
    ledger = SqliteLedger(tmp_path / "on.sqlite")
    shadows = [shadow for record in ledger.records() for shadow in record.shadows]
    ledger.close()
    policies = [shadow for shadow in shadows if isinstance(shadow, ShadowDecision)]
    models = [shadow for shadow in shadows if isinstance(shadow, ShadowAnswer)]
    assert len(policies) == len(models) == 12
    assert {policy.error for policy in policies} == {""}
    assert all("guidance" in policy.changed or policy.verdict.guidance is None for policy in policies)
    assert any("guidance" in policy.changed for policy in policies)
