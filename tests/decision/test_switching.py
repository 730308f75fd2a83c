"""``[tiers] switching``: the tier is decided at a start, and a move within is weighed against the context."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.decision.decision import Decision
from pointsman.decision.engine import Engine
from pointsman.decision.memory import MOST_SUBAGENTS, Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive, no_model
from pointsman.factory import build_engine
from pointsman.guidance import GuidancePolicy
from pointsman.model_choice.choice import Switching
from pointsman.tiers import EscalationPolicy, builtin_profile
from pointsman.vocabulary import AgentRequest, AgentRole, Mode, ModelSpec, Purpose, Tier, WireFormat
from pointsman.wire.request import read_request
from support.stuck_agents import requests

SMALL = ModelSpec(
    "small", "main", "s", input_per_million=0.6, output_per_million=3.0, cached_input_per_million=0.06
)
LARGE = ModelSpec(
    "large", "main", "l", input_per_million=3.0, output_per_million=15.0, cached_input_per_million=0.3
)
MODELS = {"small": SMALL, "large": LARGE}
TIERS = dict(zip(Tier, ("small", "small", "large", "large"), strict=True))
EASY = "hello"
HARD = (
    "Prove by induction, step by step, that the square root of 2 is irrational; derive every lemma formally."
)
MAIN, SUBAGENT = AgentRole.MAIN, AgentRole.SUBAGENT
MESSAGE, ITERATION = Purpose.MESSAGE, Purpose.TOOL_ITERATION


def engine(switching: Switching, **given_: Any) -> Engine:
    profile = msgspec.structs.replace(builtin_profile("default"), length_alone_with_tools=False)
    return build_engine(
        Policy(profile=profile, models=MODELS, tier_models=TIERS, switching=switching, **given_)
    )


def asked(
    text: str,
    before: int = 0,
    size: int = 40_000,
    role: AgentRole | None = MAIN,
    purpose: Purpose | None = MESSAGE,
) -> AgentRequest:
    """A request with so many messages before the user's; ``size`` in bytes."""
    turns = [{"role": ("user", "assistant")[at % 2], "content": f"turn {at}"} for at in range(before)]
    body = {"model": "auto", "messages": [*turns, {"role": "user", "content": text}]}
    request = read_request(WireFormat.CHAT, body, session="s")
    return msgspec.structs.replace(request, role=role, purpose=purpose, size=size)


def decided(by: Engine, requests_: list[AgentRequest]) -> list[Decision]:
    memory, found = Memory(), []
    for request in requests_:
        decision, memory, _ = drive(by.decide(request, memory, "d"), no_model)
        found.append(decision)
    return found


def models(by: Engine, requests_: list[AgentRequest]) -> list[str]:
    return [decision.chain[0] for decision in decided(by, requests_)]


RISES = [asked(EASY), asked(HARD, 4)]


@pytest.mark.parametrize(
    ("switching", "requests_", "expected"),
    [
        ("upward", RISES, ["small", "large"]),
        ("session", RISES, ["small", "small"]),
        ("weighed", RISES, ["small", "small"]),
        ("session", [asked(HARD), asked(EASY, 24)], ["large", "large"]),
        # Twelve calls to come save .12 and re-write 10,000 tokens for .0054.
        ("weighed", [asked(HARD), asked(EASY, 24)], ["large", "small"]),
        ("upward", [asked(HARD), asked(EASY, 24)], ["large", "small"]),
        # One call to come saves .054 and re-writes 200,000 tokens for .108; three save enough.
        ("weighed", [asked(HARD), asked(EASY, 2, 800_000)], ["large", "large"]),
        ("weighed", [asked(HARD), asked(EASY, 6, 800_000)], ["large", "small"]),
        # A compaction is a start; an edit of the last message is none.
        ("session", [asked(EASY, 40), asked(HARD, 3)], ["small", "large"]),
        ("session", [asked(EASY, 40), asked(HARD, 36)], ["small", "small"]),
        ("weighed", [asked(EASY, 40), asked(HARD, 3)], ["small", "large"]),
        # Clients that say no role and no purpose.
        ("session", [asked(EASY, role=None, purpose=None), asked(HARD, 4, role=None, purpose=None)],
         ["small", "small"]),
    ],
)  # fmt: skip
def test_when_a_session_moves(
    switching: Switching, requests_: list[AgentRequest], expected: list[str]
) -> None:
    assert models(engine(switching), requests_) == expected


