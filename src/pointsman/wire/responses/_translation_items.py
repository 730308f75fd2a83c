"""The items of Responses, of a request's ``input`` and of an answer's ``output``, as parts of the form.

OpenAI's models know some tools that the caller runs; a call of each has an item type in Responses. Other
formats are offered these tools as functions (``wire.tools``): a call's arguments become the item's
action, and the other way round. Malformed arguments become an action that the caller can refuse, so that the
model reads why.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from pointsman.decoding import UNREADABLE, decoded_or
from pointsman.vocabulary import Role, ToolCall, WireFormat
from pointsman.wire.constructs import MOST, YES, Known, unknown_members
from pointsman.wire.conversation import (
    SPEAKERS,
    Media,
    Message,
    Opaque,
    Part,
    Refusal,
    Result,
    Text,
    Thinking,
)
from pointsman.wire.items import split_data_url
from pointsman.wire.tools import APPLY_PATCH, COMPUTER, COMPUTER_PREVIEW, LOCAL_SHELL, SHELL

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
    """Return the members of a call's item that hold its action."""
    found = decoded_or(None, _decode, arguments or "{}")
    return BUILT_IN[tool].action(found or {}, arguments if found is None else "")


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


#: The tools that Responses has built in and the caller runs.
BUILT_IN: Final = {
    LOCAL_SHELL: _BuiltIn("lsh", "local_shell_call", _execution),
    SHELL: _BuiltIn("sh", "shell_call", _commands),
    APPLY_PATCH: _BuiltIn("apc", "apply_patch_call", _operation),
    COMPUTER: _BuiltIn("cu", "computer_call", _computer),
    COMPUTER_PREVIEW: _BuiltIn("cu", "computer_call", _preview),
}


_TEXTS: Final = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_NOTES: Final = frozenset({Role.SYSTEM, Role.USER})
_SHELL_OUTPUT: Final = "local_shell_call_output"
_CALLS: Final = frozenset({"function_call", "custom_tool_call", *CALLS})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output", *OUTPUTS})
_READ: Final = _CALLS | _OUTPUTS | {"message", "reasoning"}


#: How the types of items end, and how they begin, that are a provider's own.
_OF_SERVERS: Final = ("_call", "_output", "_trigger")
_KEPT: Final = ("additional_tools", "compaction", "item_reference", "mcp_", "program")


class _Undecoded(msgspec.ValidationError):
    """An item is of an unknown kind, and its bytes are not at hand: one alone is read again from them."""


class _Head(msgspec.Struct, gc=False):
    """What kind of item it is."""

    type: str | None = None
    role: str | None = None


class _Summary(msgspec.Struct, gc=False):
    """A part of a reasoning item."""

    text: str = ""
    type: str = ""


class _Item(msgspec.Struct, gc=False):
    """A message, a call, a result or reasoning."""

    type: str | None = None
    role: str | None = None
    id: str | None = None
    status: str | None = None
    content: str | list[msgspec.Raw] | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None
    action: msgspec.Raw = msgspec.Raw()
    actions: msgspec.Raw = msgspec.Raw()
    operation: msgspec.Raw = msgspec.Raw()
    output: str | list[msgspec.Raw] | _Content | None = None
    summary: list[_Summary] | None = None
    encrypted_content: str | None = None
    # What says nothing to a model: of answers that are sent back, and of commands and clicks.
    phase: str | None = None
    caller: msgspec.Raw = msgspec.Raw()
    created_by: msgspec.Raw = msgspec.Raw()
    environment: msgspec.Raw = msgspec.Raw()
    max_output_length: msgspec.Raw = msgspec.Raw()
    pending_safety_checks: msgspec.Raw = msgspec.Raw()
    acknowledged_safety_checks: msgspec.Raw = msgspec.Raw()
    internal_chat_message_metadata_passthrough: msgspec.Raw = msgspec.Raw()  # Codex 0.169, in every item


class _Url(msgspec.Struct, gc=False):
    url: str = ""


class _Audio(msgspec.Struct, gc=False):
    data: str = ""
    format: str = ""


