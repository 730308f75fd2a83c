"""Slash commands at the beginning of what a person says: ``/caps:off``, ``/task:off``, ``/chat``.

Only these are removed; every other command, and a slash anywhere else, is left unchanged. Source:
docs/sources/classification-and-routing.md, "Bypass of capability selection".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["Command", "Switches", "parse_commands", "switch_pattern", "take_switch"]


def switch_pattern(end_of_line: str) -> str:
    """The command that turns selection on or off: its value is the first group, its scope the second.

    Without a value, and with "session" behind a space, it is one only where its line ends.
    """
    value = ":(on|off|enabled|disabled|true|false)"
    scope = f":session|[ ]session(?={end_of_line})"
    return f"/(?:caps|capabilities)(?:{value}({scope})?|(?={end_of_line}))"


_IN_WORDS: Final = re.compile(r"\s*" + switch_pattern(r"\s*(?:\n|$)") + r"(?:\s+|$)", re.IGNORECASE)

_ALIASES: Final = {"caps": "caps", "capabilities": "caps", "task": "task", "chat": "chat"}
_ON: Final = frozenset({"on", "enabled", "true"})
_OFF: Final = frozenset({"off", "disabled", "false"})
#: What a command without a value means: ``/chat`` alone starts a direct chat, ``/caps`` alone turns
#: selection on.
_BARE: Final = True


@dataclass(frozen=True, slots=True)
class Command:
    """One command, as given: ``/caps:off`` is ``Command("caps", on=False)``. A session's stays."""

    name: str
    on: bool
    session: bool = False


@dataclass(frozen=True, slots=True)
class Switches:
    """What commands change about a run. None leaves what is configured as it is."""

    capability_bypass: bool | None = None
    task_bypass: bool | None = None
    direct_chat: bool | None = None

    @classmethod
    def of(cls, commands: tuple[Command, ...]) -> Switches:
        """The switches a message's commands set; the last of a name counts. Off means bypassed."""
        last = {command.name: command.on for command in commands}
        return cls(
            capability_bypass=not last["caps"] if "caps" in last else None,
            task_bypass=not last["task"] if "task" in last else None,
            direct_chat=last.get("chat"),
        )

    def over(self, other: Switches) -> Switches:
        """These switches where set, the other's where not: message over session over configuration."""
        pairs = zip(self._all(), other._all(), strict=True)
        return Switches(*(mine if mine is not None else theirs for mine, theirs in pairs))

    def update(self) -> Mapping[str, bool]:
        """The state keys to set; switches nobody touched are absent, so no configured value is erased."""
        keys = ("control_capability_bypass", "control_task_bypass", "control_direct_chat")
        return {key: value for key, value in zip(keys, self._all(), strict=True) if value is not None}

    def _all(self) -> tuple[bool | None, bool | None, bool | None]:
        return self.capability_bypass, self.task_bypass, self.direct_chat


def parse_commands(text: str) -> tuple[tuple[Command, ...], str]:
    """Take the known commands off the beginning of a message.

    ``/caps:off`` is for this message, ``/caps:off:session`` until changed; so is ``/caps:off session``, at
    the end of its line. An unknown command or value ends
    the reading and stays in the text.

    Returns:
        The commands in order, and the rest of the message.
    """
    commands: list[Command] = []
    rest = text
    while True:
        switch, after = take_switch(rest)
        word = switch or (rest.split(maxsplit=1) or [""])[0]
        if (command := _command(word)) is None or (command.name == "caps" and not switch):
            return tuple(commands), rest if commands else text
        commands.append(command)
        rest = after if switch else rest.lstrip()[len(rest.split(maxsplit=1)[0]) :].lstrip()


def take_switch(text: str) -> tuple[str, str]:
    """Take ``/caps:…`` off the beginning of a message.

    Returns:
        The command in its one spelling, as ``/caps:off:session``, empty where there is none; and the rest.
    """
    found = _IN_WORDS.match(text)
    if found is None:
        return "", text
    return f"/caps:{(found[1] or 'on').lower()}{':session' if found[2] else ''}", text[found.end() :]


def _command(word: str) -> Command | None:
    if not word.startswith("/"):
        return None
    name, _, value = word[1:].lower().partition(":")
    value, _, scope = value.partition(":")
    if name not in _ALIASES or scope not in {"", "session"} or (":" in word and not value):
        return None
    if not value:
        return Command(_ALIASES[name], on=_BARE)
    if value not in _ON | _OFF:
        return None
    return Command(_ALIASES[name], on=value in _ON, session=scope == "session")
