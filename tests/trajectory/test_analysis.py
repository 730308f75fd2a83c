"""The members of a trajectory, its window, and what ends a streak."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import ConfigError
from pointsman.trajectory import (
    DEFAULT_DETECTORS,
    ToolInvoked,
    ToolResult,
    TrajectoryAnalysis,
    TrajectoryAnalysisConfig,
    TrajectoryBuilder,
    TrajectoryState,
    UserSpoke,
)
from support.agent_runs import events, run


def test_every_member() -> None:
    seen = run("read(a)1|read(b)2 U edit(a)!no edit(b)!no read(a)1")
    assert seen.turn_count == 4
    assert seen.tool_call_count == 5
    assert seen.error_count == 2
    assert seen.consecutive_errors == 0
    assert seen.unique_tools_used == frozenset({"read", "edit"})
    assert seen.duration == timedelta(0)
    assert [step.tool_name for step in seen.recent_tool_calls(2)] == ["edit", "read"]
    assert seen.recent_tool_calls(0) == seen.recent_errors(0) == ()
    assert [step.message for step in seen.recent_errors(5)] == ["no", "no"]
    assert seen.tool_frequency() == {"read": 3, "edit": 2}
    assert seen.error_frequency() == {"no": 2}
    assert dict(seen.patterns()) == {}
    assert not seen.has_pattern("doom_loop")


def test_steps_know_their_batch_and_their_boundary() -> None:
    first, second, third = run("read(a)1|read(b)2 U edit(a)ok").recent_tool_calls(3)
    assert (first.position, first.batch, first.turn) == (0, 2, 1)
    assert (second.position, second.batch, second.turn) == (1, 2, 1)
    assert (third.user_boundary, first.user_boundary) == (True, False)
    assert third.result_length == 2


def test_duration_spans_all_events_that_carry_a_time() -> None:
    builder = TrajectoryBuilder()
    builder.on_event(UserSpoke(at=100.0))
    builder.on_event(ToolInvoked("a", "{}", ToolResult.ok("x"), at=160.0))
    assert builder.build().duration == timedelta(minutes=1)


@pytest.mark.parametrize(
    ("notation", "streak"),
    [
        ("E E E", 3),
        ("E E . E", 1),  # a success in between
        ("E E U E", 1),  # the person spoke: a new attempt
        ("R R R", 0),  # rate limits are not the agent's failure
        ("E R E R E", 3),  # nor do they end a streak
        ("E E D E", 3),  # nor does a refusal
        ("E E U", 0),
        ("", 0),
    ],
)
def test_consecutive_errors(notation: str, streak: int) -> None:
    assert run(notation).consecutive_errors == streak


def test_a_trajectory_is_immutable() -> None:
    before = run("E E")
    after = before.with_event(ToolInvoked("a", "{}", ToolResult.error("x")))
    assert (before.consecutive_errors, after.consecutive_errors) == (2, 3)
    assert before.with_events(()) is before


def test_the_window_bounds_memory_and_counts_go_on() -> None:
    seen = run(". " * 300)
    assert len(seen.recent_tool_calls(1_000)) == 50
    assert seen.tool_call_count == 300
    assert len(msgspec.json.encode(seen.state)) < 8_000  # bytes a session keeps
    assert len(run(". . .", TrajectoryAnalysisConfig(window_size=1)).recent_tool_calls(9)) == 1


def test_a_streak_may_be_longer_than_the_window() -> None:
    assert run("E " * 60, TrajectoryAnalysisConfig(window_size=5)).consecutive_errors == 60


def test_reset_forgets_everything() -> None:
    builder = TrajectoryBuilder()
    for event in events("E E E"):
        builder.on_event(event)
    builder.reset()
    assert builder.build().tool_call_count == 0


TOKENS = st.lists(
    st.sampled_from(["E", ".", "R", "D", "U", "a(1)x", "a(1)!x", "b(1)y", "get_status(1)z"]), max_size=70
)


@given(TOKENS, st.integers(0, 70))
def test_a_stored_run_resumes_where_it_was(tokens: list[str], cut: int) -> None:
    whole = run(" ".join(tokens))
    builder = TrajectoryBuilder()
    for event in list(events(" ".join(tokens)))[:cut]:
        builder.on_event(event)
    stored = msgspec.json.encode(builder.build().state)
    resumed = TrajectoryAnalysis(msgspec.json.decode(stored, type=TrajectoryState))
    after = resumed.with_events(list(events(" ".join(tokens)))[cut:])
    assert after.state == whole.state
    assert after.patterns() == whole.patterns()


@given(TOKENS)
def test_counts_agree_with_the_events(tokens: list[str]) -> None:
    seen = run(" ".join(tokens))
    assert seen.tool_call_count == sum(token != "U" for token in tokens)
    assert seen.error_count == sum(token in {"E", "a(1)!x"} for token in tokens)
    assert seen.state.stalled <= seen.state.attempt
    assert len(seen.attempt) <= min(50, seen.state.attempt)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"window_size": 0}, "window_size must be at least 1"),
        ({"doom_loop_threshold": 1}, "doom_loop_threshold must be at least 2"),
        ({"similarity_threshold": 0.0}, "similarity_threshold must be in"),
        ({"stall_threshold": 0}, "stall_threshold"),
    ],
)
def test_a_threshold_that_could_not_work_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TrajectoryAnalysisConfig(**wrong)


def test_documented_defaults() -> None:
    config = TrajectoryAnalysisConfig()
    assert (config.window_size, config.doom_loop_threshold, config.doom_loop_min_length) == (50, 3, 2)
    assert (config.similarity_threshold, config.error_window, config.stall_threshold) == (0.8, 10, 5)
    assert config.all_detectors() == DEFAULT_DETECTORS


def test_a_step_without_content_keeps_errors_apart_and_successes_as_they_are() -> None:
    failed, again, other, done = run("a(1)!no a(2)!no a(3)!broken a(4)fine").state.steps
    bare = [step.without_content() for step in (failed, again, other, done)]
    assert bare[3] == done
    assert bare[0].signature == bare[1].signature != bare[2].signature
    assert "no" not in {bare[0].signature, bare[0].message}
    assert all(step.message == "" and step.is_error for step in bare[:3])