@pytest.mark.parametrize("switching", ["upward", "session", "weighed"])
def test_a_subagent_has_a_tier_of_its_own_and_leaves_that_of_the_session(switching: Switching) -> None:
    found = models(
        engine(switching),
        [
            asked(EASY),
            asked(HARD, role=SUBAGENT),
            asked(HARD, 2, role=SUBAGENT, purpose=ITERATION),
            asked(EASY, 4, purpose=ITERATION),
            asked("thanks", role=SUBAGENT),
            asked(EASY, 6, purpose=ITERATION),
        ],
    )
    assert found == ["small", "large", "large", "small", "small", "small"]


def test_a_session_has_its_model_again_when_a_subagent_returns() -> None:
    """Within two user messages a move down does not pay for re-writing 500,000 tokens of context."""
    size = 2_000_000
    begins, returns = asked(HARD, 0, size), asked(EASY, 4, size, purpose=ITERATION)
    assert models(engine("upward"), [begins, asked(EASY, 0, 400, SUBAGENT), returns]) == [
        "large",
        "small",
        "large",
    ]


def test_a_subagent_with_a_session_for_itself_gives_it_its_model() -> None:
    by, memory = engine("upward"), Memory()
    for request in (asked(HARD, role=SUBAGENT), asked("thanks", 2, role=SUBAGENT, purpose=ITERATION)):
        decision, memory, _ = drive(by.decide(request, memory, "d"), no_model)
        assert (memory.model, memory.subagents) == (decision.chain[0], {})


def test_the_decision_explains_why_the_session_stays() -> None:
    first, second = decided(engine("weighed"), [asked(HARD), asked(EASY, 2, 800_000)])
    assert "routing.starts: the session begins" in {f"{each.code}: {each.detail}" for each in first.reasons}
    assert [each.detail for each in second.reasons if each.code == "routing.not-worth"] == [
        (
            '"large" stays: a move to "small" would save $0.054 in 1 turn'
            " and re-write 200,000 tokens of context for $0.11"
        )
    ]
    (stays,) = decided(engine("session"), RISES)[1:]
    assert [each.detail for each in stays.reasons if each.code == "routing.session"] == [
        (
            '"small" stays: the tier is decided at the start;'
            ' "large" would re-write 10,000 tokens of context for $0.027'
        )
    ]


def test_evidence_of_trouble_raises_the_tier_of_a_session_that_does_not_move() -> None:
    """Four failing calls raise it at once. When the user speaks, the way back is weighed, and not barred."""
    by = engine("session", guidance=GuidancePolicy(), escalation=EscalationPolicy(mode=Mode.ON, control=0.0))
    memory, found = Memory(), []
    tools = [{"type": "function", "function": {"name": "edit"}}]
    for history in requests(WireFormat.CHAT, 4):
        body = {"model": "auto", "messages": history, "tools": tools}
        request = read_request(WireFormat.CHAT, body, session="s")
        decision, memory, _ = drive(by.decide(request, memory, "d"), no_model)
        found.append(decision)
    assert found[0].chain[0] == "small"
    assert found[-1].chain[0] == "large"
    history = [*history, {"role": "assistant", "content": "done"}, {"role": "user", "content": "thanks"}]
    request = read_request(WireFormat.CHAT, {"model": "auto", "messages": history}, session="s")
    decision, memory, _ = drive(by.decide(request, memory, "d"), no_model)
    assert decision.chain[0] == "small"
    assert memory.started == "small"


@given(
    st.lists(st.tuples(st.sampled_from([EASY, HARD]), st.integers(0, 60), st.sampled_from([MAIN, SUBAGENT])),
             min_size=1, max_size=12),
    st.sampled_from(["upward", "weighed", "session"]),
)  # fmt: skip
def test_a_replay_decides_alike(turns: list[tuple[str, int, AgentRole]], switching: Switching) -> None:
    by = engine(switching, guidance=GuidancePolicy())
    requests_ = [asked(text, before, role=role) for text, before, role in turns]
    memory = Memory()
    for request, then in zip(requests_, decided(by, requests_), strict=True):
        again, memory, _ = drive(by.decide(by.reader.recall(then, memory, None), memory, "d"), no_model)
        assert (again.chain, again.tier) == (then.chain, then.tier)
        assert len(memory.subagents) <= MOST_SUBAGENTS
        assert request.session == "s"


def test_the_models_of_subagents_are_bounded() -> None:
    by = engine("session", guidance=GuidancePolicy())
    memory = Memory()
    for number in range(3 * MOST_SUBAGENTS):
        request = asked(f"task {number}", role=SUBAGENT)
        _, memory, _ = drive(by.decide(request, memory, "d"), no_model)
    assert len(memory.subagents) <= MOST_SUBAGENTS
    assert not memory.model
