"""Signs of progress in what tools print, beside what the same tools print when there is none."""

import re

import pytest

from pointsman.trajectory import (
    DEFAULT_INDICATORS,
    PlanIndicator,
    TextIndicator,
    ToolInvoked,
    ToolResult,
    TrajectoryAnalysisConfig,
    TrajectoryBuilder,
)
from pointsman.trajectory._events import progress_in


@pytest.mark.parametrize(
    ("result", "sign"),
    [
        ("===== 12 passed in 0.31s =====", "test_passed"),
        ("===== 1 failed, 12 passed in 0.31s =====", ""),
        ("0 passed", ""),
        ("Ran 3 tests in 0.001s\n\nOK", "test_passed"),
        ("Ran 3 tests in 0.001s\n\nFAILED (failures=1)", ""),
        ("Tests: 4 passed, 4 total", "test_passed"),
        ("  7 passing (12ms)\n  1 failing", ""),
        ("ok  \tgithub.com/x/y\t0.01s", "test_passed"),
        ("FAIL\tgithub.com/x/y\t0.01s", ""),
        ("test result: ok. 3 passed; 0 failed;", "test_passed"),
        ("Tests run: 5, Failures: 0, Errors: 0, Skipped: 0", "test_passed"),
        ("Tests run: 5, Failures: 1, Errors: 0, Skipped: 0", ""),
        ("[INFO] BUILD SUCCESS", "build_succeeded"),
        ("[INFO] BUILD FAILURE", ""),
        ("BUILD SUCCESSFUL in 3s", "build_succeeded"),
        ("Compiled successfully in 512 ms", "build_succeeded"),
        ("the password has passed through", ""),
        ("looks OK", ""),
        ("12 passed\n" + "x" * 1_000, ""),  # long before the end: content, not a summary
        ("", ""),
    ],
)
def test_what_tools_print(result: str, sign: str) -> None:
    assert progress_in("bash", result, DEFAULT_INDICATORS) == sign


@pytest.mark.parametrize(
    ("tool", "sign"),
    [("TodoWrite", "plan_step_completed"), ("update_plan", "plan_step_completed"), ("plan", "")],
)
def test_tools_that_keep_a_plan(tool: str, sign: str) -> None:
    assert progress_in(tool, "updated", DEFAULT_INDICATORS) == sign


def test_a_failed_call_is_no_progress_whatever_it_prints() -> None:
    builder = TrajectoryBuilder()
    for number in range(5):
        builder.on_event(ToolInvoked("test", {"n": number}, ToolResult.error("12 passed, exit code 1")))
    assert builder.build().has_pattern("progress_stall")


def test_indicators_of_ones_own() -> None:
    deployed = TextIndicator("deployed", ("live",), re.compile(r"is live"), re.compile(r"not live"))
    config = TrajectoryAnalysisConfig(indicators=(deployed, PlanIndicator()))
    builder = TrajectoryBuilder.from_config(config)
    for _ in range(10):
        builder.on_event(ToolInvoked("ship", "{}", ToolResult.ok("app is live")))
    assert not builder.build().has_pattern("progress_stall")
    assert builder.build().recent_tool_calls(1)[0].progress == "deployed"
