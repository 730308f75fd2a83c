"""Speaking once per stretch, the ladder, the control group, and what ends a stretch."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import ConfigError
from pointsman.guidance import (
    Arm,
    ClassificationResult,
    DiagnosticSignalProvider,
    Firing,
    GuidanceContext,
    GuidanceDecision,
    GuidanceInjection,
    GuidanceMemory,
    GuidancePolicy,
    GuidanceProviderConfig,
    Guide,
    LLMClassifier,
    Mode,
    PatternClassifier,
    Rung,
    arm_of,
    without_models,
)
from pointsman.guidance.ladder import FollowUp, follow_up_of
from pointsman.guidance.memory import Spoken, Thread
from pointsman.trajectory import TrajectoryBuilder
from pointsman.vocabulary import ModelReply, WireFormat
from pointsman.wire.request import JsonHistory
from support.agent_runs import events, run

ON = GuidancePolicy(mode=Mode.ON)
ALL = (Rung.CONSULT, Rung.RAISE_TIER, Rung.STOP)
RAISING = GuidancePolicy(mode=Mode.ON, escalate=("consult", "raise_tier"))


def decisions(notation: str, policy: GuidancePolicy = ON, session: str = "s") -> Iterator[GuidanceDecision]:
    """One decision after each event, as a gateway makes one at each request."""
    guide = Guide(policy)
    builder, memory = TrajectoryBuilder.from_config(policy.trajectory), GuidanceMemory()
    for event in events(notation):
        builder.on_event(event)
        decision, memory = without_models(guide.decide(builder.build(), memory, session=session))
        memory = msgspec.json.decode(msgspec.json.encode(memory), type=GuidanceMemory)
        yield decision


def firings(notation: str, policy: GuidancePolicy = ON) -> list[tuple[int, str, str]]:
    fired = [decision.firing for decision in decisions(notation, policy) if decision.firing]
    return [(firing.step, firing.classifier, firing.rung.value) for firing in fired]


@pytest.mark.parametrize(
    ("notation", "expected"),
    [
        ("E E E", [(2, "error_streak", "hint")]),
        ("E E", []),
        ("E E E E E", [(2, "error_streak", "hint")]),  # once per streak
        ("E E E . . E E", [(2, "error_streak", "hint"), (6, "error_rate", "hint")]),
        ("E E . E . . E E", [(7, "error_rate", "hint")]),  # five in ten, no streak
        ("E . E . E . E .", []),
        ("a(1)x a(1)x a(1)x", [(2, "doom_loop", "hint")]),
        ("a(1)x b(1)y " * 3, [(5, "doom_loop", "hint")]),
        ("a(1)!no . a(2)!no . . b(3)!no . c(4)!no", [(7, "repeated_error", "hint")]),
        ("a(1)!no . a(2)!no . . b(3)!no . c(4)!other", []),
        ("a(1)x b(1)y c(1)z b(1)y a(1)x c(1)z a(1)x E b(1)y", [(7, "progress_stall", "hint")]),
        ("E E U E E U E E", []),  # every message of a person begins anew
        ("E E E U E E E", [(2, "error_streak", "hint"), (5, "error_streak", "hint")]),
    ],
)
def test_the_default_policy(notation: str, expected: list[tuple[int, str, str]]) -> None:
    assert firings(notation) == expected


@pytest.mark.parametrize(
    ("alarm", "notation"),
    [
        ("polling with changing output", " ".join(f"poll(job){n}_percent" for n in range(12))),
        (
            "polling a tool not named so, changing output",
            " ".join(f"check(job){n}_percent" for n in range(12)),
        ),
        ("polling with the same output", "get_job_status(7)running " * 12),
        ("scrolling", " ".join(f"scroll_down()page_{n}" for n in range(12))),
        ("batch edits", " ".join(f"edit(file_{n})ok" for n in range(12))),
        ("parallel batch edits", "|".join(f"edit(file_{n})ok" for n in range(12))),
        ("ten successes returning True", " ".join(f"click(button_{n})True" for n in range(10))),
        ("rate-limit retries", "R " * 12),
        ("rate limits between work", ". R R R . R R . R R R R"),
        ("refusals by a person", "D D D D"),
        ("edit and test", " ".join(f"edit(v{n})ok test()!failed_{n}" for n in range(4))),
        ("looking twice before a change", "read(a)1 read(a)1 edit(a)ok read(a)2 read(a)2 edit(a)ok_2"),
        ("two failures and a repair", "E E . . E . . E . . . E E ."),
    ],
)
def test_false_alarms_known_elsewhere(alarm: str, notation: str) -> None:
    assert firings(notation) == []


def test_the_ladder_is_climbed_while_trouble_lasts() -> None:
    climbed = list(decisions("E " * 14, msgspec.structs.replace(ON, escalate=ALL)))
    rungs = {decision.firing.step: decision.firing.rung for decision in climbed if decision.firing}
    assert rungs == {2: Rung.HINT, 5: Rung.CONSULT, 8: Rung.RAISE_TIER, 11: Rung.STOP}
    assert [decision.raise_tier for decision in climbed] == [False] * 8 + [True] * 6
    assert [decision.stop for decision in climbed] == [False] * 11 + [True] + [False] * 2
    assert [bool(decision.injection) for decision in climbed].count(
        True
    ) == 2  # raising and stopping say nothing


def test_stopping_has_to_be_configured() -> None:
    assert not any(decision.stop for decision in decisions("E " * 30))


def test_rungs_can_be_left_out() -> None:
    policy = msgspec.structs.replace(ON, escalate=(Rung.RAISE_TIER,), escalate_after=1)
    assert firings("E " * 8, policy) == [(2, "error_streak", "hint"), (3, "error_streak", "raise_tier")]


def test_a_raised_tier_stays_until_a_person_speaks() -> None:
    raised = [decision.raise_tier for decision in decisions("E " * 9 + ". . . . U .", RAISING)]
    assert raised == [False] * 8 + [True] * 5 + [False] * 2


def test_the_text_names_tool_error_and_count_and_a_next_step() -> None:
    *_, last = decisions("a(1)!no_such_table a(2)!disk_full a(3)!no_such_row")
    text = last.injection
    assert last.firing is not None
    assert last.firing.text == text
    assert "`a`" in text
    assert '"no_such_row"' in text
    assert "last 3 tool calls" in text
    assert "check" in text


@pytest.mark.parametrize(("mode", "delivered"), [(Mode.OBSERVE, False), (Mode.ON, True)])
def test_observing_decides_alike_and_delivers_nothing(mode: Mode, delivered: bool) -> None:
    seen = list(decisions("E " * 10, msgspec.structs.replace(RAISING, mode=mode)))
    fired = [decision.firing for decision in seen if decision.firing]
    assert [firing.step for firing in fired] == [2, 5, 8]
    assert {firing.delivered for firing in fired} == {delivered}
    assert any(decision.injection for decision in seen) is delivered
    assert any(decision.raise_tier for decision in seen) is delivered


def test_off_decides_nothing() -> None:
    history = JsonHistory.of(WireFormat.CHAT, [{"role": "user", "content": "go"}])
    decision, memory = without_models(Guide(GuidancePolicy(mode=Mode.OFF)).turn(history, GuidanceMemory()))
    assert (decision.mode, decision.firing, memory) == (Mode.OFF, None, GuidanceMemory())


def test_a_control_group_is_drawn_by_session_and_recorded() -> None:
    policy = msgspec.structs.replace(ON, control=0.3)
    arms = [arm_of(f"session-{n}", seed=1, control=0.3) for n in range(1_000)]
    assert 0.25 < arms.count(Arm.CONTROL) / 1_000 < 0.35
    control = next(
        f"session-{n}" for n in range(1_000) if arm_of(f"session-{n}", seed=0, control=0.3) is Arm.CONTROL
    )
    seen = list(decisions("E E E E", policy, session=control))
    fired = [decision for decision in seen if decision.firing]
    assert [(decision.arm, decision.injection) for decision in fired] == [(Arm.CONTROL, "")]
    assert b'"control"' in msgspec.json.encode(fired[0])
    assert arms != [arm_of(f"session-{n}", seed=2, control=0.3) for n in range(1_000)]


@pytest.mark.parametrize(
    ("session", "control", "arm"),
    [
        ("s", 0.0, Arm.TREATED),
        ("s", 1.0, Arm.CONTROL),
        ("", 1.0, Arm.TREATED),
        ("\ud800", 1.0, Arm.CONTROL),
    ],
)
def test_the_edges_of_the_draw(session: str, control: float, arm: Arm) -> None:
    assert arm_of(session, seed=0, control=control) is arm


def test_a_session_keeps_its_side_when_the_share_changes() -> None:
    guide = Guide(msgspec.structs.replace(ON, control=1.0))
    decision, _ = without_models(guide.decide(run("E E E"), GuidanceMemory(arm=Arm.TREATED), session="s"))
    assert decision.arm is Arm.TREATED


@pytest.mark.parametrize(
    ("notation", "continued"),
    [
        ("E E E E", True),
        ("E E E .", False),
        ("E E E R .", False),
        ("E E E U .", None),
        ("a(1)x a(1)x a(1)x a(1)x", True),
    ],
)
def test_what_came_of_it_is_recorded(notation: str, continued: bool | None) -> None:
    follow_ups = [decision.follow_up for decision in decisions(notation) if decision.follow_up]
    assert [follow_up.continued for follow_up in follow_ups] == ([] if continued is None else [continued])


def test_the_same_moment_is_decided_once() -> None:
    guide = Guide(ON)
    first, memory = without_models(guide.decide(run("E E E"), GuidanceMemory()))
    second, _ = without_models(guide.decide(run("E E E"), memory))
    assert first.firing
    assert second.firing is None


def test_a_shorter_history_starts_over() -> None:
    guide = Guide(ON)
    _, memory = without_models(guide.decide(run("E E E E"), GuidanceMemory()))
    decision, _ = without_models(guide.decide(run("E E E"), memory))
    assert decision.firing


class Loud:
    name = category = "loud"

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        return ClassificationResult.yes(reason="always")

    def provide(self, context: GuidanceContext) -> GuidanceInjection:
        raise RuntimeError("no words")


def test_a_provider_that_fails_is_noted_and_never_raises() -> None:
    guide = Guide(ON, (GuidanceProviderConfig(Loud()),))
    decision, _ = without_models(guide.decide(run("E"), GuidanceMemory()))
    assert (decision.firing, decision.injection) == (None, "")
    assert [reason.detail for reason in decision.abstained] == ["loud failed: RuntimeError"]


def test_a_classifier_that_fails_is_noted_and_the_others_speak() -> None:
    class Broken:
        name = "broken"

        def classify(self, context: GuidanceContext) -> ClassificationResult:
            raise ZeroDivisionError

    diagnostic = DiagnosticSignalProvider()
    guide = Guide(ON, (GuidanceProviderConfig(diagnostic, Broken()), GuidanceProviderConfig(diagnostic)))
    decision, _ = without_models(guide.decide(run("E E E"), GuidanceMemory()))
    assert decision.firing
    assert [reason.detail for reason in decision.abstained] == ["broken failed: ZeroDivisionError"]


def test_limits_of_a_provider_hold_across_a_session() -> None:
    guide = Guide(ON, (GuidanceProviderConfig(DiagnosticSignalProvider(), max_fires_per_session=1),))
    fired, memory = [], GuidanceMemory()
    builder = TrajectoryBuilder()
    for event in events("E E E U E E E"):
        builder.on_event(event)
        decision, memory = without_models(guide.decide(builder.build(), memory))
        fired.append(decision.firing)
    assert sum(firing is not None for firing in fired) == 1


def test_a_model_is_asked_through_a_need_and_its_answer_counts() -> None:
    guide = Guide(ON, (GuidanceProviderConfig(DiagnosticSignalProvider(), LLMClassifier()),))
    deciding = guide.decide(run("E"), GuidanceMemory())
    need = next(deciding)
    assert (need.kind, need.labels, need.timeout_ms) == ("guidance", ("yes", "no"), 500)
    assert "Errors in a row: 1" in need.text
    with pytest.raises(StopIteration) as done:
        deciding.send(ModelReply("yes"))
    assert done.value.value[0].firing.classifier == "llm(claude-3-haiku)"


def test_without_a_model_the_decision_abstains_and_says_so() -> None:
    guide = Guide(ON, (GuidanceProviderConfig(DiagnosticSignalProvider(), LLMClassifier()),))
    decision, _ = without_models(guide.decide(run("E"), GuidanceMemory()))
    assert [reason.detail for reason in decision.abstained] == ["llm(claude-3-haiku): no-model"]


def test_at_most_two_questions_are_asked() -> None:
    classifiers = [LLMClassifier(model=f"m{n}") for n in range(4)]
    guide = Guide(ON, [GuidanceProviderConfig(DiagnosticSignalProvider(), model) for model in classifiers])
    deciding = guide.decide(run("E"), GuidanceMemory())
    next(deciding)
    deciding.send(ModelReply("no"))
    with pytest.raises(StopIteration):
        deciding.send(ModelReply("no"))


def test_a_recommended_tool_that_is_avoided_becomes_a_pattern() -> None:
    policy = msgspec.structs.replace(ON, log_tool="view_logs")
    guide = Guide(
        policy,
        (
            *Guide(policy).providers,
            GuidanceProviderConfig(DiagnosticSignalProvider(), PatternClassifier("tool_avoidance")),
        ),
    )
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    memory, classifiers = GuidanceMemory(), []
    for number in range(8):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "work", "arguments": f'{{"n":{number}}}'},
        }
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {
                "role": "tool",
                "tool_call_id": f"c{number}",
                "content": "Error: no" if number < 3 else f"fine {number}",
            },
        ]
        decision, memory = without_models(
            guide.turn(JsonHistory.of(WireFormat.CHAT, messages), memory, session="s")
        )
        classifiers.append(decision.firing.classifier if decision.firing else None)
    assert classifiers == [None, None, "error_streak", None, None, None, "tool_avoidance", None]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"control": 1.5}, "control must be within 0 and 1"),
        ({"error_streak": 1}, "error_streak must be at least 2"),
        ({"errors_in_window": 11}, "cannot exceed"),
        ({"escalate_after": 0}, "escalate_after"),
        ({"escalate": (Rung.STOP, Rung.STOP)}, "each at most once"),
        ({"escalate": (Rung.HINT,)}, "each at most once"),
    ],
)
def test_a_policy_that_could_not_work_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GuidancePolicy(**wrong)


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="contrl"):
        msgspec.convert({"contrl": 0.1}, GuidancePolicy)


TOKENS = st.lists(
    st.sampled_from(["E", ".", "R", "D", "U", "a(1)x", "a(1)!x", "b(1)y", "a(2)!x"]), max_size=60
)


@given(TOKENS)
def test_never_twice_within_patience_and_never_without_trouble(tokens: list[str]) -> None:
    fired = [decision.firing for decision in decisions(" ".join(tokens)) if decision.firing]
    assert [firing.number for firing in fired] == list(range(1, len(fired) + 1))
    for firing in fired:
        assert isinstance(firing, Firing)
        assert len(firing.text) <= 500
        assert tokens[: firing.step + 2].count("R") <= firing.step


@given(TOKENS)
def test_a_decision_is_the_same_every_time(tokens: list[str]) -> None:
    notation = " ".join(tokens)
    once = [msgspec.json.encode(decision) for decision in decisions(notation)]
    assert once == [msgspec.json.encode(decision) for decision in decisions(notation)]


def test_the_very_first_call_can_be_what_follows_an_intervention() -> None:
    thread = Thread(spoken=Spoken(number=1, call=0, classifier="sensitive_content"))
    assert follow_up_of(thread, run("E")) == (FollowUp(1, "sensitive_content", continued=True), Thread())
