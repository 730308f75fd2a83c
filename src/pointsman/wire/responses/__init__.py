"""Responses: ``POST /v1/responses``.

Some items of a request are no part of the conversation. For its newest models Codex leaves ``tools`` out and
offers them by an item of type ``additional_tools``, and repeats the effort in one of type
``configuration_update``: so the beginning of a request stays the same, and cached, when they change.

With OpenAI's base URL Codex sends ``compaction_trigger`` as the last item and expects one item of type
``compaction`` in return, with content that only its provider can read. A model of another provider is asked
for a summary instead. The item holds it, marked as the gateway's, and is read as a user's message when it
comes back (docs/notebook/0128).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.json import encode as _encode

from pointsman.decoding import UNREADABLE, decode_items, decode_text, decoded_or
from pointsman.vocabulary import ASSISTANT, History, Message, Role, ToolCall, ToolResult, WireFormat
from pointsman.wire import _openai as openai
from pointsman.wire import sse
from pointsman.wire.conversation import Usage
from pointsman.wire.format import (
    CompletionSummary,
    End,
    Ending,
    Fault,
    Format,
    Insertion,
    Item,
    Member,
    Members,
    WithUsage,
    objects,
)
from pointsman.wire.items import (
    as_json,
    before_quote,
    decode_head,
    leading_system,
    mapping,
    mappings,
    message_role,
    new_item,
    read_content,
    read_plain,
    read_role,
    read_texts,
    string,
    words,
)

__all__ = ["RESPONSES"]


#: Reads a ``usage`` member; None if it is absent or of another shape.
read_usage: Final = openai.usage_reader({})


def read_completion(answer: bytes) -> tuple[CompletionSummary, str]:
    """Read a whole answer, or all events of a streamed one."""
    last: Mapping[str, Any] = {}
    for event in objects(answer):
        last = mapping(event.get("response")) or (event if event.get("status") else last)
    why = mapping(last.get("incomplete_details")).get("reason") or last.get("status")
    items = mappings(last.get("output"))
    tools = [string(item.get("name")) for item in items if item.get("type") == "function_call"]
    said = [words(item.get("content")) for item in items if item.get("type") == "message"]
    return CompletionSummary(string(why), tuple(filter(None, tools))), "".join(said)


# A streamed answer of the Responses format: how it ended.

#: The events after which a response changes no more.
_FINAL: Final = frozenset({"response.completed", "response.incomplete"})
_REFUSED: Final = frozenset({"response.failed", "error"})
_NUMBER: Final = re.compile(rb'"sequence_number"\s*:\s*(\d+)')


class _StreamEvent(msgspec.Struct, gc=False):
    type: str = ""
    response: WithUsage | None = None


_decode_event: Final = msgspec.json.Decoder(_StreamEvent).decode


def end(blocks: Sequence[bytes]) -> End:
    """Say how a stream ended, from its first block of events and its last few."""
    for event in sse.decoded(b"".join(blocks), _decode_event):
        if event.type in _FINAL:
            reported = read_usage(event.response.usage) if event.response else None
            return End(Ending.COMPLETE, reported or Usage())
        if event.type in _REFUSED:
            return End(Ending.REFUSED)
    return End(Ending.CUT)


def error_event(fault: Fault, blocks: Sequence[bytes]) -> bytes:
    """Return the event that ends a failed stream; ``blocks`` are the first and last blocks of the stream."""
    numbers = _NUMBER.findall(b"".join(blocks))
    error = openai.error_object(fault)
    # The documented event is flat, the one on the wire holds an object: clients look for either.
    event = {"type": "error", "sequence_number": int(numbers[-1]) + 1 if numbers else 0}
    event |= {key: error[key] for key in ("code", "message", "param")} | {"error": error}
    return sse.event(_encode(event), "error")


# A request: its members, and one of its items.

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
        decode_text(items)
        return before_quote(len(items.rstrip()), text)
    content = [{"type": "input_text", "text": text}]
    return new_item(items, {"type": "message", "role": "user", "content": content})


def role_of(item: Item) -> Role:
    """The role of an item that is not decoded. Raises ``UNREADABLE``."""
    if item is PASSED:  # a long chain is hundreds of these
        return ASSISTANT
    head = decode_head(item)
    return message_role(head) if head.type == "message" else _kind_role(head.type)


def _kind_role(kind: str) -> Role:
    """The role of an item that is no message: a tool's output, the agent's settings, or else the model's."""
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


# Items that are no part of the conversation: settings, and the compaction of it.
_TOOLS: Final = "additional_tools"
_UPDATE: Final = "configuration_update"
#: Types of these items.
SETTINGS: Final = frozenset({_TOOLS, _UPDATE})
_TRIGGER: Final = "compaction_trigger"
_COMPACTION: Final = "compaction"
_MARKS: Final = tuple(f'"{kind}"'.encode() for kind in (_TOOLS, _UPDATE, _TRIGGER, _COMPACTION))


class _Reasoning(msgspec.Struct, gc=False):
    effort: str | None = None


