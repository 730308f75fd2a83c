"""From histories of any wire format to trajectories, and only what is new."""

from collections.abc import Iterator, Sequence
from typing import overload

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.trajectory import (
    TrajectoryAnalysis,
    TrajectoryAnalysisConfig,
    TrajectoryMemory,
    observe,
    opening_of,
)
from pointsman.trajectory._analysis import RECENT
from pointsman.vocabulary import Message, Role, ToolCall, ToolResult
from support.agent_runs import run

EMPTY = TrajectoryAnalysis()


class Counted(Sequence[Message]):
    """A history that counts how many messages were decoded."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages, self.decoded = list(messages), 0

    def __len__(self) -> int:
        return len(self.messages)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        self.decoded += 1
        return self.messages[index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)


def user(text: str) -> Message:
    return Message(Role.USER, (text,))


def calls(*ids: str, name: str = "work") -> Message:
    return Message(Role.ASSISTANT, calls=tuple(ToolCall(i, name, f'{{"n":"{i}"}}') for i in ids))


def results(*ids: str, error: bool | None = True, text: str = "boom") -> Message:
    return Message(Role.TOOL, results=tuple(ToolResult(i, text, error) for i in ids))


def turns(count: int, start: int = 0, *, error: bool | None = True) -> list[Message]:
    pairs = [(calls(f"c{n}"), results(f"c{n}", error=error)) for n in range(start, start + count)]
    return [message for pair in pairs for message in pair]


def at_once(messages: Sequence[Message]) -> TrajectoryAnalysis:
    return observe(Counted(messages), TrajectoryMemory(), EMPTY)[0]


def test_a_failing_agent_in_any_format() -> None:
    seen = at_once([user("go"), *turns(3)])
    assert (seen.consecutive_errors, seen.turn_count, seen.tool_call_count) == (3, 3, 3)


def test_parallel_calls_in_one_message_or_in_several() -> None:
    together = at_once([calls("a", "b"), results("a", "b")])
    apart = at_once([calls("a"), calls("b"), results("a"), results("b")])
    assert together.state == apart.state
    assert [(step.turn, step.position, step.batch) for step in apart.state.steps] == [(1, 0, 2), (1, 1, 2)]


@pytest.mark.parametrize(
    ("messages", "seen"),
    [
        ([results("x")], 0),  # an orphan: its call was cut off
        ([calls("a"), results("a"), results("a")], 1),  # answered twice
        ([calls("a"), user("stop"), results("a")], 0),  # a person interrupted
        ([calls("a"), results("b"), results("a")], 1),
        ([calls("a", "a"), results("a", "a")], 1),  # two calls with one id
        ([Message(Role.ASSISTANT, ("thinking aloud",)), calls("a"), results("a")], 1),
        ([], 0),
    ],
)
def test_histories_that_do_not_add_up(messages: list[Message], seen: int) -> None:
    assert at_once(messages).tool_call_count == seen


def test_text_beside_results_is_not_a_person() -> None:
    reminder = Message(
        Role.USER, ("<system-reminder>…</system-reminder>",), results=(ToolResult("c2", "x", is_error=True),)
    )
    assert at_once([*turns(2), calls("c2"), reminder]).consecutive_errors == 3
    assert at_once([*turns(2), user("  ")]).consecutive_errors == 2  # nor is an empty message
    assert at_once([*turns(2), user("<system-reminder>go on</system-reminder>")]).consecutive_errors == 2
    assert at_once([*turns(2), user("try again")]).consecutive_errors == 0
    assert at_once([*turns(2), Message(Role.USER, images=1)]).consecutive_errors == 0


def test_only_new_messages_are_decoded() -> None:
    history = [user("go"), *turns(150)]
    _, memory = observe(Counted(history), TrajectoryMemory(), EMPTY)
    longer = Counted([*history, *turns(1, 150)])
    seen, _ = observe(longer, memory, EMPTY)
    assert seen.tool_call_count == 151
    assert longer.decoded <= 4  # the last known message, the two new ones, the new last one


@pytest.mark.parametrize("before", [0, 3])
def test_of_a_long_new_history_only_the_end_is_read(before: int) -> None:
    """190,000 calls in one request took 2 s, in which nobody else was served."""
    _, memory = observe(Counted([user("go"), *turns(before)]), TrajectoryMemory(), EMPTY)
    history = Counted([user("go"), *turns(5_000)])
    seen, memory = observe(history, memory, EMPTY)
    assert (seen.tool_call_count, seen.consecutive_errors) == (RECENT // 2, RECENT // 2)
    assert history.decoded <= RECENT + 2
    assert memory.counted == len(history)
    longer = Counted([*history.messages, *turns(1, 5_000)])
    assert observe(longer, memory, EMPTY)[0].tool_call_count == RECENT // 2 + 1


@pytest.mark.parametrize("is_open", [False, True])
def test_of_a_message_with_countless_calls_only_the_last_become_steps(is_open: bool) -> None:
    names = [f"c{n}" for n in range(5_000)]
    seen = at_once([calls(*names, *["open"] * is_open), results(*names)])
    assert seen.tool_call_count == RECENT
    assert seen.recent_tool_calls(1)[0].position == 4_999


def test_the_opening_of_a_conversation_without_an_answer_is_its_first_messages() -> None:
    history = Counted([user("go")] * 5_000)
    assert opening_of(history) == opening_of(Counted([user("go")] * 6_000))
    assert history.decoded == 100


@given(st.integers(0, 12), st.integers(0, 30))
def test_in_pieces_or_at_once(count: int, cut: int) -> None:
    history = [user("go"), *turns(count), user("and"), calls("p", "q"), results("p"), results("q")]
    _, memory = observe(Counted(history[:cut]), TrajectoryMemory(), EMPTY)
    memory = msgspec.json.decode(msgspec.json.encode(memory), type=TrajectoryMemory)
    seen, _ = observe(Counted(history), memory, EMPTY)
    assert seen.state == at_once(history).state


def test_a_batch_answered_in_two_requests_is_counted_once() -> None:
    half = [calls("a", "b"), results("a")]
    seen, memory = observe(Counted(half), TrajectoryMemory(), EMPTY)
    assert (seen.tool_call_count, memory.counted) == (1, 0)
    seen, _ = observe(Counted([*half, results("b")]), memory, EMPTY)
    assert seen.tool_call_count == 2


@pytest.mark.parametrize(
    ("name", "changed", "errors"),
    [
        ("rewound", [user("go"), *turns(1)], 1),
        ("edited", [user("something else"), *turns(2), user("x"), *turns(1, 7)], 1),
        ("compacted", [user("summary of what happened")], 0),
        ("another conversation", [user("title?"), *turns(1, 50), *turns(5, 60)], 6),
    ],
)
def test_a_history_that_does_not_continue_is_read_anew(
    name: str, changed: list[Message], errors: int
) -> None:
    _, memory = observe(Counted([user("go"), *turns(3)]), TrajectoryMemory(), EMPTY)
    seen, _ = observe(Counted(changed), memory, EMPTY)
    assert seen.consecutive_errors == errors


def test_cache_markers_that_move_do_not_matter() -> None:
    history = [user("go"), *turns(3)]
    _, memory = observe(Counted(history), TrajectoryMemory(), EMPTY)
    changed = Message(Role.TOOL, ("a reminder that comes and goes",), results=history[-1].results)
    longer = Counted([*history[:-1], changed, *turns(1, 3)])
    seen, _ = observe(longer, memory, EMPTY)
    assert (seen.consecutive_errors, longer.decoded <= 4) == (4, True)


def test_huge_results() -> None:
    huge = at_once([calls("a"), results("a", text="x" * 1_000_000, error=None)])
    assert huge.recent_tool_calls(1)[0].result_length == 1_000_000


def test_malformed_arguments() -> None:
    bad = Message(Role.ASSISTANT, calls=(ToolCall("a", "work", '{"x": '),))
    assert at_once([bad, results("a")]).consecutive_errors == 1


def test_the_empty_run_carries_the_configuration() -> None:
    assert run("").lens == at_once([]).lens


def test_what_a_call_takes_from_the_result_before_is_known_across_requests() -> None:
    look = [calls("a", name="search"), results("a", error=False, text="found in src/app.py")]
    read = Message(Role.ASSISTANT, calls=(ToolCall("b", "read_file", '{"path": "src/app.py"}'),))
    _, memory = observe(Counted(look), TrajectoryMemory(), EMPTY)
    seen, _ = observe(Counted([*look, read, results("b", error=False)]), memory, EMPTY)
    assert [step.derived for step in seen.recent_tool_calls(2)] == [False, True]


def test_configured_poll_tools_are_exempt() -> None:
    config = TrajectoryAnalysisConfig(poll_tools=frozenset({"refresh"}))
    assert not run("refresh()x " * 5, config).patterns()
    assert run("refresh()x " * 5).has_pattern("doom_loop")


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ([user("a")], [user("a"), *turns(2), user("b")], True),  # it goes on
        ([user("a")], [user("b")], False),
        ([Message(Role.SYSTEM, ("x",)), user("a")], [Message(Role.SYSTEM, ("y",)), user("a")], True),
        ([Message(Role.USER, ("<system-reminder>1</system-reminder>", "a"))], [user("a")], True),
        ([user("a"), user("b")], [user("a")], False),
        ([], [], True),
        ([user("x" * 1_000 + "a")], [user("y" * 1_000 + "a" * 500)], False),
    ],
)
def test_a_conversation_is_named_by_how_it_opened(
    first: list[Message], second: list[Message], same: bool
) -> None:
    assert (opening_of(Counted(first)) == opening_of(Counted(second))) is same
