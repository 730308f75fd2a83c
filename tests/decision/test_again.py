"""A recorded turn decided again: the same under the same policy, from signals alone or from kept words."""

import dataclasses
import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.decision.decision import Decision, without_content
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive
from pointsman.factory import build_engine, default_policy
from pointsman.guidance import GuidancePolicy
from pointsman.tiers import builtin_profile
from pointsman.vocabulary import Mode, ModelQuery, ModelReply, ModelSpec, Tier, WireFormat
from pointsman.wire.request import read_request
from support.examples import share

MODELS = {
    name: ModelSpec(
        name,
        "up",
        name,
        input_per_million=price,
        output_per_million=5 * price,
        cached_input_per_million=price / 10,
        cache_seconds=300.0,
    )
    for name, price in (("small", 0.1), ("large", 3.0))
}
LADDER = {Tier.SIMPLE: "small", Tier.MEDIUM: "small", Tier.COMPLEX: "large", Tier.REASONING: "large"}
BASE = default_policy()
POLICY = Policy(
    profile=BASE.profile,
    models=MODELS,
    tier_models=LADDER,
    domains=BASE.domains,
    guidance=GuidancePolicy(mode=Mode.ON),
)
ENGINE = build_engine(POLICY)


def nobody(need: ModelQuery) -> ModelReply:
    return ModelReply(error="no-model")


def live(engine: Engine, bodies: list[list[Any]], pause: float = 1.0) -> list[tuple[Decision, str]]:
    """Decide a session, and what a ledger would keep of it after a trip through JSON."""
    memory, kept = Memory(), []
    for n, messages in enumerate(bodies):
        at = 1e9 + n * pause
        agent_request = read_request(WireFormat.CHAT, {"messages": messages}, session="s", arrived_at=at)
        decided = drive(engine.decide(agent_request, memory, f"d{n}"), nobody)
        memory = decided.memory
        stored = msgspec.json.encode(without_content(decided.decision))
        kept.append((msgspec.json.decode(stored, type=Decision), decided.words.text))
    return kept


def replayed(engine: Engine, kept: list[tuple[Decision, str]], *, with_text: bool) -> list[Decision]:
    memory, found = Memory(), []
    for then, text in kept:
        decided = drive(
            engine.decide(engine.reader.recall(then, memory, text if with_text else None), memory, then.id),
            nobody,
        )
        memory = decided.memory
        found.append(decided.decision)
    return found


def outcome(decision: Decision) -> Any:
    firing = decision.guidance.firing if decision.guidance else None
    return (
        decision.tier,
        decision.chain,
        decision.domains,
        (firing.classifier, firing.step, firing.rung) if firing else None,
    )


def test_a_switch_that_an_expired_cache_made_free_is_decided_again_alike() -> None:
    """A hard message, then an easy one: the small model is worth a switch only when the cache is gone."""
    near = msgspec.structs.replace(
        MODELS["large"], name="small", input_per_million=2.9, cached_input_per_million=0.29
    )
    policy = dataclasses.replace(POLICY, models={**MODELS, "small": near}, guidance=None)
    engine = build_engine(policy)
    hard = {"role": "user", "content": "prove it formally, step by step " + "x" * 40_000}
    talk = [hard, {"role": "assistant", "content": "done"}, {"role": "user", "content": "thanks"}]
    chosen = {}
    for pause in (60.0, 301.0):
        kept = live(engine, [[hard], talk], pause)
        again = replayed(engine, kept, with_text=True)
        assert [each.reasons for each in again] == [then.reasons for then, _ in kept]
        chosen[pause] = [then.chain[0] for then, _ in kept]
    assert chosen == {60.0: ["large", "large"], 301.0: ["large", "small"]}


def stuck(calls: int) -> list[list[Any]]:
    messages: list[Any] = [{"role": "user", "content": "investigate why the build fails"}]
    bodies = [list(messages)]
    for n in range(calls):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "bash", "arguments": '{"c": "make"}'}}
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "Error: no rule to make target sk-canary"},
        ]
        bodies.append(list(messages))
    return [*bodies, [*messages, {"role": "user", "content": "prove it, step by step"}]]


def test_a_stuck_session_is_decided_again_alike() -> None:
    kept = live(ENGINE, stuck(5))
    assert any(then.guidance and then.guidance.firing for then, _ in kept)
    for with_text in (True, False):
        assert [outcome(d) for d in replayed(ENGINE, kept, with_text=with_text)] == [
            outcome(then) for then, _ in kept
        ]


