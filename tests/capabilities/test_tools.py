"""Tools of a request: fewer, in order, stable within a loop, never one that was called."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from pointsman.capabilities import ToolMemory, ToolSelector

TOOLS = [
    ("get_weather", "Current weather and forecast of a city"),
    ("send_mail", "Send an e-mail to a person"),
    ("read_file", "Read a file from disk"),
    ("run_shell", "Run a shell command"),
    ("search_web", "Search the web for a query"),
]
NAMES = tuple(name for name, _ in TOOLS)
SELECTOR = ToolSelector(at_most=2)


def test_the_likeliest_are_kept_in_the_requests_order() -> None:
    choice = SELECTOR.choose(TOOLS, "what is the weather forecast for Rome, and mail it to Eva")
    assert choice.kept == ("get_weather", "send_mail")
    assert choice.refused(["get_weather", "run_shell"]) == ("run_shell",)


def test_few_tools_are_all_kept() -> None:
    assert SELECTOR.choose(TOOLS[:2], "x").kept == NAMES[:2]


def test_within_a_loop_the_set_does_not_change() -> None:
    first = SELECTOR.choose(TOOLS, "weather in Rome")
    for called in ([], ["get_weather"]):
        again = SELECTOR.choose(TOOLS, "weather in Rome", called=called, memory=first.memory)
        assert again.kept == first.kept


@pytest.mark.parametrize(
    ("task", "offered", "kept"),
    [
        ("weather in Rome", NAMES, ("run_shell",)),  # the same loop: what was chosen, not what would be
        ("the weather in Rome", NAMES, ("get_weather", "search_web")),  # the person has spoken
        ("weather in Rome", NAMES[:4], ("get_weather", "search_web")),  # another offer
    ],
)
def test_a_loop_keeps_what_was_chosen_for_it(
    task: str, offered: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    memory = ToolMemory(task="weather in Rome", offered=offered, kept=("run_shell",))
    assert set(SELECTOR.choose(TOOLS, task, memory=memory).kept) == set(kept)


def test_a_tool_already_called_stays_when_the_person_speaks_again() -> None:
    first = SELECTOR.choose(TOOLS, "weather in Rome")
    second = SELECTOR.choose(TOOLS, "read the file notes.txt", called=["get_weather"], memory=first.memory)
    assert {"get_weather", "read_file"} <= set(second.kept)


def test_a_forced_tool_is_kept_and_another_offer_is_chosen_from_anew() -> None:
    first = SELECTOR.choose(TOOLS, "weather in Rome", forced="run_shell")
    assert "run_shell" in first.kept
    fewer = SELECTOR.choose(TOOLS[2:], "weather in Rome", memory=first.memory)
    assert set(fewer.kept) <= set(NAMES[2:])


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=40), st.lists(st.sampled_from(NAMES), max_size=3), st.sampled_from(["", *NAMES]))
def test_kept_tools_are_offered_ones_in_order_with_all_that_were_called(
    task: str, called: list[str], forced: str
) -> None:
    choice = SELECTOR.choose(TOOLS, task, called=called, forced=forced, memory=ToolMemory())
    assert choice.kept == tuple(name for name in NAMES if name in choice.kept)
    assert {*called, forced} - {""} <= set(choice.kept)
