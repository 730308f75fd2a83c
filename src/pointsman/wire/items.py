"""One decoded item of a request's message list, in any wire format, as a ``Message``.

Nothing here raises: what an agent sent goes upstream whatever it is, so an item of the wrong shape is read as
far as it can be and the rest is left out. Thinking and reasoning are left out on purpose: they are never
evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from pointsman.vocabulary import Message, Role, ToolCall, ToolResult, WireFormat

__all__ = ["read_item", "read_kind", "read_role", "read_texts"]

#: By plain name: Python 3.11 finds a member of an enum through a descriptor, 0.15 µs each time.
_TOOL: Final = Role.TOOL

_ROLES: Final = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,  # chat, before tools
}

#: Where the text of a block stands, by the block's type.
_TEXT_FIELDS: Final = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "summary_text": "text",
    "refusal": "refusal",
}
_IMAGES: Final = frozenset({"image", "image_url", "input_image", "computer_screenshot"})


def read_role(role: object) -> Role:
    """The role a message names. An unknown one is TOOL: neither the user's words nor the model's."""
    return _ROLES.get(role, _TOOL) if isinstance(role, str) else _TOOL


def read_kind(kind: str) -> Role:
    """Whose an item of the Responses format is that is no message: a tool's output, or else the model's."""
    return Role.TOOL if kind.endswith("_output") else Role.ASSISTANT


def read_item(wire: WireFormat, item: object) -> Message:
    """Read one item of ``messages`` or ``input``, already decoded from JSON."""
    return _READERS[wire](item) if isinstance(item, dict) else Message(Role.TOOL)


def read_texts(content: object) -> tuple[str, ...]:
    """The text blocks of a content field: a string, a list of blocks, or anything else (no text)."""
    return _content(content)[0]


def _content(content: object) -> tuple[tuple[str, ...], int]:
    """Text blocks in order, and the number of images."""
    if isinstance(content, str):
        return (content,) if content else (), 0
    texts: list[str] = []
    images = 0
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict):
            kind = block.get("type")
            text = block.get(_TEXT_FIELDS.get(kind, "text") if isinstance(kind, str) else "text")
            if isinstance(text, str):
                texts.append(text)
            images += kind in _IMAGES if isinstance(kind, str) else 0
    return tuple(texts), images


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _json(value: object) -> str:
    """Arguments or output as text: a string as it is, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _chat(item: Mapping[str, Any]) -> Message:
    role = read_role(item.get("role"))
    texts, images = _content(item.get("content"))
    if role is Role.TOOL:
        # A function result of the time before tools has a name and no id; its call is read the same way.
        call_id = _string(item.get("tool_call_id")) or _string(item.get("name"))
        error = item.get("is_error")  # not in the format, but recorded runs have it
        result = ToolResult(call_id, "\n".join(texts), error if isinstance(error, bool) else None)
        return Message(role, results=(result,), images=images)
    calls = [_chat_call(call) for call in _objects(item.get("tool_calls"))]
    if legacy := _object(item.get("function_call")):
        name = _string(legacy.get("name"))
        calls.append(ToolCall(name, name, _json(legacy.get("arguments"))))
    return Message(role, texts, tuple(calls), images=images)


def _chat_call(call: Mapping[str, Any]) -> ToolCall:
    body = _object(call.get("function")) or _object(call.get("custom"))
    arguments = body.get("arguments", body.get("input"))
    return ToolCall(_string(call.get("id")), _string(body.get("name")), _json(arguments))


def _responses(item: Mapping[str, Any]) -> Message:
    kind = item.get("type", "message")
    if kind == "message":
        texts, images = _content(item.get("content"))
        return Message(read_role(item.get("role")), texts, images=images)
    if not isinstance(kind, str):
        return Message(Role.TOOL)
    if kind.endswith("_output"):
        return _responses_output(item)
    if kind.endswith("_call"):
        return _responses_call(item, kind)
    return Message(read_kind(kind))  # reasoning, references, compaction: no evidence


def _responses_call(item: Mapping[str, Any], kind: str) -> Message:
    call_id = _string(item.get("call_id")) or _string(item.get("id"))
    name = _string(item.get("name")) or kind.removesuffix("_call")
    fields = ("arguments", "input", "action", "operation", "queries", "code")
    arguments = next((item[field] for field in fields if item.get(field) is not None), None)
    results: tuple[ToolResult, ...] = ()
    if kind == "mcp_call" and (item.get("output") is not None or item.get("error") is not None):
        error = item.get("error")  # a call the provider ran itself carries its own result
        results = (ToolResult(call_id, _json(error or item.get("output")), is_error=bool(error)),)
    return Message(Role.ASSISTANT, calls=(ToolCall(call_id, name, _json(arguments)),), results=results)


def _responses_output(item: Mapping[str, Any]) -> Message:
    output = item.get("output")
    texts, images = _content(output)
    is_error: bool | None = None
    if item.get("type") == "shell_call_output":
        entries = _objects(output)
        texts = tuple(_string(e.get("stdout")) + _string(e.get("stderr")) for e in entries)
        is_error = any(_object(e.get("outcome")).get("exit_code") not in {0, None} for e in entries)
    text = "\n".join(texts) if texts or images else _json(output)
    result = ToolResult(_string(item.get("call_id")), text, is_error)
    return Message(Role.TOOL, results=(result,), images=images)


def _messages(item: Mapping[str, Any]) -> Message:
    role = read_role(item.get("role"))
    content = item.get("content")
    texts, images = _content(content)
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for block in _objects(content):
        kind = _string(block.get("type"))
        if kind.endswith("tool_use"):  # tool_use, server_tool_use, mcp_tool_use
            calls.append(
                ToolCall(_string(block.get("id")), _string(block.get("name")), _json(block.get("input")))
            )
        elif kind.endswith("tool_result"):  # tool_result, web_search_tool_result, mcp_tool_result, …
            result, pictures = _messages_result(block)
            results.append(result)
            images += pictures
    if role is Role.USER and results and len(results) == len(content or ()):
        role = Role.TOOL
    return Message(role, texts, tuple(calls), tuple(results), images)


def _messages_result(block: Mapping[str, Any]) -> tuple[ToolResult, int]:
    content = block.get("content")
    texts, images = _content(content)
    # A provider's own tools say that they failed in the type of the content, not in ``is_error``.
    failed = _string(_object(content).get("type")).endswith("_error")
    text = "\n".join(texts) if texts or images else _json(content)
    return ToolResult(
        _string(block.get("tool_use_id")), text, block.get("is_error") is True or failed
    ), images


_READERS: Final[Mapping[WireFormat, Callable[[Mapping[str, Any]], Message]]] = {
    WireFormat.CHAT: _chat,
    WireFormat.RESPONSES: _responses,
    WireFormat.MESSAGES: _messages,
}
