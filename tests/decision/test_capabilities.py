"""The selection of capabilities as a part of a decision: candidates, memory, questions, replay."""

import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.capabilities import (
    AskedCapability,
    CapabilityDecision,
    CapabilityPolicy,
    CapabilityRegistry,
    OnFailure,
    Strategy,
)
from pointsman.decision.decision import Decision
from pointsman.decision.diff import reasons, verdict
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.domains import default_domains
from pointsman.drivers import drive, no_model
from pointsman.factory import build_engine
from pointsman.guidance import GuidancePolicy
from pointsman.reports.replay import Replay, Replayed
from pointsman.stores.ledger import Record
from pointsman.stores.ledger._bodies import decision_in
from pointsman.tiers import builtin_profile
from pointsman.vocabulary import AgentRole, Mode, ModelQuery, ModelReply, ModelSpec, Tier, WireFormat
from pointsman.wire.request import read_request
from support.capabilities import REGISTRY
from support.examples import share

TOOLS = {
    "get_weather": "Weather forecast of a city",
    "send_mail": "Send an e-mail to a person",
    "run_shell": "Run a shell command",
    "read_file": "Read a file from disk",
}
ASKED = {"role": "user", "content": "will the weather be good in the city of Rome?"}

Ask = Callable[[ModelQuery], ModelReply]


