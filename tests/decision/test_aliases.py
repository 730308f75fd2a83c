"""What the model name of a request means: names before aliases, aliases in order, ids of providers last."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.decision.aliases import (
    CLIENT_ALIASES,
    LONGEST_NAME,
    Aliases,
    ModelNames,
    first_of_each,
    follow,
)
from pointsman.decision.engine import Decided, Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive, no_model
from pointsman.errors import ConfigError, UnknownModel
from pointsman.factory import build_engine
from pointsman.tiers import builtin_profile
from pointsman.vocabulary import AgentRequest, AgentRole, ModelSpec, Stage, Tier, WireFormat
from pointsman.wire.request import read_request

MODELS = {
    "small": ModelSpec("small", "main", "vendor-small-1"),
    "large": ModelSpec("large", "main", "vendor-large-1"),
    "twin-a": ModelSpec("twin-a", "main", "vendor-twin"),
    "twin-b": ModelSpec("twin-b", "other", "vendor-twin"),
}
TIERS = {Tier.SIMPLE: "small", Tier.COMPLEX: "large"}
OWN: Aliases = (
    ("fast", "simple"),
    ("best", "large"),
    ("also-best", "best"),
    ("let-us-choose", "auto"),
    ("secret-*", "refuse"),
    ("team-*", "small"),
    ("team-a-*", "large"),
)
PROOF = (
    "Prove by induction, step by step, that the square root of 2 is irrational; derive every lemma formally."
)
TOOL = {"type": "function", "function": {"name": "grep", "parameters": {}}}


def names(*aliases: tuple[str, str]) -> ModelNames:
    return ModelNames(MODELS, (*aliases, *CLIENT_ALIASES))


def engine(*aliases: tuple[str, str]) -> Engine:
    policy = Policy(
        profile=builtin_profile("default"),
        models=MODELS,
        tier_models=TIERS,
        aliases=(*aliases, *CLIENT_ALIASES),
    )
    return build_engine(policy)


def asking(model: str, text: str = "hello", **more: object) -> AgentRequest:
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    return read_request(WireFormat.CHAT, body, session="s")


def decide(by: Engine, request: AgentRequest, memory: Memory | None = None) -> Decided:
    return drive(by.decide(request, memory or Memory(), "d-1"), no_model)


def means(name: str, *aliases: tuple[str, str]) -> str | None:
    found = names(*aliases).resolve(name)
    return None if found is None else str(found.target)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("large", "large"),
        ("pointsman/large", "large"),
        ("fast", "simple"),
        ("best", "large"),
        ("also-best", "large"),
        ("let-us-choose", "auto"),
        ("secret-plan", "refuse"),
        ("team-a-1", "small"),  # the first that matches, not the longest
        ("vendor-small-1", "small"),  # a provider's id
        ("vendor-twin", None),  # two models have it
        ("Fast", None),  # as configured names, aliases are case-sensitive
        ("fast ", None),
        ("", None),
    ],
)
def test_what_a_name_means(name: str, target: str | None) -> None:
    assert means(name, *OWN) == target


@pytest.mark.parametrize(
    ("name", "target"),
    [
        # Claude Code and the Anthropic SDK
        ("claude-opus-4-8", "auto"),
        ("claude-opus-4-8[1m]", "auto"),
        ("claude-sonnet-4-6[1m]", "auto"),
        ("claude-sonnet-4-5-20250929", "auto"),
        ("claude-fable-5", "auto"),
        ("claude-haiku-4-5-20251001", "simple"),
        ("claude-3-5-haiku-latest", "simple"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "simple"),
        # Codex
        ("gpt-6.1-sol", "auto"),
        ("gpt-6-astra", "auto"),
        ("gpt-5.6-terra", "auto"),
        ("gpt-6-luna", "simple"),
        ("gpt-5.3-codex", "auto"),
        ("codex-auto-review", "auto"),
        ("gpt-daybreak-blue-latest", "auto"),
        # opencode, Cline, Cursor
        ("anthropic/claude-sonnet-4.6", "auto"),
        ("anthropic/claude-haiku-4.5", "simple"),
        ("openai/gpt-5.5", "auto"),
        ("openai/gpt-5.4-nano", "simple"),
        ("google/gemini-2.5-pro", "auto"),
        ("gemini-3.5-flash-lite", "simple"),
        ("claude-4.5-sonnet", "auto"),
        ("openai/o3", "auto"),
        # OpenAI SDK
        ("gpt-4o-2024-08-06", "auto"),
        ("gpt-4o-mini", "simple"),
        ("gpt-5-mini-2025-08-07", "simple"),
        ("codex-mini-latest", "simple"),
        ("o4-mini", "auto"),
        ("o3-pro", "auto"),
        ("chatgpt-4o-latest", "auto"),
        # Near misses: other things, which no client of these sends to these endpoints
        ("gpt-oss:20b", None),
        ("openai/gpt-oss-120b", None),
        ("gpt-image-2", None),
        ("llama3.2:3b", None),
        ("ollama3", None),
        ("claude", None),
        ("text-embedding-3-small", None),
    ],
)
def test_names_of_todays_clients(name: str, target: str | None) -> None:
    assert means(name) == target


def test_an_own_alias_comes_before_those_shipped() -> None:
    assert means("claude-haiku-4-5", ("claude-*", "large")) == "large"
    assert means("gpt-4o", ("*", "refuse")) == "refuse"
    assert means("vendor-small-1", ("*", "auto")) == "auto"
    assert means("small", ("*", "refuse")) == "small"


def test_a_configured_model_keeps_the_name_of_a_client() -> None:
    models = {"gpt-4o": ModelSpec("gpt-4o", "main", "gpt-4o-2024-08-06")}
    found = ModelNames(models, CLIENT_ALIASES).resolve("gpt-4o")
    assert found is not None
    assert (found.target.model, found.pattern) == ("gpt-4o", "")


def test_an_id_of_a_provider_has_a_reason() -> None:
    decision = decide(engine(), asking("vendor-large-1")).decision
    assert (decision.tier, decision.chain) == (None, ("large",))
    assert [(reason.code, reason.detail) for reason in decision.reasons] == [
        ("routing.id", '"vendor-large-1" is the id of "large"')
    ]


@pytest.mark.parametrize(
    ("client", "own", "target", "pattern"),
    [
        ("", (), "opus", ""),
        ("curl", (), "opus", ""),
        ("opencode", (), "opus", ""),  # near miss: it is told so by a person
        ("claude-cli", (), "auto", "*claude-*"),  # Claude Code sends it unless told otherwise
        ("", (("*claude*", "simple"),), "simple", "*claude*"),  # an operator's alias takes any id
        ("", (("*claude-*", "auto"),), "auto", "*claude-*"),  # also one like a shipped one
        ("claude-cli", (("claude-opus-4-8", "opus"),), "opus", "claude-opus-4-8"),
    ],
)
def test_the_exact_id_of_a_model_goes_before_shipped_aliases(
    client: str, own: Aliases, target: str, pattern: str
) -> None:
    models = {"opus": ModelSpec("opus", "main", "claude-opus-4-8"), "small": ModelSpec("small", "main", "s")}
    by = ModelNames(models, (*own, *CLIENT_ALIASES))
    found, dated = by.resolve("claude-opus-4-8", client), by.resolve("claude-opus-4-8-20260101", client)
    assert found is not None
    assert dated is not None
    assert (str(found.target), found.pattern) == (target, pattern)
    assert dated.pattern in {"*claude-*", "*claude*"}  # another name than the id
    taken = [(id_, model, str(named.target)) for id_, model, named in by.taken_ids()]
    assert taken == ([("claude-opus-4-8", "opus", target)] if own and target != "opus" else [])


def test_an_id_is_the_model_whether_a_tier_names_it_or_not() -> None:
    models = {**MODELS, "opus": ModelSpec("opus", "main", "claude-opus-4-8")}
    chains = []
    for tiers in (TIERS, TIERS | {Tier.REASONING: ["large", "opus"]}):
        policy = Policy(
            profile=builtin_profile("default"), models=models, tier_models=tiers, aliases=CLIENT_ALIASES
        )
        chains.append(decide(build_engine(policy), asking("claude-opus-4-8")).decision.chain[0])
    assert chains == ["opus", "opus"]


def test_an_unknown_name_is_told_the_way_out() -> None:
    with pytest.raises(UnknownModel) as error:
        decide(engine(*OWN), asking("qwen3:8b"))
    assert error.value.hint.endswith('; "*" = "auto" under [aliases] serves every other name')
    with pytest.raises(UnknownModel) as error:
        decide(engine(*OWN), asking("secret-plan"))
    assert "every other name" not in error.value.hint


def test_a_tier_by_alias_is_no_forced_tier() -> None:
    decision = decide(engine(), asking("claude-haiku-4-5-20251001", PROOF)).decision
    assert decision.tier is not None
    assert (decision.tier.tier, decision.tier.stage) == (Tier.SIMPLE, Stage.ALIAS)
    assert decision.chain == ("small", "large")  # may fall back upward
    assert [reason.detail for reason in decision.reasons] == [
        '"claude-haiku-4-5-20251001" matches the alias "*claude*haiku*" of simple'
    ]


def test_auto_by_alias_is_decided_as_auto() -> None:
    by = engine()
    named, auto = (decide(by, asking(model, PROOF)).decision for model in ("claude-opus-4-8", "auto"))
    assert named.tier == auto.tier
    assert named.chain == auto.chain
    assert named.chain[0] == "large"
    assert named.reasons[0].code == "routing.alias"


def test_a_model_by_alias_is_as_if_named() -> None:
    decision = decide(engine(*OWN), asking("also-best")).decision
    assert (decision.tier, decision.chain) == (None, ("large",))


def test_a_refused_name_is_unknown_and_says_why() -> None:
    with pytest.raises(UnknownModel, match='unknown model "secret-plan"; the alias "secret-\\*" refuses it'):
        decide(engine(*OWN), asking("secret-plan"))


def test_an_unknown_name_lists_exact_aliases_and_is_cut() -> None:
    with pytest.raises(UnknownModel) as error:
        decide(engine(*OWN), asking("x" * 10_000))
    assert len(error.value.message) < 200
    assert error.value.hint.startswith("known: auto, ")
    assert "twin-b, fast, best, also-best, let-us-choose, claude-auto; " in error.value.hint


def test_a_call_by_alias_leaves_the_model_of_its_session() -> None:
    """Claude Code's sub-agents share the session of the conversation that the large model serves."""
    by = engine()
    before = decide(by, asking("auto", PROOF)).memory
    assert before.model == "large"
    small = decide(by, asking("claude-haiku-4-5", "Find the file.", tools=[TOOL]), before)
    assert small.decision.chain[0] == "small"
    assert small.memory.model == "large"