def test_a_person_who_speaks_into_a_loop_ends_it_again() -> None:
    first = stuck(2)[-2]
    call = {"id": "c9", "type": "function", "function": {"name": "bash", "arguments": '{"c": "make"}'}}
    failed = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c9", "content": "Error: no rule to make target sk-canary"},
    ]
    kept = live(ENGINE, [first, [*first, *failed, {"role": "user", "content": "try another way"}]])
    assert not any(then.guidance and then.guidance.firing for then, _ in kept)
    assert kept[-1][0].input.person_spoke
    for with_text in (True, False):
        assert [outcome(d) for d in replayed(ENGINE, kept, with_text=with_text)] == [
            outcome(then) for then, _ in kept
        ]


def test_what_is_kept_quotes_no_tool() -> None:
    kept = json.dumps([msgspec.to_builtins(then) for then, _ in live(ENGINE, stuck(5))])
    assert "sk-canary" not in kept
    assert "error_streak" in kept or "doom_loop" in kept


WORDS = [
    "hello",
    "prove",
    "the api",
    "step by step",
    "ls",
    "investigate",
    "fix the bug",
    "yes",
    "why?",
    "json",
]


@settings(max_examples=share(0.4))
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), min_size=1, max_size=6)
)
def test_any_session_is_decided_again_alike_from_its_signals(texts: list[str]) -> None:
    bodies: list[list[Any]] = []
    for text in texts:
        before = bodies[-1] if bodies else []
        bodies.append([*before, {"role": "user", "content": text}])
    kept = live(ENGINE, bodies)
    assert [outcome(d) for d in replayed(ENGINE, kept, with_text=False)] == [
        outcome(then) for then, _ in kept
    ]


def test_another_policy_decides_otherwise() -> None:
    kept = live(ENGINE, [[{"role": "user", "content": "prove it, step by step"}]])
    other = build_engine(
        Policy(profile=builtin_profile("seed"), models=MODELS, tier_models=dict.fromkeys(Tier, "small"))
    )
    [now] = replayed(other, kept, with_text=True)
    assert now.chain == ("small",)
    assert now.policy != kept[0][0].policy


def test_a_message_after_a_request_without_words_is_a_new_one_in_replay_too() -> None:
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
    kept = live(ENGINE, [[image], [{"role": "user", "content": "fix the bug in the parser"}]])
    first, second = replayed(ENGINE, kept, with_text=False)
    assert (first.input.user_message, second.input.user_message) == (0, 1)
    assert second.domains == kept[1][0].domains
    assert second.domains is not None
    assert second.domains.signature == "bugfix"


def test_a_text_without_a_place_is_decided_again_alike() -> None:
    """Nothing is added to a request that ends with the assistant's words; the next one gets what was due."""
    assert POLICY.domains
    domains = msgspec.structs.replace(POLICY.domains, mode=Mode.ON)
    engine = build_engine(dataclasses.replace(POLICY, domains=domains))
    began = {"role": "assistant", "content": "The build fails because"}
    bodies = [each for body in stuck(3)[:-1] for each in ([*body, began], body)]
    kept = live(engine, bodies)
    added = [[each.source for each in then.injections] for then, _ in kept]
    assert added == [[], ["domains"], [], [], [], [], [], ["guidance"]]
    for with_text in (True, False):
        again = replayed(engine, kept, with_text=with_text)
        assert [outcome(now) for now in again] == [outcome(then) for then, _ in kept]
        assert [now.reasons for now in again] == [then.reasons for then, _ in kept]
        assert [[each.source for each in now.injections] for now in again] == added


def test_a_request_without_a_place_is_watched_and_stays_raised() -> None:
    """Only a text that is due waits for the next request: who always begins the answer was never watched."""
    began = {"role": "assistant", "content": "The build fails because"}
    bodies = stuck(8)[:-1]
    for mode in (Mode.OBSERVE, Mode.ON):
        assert POLICY.guidance
        guidance = msgspec.structs.replace(
            POLICY.guidance, mode=mode, escalate=("raise_tier",), escalate_after=1
        )
        engine = build_engine(dataclasses.replace(POLICY, guidance=guidance))
        plain = [then for then, _ in live(engine, bodies)]
        fired = [bool(then.guidance and then.guidance.firings) for then in plain]
        assert any(fired)
        kept = live(engine, [body if due and mode is Mode.ON else [*body, began]
                             for body, due in zip(bodies, fired, strict=True)])  # fmt: skip
        assert [then.guidance for then, _ in kept] == [then.guidance for then in plain]
        assert [then.chain for then, _ in kept] == [then.chain for then in plain]
        for with_text in (True, False):
            again = replayed(engine, kept, with_text=with_text)
            assert [outcome(now) for now in again] == [outcome(then) for then, _ in kept]
    raised = [bool(then.guidance and then.guidance.raise_tier) for then in plain]
    assert raised.count(True) > fired.count(True), "also in requests to which no text is due"
