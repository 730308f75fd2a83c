"""Calls of tools that OpenAI's models know and the caller runs: each has an item of its own in Responses.

Other formats are offered these tools as functions (``wire.client_tools``). Here a call's arguments become the
item's action, and the other way round. Malformed arguments become an action that the caller can refuse, so
that the model reads why.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire.client_tools import APPLY_PATCH, COMPUTER, COMPUTER_PREVIEW, LOCAL_SHELL, SHELL

__all__ = ["CALLS", "OUTPUTS", "action_of", "arguments_of", "call_type", "id_prefix"]

_Members = dict[str, Any]

#: The tool of each type of call. Both versions of the computer have the same.
CALLS: Final[Mapping[str, str]] = {
    f"{tool}_call": tool for tool in (LOCAL_SHELL, SHELL, APPLY_PATCH, COMPUTER)
}
OUTPUTS: Final = frozenset(f"{call}_output" for call in CALLS)

_decode: Final = msgspec.json.Decoder(_Members).decode
_decode_list: Final = msgspec.json.Decoder(list[_Members]).decode


class _BuiltIn(NamedTuple):
    prefix: str  # of an item's id
    call: str  # type of a call's item
    action: Callable[[_Members, str], _Members]  # from arguments: decoded, or as text if malformed


def action_of(tool: str, arguments: str) -> _Members:
    """Return the members of a call's item that say what is to be done."""
    try:
        found = _decode(arguments or "{}")
    except UNREADABLE:
        return _TOOLS[tool].action({}, arguments)
    return _TOOLS[tool].action(found, "")


def call_type(tool: str) -> str:
    """Return the type of a call's item."""
    return _TOOLS[tool].call


def id_prefix(tool: str) -> str:
    """Return how the id of a call's item begins."""
    return _TOOLS[tool].prefix


def arguments_of(action: msgspec.Raw, actions: msgspec.Raw, operation: msgspec.Raw) -> str:
    """Return the action of a call's item as the arguments of a function. Raises ``UNREADABLE``."""
    if bytes(operation):
        return bytes(operation).decode()
    if bytes(actions):
        return msgspec.json.encode({"actions": _decode_list(actions)}).decode()
    found = _decode(bytes(action) or b"{}")
    if found.get("type", "exec") != "exec":  # of a computer
        return msgspec.json.encode({"actions": [found]}).decode()
    given = {name: value for name, value in found.items() if name != "type" and value not in (None, {})}
    return msgspec.json.encode(given).decode()


def _execution(found: _Members, malformed: str) -> _Members:
    command = found.get("command")
    if malformed:
        found = {"command": [malformed]}
    elif isinstance(command, str):
        found["command"] = _words(command)
    elif not isinstance(command, list):
        found["command"] = []
    return {"action": {"type": "exec", "env": {}, **found}}


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quotation without an end
        return [command]


def _commands(found: _Members, malformed: str) -> _Members:
    commands = found.get("commands")
    if not isinstance(commands, list):
        words = malformed or commands or found.get("command") or ""
        commands = [words] if isinstance(words, str) and words else []
    limits = {name: found[name] for name in ("timeout_ms", "max_output_length") if found.get(name)}
    return {"action": {"commands": [str(each) for each in commands], **limits}}


def _operation(found: _Members, malformed: str) -> _Members:
    operation = {"type": found.get("type") or "update_file", "path": found.get("path") or ""}
    if operation["type"] != "delete_file":
        operation["diff"] = malformed or found.get("diff") or ""
    return {"operation": operation}


def _computer(found: _Members, malformed: str) -> _Members:  # noqa: ARG001 - there is no action of words alone
    actions = found.get("actions")
    if not isinstance(actions, list):
        actions = [found] if "type" in found else []
    return {"pending_safety_checks": [], "actions": actions}


def _preview(found: _Members, malformed: str) -> _Members:
    """The older version takes one action at a time; without one a screenshot changes nothing."""
    actions = _computer(found, malformed)["actions"]
    return {"pending_safety_checks": [], "action": actions[0] if actions else {"type": "screenshot"}}


_TOOLS: Final = {
    LOCAL_SHELL: _BuiltIn("lsh", "local_shell_call", _execution),
    SHELL: _BuiltIn("sh", "shell_call", _commands),
    APPLY_PATCH: _BuiltIn("apc", "apply_patch_call", _operation),
    COMPUTER: _BuiltIn("cu", "computer_call", _computer),
    COMPUTER_PREVIEW: _BuiltIn("cu", "computer_call", _preview),
}
