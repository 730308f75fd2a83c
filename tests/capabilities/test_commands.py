"""Slash commands: the ones that are ours, and everything that is not a command."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pointsman.capabilities import Command, Switches, parse_commands


@pytest.mark.parametrize(
    ("text", "commands", "rest"),
    [
        ("/caps:off", [Command("caps", on=False)], ""),
        ("/caps:off what now", [Command("caps", on=False)], "what now"),
        ("/capabilities:disabled go", [Command("caps", on=False)], "go"),
        ("/caps:enabled go", [Command("caps", on=True)], "go"),
        ("/CAPS:False go", [Command("caps", on=False)], "go"),
        ("/caps:true go", [Command("caps", on=True)], "go"),
        ("/caps:off:session go", [Command("caps", on=False, session=True)], "go"),
        ("/task:off /caps:off  do it", [Command("task", on=False), Command("caps", on=False)], "do it"),
        ("/chat hello", [Command("chat", on=True)], "hello"),
        ("  /chat\nhello\n  there", [Command("chat", on=True)], "hello\n  there"),
    ],
)
def test_commands_are_taken_off_the_beginning(text: str, commands: list[Command], rest: str) -> None:
    assert parse_commands(text) == (tuple(commands), rest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "hello",
        "/capsule launch",
        "/caps:maybe go",
        "/caps: go",
        "/caps:off:forever go",
        "/review this",
        "/planning:off go",
        "what does /caps:off do?",
        "/usr/bin/env python",
        "//caps:off",
        "/",
    ],
)
def test_everything_else_is_left_as_it_was(text: str) -> None:
    assert parse_commands(text) == ((), text)


def test_an_unknown_command_ends_the_reading() -> None:
    assert parse_commands("/caps:off /model gpt x") == ((Command("caps", on=False),), "/model gpt x")


@given(st.text())
def test_nothing_is_lost_but_commands(text: str) -> None:
    commands, rest = parse_commands(text)
    assert text.endswith(rest)
    if not commands:
        assert rest == text


def test_off_means_bypassed_and_the_last_word_counts() -> None:
    commands, _ = parse_commands("/caps:off /caps:on /task:off /chat:off")
    assert Switches.of(commands) == Switches(capability_bypass=False, task_bypass=True, direct_chat=False)


def test_a_message_goes_over_the_session_and_neither_erases_what_is_configured() -> None:
    configured = Switches(capability_bypass=True)
    session = Switches(task_bypass=True)
    message = Switches(direct_chat=True)
    merged = message.over(session).over(configured)
    assert merged.update() == {
        "control_capability_bypass": True,
        "control_task_bypass": True,
        "control_direct_chat": True,
    }
    assert Switches(capability_bypass=False).over(configured).capability_bypass is False
    assert not Switches().update()
