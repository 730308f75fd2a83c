"""The four answers put together, and what happens when one of them fails."""

from collections.abc import Callable
from functools import cache
from operator import attrgetter

import msgspec
import pytest

from pointsman.decision.decision import Decision
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.domains import default_domains
from pointsman.drivers import drive
from pointsman.errors import UnknownModel
from pointsman.evidence import Scanner, SignalTable
from pointsman.factory import build_engine
from pointsman.guidance import GuidancePolicy
from pointsman.tiers import Verification, builtin_profile
from pointsman.vocabulary import (
    AgentRequest,
    Mode,
    ModelQuery,
    ModelReply,
    ModelSpec,
    Stage,
    Tier,
    WireFormat,
)
from pointsman.wire.request import read_request, request_from_text
from support.oracle import ReMatcher

MODELS = {name: ModelSpec(name, "main", f"{name}-1") for name in ("small", "middle", "large")}
LADDER = {Tier.SIMPLE: "small", Tier.MEDIUM: "small", Tier.COMPLEX: "middle", Tier.REASONING: "large"}


def engine(verify: Verification | None = None) -> Engine:
    policy = Policy(profile=builtin_profile("seed"), models=MODELS, tier_models=LADDER, verify=verify)
    return build_engine(policy)


def nobody(need: ModelQuery) -> ModelReply:
    raise AssertionError(f"nobody should be asked: {need}")


def decide(
    agent_request: AgentRequest, *, by: Engine | None = None, ask: Callable[[ModelQuery], ModelReply] = nobody
) -> Decision:
    return drive((by or engine()).decide(agent_request, Memory(), "d-1"), ask).decision


def asking_for(model: str) -> AgentRequest:
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    return read_request(WireFormat.CHAT, body)


@pytest.mark.parametrize(
    ("model", "tier", "chain"),
    [
        ("simple", Tier.SIMPLE, ("small", "middle")),
        ("pointsman/medium", Tier.MEDIUM, ("small", "middle")),
        ("claw-llm-router/complex", Tier.COMPLEX, ("middle", "large")),
        ("reasoning", Tier.REASONING, ("large",)),
    ],
)
def test_a_model_id_can_force_a_tier(model: str, tier: Tier, chain: tuple[str, ...]) -> None:
    decision = decide(asking_for(model))
    assert decision.tier is not None
    assert (decision.tier.tier, decision.tier.stage, decision.chain) == (tier, Stage.FORCED, chain)


def test_a_configured_model_is_relayed_and_still_observed() -> None:
    decision = decide(asking_for("large"))
    assert (decision.tier, decision.chain) == (None, ("large",))
    assert decision.input.signals == ("seed/simpleIndicators/hello",)


def test_an_unknown_model_names_the_known_ones() -> None:
    with pytest.raises(UnknownModel, match='"gpt-7"') as error:
        decide(asking_for("gpt-7"))
    assert error.value.hint.startswith(
        "known: auto, simple, medium, complex, reasoning, small, middle, large; "
    )


def test_profile_seed_without_a_verifier_falls_back_to_medium() -> None:
    """Source: docs/sources/prompt-classifier.md, "Failure modes"."""
    decision = decide(request_from_text("let us see about that"))
    assert decision.tier is not None
    assert decision.tier.needs_verification
    assert (decision.tier.tier, decision.tier.stage) == (Tier.MEDIUM, Stage.FALLBACK)
    assert decision.tier.reasons[-1].code == "tiers.unverified"
    assert not decision.abstained


def test_profile_default_without_a_verifier_keeps_the_rules_tier() -> None:
    by = build_engine(Policy(profile=builtin_profile("default"), models=MODELS, tier_models=LADDER))
    decision = decide(request_from_text("Write something about the sea for her and me"), by=by)
    assert decision.tier is not None
    assert decision.tier.needs_verification
    assert (decision.tier.tier, decision.tier.stage) == (Tier.SIMPLE, Stage.RULES)


def scoring(domains: dict[str, float]) -> Engine:
    profile = msgspec.structs.replace(builtin_profile("default"), domain_scores=domains)
    known = DomainPolicy(domains=default_domains())
    return build_engine(Policy(profile=profile, models=MODELS, tier_models=LADDER, domains=known))


