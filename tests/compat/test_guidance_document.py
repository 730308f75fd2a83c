"""Every code block of the founding document on guidance classifiers, executed on our types."""

import re
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

import pointsman.compat.guidance as ours
from pointsman.compat.guidance import GuidanceContext
from pointsman.testing import build_context_with_errors
from pointsman.vocabulary import ToolCall
from support.agent_runs import run
from support.founding import block, execute, keys

DOCUMENT: Final = "guidance-classifiers.md"
NAMES: Final = {
    **{name: getattr(ours, name) for name in ours.__all__},
    "build_context_with_errors": build_context_with_errors,
    "dataclass": dataclass,
    "field": field,
    "re": re,
    "statistics": statistics,
    "time": time,
    "Sequence": Sequence,
    "Any": Any,
}

Left = dict[str, Any]


def at(notation: str, pending: tuple[ToolCall, ...] = ()) -> GuidanceContext:
    return GuidanceContext(None, run(notation), pending_tool_calls=pending)


PASSWORD: Final = (ToolCall("1", "http", '{"password": "x"}'),)

#: The document's own classes, built with their defaults: a moment of ours at which one fires, one at which it
#: does not, and what its reason says. Where ours differ, the moments are such that both say the same.
CLASSES: Final[Mapping[str, tuple[GuidanceContext, GuidanceContext, str]]] = {
    "DoomLoopClassifier": (at("a(1)x b(1)y " * 3), at("a(1)x b(1)y"), "repeated 3x"),
    "ErrorStreakClassifier": (at("E E E"), at("E E . E"), "3 consecutive errors"),
    "ProgressStallClassifier": (at("a(1)x " * 6), at(". " * 6), "No progress in 5 actions"),
    "HighToolCountClassifier": (at(". " * 50), at(". " * 39), "50 tool calls exceeds"),
    "SingleToolRepeatedClassifier": (at("b(1)y " + "a(1)x " * 5), at("a(1)x b(1)x " * 3), "a called 5x"),
    "SequentialWhenParallelClassifier": (
        at("grep(a)1 grep(b)2 search(c)3"),
        at("grep(a)1 b(1)2"),
        "3 independent",
    ),
    "LargeOutputClassifier": (
        at("read(1)" + "x" * 10_001),
        at("read(1)" + "x" * 10_000),
        "Large tool output",
    ),
    "SensitiveContentClassifier": (at("", PASSWORD), at("."), "password"),
}


@pytest.mark.parametrize("key", CLASSES)
def test_a_classifier_of_the_document_runs_on_our_context(key: str) -> None:
    fires, does_not, reason = CLASSES[key]
    left = execute(block(DOCUMENT, key), NAMES)
    for kind in (left[key], getattr(ours, key)):
        result = kind().classify(fires)
        assert result.relevant
        assert reason in result.reason
        assert not kind().classify(does_not).relevant


def test_what_the_document_reads_of_a_failed_call() -> None:
    step = at("a(1)!broken").trajectory.recent_tool_calls(1)[0]
    assert step.result is not None
    assert (step.result.is_error, step.result.message) == (True, "broken")
    assert len(at("a(1)" + "x" * 300).trajectory.recent_tool_calls(1)[0].result.message) == 300  # type: ignore[union-attr]


def results(left: Left) -> None:
    assert left["ClassificationResult"] is ours.ClassificationResult


def all_of(left: Left) -> None:
    both = left["AllOfClassifier"]((ours.ErrorStreakClassifier(), ours.HighToolCountClassifier(4)))
    assert both.name == "all_of(error_streak, high_tool_count)"
    result = both.classify(at("E E E E"))
    assert (result.relevant, "; " in result.reason) == (True, True)
    assert ours.AllOfClassifier(both.classifiers).classify(at("E E E E")).reason == result.reason


def any_of(left: Left) -> None:
    either = left["AnyOfClassifier"]((ours.DoomLoopClassifier(), ours.ErrorStreakClassifier()))
    assert either.classify(at("E E E")).reason == "3 consecutive errors"
    assert not either.classify(at(".")).relevant