def offer(tools: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": n, "description": t}} for n, t in tools.items()]


def called(tool: str) -> list[dict[str, object]]:
    made = {"id": tool, "type": "function", "function": {"name": tool, "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": tool, "content": "done"},
    ]


def an_engine(tools: int | None = None, **given: Any) -> Engine:
    return build_engine(
        Policy(
            profile=builtin_profile("default"),
            models={"small": ModelSpec("small", "up", "small")},
            tier_models=dict.fromkeys(Tier, "small"),
            capabilities=CapabilityPolicy(**({"strategy": Strategy.LOCAL} | given)),
            tools=tools,
        )
    )


class Session:
    """Decides the requests of one session, and keeps what is recorded of each."""

    def __init__(self, engine: Engine, ask: Ask = no_model) -> None:
        self.engine, self.ask, self.memory = engine, ask, Memory()
        self.records: list[Record] = []

    def decide(
        self, *messages: object, tools: Mapping[str, str] = TOOLS, command: str = "", **more: Any
    ) -> Decision:
        body = {"model": "auto", "messages": list(messages), **more}
        if tools:
            body["tools"] = offer(tools)
        request = read_request(WireFormat.CHAT, body, session="s", arrived_at=float(len(self.records)))
        request = msgspec.structs.replace(request, command=command)
        steps = self.engine.decide(request, self.memory, f"d{len(self.records)}")
        decided = drive(steps, self.ask)
        self.memory = decided.memory
        kept = decision_in(msgspec.json.encode(decided.decision))
        self.records.append(Record(kept, (), (), decided.words.text))
        return decided.decision

    def select(self, *messages: object, **more: Any) -> CapabilityDecision:
        part = self.decide(*messages, **more).capabilities
        assert part is not None
        return part


def test_the_tools_of_a_request_are_judged_by_their_descriptions() -> None:
    part = Session(an_engine(threshold=0.0)).select(ASKED)
    assert [tool.name for tool in part.offered] == list(TOOLS)
    assert list(part.scores) == list(TOOLS)
    assert max(part.scores, key=part.scores.__getitem__) == "get_weather"
    assert part.selected == tuple(TOOLS)  # nobody is below 0
    assert part.tools is None
    assert all(score == round(score, 4) for score in part.scores.values())


def test_a_tool_with_the_name_of_a_capability_is_that_capability() -> None:
    """Its guide, what it requires and whether it is always active are the registry's."""
    part = Session(an_engine(registry=REGISTRY)).select(
        {"role": "user", "content": "What's the weather like?"},
        tools={"current_weather": "no words of it", "run_shell": "Run a shell command"},
    )
    assert part.selected == ("respond", "current_weather", "geocode")
    assert set(part.scores) == {"current_weather", "clock", "mail", "geocode", "run_shell"}


def test_without_tools_and_capabilities_there_is_no_part() -> None:
    assert Session(an_engine()).decide(ASKED, tools={}).capabilities is None
    assert Session(an_engine(mode=Mode.OFF)).decide(ASKED).capabilities is None


def test_a_policy_without_a_word_of_capabilities_selects_nothing() -> None:
    engine = build_engine(Policy(profile=builtin_profile("default")))
    assert Session(engine).decide(ASKED).capabilities is None


def test_a_selection_stands_until_a_person_speaks_again() -> None:
    session = Session(an_engine(tools=1))
    first = session.select(ASKED)
    assert first.tools is not None
    assert first.tools.kept == ("get_weather",)
    loop = session.select(ASKED, *called("get_weather"))
    assert loop.continued
    assert (loop.selected, loop.scores, loop.offered) == (first.selected, {}, ())
    assert loop.tools == first.tools
    again = session.select(ASKED, *called("get_weather"), {"role": "user", "content": "mail it to a person"})
    assert not again.continued
    assert again.tools is not None
    assert again.tools.kept == ("get_weather", "send_mail")


def test_another_offer_within_a_loop_is_judged() -> None:
    session = Session(an_engine())
    session.select(ASKED)
    more = session.select(ASKED, *called("get_weather"), tools={**TOOLS, "play": "Play music"})
    assert not more.continued
    assert "play" in more.scores


def test_observing_takes_no_tool_away() -> None:
    part = Session(an_engine(tools=1, mode=Mode.OBSERVE)).select(ASKED)
    assert part.tools is None
    assert part.scores


def test_always_active_tools_are_selected_and_passed_on() -> None:
    part = Session(an_engine(tools=1, always_active=("read_file", "run_shell"))).select(ASKED)
    assert part.selected[:2] == ("run_shell", "read_file")
    assert part.tools is not None
    assert {"run_shell", "read_file"} <= set(part.tools.kept)


def test_a_request_with_too_many_tools_keeps_them_all() -> None:
    many = {f"tool_{number}": "Does something" for number in range(501)}
    decision = Session(an_engine(tools=2)).decide(ASKED, tools=many)
    assert decision.capabilities is not None
    assert decision.capabilities.tools is not None
    assert len(decision.capabilities.tools.kept) == 501
    assert [reason.code for reason in decision.abstained] == ["capabilities.abstained"]


@pytest.mark.parametrize(
    ("commands", "bypassed"),
    [
        (("/caps:off", ""), [True, False]),
        (("/caps:off:session", ""), [True, True]),
        (("/caps:off:session", "/caps:on"), [True, False]),
        (("/caps:on", "/caps:off"), [False, True]),
        (("", "/task:off"), [False, False]),
    ],
)
def test_a_command_bypasses_the_selection(commands: tuple[str, ...], bypassed: list[bool]) -> None:
    session, found, messages = Session(an_engine(tools=1)), [], []
    for number, command in enumerate(commands):
        messages.append({"role": "user", "content": f"the weather in city {number}"})
        part = session.select(*messages, command=command)
        assert part.tools is not None
        assert (part.tools.kept == tuple(TOOLS)) is part.bypass
        found.append(part.bypass)
    assert found == bypassed


def test_a_command_of_a_message_counts_throughout_its_tool_loop() -> None:
    session = Session(an_engine(tools=1))
    session.select(ASKED, command="/caps:off")
    loop = session.select(ASKED, *called("send_mail"), command="/caps:off")
    assert (loop.continued, loop.bypass, loop.result) == (True, True, "continued")
    assert loop.tools is not None
    assert loop.tools.kept == tuple(TOOLS)


def says(**answers: bool) -> Ask:
    def answer(need: ModelQuery) -> ModelReply:
        if need.about not in answers:
            return ModelReply(error="timeout")
        word = "true" if answers[need.about] else "false"
        return ModelReply(f'{{"is_match": {word}, "reason": "he said secret words"}}')

    return answer


def test_a_model_is_asked_and_its_words_are_not_recorded() -> None:
    ask = says(get_weather=False, send_mail=True, run_shell=False)
    decision = Session(an_engine(strategy=Strategy.LLM, threshold=1.0), ask).decide(ASKED)
    part = decision.capabilities
    assert part is not None
    assert part.selected == ("send_mail",)
    assert part.asked_model == (
        AskedCapability("get_weather", needed=False),
        AskedCapability("send_mail", needed=True),
        AskedCapability("run_shell", needed=False),
        AskedCapability("read_file", error="timeout"),
    )
    assert part.abstained == "unavailable: timeout"
    assert "secret" not in msgspec.json.encode(decision).decode()
    assert ("capabilities.model", "send_mail: a model says needed") in [
        (reason.code, reason.detail) for reason in part.reasons
    ]


def test_the_first_question_names_those_that_may_be_asked_beside_it() -> None:
    asked: list[ModelQuery] = []

    def answer(need: ModelQuery) -> ModelReply:
        asked.append(need)
        return ModelReply("no")

    Session(an_engine(strategy=Strategy.LLM), answer).select(ASKED)
    assert [need.about for need in asked] == list(TOOLS)
    assert asked[0].beside == tuple(asked[1:])
    assert not any(need.beside for need in asked[1:])


def test_of_hundreds_of_tools_a_model_is_asked_about_the_fifty_likeliest() -> None:
    asked: list[str] = []

    def answer(need: ModelQuery) -> ModelReply:
        asked.append(need.about)
        return ModelReply("no")

    many = {f"tool_{number}": f"Does thing {number}" for number in range(120)}
    part = Session(an_engine(strategy=Strategy.LLM), answer).select(ASKED, tools={**many, **TOOLS})
    assert len(asked) == len(part.asked_model) == 50
    assert "get_weather" in asked


@pytest.mark.parametrize("policy", OnFailure)
def test_nothing_is_taken_away_where_a_model_is_unavailable_and_a_policy_raises(policy: OnFailure) -> None:
    session = Session(an_engine(strategy=Strategy.LLM, on_failure=policy, tools=3))
    part = session.select(ASKED)
    assert part.abstained
    assert part.tools is not None
    if policy is OnFailure.RAISE:
        assert part.selected == part.tools.kept == tuple(TOOLS)
    assert session.select(ASKED, *called("get_weather")).continued  # and nobody is asked again


@cache
def limited(tools: int) -> Engine:
    return an_engine(tools=tools)


@settings(max_examples=share(0.6))
@given(
    st.sets(st.sampled_from(sorted(TOOLS)), min_size=1),
    st.integers(1, 4),
    st.lists(st.sampled_from(sorted(TOOLS)), max_size=3),
    st.sampled_from(["", *sorted(TOOLS)]),
    st.text(max_size=30),
)
def test_what_is_called_or_forced_is_passed_on_in_the_requests_order(
    offered: set[str], limit: int, calls: list[str], forced: str, words: str
) -> None:
    tools = {name: TOOLS[name] for name in TOOLS if name in offered}
    history = [message for tool in calls for message in called(tool)]
    choice = {"type": "function", "function": {"name": forced}} if forced else "auto"
    part = Session(limited(limit)).select(
        {"role": "user", "content": words}, *history, tools=tools, tool_choice=choice
    )
    kept = part.tools.kept if part.tools else tuple(tools)
    assert kept == tuple(name for name in tools if name in kept)
    assert {*calls, forced} & set(tools) <= set(kept)
    assert len(kept) >= min(limit, len(tools))
    assert set(part.selected) <= set(tools)


def test_a_selection_that_fails_leaves_all_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(an_engine(tools=1))

    def fail(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(session.engine._capabilities, "decide", fail)
    decision = session.decide(ASKED)
    assert decision.capabilities is None
    assert decision.tier is not None
    assert [reason.code for reason in decision.abstained] == ["capabilities.failed"]
    assert session.memory.capabilities == Memory().capabilities


def test_a_helper_call_is_not_selected_for() -> None:
    engine, body = an_engine(), {"model": "auto", "messages": [ASKED], "tools": offer(TOOLS)}
    request = msgspec.structs.replace(read_request(WireFormat.CHAT, body), role=AgentRole.HELPER)
    assert drive(engine.decide(request, Memory(), "d"), no_model).decision.capabilities is None


# Replay


def a_thousand_turns(engine: Engine, ask: Ask = no_model) -> Session:
    """Questions and tool loops in one session, with changing offers and commands."""
    draw, session, messages = random.Random(7), Session(engine, ask), list[object]()
    topics = ("the weather of a city", "mail a person", "run a shell command", "read a file", "hello")
    command = ""
    while len(session.records) < 1_000:
        if draw.random() < 0.4 or not messages:
            command = draw.choice(("", "", "", "", "/caps:off", "/caps:off:session", "/caps:on:session"))
            messages.append({"role": "user", "content": f"{draw.choice(topics)} {len(session.records)}"})
        else:
            messages += called(draw.choice(sorted(TOOLS)))
        del messages[:-12]
        if not any(isinstance(each, dict) and each["role"] == "user" for each in messages):
            messages.clear()
            continue
        count = draw.choice((3, 4, 4, 4, 4))
        session.decide(*messages, tools=dict(list(TOOLS.items())[:count]), command=command)
    return session


def judges(need: ModelQuery) -> ModelReply:
    """Answer by the words alone, and now and then not at all."""
    number = sum(map(ord, need.text + need.about))
    return ModelReply(error="timeout") if number % 7 == 0 else ModelReply("yes" if number % 2 else "no")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "text"),
    [({"strategy": "local"}, True), ({"strategy": "llm"}, False), ({"on_failure": "always_active"}, True)],
)
def test_a_thousand_turns_replayed_under_the_same_policy_do_not_change(
    given: dict[str, Any], text: bool
) -> None:
    engine = an_engine(2, **({"strategy": Strategy.HYBRID, "registry": REGISTRY} | given))
    records = a_thousand_turns(engine, judges).records
    if not text:
        records = [msgspec.structs.replace(record, text=None) for record in records]
    lines = list(Replay(engine).turns(records))
    assert len(lines) == 1_000
    assert [line.changed for line in lines] == [()] * 1_000
    assert sum(line.then.capabilities is not None for line in lines) == 1_000