@pytest.mark.parametrize(
    ("scores", "tier"),
    [({}, Tier.MEDIUM), ({"bugfix": 2.0}, Tier.REASONING), ({"planning": 2.0}, Tier.MEDIUM)],
)
def test_a_profile_can_give_the_domain_a_score(scores: dict[str, float], tier: Tier) -> None:
    text = "fix this bug: the traceback says KeyError in the login function, please debug it"
    decision = decide(request_from_text(text), by=scoring(scores))
    assert decision.tier is not None
    assert decision.domains is not None
    assert decision.domains.effective.domains[0] == "bugfix"
    assert decision.tier.tier is tier
    assert ("domain bugfix (+2)" in decision.tier.signals) is ("bugfix" in scores)


@pytest.mark.parametrize(("profile", "text"), [("seed", "3+1"), ("default", f"{'a ' * 300}\n\n3+1")])
def test_the_profile_says_which_words_count(profile: str, text: str) -> None:
    by = build_engine(Policy(profile=builtin_profile(profile), models=MODELS, tier_models=LADDER))
    decided = drive(by.decide(request_from_text(f"{'a ' * 300}\n\n3+1"), Memory(), "d-1"), nobody)
    assert decided.words.text == text


def test_an_unsure_tier_is_verified_when_the_policy_says_so() -> None:
    decision = decide(
        request_from_text("let us see about that"),
        by=engine(Verification(model="small")),
        ask=lambda _: ModelReply("COMPLEX"),
    )
    assert decision.tier is not None
    assert (decision.tier.tier, decision.tier.stage) == (Tier.COMPLEX, Stage.VERIFIED)


def test_a_failed_verification_is_a_tier_and_an_abstention() -> None:
    decision = decide(
        request_from_text("let us see about that"),
        by=engine(Verification(model="small")),
        ask=lambda _: ModelReply(error="timeout"),
    )
    assert decision.tier is not None
    assert (decision.tier.tier, decision.tier.stage) == (Tier.MEDIUM, Stage.FALLBACK)
    assert [reason.code for reason in decision.abstained] == ["tiers.abstained.llm-failed"]


class BrokenMatcher:
    def match(self, lowered: str, /) -> int:
        raise MemoryError("no scratch space")


def test_a_failing_scan_abstains_and_never_stops_the_request() -> None:
    whole = engine()
    broken = Engine(whole.policy, Scanner(whole.scanner.table, BrokenMatcher()))
    decision = decide(request_from_text("anything at all"), by=broken)
    assert decision.chain
    assert [(reason.code, reason.detail) for reason in decision.abstained] == [
        ("evidence.failed", "MemoryError: no scratch space")
    ]


def test_a_policys_version_is_of_its_content() -> None:
    assert engine().version == engine().version
    assert engine().version != engine(Verification(model="small")).version


@cache
def patterns() -> tuple[SignalTable, ReMatcher]:
    """Those of profile ``seed`` and the built-in domains: compiling them by ``re`` takes seconds."""
    domains = DomainPolicy(domains=default_domains())
    table = SignalTable(Policy(profile=builtin_profile("seed"), domains=domains).signals())
    return table, ReMatcher(table)


def guided(monkeypatch: pytest.MonkeyPatch, part: str, method: str) -> Engine:
    """An engine with every part on, of which one breaks."""
    policy = Policy(
        profile=builtin_profile("seed"),
        models=MODELS,
        tier_models=LADDER,
        domains=DomainPolicy(domains=default_domains(), mode=Mode.ON),
        guidance=GuidancePolicy(mode=Mode.ON),
    )
    built = Engine(policy, Scanner(*patterns()))

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("broken for the test")

    monkeypatch.setattr(attrgetter(part)(built), method, fail)
    return built


@pytest.mark.parametrize(
    ("part", "method", "code"),
    [
        ("_guide", "read", "guidance.failed"),
        ("_tracker", "decide", "domains.failed"),
        ("_tiers.scorer", "by_rules", "tiers.failed"),
        ("scanner", "scan", "evidence.failed"),
    ],
)
def test_a_part_that_fails_abstains_and_the_others_decide(
    monkeypatch: pytest.MonkeyPatch, part: str, method: str, code: str
) -> None:
    agent_request = msgspec.structs.replace(request_from_text("prove it, step by step"), may_call=True)
    decision = decide(agent_request, by=guided(monkeypatch, part, method))
    assert [(reason.code, reason.detail) for reason in decision.abstained] == [
        (code, "RuntimeError: broken for the test")
    ]
    assert decision.chain
    assert decision.tier
    assert (decision.domains is None) == (code == "domains.failed")
    assert (decision.guidance is None) == (code == "guidance.failed")


