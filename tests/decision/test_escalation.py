"""The tier is raised once when an agent is in trouble, until the user speaks; and cheap first."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pointsman.config import AnyKey, load
from pointsman.decision.decision import Decision
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive, no_model
from pointsman.errors import ConfigError
from pointsman.factory import build_engine
from pointsman.guidance import GuidancePolicy
from pointsman.model_choice.chains import TierModel, TierModels
from pointsman.tiers import EscalationPolicy, builtin_profile
from pointsman.vocabulary import AgentRole, Mode, ModelSpec, Stage, Tier, WireFormat
from pointsman.wire.request import read_request
from support.stuck_agents import call, requests, say

CHAT = WireFormat.CHAT
MODELS = {name: ModelSpec(name, "main", f"v-{name}") for name in ("small", "middle", "large")}
TIERS = dict(zip(Tier, ("small", "small", "middle", "large"), strict=True))
ON = EscalationPolicy(mode=Mode.ON, control=0.0)
#: These requests offer tools, and their tiers are chosen here by keywords.
BY_KEYWORDS = msgspec.structs.replace(builtin_profile("default"), length_alone_with_tools=False)
HARD = (
    "Prove by induction, step by step, that the square root of 2 is irrational; derive every lemma formally."
)


def engine(
    escalation: EscalationPolicy | None,
    guidance: GuidancePolicy | None = None,
    tiers: TierModels = TIERS,
    models: Mapping[str, ModelSpec] = MODELS,
) -> Engine:
    policy = Policy(
        profile=BY_KEYWORDS, models=models, tier_models=tiers,
        guidance=guidance or GuidancePolicy(), escalation=escalation,
    )  # fmt: skip
    return build_engine(policy)


def run(
    by: Engine, histories: Sequence[list[dict[str, Any]]], *, role: AgentRole = AgentRole.MAIN
) -> list[Decision]:
    memory = Memory()
    found: list[Decision] = []
    for history in histories:
        body = {
            "model": "auto",
            "messages": history,
            "tools": [{"type": "function", "function": {"name": "edit"}}],
        }
        request = read_request(CHAT, body, session="s")
        request = msgspec.structs.replace(request, project="p-1", role=role)
        decided = drive(by.decide(request, memory, f"d{len(found)}"), no_model)
        memory = decided.memory
        found.append(decided.decision)
    return found


def going_well(calls: int, *, words: str = "go") -> list[list[dict[str, Any]]]:
    """An agent whose every call brings something new."""
    history, found = [say(CHAT, words)], [[say(CHAT, words)]]
    for number in range(calls):
        history = history + call(CHAT, number, f"line {number}", failed=False)
        found.append(history)
    return found


def stuck(words: str) -> list[list[dict[str, Any]]]:
    """An agent whose every call fails, asked in these words."""
    return [[say(CHAT, words), *history[1:]] for history in requests(CHAT, 5)]


def models(decisions: Sequence[Decision]) -> list[str]:
    return [decision.chain[0] for decision in decisions]


def codes(decision: Decision) -> set[str]:
    return {reason.code for reason in decision.reasons if reason.code.startswith("escalation")}


def test_a_stuck_agent_is_raised_once_until_the_user_speaks() -> None:
    histories = list(requests(CHAT, 8))
    histories.append([*histories[-1], {"role": "assistant", "content": "I give up"}, say(CHAT, "thanks")])
    found = run(engine(ON), histories)
    # Without prices the order of the tiers counts: the next message comes down again.
    assert models(found) == ["small"] * 3 + ["middle"] * 6 + ["small"]
    assert codes(found[3]) == {"escalation.stuck"}
    assert all(codes(decision) == {"escalation.stays"} for decision in found[4:9])
    assert codes(found[9]) == set()


def test_the_model_that_takes_over_is_told_once() -> None:
    found = run(engine(ON), list(requests(CHAT, 6)))
    told = [[each.text for each in decision.injections if each.source == "escalation"] for decision in found]
    assert [len(each) for each in told] == [0, 0, 0, 1, 0, 0, 0]
    assert "3 tool calls since the user's message, 3 of which failed" in told[3][0]


def test_a_run_longer_than_own_successes_is_raised() -> None:
    policy = msgspec.structs.replace(ON, longest={"p-1|small": 4, "p-2|small": 1, "p-1|large": 1})
    found = run(engine(policy), going_well(7))
    assert models(found) == ["small"] * 5 + ["middle"] * 3
    assert codes(found[5]) == {"escalation.long"}
    said = next(reason.detail for reason in found[5].reasons if reason.code == "escalation.long")
    assert said == '5 tool calls; successful runs of "small" here have at most 4'
    assert models(run(engine(ON), going_well(7))) == ["small"] * 8


def test_observing_and_the_control_group_change_nothing() -> None:
    for policy, code in (
        (EscalationPolicy(control=0.0), "escalation.observe"),
        (EscalationPolicy(mode=Mode.ON, control=1.0), "escalation.withheld"),
    ):
        found = run(engine(policy), list(requests(CHAT, 5)))
        assert models(found) == ["small"] * 6
        assert codes(found[3]) == {code}
        assert not any(each.source == "escalation" for decision in found for each in decision.injections)


@pytest.mark.parametrize(
    ("tiers", "words"),
    [
        (dict.fromkeys(Tier, "small"), "go"),  # every tier has the same model
        (TIERS, HARD),  # the highest tier is in use
        ({Tier.SIMPLE: "small"}, "go"),  # there is no other tier
        ({**TIERS, Tier.REASONING: ("small", "large")}, HARD),
    ],
)
@pytest.mark.parametrize("policy", [ON, EscalationPolicy(), msgspec.structs.replace(ON, control=1.0)])
def test_without_a_higher_model_nothing_is_raised_and_nobody_told(
    tiers: TierModels, words: str, policy: EscalationPolicy
) -> None:
    found = run(engine(policy, tiers=tiers), stuck(words))
    assert len(set(models(found))) == 1
    assert codes(found[3]) == {"escalation.none-higher"}
    assert not any(each.source == "escalation" for decision in found for each in decision.injections)
    assert all(codes(decision) <= {"escalation.none-higher"} for decision in found)


def test_a_higher_model_that_cannot_serve_the_request_raises_nothing() -> None:
    unable = {
        name: msgspec.structs.replace(MODELS[name], features=frozenset()) for name in ("middle", "large")
    }
    found = run(engine(ON, models={**MODELS, **unable}), list(requests(CHAT, 4)))
    assert models(found) == ["small"] * 5
    assert codes(found[3]) == {"escalation.none-higher"}
    assert not any(each.source == "escalation" for decision in found for each in decision.injections)


def test_a_session_that_kept_a_higher_model_is_not_moved_down() -> None:
    """Its model stays because a change saves nothing; the next tier of the message would have a lower one."""
    equal = {
        name: msgspec.structs.replace(model, input_per_million=1.0, output_per_million=1.0)
        for name, model in MODELS.items()
    }
    histories = stuck(HARD)[:1] + [
        [say(CHAT, HARD), {"role": "assistant", "content": "Done."}, *history]
        for history in requests(CHAT, 4)
    ]
    found = run(engine(ON, models=equal), histories)
    assert models(found) == ["large"] * 6
    assert codes(found[4]) == {"escalation.none-higher"}


def test_more_effort_of_the_same_model_is_no_takeover() -> None:
    low, high = TierModel(model="small", effort="low"), TierModel(model="small", effort="high")
    tiers = dict(zip(Tier, (low, low, high, high), strict=True))
    found = run(engine(ON, tiers=tiers), list(requests(CHAT, 4)))
    assert [decision.parameters["small"].effort for decision in found] == ["low"] * 3 + ["high"] * 2
    assert codes(found[3]) == {"escalation.stuck"}
    assert not any(each.source == "escalation" for decision in found for each in decision.injections)


def test_trouble_can_be_length_alone() -> None:
    found = run(engine(msgspec.structs.replace(ON, stuck=False)), list(requests(CHAT, 5)))
    assert models(found) == ["small"] * 6


def test_a_helper_call_is_never_raised() -> None:
    found = run(engine(ON), list(requests(CHAT, 5)), role=AgentRole.HELPER)
    assert models(found) == ["small"] * 6


@pytest.mark.parametrize(
    ("projects", "model", "mode"),
    [
        (("p-1",), "small", Mode.ON),
        (("*",), "small", Mode.ON),
        (("p-2",), "large", Mode.ON),
        (("p-1",), "large", Mode.OBSERVE),
    ],
)
def test_cheap_first_is_by_project(projects: tuple[str, ...], model: str, mode: Mode) -> None:
    policy = EscalationPolicy(mode=mode, control=0.0, cheap_first=projects)
    first = run(engine(policy), going_well(0, words=HARD))[0]
    assert first.chain[0] == model
    assert first.tier is not None
    assert (first.tier.stage is Stage.CHEAP_FIRST) == (model == "small")


def test_cheap_first_escalates_on_trouble() -> None:
    policy = msgspec.structs.replace(ON, cheap_first=("*",), start="complex")
    assert models(run(engine(policy), list(requests(CHAT, 4)))) == ["middle"] * 3 + ["large"] * 2


def test_a_recorded_run_is_raised_at_the_same_request() -> None:
    by, memory = engine(ON), Memory()
    then = run(by, list(requests(CHAT, 6)))
    for decision in then:
        again = drive(by.decide(by.reader.recall(decision, memory), memory, decision.id), no_model)
        memory = again.memory
        assert again.decision.chain == decision.chain
        assert codes(again.decision) == codes(decision)


def test_escalation_without_guidance_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    upstream = '[upstreams.u]\nbase_url = "http://127.0.0.1:1"\n[models.m]\nupstream = "u"\nid = "x"\n'
    text = f'{upstream}[tiers]\nsimple = "m"\n'
    file.write_text(text + '[tiers.escalation]\nmode = "on"\n[guidance]\nmode = "off"\n')
    with pytest.raises(ConfigError, match="guidance is off"):
        load(file, AnyKey())
    file.write_text(text + '[tiers.escalation]\nmode = "on"\nlongest = { "p-1|m" = 40 }\n')
    escalation = load(file, AnyKey()).tiers.escalation
    assert escalation is not None
    assert escalation.longest == {"p-1|m": 40}
