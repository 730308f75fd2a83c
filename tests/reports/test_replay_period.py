"""Replay of a period as a job that can be ended and go on, and one decision decided again."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pointsman.api import Pointsman
from pointsman.decision.engine import Engine
from pointsman.errors import ConfigError, PointsmanError, UnknownDecision
from pointsman.factory import build_engine, default_policy, read_policy_text
from pointsman.reports import replay_period as module
from pointsman.reports.labels import count_pairs, labels
from pointsman.reports.replay_period import decide_again, replay_period
from pointsman.stores.ledger import MemoryLedger, Outcome
from pointsman.testing import a_decision
from pointsman.testing.ledger_summaries import an_answer

TALK = ["hello", "prove the theorem step by step", "fix the function", "thanks"]
SAME = build_engine(default_policy())


def recorded() -> MemoryLedger:
    ledger = MemoryLedger(text="full")
    with Pointsman(ledger=ledger) as pointsman:
        for number in range(12):
            pointsman.decide(
                {"messages": [{"role": "user", "content": TALK[number % 4]}]}, session=f"s{number % 2}"
            )
    return ledger


LEDGER = recorded()
BEGAN = next(LEDGER.decisions(newest_first=False)).input.arrived_at
PERIOD: dict[str, Any] = {"since": BEGAN, "until": BEGAN + 3_600.0}


def stricter() -> Engine:
    policy = default_policy()
    return build_engine(
        dataclasses.replace(policy, profile=replace(policy.profile, boundaries=(-1.0, -0.9, -0.8)))
    )


def test_a_period_under_the_same_policy_changes_nothing() -> None:
    found = replay_period(LEDGER, SAME, **PERIOD)
    assert (found.summary["turns"], found.summary["changed"], found.biggest) == (12, {}, ())
    assert found.is_complete
    assert found.policy == SAME.version


def test_the_biggest_changes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BIGGEST", 2)
    found = replay_period(LEDGER, stricter(), **PERIOD)
    assert found.summary["up"] == 9  # what is REASONING already stays
    sizes = [
        abs(line.now.tier.rank - line.then.tier.rank)
        for line in found.biggest
        if line.now.tier and line.then.tier
    ]
    assert sizes == [3, 3]
    assert any(line.startswith("changed: ") for line in found.lines)


def test_a_job_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP", 1)
    told = list[tuple[int, int]]()

    def until_five(done: int, of: int) -> bool:
        told.append((done, of))
        return done < 5

    ended = replay_period(LEDGER, stricter(), **PERIOD, progress=until_five)
    assert (ended.is_complete, ended.summary["turns"], told[-1]) == (False, 5, (5, 12))


@pytest.mark.parametrize(
    ("since", "until"),
    [(0.0, 1.0), (BEGAN + 9.0, BEGAN), (BEGAN + 1e6, BEGAN + 2e6), (-1e300, -1e299)],
    ids=["before", "backwards", "after", "far before"],  # BEGAN differs from worker to worker
)
def test_a_period_without_a_decision_is_an_error(since: float, until: float) -> None:
    with pytest.raises(PointsmanError, match="there is no decision from"):
        replay_period(LEDGER, SAME, since=since, until=until)


def test_one_decision_is_decided_again_with_its_session() -> None:
    last = next(LEDGER.decisions())
    again = decide_again(LEDGER, last.id, SAME)
    assert (again.id, again.changed, again.then.tier) == (last.id, (), again.now.tier)
    assert decide_again(LEDGER, last.id, stricter()).changed == ("tier",)


def test_a_decision_that_is_gone_says_so() -> None:
    with pytest.raises(UnknownDecision, match='no decision "d-gone"') as raised:
        decide_again(LEDGER, "d-gone", SAME)
    assert "retention" in raised.value.hint


def test_an_edited_policy_that_does_not_load_names_line_and_key(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    with pytest.raises(ConfigError, match=r'pointsman\.toml:2: unknown key "bondaries"'):
        read_policy_text("[tiers]\nbondaries = [1]\n", file, default_policy())
    with pytest.raises(ConfigError, match=r"pointsman\.toml:1"):
        read_policy_text("[tiers\n", file, default_policy())
    assert build_engine(read_policy_text("[domains]\n", file, default_policy())).version


def test_labels_say_what_is_missing() -> None:
    ledger = MemoryLedger(text="full")
    nothing = labels(ledger)
    assert (nothing.queue, count_pairs(nothing.scored.values()).missing_for_tiers) == ((), 40)
    for number in range(45):
        made = a_decision(f"d{number}", at=float(number), session=f"s{number}")
        assert made.tier is not None
        ledger.append(replace(made, tier=replace(made.tier, confidence=0.51)))
        ledger.append(an_answer(f"d{number}"))
        if number < 42:
            ledger.append(Outcome(decision=f"d{number}", score=1.0))
    found = labels(ledger, limit=2)
    assert [each.decision for each in found.queue] == ["d44", "d43"]
    assert (len(found.labelled), found.is_complete) == (42, True)
