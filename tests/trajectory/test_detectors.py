"""Every detector: hits beside near misses."""

from datetime import timedelta

import pytest

from pointsman.trajectory import (
    DoomLoop,
    DoomLoopDetector,
    ProgressMade,
    ProgressStall,
    RepeatedError,
    RepeatedErrorDetector,
    ToolAvoidance,
    ToolInvoked,
    ToolRecommended,
    ToolResult,
    TrajectoryAnalysis,
    TrajectoryAnalysisConfig,
    TrajectoryBuilder,
    sequence_similarity,
)
from support.agent_runs import events, run

AB = "a(1)x b(1)y "
ABC = "a(1)x b(1)y c(1)z "


@pytest.mark.parametrize(
    ("notation", "loop"),
    [
        ("a(1)x a(1)x a(1)x", DoomLoop(1, 3, ("a",))),
        ("a(1)x a(1)x", None),  # twice is not yet a loop
        ("a(1)x a(1)x a(1)y", None),  # the result changed
        ("a(1)x a(2)x a(1)x a(2)x a(3)x", None),  # other arguments
        ("a(1)x a(1)x a(1)x a(1)x", DoomLoop(1, 4, ("a",))),  # AAAA is four times A, never twice AA
        (AB * 3, DoomLoop(2, 3, ("a", "b"))),
        (AB * 2 + "a(1)x", None),
        (AB * 3 + "a(1)x", DoomLoop(2, 3, ("b", "a"))),  # seen from the other end
        (AB * 3 + "c(1)z", None),  # broken by another call
        (ABC * 3, DoomLoop(3, 3, ("a", "b", "c"))),
        ("edit(1)ok test()!f1 edit(2)ok test()!f2 edit(3)ok test()!f3", None),  # work, not a loop
        ("a(1)!no a(1)!no a(1)!no", DoomLoop(1, 3, ("a",))),  # failing calls loop too
        ("a(1)x a(1)x U a(1)x", None),  # a person spoke
        ("a(1)x a(1)x R R a(1)x", DoomLoop(1, 3, ("a",))),  # rate limits do not hide it
        ("R R R R", None),
        ("scroll(down)1 scroll(down)2 scroll(down)3 scroll(down)4", None),
        ("get_status(1)busy " * 6, None),  # polling is meant to repeat
        ("wait(1)x a(1)x " * 4, None),  # so is a cycle with a wait in it
        ("a(1)1 b(1)2 c(1)3 d(1)4 e(1)5 f(1)6 " * 3, None),  # period six: beyond what is looked for
    ],
)
def test_doom_loop(notation: str, loop: DoomLoop | None) -> None:
    assert run(notation).patterns().get("doom_loop") == loop


@pytest.mark.parametrize(
    ("notation", "length"),
    [
        ("edit(1)1 test()2 edit(2)3 test()4 edit(3)5 test()6", 2),  # what made the seed's rule useless
        ("a(1)1 a(2)2 a(3)3 a(4)4", None),  # not a cycle of at least two
        ("a(1)1 a(2)2 b(1)3 a(3)4 a(4)5 b(2)6 a(5)7 a(6)8 b(3)9", 3),
    ],
)
def test_the_seed_compares_names_only_and_that_mode_stays(notation: str, length: int | None) -> None:
    found = DoomLoopDetector(by="name").detect(run(notation))
    assert (found.cycle_length if found else None) == length


def test_minimum_cycle_length_is_honoured() -> None:
    long = DoomLoopDetector(min_cycle_length=3)
    assert long.detect(run(AB * 3)) is None
    assert long.detect(run(ABC * 3)) is not None
    assert DoomLoopDetector(by="name", min_cycle_length=1).detect(run("a(1)1 a(2)2 a(3)3")) is not None


def test_similarity_of_name_cycles_can_be_loosened() -> None:
    run_with_a_slip = run("a(1)1 b(1)2 c(1)3 a(2)4 b(2)5 d(1)6 a(3)7 b(3)8 c(2)9")
    assert DoomLoopDetector(by="name").detect(run_with_a_slip) is None
    assert DoomLoopDetector(by="name", similarity=0.3).detect(run_with_a_slip) is not None


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("a", "b"), ("a", "b"), 1.0),
        (("a", "b"), ("c", "d"), 0.0),
        (("a", "b"), ("b", "a"), 0.5),  # the same names, other neighbours
        ((), (), 1.0),
        ((), ("a",), 0.0),
    ],
)
def test_sequence_similarity(first: tuple[str, ...], second: tuple[str, ...], expected: float) -> None:
    assert sequence_similarity(first, second) == expected


@pytest.mark.parametrize(
    ("notation", "count", "variants"),
    [
        ("a(1)!no a(2)!no a(3)!no", 3, 3),
        ("a(1)!no b(2)!no c(3)!no", 3, 3),  # whatever the tool
        ("a(1)!no a(2)!no", None, None),
        ("a(1)!no a(2)!no a(3)!other", None, None),
        ("a(1)!no a(2)!no a(3)ok", None, None),  # the latest call succeeded
        ("a(1)!no . a(2)!no . a(3)!no", 3, 3),
        ("a(1)!no a(2)!no U a(3)!no", None, None),
        ("a(1)!no . . . . . . . . . a(2)!no a(3)!no", None, None),  # out of the window of ten
        ("a(1)!no a(1)!no a(1)!no", 3, 1),
    ],
)
def test_repeated_error(notation: str, count: int | None, variants: int | None) -> None:
    found = run(notation).patterns().get("repeated_error")
    assert (getattr(found, "count", None), getattr(found, "variants", None)) == (count, variants)