@pytest.mark.slow
def test_a_thousand_turns_with_every_part_replayed_under_the_same_policy_do_not_change() -> None:
    policy = Policy(
        profile=builtin_profile("default"),
        models={"small": ModelSpec("small", "up", "small"), "large": ModelSpec("large", "up", "large")},
        tier_models=dict.fromkeys(Tier, "small") | {Tier.COMPLEX: "large", Tier.REASONING: "large"},
        domains=DomainPolicy(domains=default_domains(), mode=Mode.ON),
        guidance=GuidancePolicy(mode=Mode.ON),
        capabilities=CapabilityPolicy(strategy=Strategy.HYBRID, registry=REGISTRY),
        tools=2,
    )
    engine = build_engine(policy)
    records = a_thousand_turns(engine, judges).records
    lines = list(Replay(engine).turns(records))
    assert [line.changed for line in lines] == [()] * 1_000
    for part in ("tier", "domains", "guidance", "capabilities"):
        assert sum(getattr(record.decision, part) is not None for record in records) > 500, part


@pytest.mark.slow
@pytest.mark.parametrize(
    ("now", "limit"), [({"threshold": 0.6}, 2), ({"bypass": True}, 2), ({"always_active": ("run_shell",)}, 1)]
)
def test_a_thousand_turns_under_another_policy_change_with_reasons(now: dict[str, Any], limit: int) -> None:
    records = a_thousand_turns(an_engine(2, registry=REGISTRY)).records
    lines = list(Replay(an_engine(limit, registry=REGISTRY, **now)).turns(records))
    changed = [line for line in lines if line.changed]
    assert 0 < len(changed) <= 1_000
    assert {line.changed for line in changed} == {("capabilities",)}
    assert all(any(text.startswith("capabilities: ") for text in line.why) for line in changed)