class _Outcome(msgspec.Struct, gc=False):
    """How a command of a shell ended."""

    type: str = "exit"
    exit_code: int = 0


class _Content(msgspec.Struct, gc=False):
    type: str = "input_text"
    text: str | None = None
    refusal: str | None = None
    image_url: str | _Url | None = None
    file_id: str | None = None
    detail: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    input_audio: _Audio | None = None
    stdout: str | None = None  # of a shell
    stderr: str | None = None
    outcome: _Outcome | None = None
    annotations: msgspec.Raw = msgspec.Raw()  # of an answer that is sent back
    logprobs: msgspec.Raw = msgspec.Raw()


class _KnownContent(_Content, gc=False, forbid_unknown_fields=True): ...


class _Whole(_Item, gc=False, forbid_unknown_fields=True):
    """The same with the parts of its content decoded: whatever is not so is read again from JSON."""

    content: str | list[_KnownContent] | None = None  # type: ignore[assignment]
    output: str | list[_KnownContent] | _KnownContent | None = None  # type: ignore[assignment]


_decode_heads: Final = msgspec.json.Decoder(list[_Head]).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode
_decode_whole: Final = msgspec.json.Decoder(list[_Whole]).decode
_decode_item: Final = msgspec.json.Decoder(_Item).decode
_decode_content: Final = msgspec.json.Decoder(_Content).decode


def merged(items: Iterator[Message]) -> tuple[Message, ...]:
    """Return messages with the items of one assistant turn merged into one, and results in a row as well."""
    found: list[tuple[Role, list[Part]]] = []
    last = -1  # position of the last that is no note
    for item in items:
        role = item.role
        if role in _NOTES:
            found.append((role, list(item.parts)))
            continue
        # A result goes before the notes that stand between it and its call: only here they may stand there.
        joins = last >= 0 and found[last][0] is role and (role is Role.TOOL or last == len(found) - 1)
        if joins:
            found[last][1].extend(item.parts)
            continue
        last = last + 1 if role is Role.TOOL and last >= 0 else len(found)
        found.insert(last, (role, list(item.parts)))
    return tuple(Message(role, tuple(parts)) for role, parts in found)


def read_items(raw: msgspec.Raw) -> tuple[Message, ...] | None:
    """Read a list of items in one pass; None if one of them must be preserved as sent or cannot be read."""
    try:
        items = _decode_whole(raw)
        return merged(_message(item) for item in items)
    except UNREADABLE:
        return None