class StoredItem(msgspec.Struct, gc=False):
    """The members that the gateway reads of compactions, references, and the items of an answer."""

    type: str | None = None
    id: str | None = None
    encrypted_content: str | None = None


class _SettingsItem(msgspec.Struct, gc=False):
    tools: list[msgspec.Raw] = []
    reasoning: _Reasoning | None = None


class Settings(msgspec.Struct, frozen=True, gc=False):
    """What such items hold, and the conversation without them."""

    rest: msgspec.Raw  # of ``input``
    tools: tuple[msgspec.Raw, ...] = ()
    effort: str = ""  # of the last that names one
    compacts: bool = False  # the answer is to be a compaction


NO_SETTINGS: Final = Settings(msgspec.Raw())


class _Type(msgspec.Struct, gc=False):
    type: str | None = None


class _Offer(msgspec.Struct, gc=False):
    tools: msgspec.Raw = msgspec.Raw()


_decode_type: Final = msgspec.json.Decoder(_Type).decode
_decode_settings: Final = msgspec.json.Decoder(_SettingsItem).decode
decode_item: Final = msgspec.json.Decoder(StoredItem).decode
_decode_offer: Final = msgspec.json.Decoder(_Offer).decode
#: Bytes at the beginning of an item among which its type is looked for.
_HEAD: Final = 200


def begins_with_settings(given: msgspec.Raw) -> bool:
    """Whether the first item of ``input`` may be one: Codex sends its tools there."""
    return _MARKS[0] in bytes(memoryview(given)[:_HEAD])


def holds_settings(given: bytes) -> bool:
    """Whether ``input`` may hold such items: a search of 0.1 ms in 70 kB, for what cannot be read quickly."""
    return any(mark in given for mark in _MARKS)


def additional_tools(first: msgspec.Raw) -> msgspec.Raw | None:
    """The list of tools in the first item of ``input``; None if it offers none."""
    if _MARKS[0] not in bytes(memoryview(first)[:_HEAD]):
        return None
    offer = decoded_or(None, _decode_offer, first)
    return offer.tools if offer else None


def take_settings(given: msgspec.Raw) -> Settings:
    """Read these items out of ``input``, which is left unchanged if it cannot be read."""
    rest: list[bytes] = []
    tools: list[msgspec.Raw] = []
    effort, compacts = "", False
    try:
        for raw in decode_items(given):
            kind = _decode_type(raw).type
            if kind in SETTINGS:
                item = _decode_settings(raw)
                tools += item.tools
                effort = (item.reasoning and item.reasoning.effort) or effort
            else:
                compacts = compacts or kind == _TRIGGER
                rest.append(_said(raw, kind))
    except UNREADABLE:
        return Settings(given)
    return Settings(msgspec.Raw(b"[" + b",".join(rest) + b"]"), tuple(tools), effort, compacts)


def _said(raw: msgspec.Raw, kind: str | None) -> bytes:
    """An item, or the message that replaces a compaction or the request for one."""
    if kind == _TRIGGER:
        return user_message(ASK)
    if kind == _COMPACTION:
        return said(decode_item(raw).encrypted_content or "") or bytes(raw)
    return bytes(raw)


_MARK: Final = "pointsman-summary:"
#: What the model is asked in place of the trigger.
ASK: Final = (
    "Write a summary of this conversation for a model that continues the task without seeing it. State what "
    "the user wants, what has been done and decided, what was found out (files, commands, values), and what "
    "is left to do. Answer with the summary alone and call no tools."
)
_BEFORE: Final = "Summary of the conversation before this point, written by the model that had it:\n\n"


def compaction_item(suffix: str, summary: str) -> dict[str, Any]:
    """Return the item that replaces a conversation."""
    content = base64.b64encode(summary.encode("utf-8", "surrogatepass")).decode()
    return {"type": "compaction", "id": f"cmp_{suffix}", "encrypted_content": _MARK + content}


def user_message(text: str) -> bytes:
    """Return a user's message as an item."""
    return msgspec.json.encode({"type": "message", "role": "user", "content": text})


def said(encrypted: str) -> bytes | None:
    """Return the message that an item's content replaces; None when the gateway did not write it."""
    summary = _summary(encrypted)
    return None if summary is None else user_message(summary)


def _summary(encrypted: str) -> str | None:
    if not encrypted.startswith(_MARK):
        return None
    try:
        return _BEFORE + base64.b64decode(encrypted.removeprefix(_MARK), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


RESPONSES: Final = Format(
    format=WireFormat.RESPONSES,
    folder=__name__,
    path=b"/responses",
    is_stateful=True,
    items="input",
    members=MEMBERS,
    output_limits=("max_output_tokens",),
    shapes=("text",),
    system=system,
    body=write_body,
    read_item=read_item,
    read_plain=read_plain,
    read_role=role_of,
    place=place,
    read_usage=read_usage,
    completion=read_completion,
    ids=("resp_", "call_"),
    is_error=openai.is_error,
    error=openai.write_error,
    end=end,
    refusal=openai.status_of,
    error_event=error_event,
    own_reasoning="._translation_answer",
)
