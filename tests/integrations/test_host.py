"""A host goes on with its own choice where Pointsman raises, is slow, or is not there, and says so once."""

import asyncio
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pointsman import Pointsman
from pointsman.decision.decision import Decision, Injection, RequestInput, StandingInjection
from pointsman.integrations.host import Host, added_texts, chosen_model, session_name
from pointsman.tiers import TierDecision
from pointsman.vocabulary import Stage, Tier, WireFormat
from support.hosts import HARD, PATIENCE, FailingPoints, SlowPoints, not_there, two_models

WAYS: dict[str, tuple[Any, str, str]] = {
    "raises": (FailingPoints, "StoreUnavailable", "StoreUnavailable: the store is gone"),
    "is slow": (SlowPoints, "TimeoutError", "no decision within 0.01 s"),
    "is not there": (
        not_there,
        "ConfigError",
        "ConfigError: there is no pointsman.toml; pointsman config init writes one",
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
def test_the_host_goes_on_and_it_is_said_once(way: str, sync: bool, caplog: pytest.LogCaptureFixture) -> None:
    points, kind, why = WAYS[way]
    with closing(Host("The host", points, timeout=0.01 if way == "is slow" else PATIENCE)) as host:
        for _ in range(3):
            assert (host.decide_sync(HARD) if sync else asyncio.run(host.decide(HARD))) is None
        told = [each.getMessage() for each in caplog.records if each.name == "pointsman.integrations"]
        assert told == [f"The host goes on with its own choice: {why}; not logged again"]
        assert list(host.failures) == [kind]


def test_a_blocked_thread_does_not_hold_up_a_host(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()

    class Blocking(Pointsman):
        async def decide_async(self, *arguments: Any, **named: Any) -> Any:
            release.wait()  # as a driver that blocks the event loop

    points = Blocking()
    with closing(Host("The host", points, timeout=0.01)) as host:
        assert host.decide_sync(HARD) is None
        assert host.failures == {"TimeoutError": 1}
        release.set()


def test_another_failure_is_said_too(caplog: pytest.LogCaptureFixture) -> None:
    with closing(Host("The host", Pointsman(), timeout=PATIENCE)) as host:
        for body in ({"messages": "x"}, {"messages": "y"}, {"model": "nobody's", "messages": []}):
            assert host.decide_sync(body) is None
    assert host.failures == {"MalformedRequest": 2, "UnknownModel": 1}
    assert len(caplog.records) == 2


def test_an_outcome_that_cannot_be_recorded_is_no_failure_of_the_host(tmp_path: Path) -> None:
    with closing(Host("The host", FailingPoints, timeout=PATIENCE)) as host:
        assert not asyncio.run(host.report("d-1", 1.0))
    with two_models(tmp_path) as points, closing(Host("The host", points, timeout=PATIENCE)) as host:
        decision = host.decide_sync(HARD)
        assert decision is not None
        assert asyncio.run(host.report(decision.id, 1.0, label="good"))
        assert [each.label for each in points.runtime.ledger.outcomes(decision.id)] == ["good"]
        assert not asyncio.run(host.report("d-none", 1.0))


def test_what_is_not_there_may_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("pointsman.integrations.host.time.monotonic", lambda: clock[0])
    made: list[Any] = [not_there, not_there, Pointsman]
    with closing(Host("The host", lambda: made.pop(0)(), timeout=PATIENCE)) as host:
        assert host.decide_sync(HARD) is None
        assert host.decide_sync(HARD) is None  # not tried again at once
        clock[0] = 61.0
        assert host.decide_sync(HARD) is None
        assert host.failures == {"ConfigError": 2}
        clock[0] = 122.0
        assert host.decide_sync(HARD) is not None
        assert made == []


def test_a_host_shares_sessions_ledger_and_callers(tmp_path: Path) -> None:
    body = {"model": "auto", "messages": [{"role": "user", "content": HARD}]}
    with two_models(tmp_path) as points, closing(Host("The host", points, timeout=PATIENCE)) as host:
        by_beginning = [host.decide_sync(body), asyncio.run(host.decide(body))]
        named = host.decide_sync(body, session="one", caller="alice")
        other = host.decide_sync(body, session="one", caller="bob")
        nobody = points.decide(body, session="one")
        wrong = host.decide_sync(body, caller="a/b")
        points.runtime.ledger.flush()
        assert len(list(points.runtime.ledger.decisions(limit=None))) == 5
    sessions = [each.input.session for each in (*by_beginning, named, other, nobody) if each]
    assert sessions[0] == sessions[1]
    assert sessions[0].startswith("f-")
    assert sessions[2:] == ["alice/one", "bob/one", "one"]
    assert wrong is None
    assert [each.input.user_message for each in (named, other, nobody) if each] == [1, 1, 1]
    assert [each.input.caller for each in (named, nobody) if each] == ["alice", ""]
    with two_models(tmp_path) as points:  # handed in: it was not closed with the host
        assert points.decide("Hi").tier is not None


def decided(*chain: str, tier: Tier | None = Tier.SIMPLE, **more: Any) -> Decision:
    given = RequestInput(
        format=WireFormat.CHAT,
        model_asked="auto",
        session="",
        arrived_at=0.0,
        messages=more.pop("messages", 1),
    )
    said = (
        None
        if tier is None
        else TierDecision(
            tier=tier,
            score=0.0,
            confidence=1.0,
            signals=(),
            stage=Stage.RULES,
            needs_verification=False,
            reasons=(),
        )
    )
    return Decision(id="d-1", input=given, policy="p", tier=said, chain=chain, **more)


@pytest.mark.parametrize(
    ("decision", "models", "chosen"),
    [
        (decided("a", "b"), {"a": 1, "b": 2}, 1),
        (decided("a", "b"), {"a": 2, "simple": 3}, 2),  # a configured name before a tier
        (decided("a", "b"), {"b": 2, "simple": 3}, 3),  # and that before a fallback
        (decided("a", "b"), {"b": 2, "medium": 3}, 2),
        (decided("a"), {"simple": 3}, 3),
        (decided(), {"simple": 3, "medium": 4}, 3),
        (decided(), {"medium": 4}, 4),  # the next tier that has one
        (decided(tier=Tier.REASONING), {"complex": 4}, None),
        (decided(tier=None), {"simple": 3}, None),  # the host named a model
        (decided("a", tier=None), {"a": 1}, 1),
        (decided(), {}, None),
        (None, {"simple": 3}, None),
    ],
)
def test_the_model_of_a_decision(
    decision: Decision | None, models: dict[str, int], chosen: int | None
) -> None:
    assert chosen_model(decision, models) == chosen


def test_texts_go_to_the_messages_they_belong_to() -> None:
    hint, note = Injection("guidance", "Stop."), Injection("domains", "Think.")
    earlier = (StandingInjection(1, (hint,)), StandingInjection(1, (note,)), StandingInjection(4, (note,)))
    found = added_texts(decided(messages=5, injections=(hint,), standing=earlier))
    assert {index: text.count("<pointsman") for index, text in found.items()} == {1: 2, 4: 2}
    assert found[4].index("Think.") < found[4].index("Stop.")
    assert added_texts(decided()) == {}
    assert added_texts(None) == {}


def test_names_of_sessions() -> None:
    assert session_name("a", "", "b") == "a/b"
    assert session_name("", "") is None
    long = session_name("x" * 1000)
    assert long is not None
    assert long.startswith("s-")
    assert len(long) < 40
