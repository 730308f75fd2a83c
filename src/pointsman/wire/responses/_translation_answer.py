"""A whole answer in the Responses format, read and written, and the items that streams hold as well."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec.json import encode as _encode

from pointsman.decoding import decode_typed, decoded
from pointsman.vocabulary import ToolCall, WireFormat
from pointsman.wire.body import Body
from pointsman.wire.conversation import (
    Completion,
    Conversation,
    Opaque,
    Part,
    Refusal,
    StopReason,
    Text,
    Thinking,
    Usage,
)
from pointsman.wire.items import present
from pointsman.wire.reasoning import Cleaned, Origin, OwnReasoning, Thought, head, removals, spans
from pointsman.wire.responses import StoredItem, read_usage
from pointsman.wire.responses._translation_items import BUILT_IN, action_of, read_item
from pointsman.wire.tools import APPLY_PATCH

#: What a response repeats of its request, and what stands there when the request did not say.
_UNASKED: Final[dict[str, Any]] = {
    "background": False,
    "frequency_penalty": 0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1,
    "text": {"format": {"type": "text"}},
    "top_logprobs": 0,
    "top_p": 1,
    "truncation": "disabled",
}
#: What is repeated of no request.
NOTHING_ASKED: Final[Mapping[str, Any]] = {}


def repeated(request: Conversation) -> dict[str, Any]:
    """The members of its request that a response repeats, as far as the form holds them."""
    own = {
        "max_output_tokens": request.max_tokens,
        "parallel_tool_calls": request.parallel,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "reasoning": {"effort": request.effort, "summary": None} if request.effort else None,
    }
    return {**request.options, **present(**own)}


#: How the ids of reasoning items begin that our translation wrote.
TRANSLATED: Final = "rs_translated_"

_PREFIXES: Final = ("resp_", "chatcmpl-", "msg_")

#: Why a response is incomplete; every other reason leaves it completed.
_INCOMPLETE: Final = {StopReason.LENGTH: "max_output_tokens", StopReason.REFUSAL: "content_filter"}
_STOPS: Final = {reason: stop for stop, reason in _INCOMPLETE.items()}


class Error(msgspec.Struct, gc=False):
    """Error reported by an upstream."""

    message: str | None = None
    code: str | int | None = None
    type: str | None = None


class _Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class Response(msgspec.Struct, gc=False):
    """A response as it is read."""

    id: str = ""
    model: str = ""
    status: str | None = None
    created_at: float | None = None
    output: list[msgspec.Raw] | None = None
    usage: msgspec.Raw = msgspec.Raw()
    error: Error | None = None
    incomplete_details: _Incomplete | None = None

    @property
    def created(self) -> int:
        """Seconds since the epoch."""
        return int(self.created_at or 0)


class _Status(msgspec.Struct, gc=False):
    status: str | None = None


_decode: Final = msgspec.json.Decoder(Response).decode
_decode_status: Final = msgspec.json.Decoder(_Status).decode


def read_answer(answer: bytes) -> Completion:
    """Read an answer. Raises ``UNREADABLE``, also for a response that failed or is not finished."""
    return decoded(_completion, answer)


def _completion(answer: bytes) -> Completion:
    response = _decode(answer)
    if response.status not in {None, "completed", "incomplete"}:
        why = response.error.message if response.error else None
        raise msgspec.ValidationError(f"the response is {response.status}: {why or 'no reason given'}")
    return Completion(
        id=response.id,
        model=response.model,
        parts=tuple(part for raw in response.output or () for part in parts_of(raw)),
        stop=stop_of(response),
        usage=read_usage(response.usage),
        created=response.created,
    )


def parts_of(raw: msgspec.Raw) -> tuple[Part, ...]:
    """Read an item of an answer. Raises ``UNREADABLE``."""
    return read_item(raw).parts


def stop_of(response: Response) -> StopReason:
    """Why a response ended. Whole calls in it decide, unless another call was cut off."""
    calls = [
        raw for raw in response.output or () if any(isinstance(part, ToolCall) for part in parts_of(raw))
    ]
    whole = [_decode_status(raw).status != "incomplete" for raw in calls]
    if any(whole) and (all(whole) or response.status != "incomplete"):
        return StopReason.TOOLS
    if response.status == "incomplete":
        reason = response.incomplete_details.reason if response.incomplete_details else None
        return _STOPS.get(reason or "", StopReason.LENGTH)
    return StopReason.TOOLS if calls else StopReason.END


def write_part(text: str) -> dict[str, Any]:
    """One part of a message with a text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def snapshot(
    *,
    id: str,  # noqa: A002 - the member's name
    model: str,
    created: int,
    status: str,
    output: Sequence[Any],
    usage: Mapping[str, Any] | None,
    asked: Mapping[str, Any],
    incomplete: str | None = None,
    error: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A response object; ``incomplete`` is why it is, ``asked`` are members of the request to repeat."""
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "completed_at": created if status == "completed" else None,
        "status": status,
        "error": error,
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "model": model,
        "output": output,
        "usage": usage,
        "tool_choice": "auto",
        "tools": [],
        **_UNASKED,
        **{name: value for name, value in asked.items() if name in _UNASKED},
    }


def write_usage(usage: Usage | None) -> dict[str, Any] | None:
    """Usage as a response reports it."""
    if usage is None:
        return None
    read, output = usage.whole, usage.output or 0
    return {
        "input_tokens": read,
        "input_tokens_details": {
            "cached_tokens": usage.cached or 0,
            "cache_write_tokens": usage.written or 0,
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": read + output,
    }


def bare_id(id: str) -> str:  # noqa: A002 - what it is
    """Return the id of an answer without its format's prefix, to put others before it."""
    for prefix in _PREFIXES:
        if id.startswith(prefix):
            return id.removeprefix(prefix)
    return id


def status_of(stop: StopReason) -> tuple[str, str | None]:
    """Return the status of a response that ended so, and why it is incomplete if it is."""
    reason = _INCOMPLETE.get(stop)
    return ("incomplete", reason) if reason else ("completed", None)


def write_answer(completion: Completion, asked: Mapping[str, Any] = NOTHING_ASKED) -> bytes:
    """Return an answer; ``asked``: the members of its request that it repeats."""
    bare = bare_id(completion.id)
    status, incomplete = status_of(completion.stop)
    return _encode(
        snapshot(
            id=f"resp_{bare}",
            model=completion.model,
            created=completion.created,
            status=status,
            output=list(_output(completion.parts, bare)),
            usage=write_usage(completion.usage),
            asked=asked,
            incomplete=incomplete,
        )
    )


def _output(parts: tuple[Part, ...], bare: str) -> Iterator[Mapping[str, Any] | msgspec.Raw]:
    number = 0
    for said, group in groupby(parts, key=lambda part: isinstance(part, Text | Refusal)):
        if said:
            if content := [
                write_part(part.text) if isinstance(part, Text) else refusal_part(part.text)
                for part in group
                if isinstance(part, Text | Refusal) and part.text
            ]:
                yield message_item(f"msg_{bare}_{number}", content)
                number += 1
            continue
        for part in group:
            item = _item(part, f"{bare}_{number}")
            if item is not None:
                yield item
                number += 1


def _item(part: Part, suffix: str) -> Mapping[str, Any] | msgspec.Raw | None:
    if isinstance(part, ToolCall):
        return call_item(suffix, part, "incomplete" if part.is_cut else "completed")
    if isinstance(part, Thinking):
        return reasoning_item(suffix, part.text) if part.text else None
    return part.raw if isinstance(part, Opaque) and part.format is WireFormat.RESPONSES else None


def refusal_part(text: str) -> dict[str, Any]:
    """A part of a message that is a refusal."""
    return {"type": "refusal", "refusal": text}


def summary_part(text: str) -> dict[str, Any]:
    """A part of reasoning."""
    return {"type": "summary_text", "text": text}


def message_item(id: str, content: list[dict[str, Any]], status: str = "completed") -> dict[str, Any]:  # noqa: A002
    """A message."""
    return {"type": "message", "id": id, "role": "assistant", "status": status, "content": content}


def reasoning_item(suffix: str, text: str) -> dict[str, Any]:
    """Reasoning of another format's model: its words alone, since no caller here could check a signature."""
    summary = [summary_part(text)] if text else []
    return {"type": "reasoning", "id": f"{TRANSLATED}{suffix}", "summary": summary}


def call_item(suffix: str, call: ToolCall, status: str = "completed") -> dict[str, Any]:
    """A call."""
    item: dict[str, Any]
    if tool := call.built_in:
        if tool == APPLY_PATCH and status != "completed":
            status = "in_progress"  # it has no other
        item = {"type": BUILT_IN[tool].call, "id": f"{BUILT_IN[tool].prefix}_{suffix}", "status": status}
        return item | {"call_id": call.id or f"call_{suffix}", **action_of(tool, call.arguments)}
    kind, prefix = ("custom_tool_call", "ctc") if call.custom else ("function_call", "fc")
    empty = "{}" if status == "completed" else ""
    return present(
        type=kind,
        id=f"{prefix}_{suffix}",
        status=status,
        call_id=call.id or f"call_{suffix}",
        name=call.name,
        namespace=call.namespace or None,
        **({"input": call.arguments} if call.custom else {"arguments": call.arguments or empty}),
    )


_MARK: Final = TRANSLATED.encode()
_ENCRYPTED: Final = re.compile(rb'"encrypted_content"\s*+:\s*+"([^"]++)"')
_ID: Final = re.compile(rb'"(rs_[^"]++)"')


class _Part(msgspec.Struct, gc=False):
    text: str | None = None


class _Item(StoredItem, gc=False):
    summary: list[_Part] | None = None


_decode_item: Final = msgspec.json.Decoder(_Item).decode


def _clean(body: Body, origin: Origin) -> Cleaned:
    items = body.conversation()[0]
    span = body.span("input")
    if not isinstance(items, list) or span is None:
        return Cleaned([], ())
    read = {at: _decode_item(raw) for at, raw in enumerate(items) if decode_typed(raw).type == "reasoning"}
    thoughts = {at: _thought(item) for at, item in read.items()}
    among_signed = any(thought.is_signed for at, thought in thoughts.items() if not _is_ours(read[at]))
    removed = [
        at
        for at, thought in thoughts.items()
        if _is_ours(read[at]) or origin.is_foreign(thought, among_signed=among_signed)
    ]
    if not removed:
        return Cleaned([], ())
    places = spans(body.readable, items, span[0])
    return Cleaned(list(removals(places, removed)), ("thinking_history",))


def _is_ours(item: _Item) -> bool:
    return (item.id or "").startswith(TRANSLATED)


def _thought(item: _Item) -> Thought:
    if item.encrypted_content or item.id:
        return Thought(item.encrypted_content or item.id or "", is_signed=True)
    words = "".join(part.text or "" for part in item.summary or ())
    return Thought(head(words), is_signed=False)


def _marks(block: bytes) -> Sequence[str]:
    if b"encrypted_content" not in block and b'"rs_' not in block:
        return ()
    found = (*_ENCRYPTED.findall(block), *_ID.findall(block))
    return [mark.replace(b"\\/", b"/").decode("utf-8", "replace") for mark in found]


OWN_REASONING: Final = OwnReasoning(translated=lambda body: _MARK in body, clean=_clean, marks=_marks)
