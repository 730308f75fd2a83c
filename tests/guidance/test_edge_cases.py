"""Edges of the classifiers: own detectors, own patterns, nothing to judge, reasons and metadata."""

from dataclasses import dataclass
from typing import Any

import pytest

from pointsman.compat.guidance import (
    LLMClassifier,
    run_classifiers,
)
from pointsman.errors import ConfigError
from pointsman.guidance import (
    AllOfClassifier,
    AnyOfClassifier,
    ClassificationResult,
    DoomLoopClassifier,
    GuidanceClassifier,
    GuidanceContext,
    LargeOutputClassifier,
    NotClassifier,
    ProgressStallClassifier,
    SensitiveContentClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
)
from pointsman.trajectory import (
    ToolInvoked,
    TrajectoryAnalysis,
    TrajectoryAnalysisConfig,
    TrajectoryBuilder,
    TrajectoryPattern,
)
from pointsman.vocabulary import Reason, ToolCall
from support.agent_runs import events, run


class Fixed:
    """A classifier that always says the same, or always raises."""

    def __init__(self, result: ClassificationResult | Exception, name: str = "fixed") -> None:
        self.result, self.name = result, name

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


YES, NO = ClassificationResult.yes(0.9, "yes", {"a": 1}), ClassificationResult.no()
UNSURE = ClassificationResult.abstain("no answer")


def at(notation: str) -> GuidanceContext:
    return GuidanceContext(None, run(notation))


@dataclass(frozen=True)
class OwnStall:
    """What a user's own detector found."""

    actions_during_stall: int
    pattern_type: str = "progress_stall"


@dataclass(frozen=True)
class OwnDetector:
    """Counts every call as one without progress, or sees no stall at all."""

    blind: bool = False
    name: str = "own"

    def detect(self, trajectory: TrajectoryAnalysis, /) -> TrajectoryPattern | None:
        return None if self.blind else OwnStall(trajectory.tool_call_count)


@pytest.mark.parametrize(("calls", "fires"), [(4, False), (5, True)])
def test_progress_stall_reads_what_a_users_own_detector_found(calls: int, fires: bool) -> None:
    config = TrajectoryAnalysisConfig(detectors=(OwnDetector(),))
    context = GuidanceContext(None, run(". " * calls, config))
    result = ProgressStallClassifier().classify(context)
    assert result.relevant is fires
    assert result.reason == (f"No progress in {calls} actions" if fires else None)


@dataclass(frozen=True)
class OwnLoop:
    """A loop as a user's own detector describes it."""

    repetitions: int
    cycle_actions: tuple[str, ...] = ("plan", "undo")
    pattern_type: str = "doom_loop"


@dataclass(frozen=True)
class OwnLoopDetector:
    repetitions: int
    name: str = "own_loop"

    def detect(self, trajectory: TrajectoryAnalysis, /) -> TrajectoryPattern | None:
        return OwnLoop(self.repetitions)


@pytest.mark.parametrize(("repetitions", "fires"), [(2, False), (3, True)])
def test_doom_loop_reads_what_a_users_own_detector_found(repetitions: int, fires: bool) -> None:
    config = TrajectoryAnalysisConfig(detectors=(OwnLoopDetector(repetitions),))
    result = DoomLoopClassifier().classify(GuidanceContext(None, run(". ", config)))
    assert result.relevant is fires
    assert result.reason == ("Cycle ('plan', 'undo') repeated 3x" if fires else None)


def test_progress_stall_believes_a_detector_that_replaces_the_built_in_one() -> None:
    builder = TrajectoryBuilder(detectors=(OwnDetector(blind=True),))
    for event in events("a(1)x " * 9):
        builder.on_event(event)
    assert not ProgressStallClassifier().classify(GuidanceContext(None, builder.build())).relevant


@pytest.mark.parametrize(("threshold", "fires"), [(3, True), (6, True), (7, False)])
def test_progress_stall_honours_a_threshold_below_the_detectors(threshold: int, fires: bool) -> None:
    config = TrajectoryAnalysisConfig(stall_threshold=6)
    context = GuidanceContext(None, run("a(1)x " * 7, config))
    assert ProgressStallClassifier(threshold).classify(context).relevant is fires


