"""Conversations of a stuck agent in each wire format, as an agent would resend them."""

import json
from collections.abc import Iterator
from typing import Any

from pointsman.vocabulary import WireFormat

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES


def say(wire: WireFormat, text: str) -> dict[str, Any]:
    item = {"role": "user", "content": text}
    return {"type": "message", **item} if wire is RESPONSES else item


def call(
    wire: WireFormat, number: int, result: str, *, failed: bool = True, arguments: str | None = None
) -> list[dict[str, Any]]:
    """One turn of the agent: a call of ``edit``, and what came back."""
    text = json.dumps({"n": number}) if arguments is None else arguments
    name, ident = "edit", f"call_{number}"
    if wire is CHAT:
        made = {"id": ident, "type": "function", "function": {"name": name, "arguments": text}}
        content = f"Error: {result}" if failed else result
        return [
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": ident, "content": content},
        ]
    if wire is RESPONSES:
        output = f"Exit code: {int(failed)}\nOutput:\n{result}"
        return [
            {"type": "function_call", "call_id": ident, "name": name, "arguments": text},
            {"type": "function_call_output", "call_id": ident, "output": output},
        ]
    use = {"type": "tool_use", "id": ident, "name": name, "input": {"n": number, "raw": arguments}}
    back = {"type": "tool_result", "tool_use_id": ident, "content": result, "is_error": failed}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [back]}]


def requests(wire: WireFormat, turns: int, result: str = "no such file") -> Iterator[list[dict[str, Any]]]:
    """The history of each request of an agent whose every call fails."""
    history = [say(wire, "go")]
    yield list(history)
    for number in range(turns):
        history += call(wire, number, result)
        yield list(history)
