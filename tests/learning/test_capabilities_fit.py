"""Fitting a calibration to labelled tasks: it learns what guides cannot know, and reports on unseen tasks."""

import pytest

from pointsman.capabilities import LocalScorer
from pointsman.errors import ConfigError
from pointsman.learning.capabilities import Labelled, fit_capabilities, read_labelled
from support.capabilities import REGISTRY

NOTHING = ["prove the theorem", "sing a song", "paint the wall", "count the sheep", "fold the paper"]
TASKS = [
    Labelled(text, capabilities=labels)
    for copy in ("", "please ", "now ", "hello, ")
    for text, labels in [
        (f"{copy}will it rain today", ("current_weather",)),
        (f"{copy}what time is it now", ("clock",)),
        (f"{copy}send an email to Ben", ("mail",)),
        *((f"{copy}{text}", ()) for text in NOTHING),
    ]
]


def test_tasks_that_need_nothing_teach_to_reject() -> None:
    fitted = fit_capabilities(REGISTRY, TASKS)
    assert fitted.after.rejected == 1
    assert fitted.after.exact is not None
    assert fitted.before.exact is not None
    assert fitted.after.exact >= fitted.before.exact
    assert fitted.after.tasks == len(TASKS)
    scorer = LocalScorer(REGISTRY, calibration=fitted.calibration)
    assert scorer.version.endswith(REGISTRY.version)
    assert scorer.probabilities("will it rain in the evening")["current_weather"] > 0.5


def test_a_threshold_nothing_reaches_selects_nothing() -> None:
    report = fit_capabilities(REGISTRY, TASKS, threshold=1.0).after
    assert report.recall == 0
    assert report.error is None
    only = [task for task in TASKS if task.capabilities]
    assert fit_capabilities(REGISTRY, only).after.rejected is None


def test_the_same_tasks_give_the_same_calibration() -> None:
    assert fit_capabilities(REGISTRY, TASKS) == fit_capabilities(REGISTRY, TASKS)


def test_unknown_labels_and_no_tasks_are_refused() -> None:
    with pytest.raises(ConfigError, match="not registered: maps"):
        fit_capabilities(REGISTRY, [Labelled("x", capabilities=("maps",))])
    with pytest.raises(ConfigError, match="nothing to fit"):
        fit_capabilities(REGISTRY, [])


def test_tasks_are_read_with_their_place() -> None:
    lines = [(1, b'{"task": "a", "capabilities": ["clock"]}'), (2, b'{"task": "b"}')]
    assert read_labelled(lines, "t.jsonl") == [Labelled("a", capabilities=("clock",)), Labelled("b")]
    with pytest.raises(ConfigError, match=r"t.jsonl:3: "):
        read_labelled([(3, b'{"capabilities": []}')], "t.jsonl")
