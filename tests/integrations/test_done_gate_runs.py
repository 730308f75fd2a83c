"""The gate at "done" over agents in projects whose tests really run: the benchmark's, with one runner."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "done_gate_runs.py"

#: Runs whose task failed, and that the gate sees.
SEEN = {
    "wrong, tests fail",
    "failing test seen, wrong, still fails",
    "wrong, tests fail behind a pipe",
    "fixed, another test broken and seen",
    "fixed, tested, broken afterwards",
    "failing test seen, wrong, not tested",
}
#: A run whose task is done: the gate cannot know that the edit after the tests does no harm.
FALSE_ALARM = "fixed, tested, edited once more"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("done_gate_runs", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["done_gate_runs"] = module
    spec.loader.exec_module(module)
    return module


def test_which_runs_are_told_in_the_formats_of_four_agents(script: ModuleType) -> None:
    found = script.runs(script.gate(["tests_fail", "edited_after_tests"]), runners=("unittest",))
    assert {run.agent for run in found} == {"Claude Code", "Codex", "opencode", "Qwen Code"}
    for agent in {run.agent for run in found}:
        told = {run.scenario for run in found if run.told and run.agent == agent}
        assert told == {*SEEN, FALSE_ALARM}, agent
    assert not any(run.done for run in found if run.scenario in SEEN)
    assert all(run.done for run in found if run.scenario == FALSE_ALARM)
    told, of = script.share([run for run in found if not run.done])
    assert told / of >= 0.30


def test_the_default_raises_no_false_alarm(script: ModuleType) -> None:
    found = script.runs(script.gate(), runners=("unittest",))
    told, of = script.share([run for run in found if run.done])
    assert (told, of) == (0, 52)
    told, of = script.share([run for run in found if not run.done])
    assert told / of >= 0.30
