"""Two cheap models are asked at once; the strong one answers where they do not agree."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import msgspec
import pytest

from pointsman.agreement import AgreementPolicy, AgreementSessions, Compared, Result
from pointsman.gateway._answer_budget import AnswerBudget
from pointsman.gateway._live_state import build_live_state
from pointsman.gateway.app import Gateway
from pointsman.stores.ledger import Attempt, ComparedAnswers, MemoryLedger
from pointsman.upstreams.port import ServerSpec
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Reply
from support.deciders import ScriptedDecider
from support.limited import Trial as Limited
from support.requests_by_format import PATHS, format_of, request
from support.servers import Answering, Asked, Running, ScriptedUpstream, gateway, reply, state_for
from support.waiting import until

pytestmark = pytest.mark.integration

BOTH = [(wire, stream) for wire in WireFormat for stream in (False, True)]
USED: dict[str, Any] = {"input_tokens": 9, "output_tokens": 5, "wants_usage": True}


def words(text: str) -> Reply:
    return Reply(id="ab12", model="m", text=text, **USED)


def call(**arguments: Any) -> Reply:
    return Reply(id="cd34", model="m", tool="edit", arguments=arguments, **USED)


def saying(said: Reply) -> Answering:
    async def speak(asked: Asked, send: Any) -> None:
        wire = format_of(asked.path)
        if json.loads(asked.body).get("stream"):
            parts = FORMATS[wire].answer_events(said)
            await reply(send, 200, b"".join(parts), ("content-type", "text/event-stream"))
        else:
            await reply(send, 200, FORMATS[wire].answer(said))

    return speak


async def broken(asked: Asked, send: Any) -> None:
    await reply(send, 500, b"canary: out of memory")


async def hang(asked: Asked, send: Any) -> None:
    await asked.disconnected.wait()


async def cut(asked: Asked, send: Any) -> None:
    """Answer with the first half of a stream."""
    events = list(FORMATS[format_of(asked.path)].answer_events(words("42")))
    await reply(send, 200, b"".join(events[:2]), ("content-type", "text/event-stream"))


class Trial:
    """A gateway with two cheap models (m0, m1) and a strong one (m2), and what it wrote down."""

    def __init__(self, running: Running, gateway: Gateway, ledger: MemoryLedger, asked: list[Any]) -> None:
        self.url, self.gateway, self.ledger, self.upstreams = running.url, gateway, ledger, asked

    def post(self, wire: WireFormat = WireFormat.CHAT, **more: Any) -> httpx.Response:
        return httpx.post(self.url + PATHS[wire], json=request(wire, **more), timeout=60)

    def found(self, decision: str = "d-1") -> ComparedAnswers:
        until(lambda: self.ledger.shadows(decision))
        [found] = self.ledger.shadows(decision)
        assert isinstance(found, ComparedAnswers)
        return found

    def attempts(self, decision: str = "d-1", *, number: int) -> dict[str, Attempt]:
        until(lambda: len(self.ledger.attempts(decision)) == number)
        return {attempt.model: attempt for attempt in self.ledger.attempts(decision)}

    def asked(self) -> list[int]:
        return [len(each.asked) for each in self.upstreams]

    def metric(self, line: str) -> float:
        page = self.gateway.metrics.page().decode()
        return next(float(each.split()[-1]) for each in page.splitlines() if each.startswith(line))


Start = Callable[..., Trial]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:

        def starting(*answers: Answering | Reply, server: ServerSpec | None = None, **more: Any) -> Trial:
            given = [saying(each) if isinstance(each, Reply) else each for each in answers]
            upstreams = [ScriptedUpstream(each) for each in given]
            urls = [stack.enter_context(upstream.running()) + "/v1" for upstream in upstreams]
            ledger = MemoryLedger()
            formats = {key: more.pop(key) for key in ("formats",) if key in more}
            policy = AgreementPolicy(**{"cheap": ("m0", "m1"), "loops": True, "share": 0.0, **more})
            state = state_for(
                *urls,
                decider=ScriptedDecider("m2", ledger=ledger),
                server=server,
                agreement={"tools": policy},
                **formats,
            )
            running = stack.enter_context(gateway(state))
            return Trial(running, running.gateway, ledger, upstreams)

        yield starting


@pytest.mark.parametrize(("wire", "stream"), BOTH)
def test_the_first_cheap_model_serves_where_both_agree(start: Start, wire: WireFormat, stream: bool) -> None:
    first = call(path="a", line=1)
    trial = start(first, call(line=1.0, path="a "), call(path="b"))
    got = trial.post(wire, stream=stream)
    expected = b"".join(FORMATS[wire].answer_events(first)) if stream else FORMATS[wire].answer(first)
    assert got.content == expected
    assert got.headers["x-pointsman-model"] == "m0"
    assert trial.asked() == [1, 1, 0]
    found = trial.found()
    assert (found.result, found.compared, found.strong) == (Result.AGREED, Compared.CALLS, "")
    assert found.detail == "same call of `edit`, 2 arguments"
    tries = trial.attempts(number=2)
    assert (tries["m0"].error, tries["m1"].error) == ("", "compared")
    assert {each.output_tokens for each in tries.values()} == {5}
    assert trial.metric('pointsman_agreements_total{result="agreed",rule="tools"}') == 1
    assert trial.metric('pointsman_switches_total{reason="fallback"}') == 0


@pytest.mark.parametrize("lengths", [True, False], ids=["with lengths", "in chunks"])
def test_large_answers_are_counted_each_until_they_are_not_needed(
    start: Start, lengths: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [FORMATS[WireFormat.CHAT].answer(call(path=name * 1_000_000)) for name in "abc"]
    size = max(map(len, bodies))

    def large(body: bytes) -> Answering:
        async def speak(_: Asked, send: Any) -> None:
            more = [("content-length", str(len(body)))] if lengths else []
            await reply(send, 200, body, ("content-type", "application/json"), *more)

        return speak

    trial = start(*map(large, bodies))
    answers = trial.gateway.bodies.answers = AnswerBudget(2 * size)  # none is left for a third
    held: list[int] = []
    give = answers.give

    def noted(count: int) -> None:
        held.append(answers.held)
        give(count)

    monkeypatch.setattr(answers, "give", noted)
    got = trial.post()
    assert (got.status_code, got.content == bodies[2]) == (200, True)
    assert trial.found().result is Result.DIFFERENT
    until(lambda: trial.gateway.active == 0)
    assert (max(held), answers.held) == (2 * size, 0)


@pytest.mark.parametrize(("wire", "stream"), BOTH)
def test_the_strong_model_serves_where_they_differ(start: Start, wire: WireFormat, stream: bool) -> None:
    strong = call(path="b")
    trial = start(call(path="a"), call(path="b"), strong)
    got = trial.post(wire, stream=stream)
    expected = b"".join(FORMATS[wire].answer_events(strong)) if stream else FORMATS[wire].answer(strong)
    assert got.content == expected
    assert trial.asked() == [1, 1, 1]
    found = trial.found()
    assert (found.result, found.strong) == (Result.DIFFERENT, "m2")
    assert found.detail == "different arguments of `edit`"
    assert found.strong_same == (False, True)
    tries = trial.attempts(number=3)
    assert [tries[name].error for name in ("m0", "m1", "m2")] == ["compared", "compared", ""]


def test_answers_of_other_formats_are_translated_and_compared(start: Start) -> None:
    formats = [frozenset({WireFormat.CHAT}), frozenset({WireFormat.MESSAGES}), frozenset({WireFormat.CHAT})]
    for stream in (False, True):
        trial = start(call(path="a"), call(path="a"), words("never"), formats=formats)
        got = trial.post(WireFormat.MESSAGES, stream=stream)
        assert got.headers["x-pointsman-model"] == "m0"
        assert b'"tool_use"' in got.content
        assert (b"message_stop" in got.content) is stream
        assert trial.found().result is Result.AGREED
        assert trial.asked() == [1, 1, 0]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "result"),
    [
        (words("42"), words("Answer: 42"), Result.AGREED),
        (words("42"), words("43"), Result.DIFFERENT),
        (words("It depends on the weather."), words("It depends on the weather."), Result.INCOMPARABLE),
        (call(path="a"), words("I would edit a."), Result.DIFFERENT),
        (broken, words("42"), Result.FAILED),
        (words("42"), broken, Result.FAILED),
    ],
)
def test_what_is_compared(start: Start, first: Any, second: Any, result: Result, stream: bool) -> None:
    trial = start(first, second, words("strong"))
    got = trial.post(stream=stream)
    assert got.headers["x-pointsman-model"] == ("m0" if result is Result.AGREED else "m2")
    assert trial.found().result is result


def test_a_stream_that_is_cut_never_agrees(start: Start) -> None:
    trial = start(words("42"), cut, words("strong"))
    assert trial.post(stream=True).headers["x-pointsman-model"] == "m2"
    assert trial.found().result is Result.INCOMPARABLE


def test_free_text_may_be_served_by_the_first_model(start: Start) -> None:
    said = words("It depends on the weather.")
    trial = start(said, words("It does not."), words("strong"), incomparable="first")
    assert trial.post().headers["x-pointsman-model"] == "m0"
    assert (trial.found().result, trial.found().strong) == (Result.INCOMPARABLE, "")


def test_who_has_not_answered_in_time_disagrees(start: Start) -> None:
    trial = start(words("42"), hang, words("42"), timeout=0.5)
    assert trial.post().headers["x-pointsman-model"] == "m2"
    found = trial.found()
    assert (found.result, found.detail) == (Result.LATE, "m1: late")
    assert trial.upstreams[1].closed.wait(60)  # the upstream may stop working


def test_after_some_disagreements_the_rest_of_a_session_goes_to_the_strong_model(start: Start) -> None:
    trial = start(words("1"), words("2"), words("3"))
    for _ in range(3):
        trial.post(metadata={"session_id": "s"}, user="s")
    session = trial.gateway.state.runtime.turns[0].session  # type: ignore[attr-defined]
    assert session
    assert trial.asked() == [2, 2, 3]
    assert [trial.found(f"d-{number}").result for number in (1, 2, 3)] == [
        "different",
        "different",
        "skipped",
    ]
    assert "2 disagreements" in trial.found("d-3").detail


def test_a_share_is_served_by_the_strong_model_although_both_agree(start: Start) -> None:
    trial = start(words("42"), words("42"), words("43"), share=1.0)
    assert trial.post().headers["x-pointsman-model"] == "m2"
    found = trial.found()
    assert (found.result, found.strong_same, found.drawn) == (Result.CONTROL, (False, False), True)


def test_a_named_strong_model_comes_first_and_the_decided_ones_stay_behind_it(start: Start) -> None:
    trial = start(words("1"), words("2"), words("decided"), broken, strong="m3")
    assert trial.post().headers["x-pointsman-model"] == "m2"
    assert trial.asked() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"n": 2}, "several answers are asked for"),
        ({"tools": [{"type": "mcp"}]}, "m0: effects"),
        ({"conversation": "c"}, "m0: effects"),
    ],
)
def test_what_is_not_asked_twice(start: Start, more: dict[str, Any], why: str) -> None:
    trial = start(words("42"), words("42"), words("strong"))
    assert trial.post(**more).headers["x-pointsman-model"] == "m2"
    assert (trial.found().result, trial.found().detail) == (Result.SKIPPED, why)


@pytest.mark.parametrize(
    "more", [{"tiers": ("reasoning",)}, {"roles": ("title",)}, {"projects": ("p",)}, {"loops": False}]
)
def test_requests_that_no_table_fits_are_served_as_decided(start: Start, more: dict[str, Any]) -> None:
    trial = start(words("42"), words("42"), words("strong"), **more)
    assert trial.post().headers["x-pointsman-model"] == "m2"
    assert trial.asked() == [0, 0, 1]
    assert trial.ledger.shadows("d-1") == ()


def test_a_silent_stream_is_kept_alive_while_both_are_asked(start: Start) -> None:
    released = asyncio.Event()

    async def later(asked: Asked, send: Any) -> None:
        await released.wait()
        await saying(words("42"))(asked, send)

    loops: list[asyncio.AbstractEventLoop] = []

    async def first(asked: Asked, send: Any) -> None:
        loops.append(asyncio.get_running_loop())
        await later(asked, send)

    trial = start(first, words("42"), words("strong"), server=ServerSpec(port=0, keep_alive=0.1))
    body = request(WireFormat.CHAT, stream=True)
    with httpx.stream("POST", trial.url + "/v1/chat/completions", json=body, timeout=60) as got:
        lines = got.iter_lines()
        assert next(lines).startswith(":")  # before any model has answered
        loops[0].call_soon_threadsafe(released.set)
        rest = "\n".join(lines)
    assert "42" in rest
    assert "[DONE]" in rest
    assert trial.found().result is Result.AGREED


def test_a_caller_who_leaves_stops_both(start: Start) -> None:
    trial = start(hang, hang, words("strong"))
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(trial.url + "/v1/chat/completions", json=request(WireFormat.CHAT), timeout=1)
    assert all(upstream.closed.wait(60) for upstream in trial.upstreams[:2])
    assert {each.error for each in trial.attempts(number=2).values()} == {"disconnect"}


#: An answer of "small" or "backup" costs 0.05, of "large" 0.5.
TABLE = """
[agreement.short]
cheap = ["small", "backup"]
strong = "large"
share = 0
"""


def _result(trial: Limited) -> tuple[Result, str]:
    [*_, newest] = [found for record in trial.ledger.records() for found in record.shadows]
    assert isinstance(newest, ComparedAnswers)
    return newest.result, newest.detail


def test_both_answers_are_charged_to_the_key_and_a_short_budget_switches_it_off() -> None:
    trial = Limited(TABLE + '[keys.alice]\nbudget = { money = 0.17, per = "day" }\n')

    async def work() -> None:
        first = await trial.chat(model="auto")
        assert (first.status, first.headers["x-pointsman-model"]) == (200, "small")
        assert _result(trial) == (Result.AGREED, "same final answer")
        assert trial.used("money") == 100_000_000
        assert len(trial.provider.asked) == 2
        second = await trial.chat(model="auto")
        assert (second.status, second.headers["x-pointsman-model"]) == (200, "small")
        assert _result(trial) == (Result.SKIPPED, "money: the key has no room for two answers")
        assert len(trial.provider.asked) == 3
        assert trial.used("money") == 150_000_000
        assert trial.held == 0

    asyncio.run(work())


def test_a_key_that_may_not_use_a_cheap_model_is_served_as_decided() -> None:
    trial = Limited(TABLE + '[keys.alice]\nmodels = ["small", "large"]\n')

    async def work() -> None:
        got = await trial.chat(model="auto")
        assert (got.status, got.headers["x-pointsman-model"]) == (200, "small")
        assert _result(trial) == (Result.SKIPPED, "backup: not permitted")

    asyncio.run(work())


def test_a_reload_carries_the_disagreements_over_and_a_model_asked_by_name_serves() -> None:
    trial = Limited(TABLE + "[keys.alice]\n")

    before, config = trial.gateway.state, trial.config

    async def work() -> None:
        after = build_live_state(before.runtime, config, previous=before)
        assert before.agreement is not None
        assert after.agreement is not None
        assert after.agreement.sessions is before.agreement.sessions
        without = msgspec.structs.replace(config, agreement={})
        assert build_live_state(before.runtime, without, previous=after).agreement is None
        after.close()
        await trial.chat(model="large")
        assert len(trial.provider.asked) == 1

    asyncio.run(work())


def test_counted_sessions_are_bounded() -> None:
    sessions = AgreementSessions(size=2)
    for name in ("a", "b", "a", "c", ""):
        sessions.add(name, Result.DIFFERENT)
    for result in set(Result) - {Result.DIFFERENT, Result.FAILED, Result.LATE}:
        sessions.add("d", result)
    assert [sessions.count(name) for name in ("a", "b", "c", "d", "")] == [2, 0, 1, 0, 0]
