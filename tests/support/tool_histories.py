"""Histories of an agent that calls tools, in the three wire formats."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["FORMATS", "Call", "Turn", "body", "turn"]


class Call(NamedTuple):
    """A tool call and its result; None: it has none yet."""

    tool: str
    arguments: dict[str, Any]
    result: str | None = "done"
    failed: bool = False


#: The calls of one turn of the model, or what a person says.
Turn = Sequence[Call] | str


def turn(
    tool: str, arguments: dict[str, Any] | None = None, result: str | None = "done", *, failed: bool = False
) -> Turn:
    """A turn with one call."""
    return (Call(tool, arguments or {}, result, failed),)


def chat(turns: Sequence[Turn]) -> list[Any]:
    items: list[Any] = []
    for number, calls in enumerate(turns):
        if isinstance(calls, str):
            items.append({"role": "user", "content": calls})
            continue
        made = [
            {
                "id": f"c{number}-{n}",
                "type": "function",
                "function": {"name": call.tool, "arguments": json.dumps(call.arguments)},
            }
            for n, call in enumerate(calls)
        ]
        items.append({"role": "assistant", "content": None, "tool_calls": made})
        items += [
            {"role": "tool", "tool_call_id": f"c{number}-{n}", "content": _failing(call)}
            for n, call in enumerate(calls)
            if call.result is not None
        ]
    return items


def responses(turns: Sequence[Turn]) -> list[Any]:
    items: list[Any] = []
    for number, calls in enumerate(turns):
        if isinstance(calls, str):
            items.append({"role": "user", "content": [{"type": "input_text", "text": calls}]})
            continue
        items += [
            {
                "type": "function_call",
                "call_id": f"c{number}-{n}",
                "name": call.tool,
                "arguments": json.dumps(call.arguments),
            }
            for n, call in enumerate(calls)
        ]
        items += [
            {"type": "function_call_output", "call_id": f"c{number}-{n}", "output": _failing(call)}
            for n, call in enumerate(calls)
            if call.result is not None
        ]
    return items


def messages(turns: Sequence[Turn]) -> list[Any]:
    items: list[Any] = []
    for number, calls in enumerate(turns):
        if isinstance(calls, str):
            items.append({"role": "user", "content": calls})
            continue
        uses = [
            {"type": "tool_use", "id": f"c{number}-{n}", "name": call.tool, "input": call.arguments}
            for n, call in enumerate(calls)
        ]
        results = [
            {
                "type": "tool_result",
                "tool_use_id": f"c{number}-{n}",
                "content": call.result,
                "is_error": call.failed,
            }
            for n, call in enumerate(calls)
            if call.result is not None
        ]
        items.append({"role": "assistant", "content": uses})
        if results:
            items.append({"role": "user", "content": results})
    return items


def _failing(call: Call) -> str:
    """Formats without a field for it show a failure in the text."""
    return f"Error: {call.result}" if call.failed else str(call.result)


#: Path, field of the history, and writer, by format.
FORMATS: dict[str, tuple[str, str, Callable[[Sequence[Turn]], list[Any]]]] = {
    "chat": ("/v1/chat/completions", "messages", chat),
    "responses": ("/v1/responses", "input", responses),
    "messages": ("/v1/messages", "messages", messages),
}

_TOOLS: dict[str, Any] = {
    "chat": {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}},
    "responses": {"type": "function", "name": "bash", "parameters": {"type": "object"}},
    "messages": {"name": "bash", "input_schema": {"type": "object"}},
}


def body(wire: str, turns: Sequence[Turn], *, tools: bool = True) -> dict[str, Any]:
    """A request that sends this history."""
    _, field, write = FORMATS[wire]
    request = {"model": "auto", field: write(turns), "max_tokens": 10}
    return {**request, "tools": [_TOOLS[wire]]} if tools else request
