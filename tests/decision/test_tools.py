"""What a request's tools change in its decision, and what is remembered of them between requests."""

from collections.abc import Sequence

import msgspec
import pytest

from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive, no_model
from pointsman.factory import build_engine
from pointsman.tiers import TierDecision, builtin_profile, explain
from pointsman.vocabulary import ModelSpec, Tier, WireFormat
from pointsman.wire.request import read_request

TOOLS = {"get_weather": "Forecast of a city", "send_mail": "Send an e-mail", "run_shell": "Run a command"}
OFFERED = [{"type": "function", "function": {"name": n, "description": t}} for n, t in TOOLS.items()]
ASKED = {"role": "user", "content": "the weather forecast of a city: Rome"}


def called(tool: str) -> list[dict[str, object]]:
    made = {"id": tool, "type": "function", "function": {"name": tool, "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": tool, "content": "done"},
    ]


def refused(*requests: Sequence[object]) -> list[tuple[str, ...]]:
    """Of each request of one session, the tools called since the last one without being offered."""
    policy = Policy(
        profile=builtin_profile("seed"),
        models={"small": ModelSpec("small", "up", "small")},
        tier_models=dict.fromkeys(Tier, "small"),
        tools=1,
    )
    engine, memory, said = build_engine(policy), Memory(), []
    for messages in requests:
        agent_request = read_request(
            WireFormat.CHAT, {"model": "auto", "messages": messages, "tools": OFFERED}
        )
        decided = drive(engine.decide(agent_request, memory, "d"), no_model)
        memory = decided.memory
        part = decided.decision.capabilities
        assert part is not None
        assert part.tools is not None
        said.append(part.tools.refused)
    return said


def test_a_tool_called_without_being_offered_is_named_once() -> None:
    once, twice = [ASKED, *called("send_mail")], [ASKED, *called("send_mail"), *called("get_weather")]
    assert refused([ASKED], once, twice) == [(), ("send_mail",), ()]


def test_a_shortened_history_is_read_from_its_beginning() -> None:
    long = [ASKED, *called("get_weather"), *called("get_weather")]
    assert refused([ASKED], long, [ASKED, *called("run_shell")]) == [(), (), ("run_shell",)]


def tier_of(
    words: str, *, tools: bool, profile: str = "default", **changed: object
) -> tuple[TierDecision, Sequence[str]]:
    """The tier of a message, and the dimensions that its explanation names."""
    rules = msgspec.structs.replace(builtin_profile(profile), **changed)
    engine = build_engine(Policy(profile=rules))
    body = {"model": "auto", "messages": [{"role": "user", "content": words}]}
    request = read_request(WireFormat.CHAT, body | ({"tools": OFFERED} if tools else {}))
    decided = drive(engine.decide(request, Memory(), "d"), no_model).decision
    assert decided.tier is not None
    again = drive(engine.decide(engine.reader.recall(decided, Memory()), Memory(), "d"), no_model).decision
    assert again.tier == decided.tier
    explained = explain(engine.scorer_of(decided.input), engine.scanner.scan(words.strip()))
    assert explained.decision.score == decided.tier.score
    return decided.tier, [part.dimension for part in explained.contributions if part.contribution]


PROVE = "Prove by induction that the square root of 2 is irrational, derive every lemma formally. Why? How?"


@pytest.mark.parametrize(
    ("words", "without_tools", "with_tools"),
    [
        (PROVE, Tier.REASONING, Tier.MEDIUM),
        ("What is the capital of France?", Tier.SIMPLE, Tier.MEDIUM),
        ("Yes.", Tier.SIMPLE, Tier.MEDIUM),
        ("zxcvb qwerty " * 60, Tier.COMPLEX, Tier.COMPLEX),
        ("x " * 250_000, Tier.COMPLEX, Tier.COMPLEX),  # the override of long texts holds
    ],
)
def test_keywords_do_not_count_in_a_request_with_tools(
    words: str, without_tools: Tier, with_tools: Tier
) -> None:
    assert tier_of(words, tools=False)[0].tier is without_tools
    decided, dimensions = tier_of(words, tools=True)
    assert decided.tier is with_tools
    assert set(dimensions) <= {"length"}


def test_a_request_with_tools_says_why_its_keywords_do_not_count() -> None:
    decided, _ = tier_of(PROVE, tools=True)
    assert [reason.detail for reason in decided.reasons][1:] == [
        "request with tools: keywords do not count",
        "no keyword counts, so it is not taken to be simple",
    ]
    assert "tiers.tools" not in {reason.code for reason in tier_of(PROVE, tools=False)[0].reasons}


@pytest.mark.parametrize("profile", ["seed", "default"])
def test_a_profile_may_count_keywords_with_tools_too(profile: str) -> None:
    with_tools, dimensions = tier_of(PROVE, tools=True, profile=profile, length_alone_with_tools=False)
    assert with_tools == tier_of(PROVE, tools=False, profile=profile, length_alone_with_tools=False)[0]
    assert "proof" in dimensions or profile == "seed"
