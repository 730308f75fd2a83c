"""The local shell of Responses: its calls hold an action where a function has arguments."""

from __future__ import annotations

import shlex
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE

__all__ = ["shell_action", "shell_arguments"]

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def shell_action(arguments: str) -> dict[str, Any]:
    """Return the action of a call from a function's arguments; malformed ones become the command as text."""
    try:
        found = _decode(arguments or "{}")
    except UNREADABLE:
        found = {"command": [arguments]}
    command = found.get("command")
    if isinstance(command, str):
        found["command"] = _words(command)
    elif not isinstance(command, list):
        found["command"] = []
    return {"type": "exec", "env": {}, **found}


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quotation without an end
        return [command]


def shell_arguments(action: msgspec.Raw) -> str:
    """Return an action as the arguments of a function. Raises ``UNREADABLE``."""
    found = _decode(bytes(action) or b"{}")
    found.pop("type", None)
    given = {name: value for name, value in found.items() if value not in (None, {})}
    return msgspec.json.encode(given).decode()
