"""Slash commands at the beginning of a user's message: ``/caps:off``, ``/task:off``, ``/chat``.

Only these are removed; every other command, and a slash anywhere else, is left unchanged. Source:
docs/sources/classification-and-routing.md, "Bypass of capability selection".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final

import msgspec

from pointsman.capabilities._registry import (
    Capability,
    CapabilityRegistry,
    ClassifierExample,
    TaskClassifierGuide,
)
from pointsman.capabilities.calibration import Calibration
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import ConfigError


def switch_pattern(end_of_line: str) -> str:
    """The command that turns selection on or off: its value is the first group, its scope the second.

    Without a value, and with "session" behind a space, it is one only where its line ends.
    """
    value = ":(on|off|enabled|disabled|true|false)"
    scope = f":session|[ ]session(?={end_of_line})"
    return f"/(?:caps|capabilities)(?:{value}({scope})?|(?={end_of_line}))"


_IN_WORDS: Final = re.compile(r"\s*" + switch_pattern(r"\s*(?:\n|$)") + r"(?:\s+|$)", re.IGNORECASE)

_NAMES: Final = frozenset({"caps", "task", "chat"})
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
    """Changes of a run by commands. None: the configured value."""

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
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Switches(*(mine if mine is not None else theirs for mine, theirs in pairs))

    def update(self) -> Mapping[str, bool]:
        """The state keys to set; unchanged switches are absent, so no configured value is erased."""
        keys = ("control_capability_bypass", "control_task_bypass", "control_direct_chat")
        return {key: value for key, value in zip(keys, astuple(self), strict=True) if value is not None}


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
        The command in its one spelling, as ``/caps:off:session``, empty if there is none; and the rest.
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
    if name not in _NAMES or scope not in {"", "session"} or (":" in word and not value):
        return None
    if not value:
        return Command(name, on=_BARE)
    if value not in _ON | _OFF:
        return None
    return Command(name, on=value in _ON, session=scope == "session")


# Capabilities and calibrations written as JSON.


class _Example(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    result: bool = True
    reason: str = ""


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    instructions: str
    examples: list[_Example] = []
    provides: list[str] = []
    requires: list[str] = []
    always_active: bool = False
    needs_approval: bool = False


def parse_capabilities(data: bytes | str, place: str) -> CapabilityRegistry:
    """Read a JSON list of capabilities.

    Raises:
        ConfigError: it is none, or an entry is wrong; the message names the place and the entry.
    """
    try:
        entries = msgspec.json.decode(data, type=list[msgspec.Raw])
    except UNREADABLE as error:
        raise ConfigError(f"not a JSON list of capabilities: {why_unreadable(error)}", place=place) from error
    return CapabilityRegistry(_capability(place, at, raw) for at, raw in enumerate(entries))


def parse_calibration(data: bytes | str, place: str) -> Calibration:
    """Read a calibration, as ``pointsman fit capabilities`` writes it.

    Raises:
        ConfigError: it is something else.
    """
    try:
        return Calibration.from_json(msgspec.json.decode(data, type=dict[str, Any]))
    except UNREADABLE as error:
        raise ConfigError(f"not JSON: {why_unreadable(error)}", place=place) from error


def _capability(place: str, at: int, raw: msgspec.Raw) -> Capability:
    try:
        record = msgspec.json.decode(raw, type=_Record)
        examples = [ClassifierExample(each.query, each.result, each.reason) for each in record.examples]
        return Capability(
            record.name,
            TaskClassifierGuide(record.instructions, examples),
            record.provides,
            record.requires,
            record.always_active,
            record.needs_approval,
        )
    except (ValueError, ConfigError) as error:
        raise ConfigError(f"capability {at + 1}: {error}", place=place) from error