def unknown_in(items: msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Return the places of unknown members in a list of items. Raises ``UNREADABLE``."""
    kinds = (head.type for head in _decode_heads(items) if head.type and is_unknown(head.type))
    found = {f"input.{kind}": YES for kind in islice(dict.fromkeys(kinds), MOST)}
    return found | unknown_members(items, _Whole, "input.", _is_not_read)


def is_unknown(kind: str) -> bool:
    """Whether items of a type are neither read nor of a tool of the provider's: a newer model's."""
    return not (kind in _READ or kind.endswith(_OF_SERVERS) or kind.startswith(_KEPT))


def _is_not_read(known: Known, item: Mapping[str, object]) -> bool:
    return known is _Whole and item.get("type", "message") not in _READ


def item_type(raw: msgspec.Raw) -> str:
    """Return the type of an item. Raises ``UNREADABLE``."""
    head = _decode_head(raw)
    return head.type or ("message" if head.role else "item_reference")


def read_item(raw: msgspec.Raw) -> Message:
    """Read one item as one message. Raises ``UNREADABLE``."""
    kind = item_type(raw)
    if kind not in _READ:
        results = kind.endswith("_output") or kind == "mcp_approval_response"
        role = Role.TOOL if results else Role.ASSISTANT
        return Message(role, (Opaque(WireFormat.RESPONSES, kind, raw),))
    return _message(_decode_item(raw))


def _message(item: _Item) -> Message:
    kind = item.type or "message"
    if kind not in _READ or not (item.type or item.role):
        raise _Undecoded
    if kind == "message":
        return Message(SPEAKERS.get(item.role or "", Role.USER), tuple(_parts(item.content)))
    if kind == "reasoning":
        return Message(Role.ASSISTANT, (_thinking(item),))
    return Message(Role.ASSISTANT, (_call(item),)) if kind in _CALLS else Message(Role.TOOL, (_result(item),))


def _call(item: _Item) -> ToolCall:
    if tool := CALLS.get(item.type or ""):
        arguments = arguments_of(item.action, item.actions, item.operation)
        return ToolCall(item.call_id or item.id or "", tool, arguments, built_in=tool)
    custom = item.type == "custom_tool_call"
    arguments = (item.input if custom else item.arguments) or ""
    call_id = item.call_id or item.id or ""
    is_cut = item.status == "incomplete"
    return ToolCall(call_id, item.name or "", arguments, custom, item.namespace or "", is_cut=is_cut)


def _result(item: _Item) -> Result:
    output = [item.output] if isinstance(item.output, _Content) else item.output
    parts = tuple(_plain(part) for part in _parts(output))
    call_id = item.call_id or item.id or ""  # the shell's results are documented with "id" alone
    shell = item.type == _SHELL_OUTPUT
    failed = item.status == "failed"  # a patch says so
    return Result.of(call_id, parts, failed, custom=item.type == "custom_tool_call_output", local_shell=shell)


def _plain(part: Part) -> Text | Media:
    """A part of a result: an unknown part is shown as it was sent."""
    if isinstance(part, Text | Media):
        return part
    return Text(bytes(part.raw).decode() if isinstance(part, Opaque) else getattr(part, "text", ""))


def _thinking(item: _Item) -> Thinking:
    encrypted = item.encrypted_content or ""
    author = WireFormat.RESPONSES if encrypted else None
    return Thinking(_thinking_text(item), encrypted=encrypted, id=item.id or "", author=author)


def _thinking_text(item: _Item) -> str:
    """The summary of a reasoning item, or its whole text without one."""
    texts = [part.text for part in item.summary or ()]
    if not texts:
        texts = [part.text for part in _parts(item.content) if isinstance(part, Text)]
    return "\n\n".join(texts)


def _parts(content: str | Sequence[msgspec.Raw | _Content] | None) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield Text(content)
        return
    for raw in content or ():
        part = _part(raw)
        if not isinstance(part, Text) or part.text:
            yield part


def _part(raw: msgspec.Raw | _Content) -> Part:
    part = raw if isinstance(raw, _Content) else _decode_content(raw)
    if part.outcome is not None:
        return _printed(part, part.outcome)
    if part.type in _TEXTS:
        return Text(part.text or "")
    if part.type == "refusal":
        return Refusal(part.refusal or "")
    if part.type in {"input_image", "computer_screenshot"}:
        return _image(part)
    if part.type == "input_file":
        return _file(part)
    if part.type == "input_audio" and part.input_audio:
        return Media("audio", media_type=f"audio/{part.input_audio.format}", data=part.input_audio.data)
    if isinstance(raw, _Content):
        raise _Undecoded(f"Invalid content type {part.type!r}")
    return Opaque(WireFormat.RESPONSES, part.type, raw)


def _printed(part: _Content, outcome: _Outcome) -> Text:
    """Output and exit of a shell command."""
    end = "timed out" if outcome.type == "timeout" else f"exit code {outcome.exit_code}"
    return Text("\n".join(filter(None, (part.stdout, part.stderr, end))))


def _image(part: _Content) -> Media:
    url = part.image_url.url if isinstance(part.image_url, _Url) else part.image_url or ""
    detail = "" if part.detail in {None, "auto"} else part.detail or ""
    media_type, data = split_data_url(url)
    address = "" if data else url
    return Media(
        "image", media_type=media_type, data=data, url=address, file_id=part.file_id or "", detail=detail
    )


def _file(part: _Content) -> Media:
    media_type, data = split_data_url(part.file_data or "")
    if part.file_data and not data:  # base64 alone: OpenAI takes it so, and says nothing of its type
        media_type, data = "application/pdf", part.file_data
    return Media(
        "document",
        media_type=media_type,
        data=data,
        url=part.file_url or "",
        file_id=part.file_id or "",
        name=part.filename or "",
    )
