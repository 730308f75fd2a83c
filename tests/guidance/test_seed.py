"""The seed's own tests, configurations and public API. Import paths aside, they are as the seed has them."""

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pointsman.compat.guidance as api
from pointsman.compat.guidance import (
    ClassifierConfig,
    ClassifierCooldownTracker,
    benchmark_classifier,
    run_classifiers,
)
from pointsman.guidance import (
    AllOfClassifier,
    AnyOfClassifier,
    ClassificationResult,
    DiagnosticSignalProvider,
    DoomLoopBreaker,
    DoomLoopClassifier,
    ErrorStreakClassifier,
    GuidanceClassifier,
    GuidanceContext,
    GuidanceProviderConfig,
    HighToolCountClassifier,
    LargeOutputClassifier,
    LLMClassifier,
    NotClassifier,
    ParallelToolReminder,
    ProgressStallClassifier,
    SensitiveContentClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
    ThresholdClassifier,
)
from pointsman.trajectory import Session, ToolInvoked, ToolResult, TrajectoryBuilder
from pointsman.trajectory.agent_tools import LOOKING


def build_context_with_errors(count: int) -> GuidanceContext:
    session, builder = Session(), TrajectoryBuilder()
    for i in range(count):
        builder.on_event(ToolInvoked("test", {"i": i}, ToolResult.error(f"fail {i}")))
    return GuidanceContext(session=session, trajectory=builder.build())


def test_error_streak_classifier() -> None:
    classifier = ErrorStreakClassifier(threshold=3)
    context = build_context_with_errors(count=3)
    result = classifier.classify(context)
    assert result.relevant
    assert result.confidence >= 0.5
    assert result.reason is not None
    assert "consecutive errors" in result.reason


@given(error_count=st.integers(0, 10))
def test_error_streak_monotonic(error_count: int) -> None:
    classifier = ErrorStreakClassifier(threshold=3)
    context = build_context_with_errors(error_count)
    result = classifier.classify(context)
    if error_count >= 3:
        assert result.relevant
    else:
        assert not result.relevant


def test_classifier_with_session() -> None:
    session = Session()
    builder = TrajectoryBuilder()
    for _ in range(5):
        event = ToolInvoked(tool_name="test", result=ToolResult.error("fail"))
        session.dispatch(event)
        builder.on_event(event)
    context = GuidanceContext(session=session, trajectory=builder.build())
    classifier = ErrorStreakClassifier(threshold=3)
    result = classifier.classify(context)
    assert result.relevant
    assert result.confidence > 0.5
    assert len(session.events) == 5


def test_a_builder_can_listen_to_a_session() -> None:
    builder = TrajectoryBuilder()
    session = Session(listeners=[builder.on_event])
    session.dispatch(ToolInvoked(tool_name="test", result=ToolResult.error("fail")))
    assert builder.build().consecutive_errors == 1


def test_a_builder_that_listens_to_a_session_hears_of_guidance_unharmed() -> None:
    builder = TrajectoryBuilder()
    session = Session(listeners=[builder.on_event])
    for number in range(3):
        session.dispatch(ToolInvoked("test", {"i": number}, ToolResult.error("fail")))
    before = builder.build()
    provider = GuidanceProviderConfig(DiagnosticSignalProvider(), ErrorStreakClassifier(threshold=3))
    assert api.collect_guidance([provider], GuidanceContext(session=session, trajectory=before))
    assert len(session.events) == 4
    assert builder.build() == before


def test_minimal_configuration() -> None:
    guidance_providers = (
        GuidanceProviderConfig(
            provider=DiagnosticSignalProvider(),
            classifier=ErrorStreakClassifier(threshold=3),
        ),
    )
    given_now = api.collect_guidance(guidance_providers, build_context_with_errors(3))
    assert [injection.key for injection in given_now] == ["diagnostic.signal"]


def test_layered_configuration() -> None:
    guidance_providers = (
        GuidanceProviderConfig(
            provider=DoomLoopBreaker(),
            classifier=ThresholdClassifier(DoomLoopClassifier(min_repetitions=3), min_confidence=0.8),
            max_per_turn=1,
        ),
        GuidanceProviderConfig(
            provider=DiagnosticSignalProvider(),
            classifier=ErrorStreakClassifier(threshold=3),
        ),
        GuidanceProviderConfig(
            provider=ParallelToolReminder(),
            classifier=SequentialWhenParallelClassifier(),
            cooldown_turns=10,
        ),
    )
    given_now = api.collect_guidance(guidance_providers, build_context_with_errors(3))
    assert [injection.key for injection in given_now] == ["diagnostic.signal"]