def enriching(engine_: Engine, bodies: list[list[dict[str, str]]]) -> list[int]:
    """How many texts the last message of each request of one session gets."""
    memory, added = Memory(), []
    for messages in bodies:
        agent_request = read_request(WireFormat.CHAT, {"messages": messages}, session="s")
        decided = drive(engine_.decide(agent_request, memory, "d"), nobody)
        memory = decided.memory
        again = (each for each in decided.decision.standing if each.index == len(messages) - 1)
        added.append(len(decided.decision.injections) + sum(len(each.added) for each in again))
    return added


def test_enrichment_comes_when_the_signature_changes_and_again_when_the_history_lost_it() -> None:
    policy = Policy(
        profile=builtin_profile("seed"),
        models=MODELS,
        tier_models=LADDER,
        domains=DomainPolicy(domains=default_domains(), mode=Mode.ON),
    )
    asked = {"role": "user", "content": "investigate Acme Corporation"}
    worked = [asked, {"role": "assistant", "content": "looking"}, {"role": "tool", "content": "found"}]
    again = [*worked, {"role": "user", "content": "investigate its owners"}]
    other = [*again, {"role": "user", "content": "now let's fix this bug in the login function"}]
    back = [*other, {"role": "user", "content": "now let's investigate Acme Corporation's owners"}]
    compacted = [{"role": "user", "content": "a summary: investigate Acme Corporation"}]
    on = Engine(policy, Scanner(*patterns()))
    sent = [[asked], [asked], worked, again, again, other, back, compacted]
    assert enriching(on, sent) == [1, 1, 0, 0, 0, 1, 1, 1]


def test_a_tool_loop_stays_with_its_model_and_the_next_message_may_move_up() -> None:
    built, memory, chosen = engine(), Memory(), []
    hello = {"role": "user", "content": "hello"}
    hard = {"role": "user", "content": "prove it formally, step by step"}
    for messages in ([hello], [hello, {"role": "tool", "content": "prove theorem"}], [hello, hard]):
        agent_request = read_request(WireFormat.CHAT, {"messages": messages}, session="s")
        decided = drive(built.decide(agent_request, memory, "d"), nobody)
        memory = decided.memory
        chosen.append(decided.decision.chain[0])
    assert chosen == ["small", "small", "large"]


def test_a_failed_search_for_the_words_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next request would not look where the words are."""
    messages = [{"role": "user", "content": "fix the build"}, *[{"role": "tool", "content": "done"}] * 30]
    agent_request = read_request(WireFormat.CHAT, {"messages": messages}, session="s")
    with monkeypatch.context() as broken:
        broken.setattr("pointsman.decision.reader.extract", lambda *_: 1 / 0)
        after = drive(engine().decide(agent_request, Memory(), "d-1"), nobody)
    assert after.decision.abstained
    assert after.memory.searched == Memory().searched
    assert drive(engine().decide(agent_request, after.memory, "d-2"), nobody).words.text == "fix the build"


def test_a_request_without_a_persons_words_does_not_make_their_message_a_new_one() -> None:
    memory, counted = Memory(), []
    for text in ("hello", "", "hello", "go on"):
        body = {"messages": [{"role": "user", "content": text}]}
        decided = drive(engine().decide(read_request(WireFormat.CHAT, body), memory, "d"), nobody)
        memory = decided.memory
        counted.append(decided.decision.input.user_message)
    assert counted == [1, 0, 1, 2]


def test_a_policys_timeout_and_margin_are_those_of_the_question() -> None:
    """Both were once taken from the profile alone, whatever the policy said."""
    profile, hard = builtin_profile("default"), request_from_text("Write a function that sorts a list")
    asked: list[ModelQuery] = []

    def ask(need: ModelQuery) -> ModelReply:
        asked.append(need)
        return ModelReply("COMPLEX")

    for verify in (
        Verification(model="small", margin=0.5, timeout_ms=9_000),
        Verification(model="small", margin=0.0),
    ):
        policy = Policy(profile=profile, models=MODELS, tier_models=LADDER, verify=verify)
        decide(hard, by=build_engine(policy), ask=ask)
    assert [need.timeout_ms for need in asked] == [9_000]