def replayed(then: Engine, now: Engine, *messages: object, ask: Ask = no_model) -> Replayed:
    session = Session(then, ask)
    session.decide(*messages)
    return Replay(now).turn(session.records[0])


def test_another_threshold_is_explained() -> None:
    line = replayed(an_engine(threshold=0.0), an_engine(threshold=1.0), ASKED)
    assert line.changed == ("capabilities",)
    assert line.now.capabilities == ""
    [why] = [text for text in line.why if text.startswith("capabilities: selected then: ")]
    assert "get_weather (0." in why


def test_another_maximum_of_tools_is_explained() -> None:
    both = {"role": "user", "content": "the weather forecast for Rome? then send an e-mail about it to Ida"}
    line = replayed(an_engine(tools=2), an_engine(tools=1), both)
    assert line.changed == ("capabilities",)
    assert "capabilities: all tools are passed on now" in line.why
    assert any(text.startswith("tools.all: all tools are passed on: 2 may be needed") for text in line.why)


def test_whether_all_tools_are_passed_on_is_what_counts() -> None:
    """Nothing was cut in either: the selection was off, or there was no maximum."""
    session = Session(an_engine(tools=1))
    session.decide(ASKED, command="/caps:off")
    assert Replay(an_engine()).turn(session.records[0]).changed == ()
    line = replayed(an_engine(tools=1), an_engine(), ASKED)
    assert line.changed == ("capabilities",)
    assert "capabilities: all tools are passed on now" in line.why