def test_composite_configuration() -> None:
    classifier = AllOfClassifier(
        classifiers=(DoomLoopClassifier(min_repetitions=2), HighToolCountClassifier(threshold=30)),
    )
    builder = TrajectoryBuilder()
    for i in range(30):
        builder.on_event(ToolInvoked("test", {"i": i % 28}, ToolResult.ok("same")))
    for _ in range(2):
        builder.on_event(ToolInvoked("test", {}, ToolResult.ok("same")))
    context = GuidanceContext(session=Session(), trajectory=builder.build())
    assert classifier.classify(context).relevant  # two rounds, and 32 calls

    either = AnyOfClassifier(
        classifiers=(
            ErrorStreakClassifier(threshold=3),
            ProgressStallClassifier(stall_threshold=5),
            DoomLoopClassifier(min_repetitions=4),
        ),
    )
    assert either.classify(build_context_with_errors(3)).relevant
    assert not either.classify(build_context_with_errors(2)).relevant


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("ClassificationResult", {}),
        ("GuidanceClassifier", {}),
        ("ClassifierConfig", {"min_confidence": 0.5, "cooldown_turns": 0, "max_fires_per_session": None}),
        ("ClassifierCooldownTracker", {}),
        ("DoomLoopClassifier", {"min_repetitions": 3, "min_cycle_length": 2}),
        ("ErrorStreakClassifier", {"threshold": 3}),
        ("ProgressStallClassifier", {"stall_threshold": 5}),
        ("HighToolCountClassifier", {"threshold": 50, "warning_ratio": 0.8}),
        ("SingleToolRepeatedClassifier", {"window": 5, "threshold": 4}),
        (
            "SequentialWhenParallelClassifier",
            {"independent_tools": LOOKING, "threshold": 3},  # the document's three, and those of agents
        ),
        ("LargeOutputClassifier", {"size_threshold": 10000}),
        (
            "SensitiveContentClassifier",
            {"patterns": (r"password", r"secret", r"api[_-]?key", r"credential", r"token")},
        ),
        ("AllOfClassifier", {}),
        ("AnyOfClassifier", {}),
        ("NotClassifier", {}),
        ("ThresholdClassifier", {}),
        ("LLMClassifier", {"model": "claude-3-haiku", "prompt_template": "", "timeout_ms": 500}),
        ("run_classifiers", {"min_confidence": 0.5}),
        ("benchmark_classifier", {}),
        (
            "GuidanceProviderConfig",
            {
                "classifier": None,
                "max_per_turn": 3,
                "min_confidence": 0.5,
                "cooldown_turns": 0,
                "max_fires_per_session": None,
            },
        ),
    ],
)
def test_public_names_and_their_defaults(name: str, defaults: dict[str, object]) -> None:
    assert name in api.__all__
    parameters = inspect.signature(getattr(api, name)).parameters
    assert {key: parameters[key].default for key in defaults} == defaults
    assert {"read_file", "search", "grep"} <= LOOKING


@pytest.mark.parametrize(
    ("classifier", "name"),
    [
        (DoomLoopClassifier(), "doom_loop"),
        (ErrorStreakClassifier(), "error_streak"),
        (ProgressStallClassifier(), "progress_stall"),
        (HighToolCountClassifier(), "high_tool_count"),
        (SingleToolRepeatedClassifier(), "single_tool_repeated"),
        (SequentialWhenParallelClassifier(), "sequential_when_parallel"),
        (LargeOutputClassifier(), "large_output"),
        (SensitiveContentClassifier(), "sensitive_content"),
        (NotClassifier(ErrorStreakClassifier()), "not(error_streak)"),
        (ThresholdClassifier(ErrorStreakClassifier(), 0.8), "threshold(error_streak, 0.8)"),
        (AllOfClassifier((ErrorStreakClassifier(), DoomLoopClassifier())), "all_of(error_streak, doom_loop)"),
        (AnyOfClassifier((ErrorStreakClassifier(), DoomLoopClassifier())), "any_of(error_streak, doom_loop)"),
        (LLMClassifier(), "llm(claude-3-haiku)"),
    ],
)
def test_classifier_names(classifier: GuidanceClassifier, name: str) -> None:
    assert classifier.name == name


def test_results_factories() -> None:
    yes = ClassificationResult.yes(confidence=0.9, reason="Detected doom loop")
    maybe = ClassificationResult.maybe(confidence=0.5, reason="Possible stall")
    no = ClassificationResult.no()
    assert (yes.relevant, yes.confidence, yes.reason, yes.metadata) == (True, 0.9, "Detected doom loop", {})
    assert (maybe.relevant, maybe.confidence) == (True, 0.5)
    assert (no.relevant, no.confidence, no.reason, no.abstained) == (False, 0.0, None, False)
    with pytest.raises(ValueError, match="confidence"):
        ClassificationResult.yes(confidence=1.5)


def test_run_classifiers_returns_the_first_match_in_order() -> None:
    context = build_context_with_errors(5)
    low, high = ErrorStreakClassifier(threshold=5), ErrorStreakClassifier(threshold=3)
    first = run_classifiers((low, high), context, min_confidence=0.5)
    assert first is not None
    assert first[0] is low
    second = run_classifiers((low, high), context, min_confidence=0.6)
    assert second is not None
    assert second[0] is high
    assert run_classifiers((low, high), context, min_confidence=0.9) is None


def test_benchmark_reports_nanoseconds() -> None:
    contexts = [build_context_with_errors(n) for n in range(5)]
    measured = benchmark_classifier(ErrorStreakClassifier(), contexts)
    assert measured.classifier_name == "error_streak"
    assert 0 < measured.mean_ns <= measured.max_ns
    assert measured.p99_ns <= measured.max_ns


def test_configuration_types() -> None:
    assert ClassifierConfig() == ClassifierConfig(0.5, 0, None)
    assert ClassifierCooldownTracker().can_fire(ErrorStreakClassifier(), 1, ClassifierConfig())