def inverse(left: Left) -> None:
    opposite = left["NotClassifier"](ours.ErrorStreakClassifier())
    assert opposite.classify(at(".")).relevant
    assert not opposite.classify(at("E E E")).relevant


def threshold(left: Left) -> None:
    strict = left["ThresholdClassifier"](ours.ErrorStreakClassifier(), 0.8)
    assert [strict.classify(at("E " * n)).relevant for n in (3, 5)] == [False, True]
    assert strict.name == ours.ThresholdClassifier(ours.ErrorStreakClassifier(), 0.8).name


def runner(left: Left) -> None:
    classifiers = (ours.DoomLoopClassifier(), ours.ErrorStreakClassifier())
    functions: tuple[Any, ...] = (left["run_classifiers"], ours.run_classifiers)
    for function in functions:
        assert function(classifiers, at("E E E"))[0] is classifiers[1]
        assert function(classifiers, at("E E E"), min_confidence=0.9) is None


def cooldown(left: Left) -> None:
    classifier, config = ours.ErrorStreakClassifier(), ours.ClassifierConfig(max_fires_per_session=2)
    for tracker in (left["ClassifierCooldownTracker"](), ours.ClassifierCooldownTracker()):
        for turn in (1, 2):
            assert tracker.can_fire(classifier, turn, config)
            tracker.record_fire(classifier, turn)
        assert not tracker.can_fire(classifier, 3, config)


def model(left: Left) -> None:
    base: Any = left["LLMClassifier"]

    class Asking(base):  # type: ignore[misc]  # the document leaves both to others
        def _call_model(self, summary: str) -> str:
            assert "Errors: 2" in summary
            return "yes"

        def _parse_response(self, response: str) -> ours.ClassificationResult:
            return ours.ClassificationResult.yes() if response == "yes" else ours.ClassificationResult.no()

    assert Asking().classify(at("E E")).relevant
    assert Asking().name == ours.LLMClassifier().name


def minimal(left: Left) -> None:
    given = ours.collect_guidance(left["guidance_providers"], at("E E E"))
    assert [injection.key for injection in given] == ["diagnostic.signal"]


def composite(left: Left) -> None:
    assert left["classifier"].classify(at("E E E")).relevant


def benchmark(left: Left) -> None:
    measured = left["benchmark_classifier"](ours.ErrorStreakClassifier(), [at("E")] * 2)
    assert isinstance(measured, ours.ClassifierBenchmark)
    assert measured.classifier_name == "error_streak"


def calls(name: str) -> Callable[[Left], None]:
    """The document's own test is run."""

    def check(left: Left) -> None:
        left[name]()

    return check


def public_names(left: Left) -> None:
    assert left["run_classifiers"] is ours.run_classifiers


CHECKS: Final[Mapping[str, Callable[[Left], None]]] = {
    "ClassificationResult": results,
    "AllOfClassifier": all_of,
    "AnyOfClassifier": any_of,
    "NotClassifier": inverse,
    "ThresholdClassifier": threshold,
    "Execution Order": runner,
    "Cooldown Management": cooldown,
    "LLMClassifier": model,
    "Minimal Configuration": minimal,
    "Layered Configuration": minimal,
    "Composite Configuration": composite,
    "Benchmarking": benchmark,
    "Unit Testing": calls("test_error_streak_classifier"),
    "Property Testing": calls("test_error_streak_monotonic"),
    "Integration Testing": calls("test_classifier_with_session"),
    "Public API": public_names,
}


@pytest.mark.parametrize("key", CHECKS)
def test_a_block_of_the_document_executes(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "weakincentives", ours)
    monkeypatch.setitem(sys.modules, "weakincentives.prompt", ours)
    CHECKS[key](execute(block(DOCUMENT, key), NAMES))


def test_every_block_is_executed() -> None:
    assert sorted(keys(DOCUMENT)) == sorted([*CLASSES, *CHECKS])
