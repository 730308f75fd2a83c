"""A Responses request: its members, and one of its items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pointsman.vocabulary import History, Message, Role, ToolCall, ToolResult
from pointsman.wire._items import (
    Head,
    as_json,
    leading_system,
    mapping,
    mappings,
    message_role,
    read_content,
    read_role,
    read_texts,
    string,
)
from pointsman.wire.format import Insertion, Item, Member, Members
from pointsman.wire.insertion import before_quote, new_item
from pointsman.wire.responses._settings_items import SETTINGS

__all__ = ["MEMBERS", "PASSED", "place", "read_item", "role_of", "system", "write_body"]

_ASSISTANT: Final = Role.ASSISTANT  # by plain name: see ``items``

#: Stands in a history for an item of the provider's keeping that nothing looks at: reads as one of the
#: model's that holds no words and no calls.
PASSED: Final = b'{"type":"reasoning"}'


#: Members that OpenAI documents, and those that Codex and routers add.
MEMBERS: Final = Members.of(
    "input",
    list[msgspec.Raw] | str | None,
    "background context_management conversation include instructions max_output_tokens max_tool_calls "
    "metadata parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_retention "
    "reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice "
    "tools top_logprobs top_p truncation user "
    # Codex, OpenRouter
    "client_metadata models provider frequency_penalty presence_penalty",
    is_required=False,  # absent where the caller names a stored prompt
)


_decode_head: Final = msgspec.json.Decoder(Head).decode
_decode_text: Final = msgspec.json.Decoder(str).decode


def system(member: Member, history: History) -> str:
    """The instructions, and the system messages at the beginning."""
    instructions = member("instructions")
    texts = read_texts(msgspec.json.decode(instructions)) if instructions is not None else ()
    return "\n\n".join(part for part in ("\n\n".join(texts), leading_system(member, history)) if part)


def write_body(items: Sequence[Any], system: str) -> dict[str, Any]:
    """Items and a system text as a body."""
    return {"input": items, "instructions": system or None}


def place(items: bytes, last: Item | None, text: str) -> Insertion | None:  # noqa: ARG001 - an item of its own
    """Find where a text goes at the end of ``input``, given as JSON. Raises ``UNREADABLE``."""
    if items.lstrip().startswith(b'"'):
        _decode_text(items)
        return before_quote(len(items.rstrip()), text)
    content = [{"type": "input_text", "text": text}]
    return new_item(items, {"type": "message", "role": "user", "content": content})


def role_of(item: Item) -> Role:
    """Whose an item is that is not decoded. Raises ``UNREADABLE``."""
    if item is PASSED:  # a long chain is hundreds of these
        return _ASSISTANT
    head = _decode_head(item)
    return message_role(head) if head.type == "message" else _kind_role(head.type)


def _kind_role(kind: str) -> Role:
    """Whose an item is that is no message: a tool's output, the agent's settings, or else the model's."""
    if kind in SETTINGS:
        return Role.SYSTEM
    return Role.TOOL if kind.endswith("_output") else Role.ASSISTANT


def read_item(item: Mapping[str, Any]) -> Message:
    """Read one item, already decoded from JSON."""
    kind = item.get("type", "message")
    if kind == "message":
        texts, images = read_content(item.get("content"))
        return Message(read_role(item.get("role")), texts, images=images)
    if not isinstance(kind, str):
        return Message(Role.TOOL)
    if kind.endswith("_output"):
        return _output(item)
    if kind.endswith("_call"):
        return _call(item, kind)
    return Message(_kind_role(kind))  # reasoning, references, compaction: no evidence


def _call(item: Mapping[str, Any], kind: str) -> Message:
    call_id = string(item.get("call_id")) or string(item.get("id"))
    name = string(item.get("name")) or kind.removesuffix("_call")
    fields = ("arguments", "input", "action", "operation", "queries", "code")
    arguments = next((item[field] for field in fields if item.get(field) is not None), None)
    results: tuple[ToolResult, ...] = ()
    if kind == "mcp_call" and (item.get("output") is not None or item.get("error") is not None):
        error = item.get("error")  # a call the provider ran itself carries its own result
        results = (ToolResult(call_id, as_json(error or item.get("output")), is_error=bool(error)),)
    return Message(Role.ASSISTANT, calls=(ToolCall(call_id, name, as_json(arguments)),), results=results)


def _output(item: Mapping[str, Any]) -> Message:
    output = item.get("output")
    texts, images = read_content(output)
    is_error: bool | None = None
    if item.get("type") == "shell_call_output":
        entries = mappings(output)
        texts = tuple(string(e.get("stdout")) + string(e.get("stderr")) for e in entries)
        is_error = any(mapping(e.get("outcome")).get("exit_code") not in {0, None} for e in entries)
    text = "\n".join(texts) if texts or images else as_json(output)
    result = ToolResult(string(item.get("call_id")), text, is_error)
    return Message(Role.TOOL, results=(result,), images=images)
