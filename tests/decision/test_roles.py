"""The tier of a role: where it counts, what it leaves alone, and its replay."""

import msgspec
import pytest

from pointsman.decision.aliases import CLIENT_ALIASES
from pointsman.decision.engine import Decided, Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive, no_model
from pointsman.factory import build_engine
from pointsman.tiers import RoleTiers, builtin_profile
from pointsman.vocabulary import AgentRequest, AgentRole, ModelSpec, Purpose, Stage, Tier, WireFormat
from pointsman.wire.request import read_request

MODELS = {name: ModelSpec(name, "main", f"v-{name}") for name in ("small", "middle", "large", "best")}
TIERS = dict(zip(Tier, MODELS, strict=True))
PROOF = (
    "Prove by induction, step by step, that the square root of 2 is irrational; derive every lemma formally."
)
MAIN, HELPER, SUBAGENT = AgentRole.MAIN, AgentRole.HELPER, AgentRole.SUBAGENT


def engine(roles: RoleTiers | None = None) -> Engine:
    policy = Policy(
        profile=builtin_profile("default"), models=MODELS, tier_models=TIERS, aliases=CLIENT_ALIASES,
        roles=roles or RoleTiers(),
    )  # fmt: skip
    return build_engine(policy)


def asking(role: AgentRole, purpose: Purpose | None, text: str = PROOF, model: str = "auto") -> AgentRequest:
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    request = read_request(WireFormat.CHAT, body, session="s")
    return msgspec.structs.replace(request, role=role, purpose=purpose, role_mark="by this", project="p-1")


def decide(by: Engine, request: AgentRequest, memory: Memory | None = None) -> Decided:
    return drive(by.decide(request, memory or Memory(), "d"), no_model)


@pytest.mark.parametrize("model", ["auto", "claude-opus-4-8"])
@pytest.mark.parametrize(
    "purpose", [Purpose.TITLE, Purpose.TOPIC, Purpose.SUMMARY, Purpose.PROBE, Purpose.HELPER]
)
def test_helper_calls_go_to_the_small_model(model: str, purpose: Purpose) -> None:
    decision = decide(engine(), asking(HELPER, purpose, model=model)).decision
    assert decision.chain[0] == "small"
    assert decision.tier is not None
    assert decision.tier.stage is Stage.ROLE
    assert decision.reasons[0].code == "agent.helper"
    assert decision.input.project == "p-1"


@pytest.mark.parametrize("asked", ["large", "complex", "claude-haiku-4-5"])
def test_a_name_that_says_more_than_auto_counts(asked: str) -> None:
    roles = RoleTiers(title="reasoning")
    plain = decide(engine(), asking(MAIN, Purpose.MESSAGE, model=asked)).decision.chain
    assert decide(engine(roles), asking(HELPER, Purpose.TITLE, model=asked)).decision.chain == plain


def test_a_plan_goes_where_the_operator_wants_and_its_tool_calls_stay_there() -> None:
    by = engine(RoleTiers(plan="reasoning"))
    first = decide(by, asking(MAIN, None, "hello"))
    assert first.decision.chain[0] == "small"
    plan = decide(by, asking(MAIN, Purpose.PLAN, "plan it"), first.memory)
    assert plan.decision.chain[0] == "best"
    assert "agent.plan" in {reason.code for reason in plan.decision.reasons}
    again = decide(by, asking(MAIN, Purpose.TOOL_ITERATION, "plan it"), plan.memory)
    assert again.decision.chain[0] == "best"
    assert decide(engine(), asking(MAIN, Purpose.PLAN, "hello")).decision.chain[0] == "small"


def test_a_compaction_stays_with_the_model_of_its_session() -> None:
    by = engine()
    first = decide(by, asking(MAIN, None, "hello"))
    compaction = decide(by, asking(HELPER, Purpose.COMPACTION), first.memory)
    assert compaction.decision.chain[0] == "small"  # the rules alone say more
    assert compaction.memory == first.memory
    up = engine(RoleTiers(compaction="complex"))
    assert decide(up, asking(HELPER, Purpose.COMPACTION), first.memory).decision.chain[0] == "large"
    assert decide(by, asking(HELPER, Purpose.COMPACTION)).decision.chain[0] != "small"  # no session yet


def test_a_sub_agent_has_a_tier_of_its_own() -> None:
    by = engine(RoleTiers(subagent="medium", check="complex"))
    for purpose in (None, Purpose.MESSAGE, Purpose.TOOL_ITERATION):
        assert decide(by, asking(SUBAGENT, purpose)).decision.chain[0] == "middle"
    assert decide(by, asking(SUBAGENT, Purpose.CHECK)).decision.chain[0] == "large"


def test_a_check_of_a_command_is_decided_as_anything_else() -> None:
    check = decide(engine(), asking(HELPER, Purpose.CHECK)).decision
    same = decide(engine(), asking(MAIN, Purpose.MESSAGE)).decision
    assert check.chain == same.chain
    aliased = decide(engine(), asking(HELPER, Purpose.CHECK, model="claude-opus-4-8")).decision
    assert aliased.chain == same.chain


def test_a_recorded_role_is_decided_again_by_another_policy() -> None:
    then = decide(engine(), asking(HELPER, Purpose.TITLE)).decision
    for roles, model in ((RoleTiers(), "small"), (RoleTiers(title="reasoning"), "best")):
        by = engine(roles)
        again = drive(by.decide(by.reader.recall(then, Memory()), Memory(), "d"), no_model).decision
        assert again.chain[0] == model
        assert again.input == then.input


def test_roles_are_part_of_the_version() -> None:
    assert engine().version != engine(RoleTiers(title="decide")).version