def test_aliases_are_part_of_the_version_in_their_order() -> None:
    first, second = ("a-*", "simple"), ("*-b", "complex")
    versions = {engine(*aliases).version for aliases in ((), (first,), (first, second), (second, first))}
    assert len(versions) == 4


@pytest.mark.parametrize(
    ("aliases", "message"),
    [
        ((("a", "b"),), 'points nowhere: "a" -> "b"'),
        ((("a", ""),), 'points nowhere: "a" -> ""'),
        ((("a", "a"),), 'leads in a circle: "a" -> "a"'),
        ((("a", "b"), ("b", "c"), ("c", "b")), 'leads in a circle: "a" -> "b" -> "c" -> "b"'),
    ],
)
def test_a_policy_with_a_broken_alias_is_refused(aliases: Aliases, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        ModelNames(MODELS, aliases)


def test_a_name_over_the_limit_matches_no_alias() -> None:
    assert means("claude-" + "x" * (LONGEST_NAME - 7)) == "auto"
    assert means("claude-" + "x" * LONGEST_NAME) is None


def helper(request: AgentRequest) -> AgentRequest:
    return msgspec.structs.replace(request, role=AgentRole.HELPER, role_mark="opencode asks for a title")


def test_a_helper_call_gets_the_cheapest_tier_only_where_an_alias_leaves_it_to_us() -> None:
    by = engine(*OWN)
    found = {}
    for model in ("claude-opus-4-8", "auto", "complex", "best"):
        decision = decide(by, helper(asking(model, PROOF))).decision
        assert decision.input.role is AgentRole.HELPER
        assert decision.reasons[0].detail == "opencode asks for a title"
        found[model] = decision.chain[0]
    assert found == {"claude-opus-4-8": "small", "auto": "large", "complex": "large", "best": "large"}


def test_a_helper_call_is_no_turn_of_its_session() -> None:
    by = engine()
    before = decide(by, asking("auto", PROOF)).memory
    decided = decide(by, helper(asking("claude-opus-4-8")), before)
    assert decided.memory == before
    assert (decided.decision.input.user_message, decided.decision.input.conversation) == (0, "")


@pytest.mark.parametrize(
    ("model", "more", "role"),
    [
        ("claude-haiku-4-5", {}, AgentRole.HELPER),
        ("claude-haiku-4-5", {"tools": [TOOL]}, AgentRole.MAIN),
        ("claude-opus-4-8", {}, AgentRole.MAIN),
        ("simple", {}, AgentRole.MAIN),  # no alias
        ("auto", {}, AgentRole.MAIN),
    ],
)
def test_an_agent_that_asks_for_a_small_model_makes_a_helper_call(
    model: str, more: dict[str, object], role: AgentRole
) -> None:
    asked = asking(model, "hello", **more)
    by = engine()
    of_an_agent = msgspec.structs.replace(asked, role=AgentRole.MAIN)
    assert decide(by, of_an_agent).decision.input.role is role
    assert decide(by, asked).decision.input.role is None  # an SDK that asks for a small model


@pytest.mark.parametrize("role", AgentRole)
@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-haiku-4-5", "auto", "complex", "large"])
def test_a_role_never_raises_the_tier(role: AgentRole, model: str) -> None:
    by = engine()
    for text in ("hello", PROOF):
        plain = decide(by, asking(model, text)).decision
        marked = decide(by, msgspec.structs.replace(asking(model, text), role=role)).decision
        if plain.tier is None or marked.tier is None:
            assert marked.chain == plain.chain
        else:
            assert marked.tier.tier.rank <= plain.tier.tier.rank


def test_a_recorded_helper_call_is_decided_again_alike() -> None:
    by = engine()
    then = decide(by, helper(asking("claude-opus-4-8", PROOF))).decision
    again = drive(by.decide(by.reader.recall(then, Memory()), Memory(), "d-2"), no_model).decision
    assert (again.tier, again.chain) == (then.tier, then.chain)


LETTERS = st.text("ab*[", max_size=5)
WORDS = st.text("ab[", max_size=8)
TARGETS = st.one_of(st.sampled_from(["auto", "simple", "refuse", "large"]), LETTERS)


@given(st.lists(st.tuples(LETTERS, TARGETS), max_size=6), WORDS)
def test_resolution_ends_and_the_first_match_wins(given_aliases: list[tuple[str, str]], name: str) -> None:
    aliases = tuple(given_aliases)
    followed = first_of_each(aliases)
    ways = [follow(pattern, followed, MODELS) for pattern, _ in aliases]
    assert all(len(way) <= len(followed) + 2 for way, _ in ways)
    if any(target is None for _, target in ways):
        with pytest.raises(ConfigError):
            ModelNames(MODELS, aliases)
        return
    resolved = ModelNames(MODELS, aliases).resolve(name)
    expected = next((way for way in ways if as_regex(way[0][0]).fullmatch(name)), None)
    assert (resolved is None) == (expected is None)
    if resolved and expected:
        assert (resolved.pattern, resolved.target) == (expected[0][0], expected[1])
    assert ModelNames(MODELS, aliases).resolve(name) == resolved  # the same after a reload


def as_regex(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