def test_run_classifiers_logs_and_returns_what_it_swallowed(caplog: pytest.LogCaptureFixture) -> None:
    abstained: list[Reason] = []
    members = (Fixed(RuntimeError("x"), "shaky"), Fixed(UNSURE, "unsure"), Fixed(NO), Fixed(YES, "sure"))
    found = run_classifiers(members, at(""), abstained=abstained)
    assert found == (members[3], YES)
    assert abstained == [
        Reason("guidance.abstained", "shaky failed: RuntimeError"),
        Reason("guidance.abstained", "no answer"),
    ]
    assert [record.message for record in caplog.records] == [
        "the classifier shaky failed and was passed over"
    ]
    assert caplog.records[0].exc_info is not None


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?i)password", "sets flags inside it"),
        ("secret(?s)", "sets flags inside it"),
        ("pass(word", "no regular expression"),
        ("x*", "matches the empty text"),
    ],
)
def test_sensitive_content_refuses_a_pattern_when_it_is_built(pattern: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SensitiveContentClassifier((pattern,))


@pytest.mark.parametrize(
    ("pattern", "arguments", "fires"),
    [
        ("(?:pin|iban)", '{"iban": "x"}', True),
        ("(?i:PIN)", '{"pin": "x"}', True),  # scoped flags stand where they are
        ("PIN", '{"pin": "x"}', True),
        (r"pin\b", '{"PIN": "x"}', True),
        (r"(p)in\1", '{"pinp": "x"}', True),
        ("pin", '{"spinning": "x", "opinion": "y"}', False),
        ("pin", '{"straße": "x", "PIN": "y"}', True),  # not ASCII
        ("pin", '{"numberOfPin": "x"}', False),  # a number
        ("pin", '{"userPin": "x"}', True),
    ],
)
def test_sensitive_content_takes_patterns_of_a_user(pattern: str, arguments: str, fires: bool) -> None:
    context = GuidanceContext(None, run(""), pending_tool_calls=(ToolCall("1", "t", arguments),))
    assert SensitiveContentClassifier((pattern,)).classify(context).relevant is fires


@pytest.mark.parametrize(
    "classifier",
    [
        SingleToolRepeatedClassifier(),
        SingleToolRepeatedClassifier(window=0, threshold=0),
        SequentialWhenParallelClassifier(),
        SequentialWhenParallelClassifier(threshold=0),
        LargeOutputClassifier(),
        AllOfClassifier(()),
        AnyOfClassifier(()),
    ],
    ids=lambda classifier: type(classifier).__name__,
)
def test_a_run_without_calls_and_a_composite_without_members_fire_nothing(
    classifier: GuidanceClassifier,
) -> None:
    assert classifier.classify(at("")) == ClassificationResult.no()


def test_a_call_without_a_result_is_not_large() -> None:
    builder = TrajectoryBuilder()
    builder.on_event(ToolInvoked("read"))
    step = builder.build().recent_tool_calls(1)[0]
    assert step.result is None
    assert not LargeOutputClassifier(0).classify(GuidanceContext(None, builder.build())).relevant


@pytest.mark.parametrize(
    ("classifier", "notation", "reason", "metadata"),
    [
        (
            SingleToolRepeatedClassifier(),
            "b(1)y " + "a(1)x " * 4,
            "a called 4x with the same arguments in 5 calls",
            {"tool": "a"},
        ),
        (
            SequentialWhenParallelClassifier(),
            "grep(a)1 grep(b)2 search(c)3",
            "3 independent tools called sequentially",
            {},
        ),
        (
            LargeOutputClassifier(3),
            "read(1)xxxx|grep(2)xxxx|grep(3)x",
            "Large tool output may overwhelm context",
            {"tools": ["read", "grep"]},
        ),
        (AllOfClassifier((Fixed(YES), Fixed(ClassificationResult.yes(0.5)))), "", "yes", {"a": 1}),
        (AllOfClassifier((Fixed(ClassificationResult.yes(0.5)),)), "", "", {}),
        (AnyOfClassifier((Fixed(ClassificationResult.yes(0.5)), Fixed(YES))), "", "yes", {"a": 1}),
        (NotClassifier(Fixed(NO, "stuck")), "", "Inverse of: stuck", {}),
    ],
)
def test_reasons_and_metadata(
    classifier: GuidanceClassifier, notation: str, reason: str, metadata: dict[str, Any]
) -> None:
    result = classifier.classify(at(notation))
    assert (result.relevant, result.reason, result.metadata) == (True, reason, metadata)


def test_the_summary_for_a_model_names_calls_errors_and_the_turn() -> None:
    query = LLMClassifier().classify(at("read(1)x work(2)!broken")).query
    assert query is not None
    assert query.text == "Turn: 2\nErrors in a row: 1\nRecent calls:\nread: ok\nwork: broken"


class Nameless:
    """Fails whatever it is asked, its name included."""

    @property
    def name(self) -> str:
        raise RuntimeError

    def classify(self, context: GuidanceContext) -> ClassificationResult:
        raise RuntimeError


class Answerless:
    name = "answerless"

    def classify(self, context: GuidanceContext) -> Any:
        return None


@pytest.mark.parametrize(
    ("broken", "reason"),
    [(Nameless(), "Nameless failed: RuntimeError"), (Answerless(), "answerless failed: TypeError")],
)
def test_a_classifier_that_keeps_no_promise_is_passed_over(
    broken: GuidanceClassifier, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    abstained: list[Reason] = []
    found = run_classifiers((broken, Fixed(YES)), at(""), abstained=abstained)
    assert found is not None
    assert [each.detail for each in abstained] == [reason]
    assert "was passed over" in caplog.text


def test_a_member_of_a_composite_without_a_name_abstains() -> None:
    assert AnyOfClassifier((Nameless(),)).classify(at("")).reason == "Nameless failed: RuntimeError"


def test_a_text_full_of_amounts_is_not_searched_to_its_end() -> None:
    """The bound on the work of one pattern: 200 places."""
    for amounts, fires in ((199, True), (200, False)):
        call = ToolCall("1", "write", "max_tokens " * amounts + "token")
        context = GuidanceContext(None, run(""), pending_tool_calls=(call,))
        assert SensitiveContentClassifier().classify(context).relevant is fires
