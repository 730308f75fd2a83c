"""Providers as plain values: what is refused, what their version covers, what they are asked and when."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.config.applications import load_classes, with_versions
from pointsman.decision.decision import Decision, without_content
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive
from pointsman.errors import ConfigError
from pointsman.factory import build_engine
from pointsman.guidance import ClassifierError, DecisionPoint, GuidancePolicy, Mode, ProviderSpec, moment_of
from pointsman.tiers import builtin_profile
from pointsman.vocabulary import AgentRole, ModelQuery, ModelReply, WireFormat
from pointsman.wire.request import read_request
from support.examples import share
from support.tool_histories import Call, Turn, body, turn

OWN = "support.own_guidance"


def spec(classifier: Any = "error_streak", **given: Any) -> ProviderSpec:
    return ProviderSpec(classifier=classifier, **{"text": "Stop.", **given})


def policy_of(*providers: ProviderSpec, **settings: Any) -> Policy:
    guidance = GuidancePolicy(mode=Mode.ON, default_providers=False, providers=providers, **settings)
    return Policy(profile=builtin_profile("default"), guidance=guidance)


#: Compiled once: all engines here find the same signals.
SCANNER = build_engine(policy_of()).scanner


def engine_of(*providers: ProviderSpec, **settings: Any) -> Engine:
    policy = policy_of(*providers, **settings)
    return Engine(policy, SCANNER, guidance_classes=load_classes(policy.guidance))


def nobody(query: ModelQuery) -> ModelReply:
    return ModelReply(error="no-model")


def decisions(
    engine: Engine, requests: Sequence[dict[str, Any]], ask: Any = nobody, session: str = "s"
) -> list[Decision]:
    memory, found = Memory(), []
    for number, request in enumerate(requests):
        read = read_request(WireFormat.CHAT, request, session=session, arrived_at=float(number))
        decided = drive(engine.decide(read, memory, f"d{number}"), ask)
        memory = decided.memory
        found.append(decided.decision)
    return found


def growing(turns: Sequence[Turn], **given: Any) -> list[dict[str, Any]]:
    return [body("chat", ["do it", *turns[:count]], **given) for count in range(len(turns) + 1)]


def spoke(found: Sequence[Decision]) -> list[int]:
    return [number for number, each in enumerate(found) if each.guidance and each.guidance.hints]


FAILING: list[Turn] = [turn("bash", {"n": n}, f"no file {n}", failed=True) for n in range(4)]


@pytest.mark.parametrize(
    ("classifier", "path", "message"),
    [
        ("eror_streak", (), 'unknown classifier "eror_streak"; did you mean "error_streak"?'),
        ({"name": "nothing"}, (), 'unknown classifier "nothing"'),
        ({"name": "error_streak", "treshold": 2}, ("treshold",), 'did you mean "threshold"?'),
        ({"name": "error_streak", "threshold": "3"}, ("threshold",), 'whole number of at least 1, not "3"'),
        ({"name": "error_streak", "threshold": 0}, ("threshold",), "whole number of at least 1, not 0"),
        (
            {"name": "error_streak", "min_confidence": 2.0},
            ("min_confidence",),
            "from 0 to 1, not 2.0",
        ),
        ({"name": "error_rate", "threshold": 5, "window": 4}, ("threshold",), "cannot exceed window"),
        ({"name": "doom_loop", "by": "hash"}, ("by",), 'one of "result", "name", not "hash"'),
        ({"name": "sensitive_content", "patterns": ["("]}, ("patterns",), "no regular expression"),
        (
            {"name": "sensitive_content", "patterns": []},
            ("patterns",),
            "a list of one or more strings, not []",
        ),
        (
            {"name": "unfinished", "evidence": ["test_fail"]},
            ("evidence",),
            'a list of one or more of "tests_fail", "edited_after_tests", "command_failed", "not_run", not [',
        ),
        ({"name": "llm"}, (), 'has no "model"'),
        ({"name": "pattern"}, (), 'has no "pattern_type"'),
        ({"threshold": 3}, (), "a classifier has no name"),
        ({"name": "llm", "all": []}, ("all",), "both name and all"),
        ({"all": []}, ("all",), "a list of 1 to 16 classifiers, not []"),
        ({"any": ["error_streak"] * 17}, ("any",), "a list of 1 to 16"),
        ({"all": ["error_streak", "x"]}, ("all", 1), 'unknown classifier "x"'),
        ({"not": {"any": ["error_streak", {"name": "x"}]}}, ("not", "any", 1), 'unknown classifier "x"'),
        ({"all": ["error_streak"], "threshold": 3}, ("threshold",), 'unknown key "threshold" next to "all"'),
        (7, (), "a name or a table, not 7"),
    ],
)
def test_a_wrong_classifier_is_refused_at_its_key(
    classifier: Any, path: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ClassifierError) as refused:
        spec(classifier)
    assert refused.value.path == ("classifier", *path)
    assert message in str(refused.value)


def test_composites_have_a_depth() -> None:
    nested: Any = "error_streak"
    for _ in range(6):
        nested = {"not": nested}
    spec(nested)
    for _ in range(20):
        nested = {"not": nested}
    with pytest.raises(ClassifierError, match="nested more than"):
        spec(nested)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": None}, "nothing to say"),
        ({"provider": "diagnostic_signal"}, "both provider and text"),
        ({"classifier": None}, "needs a classifier"),
    ],
)
def test_a_provider_says_one_thing(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ProviderSpec(**{"classifier": "error_streak", "text": "Stop.", **given})


def test_two_equal_providers_and_too_many_are_refused() -> None:
    with pytest.raises(ConfigError, match="two that are the same"):
        GuidancePolicy(providers=(spec(), spec()))
    with pytest.raises(ConfigError, match="at most 32"):
        GuidancePolicy(providers=tuple(spec(text=f"{n}") for n in range(33)))


def test_a_version_covers_class_parameters_and_limits() -> None:
    others = [
        spec(),
        spec("doom_loop"),
        spec({"name": "error_streak", "threshold": 4}),
        spec({"not": "error_streak"}),
        spec(text="Go."),
        spec(provider="diagnostic_signal", text=None),
        spec(cooldown_turns=1),
        spec(point=DecisionPoint.PRE_RENDER),
    ]
    assert len({each.version for each in others}) == len(others)
    # What is written out is the same as the default it stands for.
    assert spec().version == spec({"name": "error_streak", "threshold": 3}).version
    assert policy_of(spec()).version() != policy_of(spec(text="Go.")).version()


def test_an_own_class_gives_its_version_to_the_policy() -> None:
    engines = [
        engine_of(spec({"entry_point": f"{OWN}:{name}"})).version
        for name in ("Always", "NewAlways", "Always")
    ]
    assert engines[0] == engines[2] != engines[1]
    own = load_classes(policy_of(spec({"entry_point": f"{OWN}:Always"})).guidance)
    with pytest.raises(ClassifierError, match="refuses its parameters"):
        with_versions(GuidancePolicy(providers=(spec({"entry_point": f"{OWN}:Always", "x": 1}),)), own)


@pytest.mark.parametrize(
    ("entry_point", "message"),
    [
        ("nowhere:Class", 'cannot import "nowhere"'),
        (f"{OWN}:Nothing", 'has no class "Nothing"'),
        (f"{OWN}:Unversioned", "states no version"),
        ("nowhere", "is not an entry point"),
    ],
)
def test_an_own_class_that_cannot_be_used_is_told(entry_point: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        engine_of(spec({"entry_point": entry_point}))


def test_an_own_class_sees_prompt_and_latest_answer() -> None:
    engine = engine_of(spec({"entry_point": f"{OWN}:Always", "confidence": 0.6}))
    request = body("chat", ["do it"])
    request["messages"] += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "again"}]
    (decision,) = decisions(engine, [request])
    assert decision.guidance is not None
    (hint,) = decision.guidance.hints
    assert (hint.classifier, hint.confidence, hint.reason) == ("always", 0.6, "asked: again; said: Done.")


def test_an_own_provider_has_its_own_words() -> None:
    engine = engine_of(ProviderSpec(entry_point=f"{OWN}:Adviser"))
    assert [each.injections[0].text for each in decisions(engine, growing(FAILING[:1]))] == [
        "After 0 calls.",
        "After 1 calls.",
    ]


def test_a_class_that_raises_abstains_under_its_name() -> None:
    engine = engine_of(spec({"entry_point": f"{OWN}:Broken"}), spec({"name": "error_streak", "threshold": 1}))
    found = decisions(engine, growing(FAILING[:1]))
    assert spoke(found) == [1]
    assert [reason.code for reason in found[1].abstained] == ["guidance.abstained.broken"]
    assert "KeyError" in found[1].abstained[0].detail


def test_the_most_urgent_three_speak() -> None:
    texts = {"a": 9, "b": 1, "c": 5, "d": 7}
    engine = engine_of(
        *(spec({"name": "error_streak", "threshold": 1}, text=text, priority=n) for text, n in texts.items())
    )
    assert decisions(engine, growing(FAILING[:1]))[1].injections[0].text == "b\nc\nd"


def test_the_same_request_again_decides_nothing_new() -> None:
    engine = engine_of(spec({"name": "error_streak", "threshold": 1}))
    requests = growing(FAILING[:1])
    found = decisions(engine, [*requests, requests[1]])
    assert spoke(found) == [1]
    assert found[2].standing[0].added == found[1].injections


POINTS: list[tuple[list[Turn], bool, set[DecisionPoint]]] = [
    (["do it"], True, {DecisionPoint.PRE_RENDER, DecisionPoint.PRE_TOOL_SELECTION}),
    (["do it"], False, {DecisionPoint.PRE_RENDER, DecisionPoint.PRE_RESPONSE}),
    (["do it", turn("a")], True, {DecisionPoint.POST_TOOL_RESULT, DecisionPoint.PRE_TOOL_SELECTION}),
    (
        ["do it", turn("a", result=None)],
        True,
        {DecisionPoint.PRE_TOOL_EXECUTION, DecisionPoint.PRE_TOOL_SELECTION},
    ),
    (
        ["do it", [Call("a", {}), Call("b", {}, None)]],
        True,
        {DecisionPoint.POST_TOOL_RESULT, DecisionPoint.PRE_TOOL_EXECUTION, DecisionPoint.PRE_TOOL_SELECTION},
    ),
    (["do it", turn("a"), "no"], True, {DecisionPoint.PRE_RENDER, DecisionPoint.PRE_TOOL_SELECTION}),
]


@pytest.mark.parametrize("wire", WireFormat)
@pytest.mark.parametrize(("turns", "tools", "points"), POINTS)
def test_a_request_is_at_its_points(
    turns: list[Turn], tools: bool, points: set[DecisionPoint], wire: WireFormat
) -> None:
    request = read_request(wire, body(wire, turns), session="s", arrived_at=0.0)
    assert set(moment_of(request.history, offers_tools=tools).points) == points


@pytest.mark.parametrize("wire", WireFormat)
def test_pending_calls_are_those_without_a_result_else_those_of_the_latest_turn(wire: WireFormat) -> None:
    for calls, expected in [
        ([Call("a", {}), Call("b", {}, None)], ["b"]),
        ([Call("a", {}), Call("b", {})], ["a", "b"]),
    ]:
        request = read_request(wire, body(wire, ["x", turn("old"), calls]), session="s", arrived_at=0.0)
        pending = moment_of(request.history).pending
        assert [getattr(call, "name", "") for call in pending] == expected


@pytest.mark.parametrize("point", DecisionPoint)
def test_a_provider_is_asked_at_its_point_only(point: DecisionPoint) -> None:
    engine = engine_of(spec({"entry_point": f"{OWN}:Always"}, point=point))
    for turns, tools, points in POINTS:
        found = decisions(engine, [body("chat", turns, tools=tools)])
        assert bool(spoke(found)) == (point in points)


def test_forbidding_tools_makes_it_the_answer() -> None:
    engine = engine_of(spec({"entry_point": f"{OWN}:Always"}, point=DecisionPoint.PRE_RESPONSE))
    assert spoke(decisions(engine, [body("chat", ["x"]) | {"tool_choice": "none"}])) == [0]
    assert spoke(decisions(engine, [body("chat", ["x"]) | {"tool_choice": "auto"}])) == []


def test_a_model_is_asked_only_where_it_decides() -> None:
    asked: list[ModelQuery] = []

    def yes(query: ModelQuery) -> ModelReply:
        asked.append(query)
        return ModelReply("yes")

    llm = {"name": "llm", "model": "small", "timeout_ms": 250}
    engine = engine_of(
        spec({"all": [{"name": "error_streak", "threshold": 2}, llm]}, max_fires_per_session=1)
    )
    assert spoke(decisions(engine, growing(FAILING), yes)) == [2]
    assert [(query.kind, query.model, query.timeout_ms) for query in asked] == [("guidance", "small", 250)]


def test_a_decision_asks_two_questions_at_most_and_goes_on_without_an_answer() -> None:
    asked: list[ModelQuery] = []

    def nothing(query: ModelQuery) -> ModelReply:
        asked.append(query)
        return ModelReply(error="timeout")

    engine = engine_of(*(spec({"name": "llm", "model": f"m{n}"}) for n in range(4)))
    bodies = [body("chat", said) for said in (["do it"], ["do it", turn("bash", {})])]
    first, decision = decisions(engine, bodies, nothing)
    assert first.abstained == ()  # nothing has happened: nobody is asked
    assert len(asked) == 2
    assert not decision.injections
    assert {reason.code for reason in decision.abstained} == {
        f"guidance.abstained.llm(m{n})" for n in range(4)
    }


def test_a_helper_call_gets_no_text() -> None:
    engine = engine_of(spec({"entry_point": f"{OWN}:Always"}))
    request = read_request(WireFormat.CHAT, body("chat", ["x"]), session="s", arrived_at=0.0)
    helper = msgspec.structs.replace(request, role=AgentRole.HELPER)
    decided = drive(engine.decide(helper, Memory(), "d"), nobody)
    assert not decided.decision.injections


def replayed(engine: Engine, found: Sequence[Decision]) -> list[Decision]:
    memory, again = Memory(), []
    for then in found:
        recorded = without_content(then)
        decided = drive(engine.decide(engine.reader.recall(recorded, memory), memory, then.id), nobody)
        memory = decided.memory
        again.append(decided.decision)
    return again


def test_a_replay_under_the_same_policy_changes_nothing() -> None:
    providers = (
        spec({"name": "error_streak", "threshold": 2}, cooldown_turns=1),
        spec("sensitive_content", max_fires_per_session=2, point=DecisionPoint.POST_TOOL_RESULT),
        spec({"all": ["error_streak", {"name": "llm", "model": "small"}]}),
        spec({"entry_point": f"{OWN}:Always"}, cooldown_turns=3, point=DecisionPoint.PRE_RENDER),
    )
    engine = engine_of(*providers)
    turns = [*FAILING, turn("bash", {"c": "cat secret"}), "again", *FAILING, turn("bash", {"password": 1})]
    found = decisions(engine, growing(turns), lambda _: ModelReply("yes"))
    again = replayed(engine, found)
    assert [_said(each) for each in again] == [_said(each) for each in found]
    assert any(len(each.guidance.hints) > 1 for each in found if each.guidance)


def _said(decision: Decision) -> list[tuple[str, float, str, str]]:
    hints = decision.guidance.hints if decision.guidance else ()
    return [(hint.version, hint.confidence, hint.reason, hint.classifier) for hint in hints]


def test_memory_holds_the_configured_providers_only() -> None:
    first, second = engine_of(spec("error_streak")), engine_of(spec({"name": "error_streak", "threshold": 1}))
    memory = Memory()
    for number, request in enumerate(growing(FAILING)):
        read = read_request(WireFormat.CHAT, request, session="s", arrived_at=float(number))
        memory = drive((first if number < 4 else second).decide(read, memory, "d"), nobody).memory
    (thread,) = memory.guidance.threads.values()
    assert len(thread.hints) == 1


def test_a_class_without_a_lasting_name_or_result_abstains_alone() -> None:
    engine = engine_of(
        spec({"entry_point": f"{OWN}:Renaming"}), spec({"name": "error_streak", "threshold": 1})
    )
    found = decisions(engine, growing(FAILING[:1]))
    assert spoke(found) == [1]
    for decision in found:
        assert [reason.code for reason in decision.abstained] == ["guidance.abstained.renaming"]
        assert "TypeError" in decision.abstained[0].detail


@pytest.mark.parametrize("settings", [{"control": 1.0}, {"mode": Mode.OBSERVE}])
def test_what_is_withheld_is_decided_alike(settings: dict[str, Any]) -> None:
    provider = spec({"name": "error_streak", "threshold": 2}, cooldown_turns=1)
    given = {"mode": Mode.ON, **settings}
    withheld = Policy(
        profile=builtin_profile("default"),
        guidance=GuidancePolicy(default_providers=False, providers=(provider,), **given),
    )
    requests = growing(FAILING)
    quiet, loud = decisions(build_engine(withheld), requests), decisions(engine_of(provider), requests)
    assert [_said(each) for each in quiet] == [_said(each) for each in loud]
    assert spoke(quiet)
    assert not any(each.injections for each in quiet)


def test_a_moment_decodes_the_latest_turn_only() -> None:
    class Watched:
        def __init__(self, history: Any) -> None:
            self.history, self.read = history, set[int]()

        def __len__(self) -> int:
            return len(self.history)

        def __getitem__(self, index: int) -> Any:
            self.read.add(index)
            return self.history[index]

    turns: list[Turn] = ["do it", *[turn("a", {"n": n}) for n in range(50)]]
    history = Watched(read_request(WireFormat.CHAT, body("chat", turns), session="s", arrived_at=0.0).history)
    moment_of(history, with_answer=False)
    assert min(history.read) >= len(history) - 3


TURNS = st.lists(
    st.sampled_from(
        [
            turn("bash", {"n": 1}, "no such file", failed=True),
            turn("bash", {"c": "cat secret"}),
            [Call("read", {"n": 1}), Call("read", {"n": 2}, "no such file", failed=True)],
            turn("read", {"n": 3}, "x" * 200),
            "go on",
        ]
    ),
    max_size=8,
)
CLASSIFIERS = st.sampled_from(
    [
        {"name": "error_streak", "threshold": 1},
        {"name": "large_output", "size_threshold": 100},
        "sensitive_content",
        {"not": "sensitive_content"},
        {"any": [{"name": "doom_loop", "min_repetitions": 2}, {"name": "llm", "model": "small"}]},
        {"entry_point": f"{OWN}:Always"},
    ]
)


@settings(max_examples=share(0.2))
@given(
    turns=TURNS,
    classifiers=st.lists(CLASSIFIERS, min_size=1, max_size=3, unique_by=repr),
    point=st.sampled_from([DecisionPoint.PRE_TOOL_SELECTION, DecisionPoint.POST_TOOL_RESULT]),
    cooldown=st.integers(0, 4),
    most=st.integers(1, 4),
)
def test_limits_hold_and_a_replay_is_equal_whatever_happens(
    turns: list[Turn], classifiers: list[Any], point: DecisionPoint, cooldown: int, most: int
) -> None:
    limits: dict[str, Any] = {"point": point, "cooldown_turns": cooldown, "max_fires_per_session": most}
    engine = engine_of(*(spec(each, **limits) for each in classifiers))
    # A conversation is named by what a person says before its first answer, so there is one.
    found = decisions(engine, growing([turn("plan"), *turns]), lambda _: ModelReply("yes"))
    said = [_said(each) for each in found]
    for version in {one[0] for each in said for one in each}:
        at = [number for number, each in enumerate(said) if version in {one[0] for one in each}]
        assert len(at) <= most
        assert all(later - before > cooldown for before, later in itertools.pairwise(at))
    assert [_said(each) for each in replayed(engine, found)] == said