def test_capabilities_that_were_not_there_then_are_judged_by_the_words() -> None:
    words = {"role": "user", "content": "Send an email to Anna"}
    line = replayed(an_engine(), an_engine(registry=REGISTRY), words)
    assert line.changed == ("capabilities",)
    assert "capabilities: selected now: respond, mail (" in " ".join(line.why)


def test_without_words_what_has_no_score_is_named() -> None:
    session = Session(an_engine())
    session.decide(ASKED)
    record = msgspec.structs.replace(session.records[0], text=None)
    line = Replay(an_engine(registry=REGISTRY)).turn(record)
    assert line.changed == ("capabilities",)
    assert any(text.startswith("capabilities.unscored: ") for text in line.why)


def test_answers_of_a_model_are_those_recorded() -> None:
    engine = an_engine(strategy=Strategy.LLM, threshold=1.0)
    line = replayed(engine, engine, ASKED, ask=says(send_mail=True))
    assert (line.changed, line.asks) == ((), "record")
    assert line.then.capabilities == "send_mail"


def test_a_policy_without_selection_changes_the_part() -> None:
    line = replayed(an_engine(threshold=0.0), build_engine(Policy(profile=builtin_profile("default"))), ASKED)
    assert "capabilities" in line.changed
    assert "capabilities: off now" in line.why


def test_a_request_of_which_nothing_was_recorded_is_not_selected_for() -> None:
    line = replayed(build_engine(Policy(profile=builtin_profile("default"))), an_engine(), ASKED)
    assert "capabilities" not in line.changed


def test_a_row_of_before_there_was_a_part_holds_its_tools() -> None:
    session = Session(an_engine(tools=1))
    decision = session.decide(ASKED)
    row = msgspec.json.decode(msgspec.json.encode(decision))
    tools = row.pop("capabilities")["tools"]
    read = decision_in(msgspec.json.encode({**row, "tools": tools}), 2)
    assert read.capabilities is not None
    assert read.capabilities.tools == (decision.capabilities and decision.capabilities.tools)
    assert Replay(an_engine(tools=1)).turn(Record(read, (), (), None)).changed == ()
    assert decision_in(msgspec.json.encode({**row, "tools": None}), 2).capabilities is None


def test_reasons_name_what_only_one_side_selected() -> None:
    then = Session(an_engine(threshold=0.0)).decide(ASKED)
    now = Session(an_engine(threshold=1.0)).decide(ASKED)
    said = list(reasons(then, now, ("capabilities",)))
    assert any("selected then: " in text for text in said)
    assert verdict(then).capabilities == " ".join(TOOLS)


def test_an_empty_registry_has_the_version_of_every_empty_registry() -> None:
    assert CapabilityPolicy().registry.version == CapabilityRegistry(()).version