def test_a_repeated_error_is_recognised_through_what_differs_each_time() -> None:
    builder = TrajectoryBuilder()
    for line in (12, 480, 7):
        place, day = f"/home/u{line}/main.py:{line}:4", f"2024-05-0{line % 9 + 1}T10:00:00Z"
        message = f"{place}: error: expected ';' at line {line} (run {day})"
        builder.on_event(ToolInvoked("build", {"n": line}, ToolResult.error(message)))
    found = builder.build().patterns()["repeated_error"]
    assert RepeatedErrorDetector().name == found.pattern_type
    assert isinstance(found, RepeatedError)
    assert (found.count, found.error_signature) == (3, "main.py: error: expected ';' (run )")


@pytest.mark.parametrize(
    ("notation", "stalled"),
    [
        ("E E E E E", 5),
        ("E E E E", None),
        ("E E E E . E", None),  # something new in between
        ("a(1)x a(1)x b(1)y b(1)y a(1)x E b(1)y a(1)x", 5),  # nothing new, though most calls succeed
        ("a(1)x a(2)x a(3)x a(4)x a(5)x a(6)x", None),  # a batch of edits that all return the same
        ("E E E U E E", None),
        ("E E E E R R R", None),  # rate limits neither help nor count
        ("E E E E R R R E", 5),
        ("a(1)x get_status(1)x " + "get_status(1)x " * 9, None),
        ("E E test()5_passed E E E", None),
        ("E E E E D", None),
    ],
)
def test_progress_stall(notation: str, stalled: int | None) -> None:
    found = run(notation).patterns().get("progress_stall")
    assert getattr(found, "actions_during_stall", None) == stalled


def test_a_stall_knows_how_long_it_lasts() -> None:
    builder = TrajectoryBuilder()
    builder.on_event(ToolInvoked("a", "{}", ToolResult.ok("new"), at=1_000.0))
    for second in range(5):
        builder.on_event(ToolInvoked("a", "{}", ToolResult.error("no"), at=1_010.0 + second))
    stall = builder.build().patterns()["progress_stall"]
    assert isinstance(stall, ProgressStall)
    assert stall.stall_duration == timedelta(seconds=14)


def test_progress_that_only_the_agents_loop_knows_of_ends_a_stall() -> None:
    builder = TrajectoryBuilder()
    for event in events("E E E E E"):
        builder.on_event(event)
    assert builder.build().has_pattern("progress_stall")
    builder.on_event(ProgressMade())
    assert not builder.build().has_pattern("progress_stall")


@pytest.mark.parametrize(
    ("then", "attempts"),
    [
        (". . . .", 4),
        (". . .", None),  # an agent may finish what it is at
        (". . logs()x . .", None),  # it was used
    ],
)
def test_tool_avoidance(then: str, attempts: int | None) -> None:
    builder = TrajectoryBuilder()
    builder.on_event(ToolRecommended("logs"))
    for event in events(then):
        builder.on_event(event)
    found = builder.build().patterns().get("tool_avoidance")
    assert getattr(found, "alternative_attempts", None) == attempts
    if isinstance(found, ToolAvoidance):
        assert found.avoided_tool == "logs"


READS = "read(a)1 read(b)2 edit(1)ok edit(2)ok edit(3)ok edit(4)ok "


@pytest.mark.parametrize(
    ("notation", "symptoms"),
    [
        (READS + "read(a)1 read(b)2", ("forgotten_results",)),
        ("read(a)1 read(b)2 edit(1)ok edit(2)ok read(a)1 read(b)2", ("forgotten_results",)),
        ("read(a)1 read(b)2 edit(1)ok read(a)1 read(b)2", None),  # too near to be forgotten
        (READS + "read(a)1", None),  # one reread before an edit is good practice
        (READS + "read(a)8 read(b)9", None),  # they changed in between
        ("show()1 show()2 show()1 show()2", ("contradictory_actions",)),  # done and undone
        ("show()1 show()2 show()3 show()4", None),
        ("ask()!maximum_context reached", None),
        ("ask()!Your_prompt_is_too_long", None),
    ],
)
def test_context_degradation(notation: str, symptoms: tuple[str, ...] | None) -> None:
    found = run(notation.replace(" reached", "_reached")).patterns().get("context_degradation")
    assert getattr(found, "symptoms", None) == symptoms


@pytest.mark.parametrize(
    ("message", "full"),
    [
        ("This model's maximum context length is 128000 tokens", True),
        ("prompt is too long: 210000 tokens", True),
        ("context manager expected", False),
    ],
)
def test_a_full_context_shows_in_the_error(message: str, full: bool) -> None:
    builder = TrajectoryBuilder()
    builder.on_event(ToolInvoked("ask", "{}", ToolResult.error(message)))
    assert builder.build().has_pattern("context_degradation") is full


class ChurnPattern:
    pattern_type = "churn"


class ChurnDetector:
    name = "churn"

    def detect(self, trajectory: TrajectoryAnalysis) -> ChurnPattern | None:
        return ChurnPattern() if trajectory.tool_frequency().get("edit", 0) >= 3 else None


def test_a_users_own_detector_is_run_on_every_event() -> None:
    config = TrajectoryAnalysisConfig(detectors=(ChurnDetector(),))
    assert run("edit(1)a edit(2)b edit(3)c", config).has_pattern("churn")
    assert not run("edit(1)a edit(2)b", config).has_pattern("churn")
