"""Chat completions: ``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE, decoded
from pointsman.vocabulary import TOOL, Message, Prompt, Role, ToolCall, ToolResult, WireFormat
from pointsman.wire import _openai as openai
from pointsman.wire import sse
from pointsman.wire._openai import NOTHING
from pointsman.wire.conversation import Usage
from pointsman.wire.format import (
    CompletionSummary,
    End,
    Ending,
    Fault,
    Format,
    Item,
    Members,
    ModelCall,
    objects,
)
from pointsman.wire.items import (
    as_json,
    leading_system,
    mapping,
    mappings,
    place_in_messages,
    present,
    read_content,
    read_role,
    role_of,
    string,
    words,
)

__all__ = ["CHAT"]


_USAGE: Final = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}


#: Reads a ``usage`` member; None if it is absent or of another shape.
read_usage: Final = openai.usage_reader(_USAGE)


def read_completion(answer: bytes) -> tuple[CompletionSummary, str]:
    """Read a whole answer, or all events of a streamed one."""
    why, tools, said = "", list[str](), list[str]()
    for choice in (each for chunk in objects(answer) for each in mappings(chunk.get("choices"))):
        for message in (mapping(choice.get("message")), mapping(choice.get("delta"))):
            calls = mappings(message.get("tool_calls"))
            tools += [string(mapping(asked.get("function")).get("name")) for asked in calls]
            said.append(words(message.get("content")))
        why = string(choice.get("finish_reason")) or why
    return CompletionSummary(why, tuple(filter(None, tools))), "".join(said)


def write_usage(usage: Usage) -> dict[str, Any]:
    """Return the ``usage`` of an answer: OpenAI counts what was cached as part of the input."""
    prompt, output = usage.whole, usage.output or 0
    # OpenAI names what was written to the cache for models that charge for it, from GPT-5.6 on.
    details = present(cached_tokens=usage.cached or 0, cache_write_tokens=usage.written or None)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
    }


# A question of our own as a chat completions request.


def _write_question(model: str, prompt: Prompt) -> Mapping[str, object]:
    return {**_question(model, prompt), "max_tokens": prompt.max_tokens, "temperature": 0}


def _write_plain_question(model: str, prompt: Prompt) -> Mapping[str, object]:
    # OpenAI's reasoning models take neither a temperature nor the older name of the limit.
    return {**_question(model, prompt), "max_completion_tokens": prompt.max_tokens}


def _question(model: str, prompt: Prompt) -> Mapping[str, object]:
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.text}]
    return {"model": model, "messages": messages}


MODEL_CALL: Final = ModelCall((), _write_question, _write_plain_question)


# A streamed answer of chat completions: how it ended.
class _EndedChoice(msgspec.Struct, gc=False):
    finish_reason: str | None = None
    usage: msgspec.Raw = msgspec.Raw()  # Moonshot, beside the reason


class _Chunk(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw()
    choices: list[_EndedChoice] = []
    error: msgspec.Raw = msgspec.Raw()


_decode_chunk: Final = msgspec.json.Decoder(_Chunk).decode


def end(blocks: Sequence[bytes]) -> End:
    """Say how a stream ended, from its first block of events and its last few."""
    ending, usage = Ending.CUT, Usage()
    for event in sse.events(b"".join(blocks)):
        payload = sse.data(event)
        if payload.startswith(b"[DONE]"):
            return End(Ending.COMPLETE, usage)
        try:
            chunk = decoded(_decode_chunk, payload)
        except UNREADABLE:
            continue
        if bytes(chunk.error) not in NOTHING:
            return End(Ending.REFUSED, usage)
        if bytes(chunk.usage) not in NOTHING:  # null in every chunk but one
            usage = read_usage(chunk.usage) or Usage()
        for choice in chunk.choices:
            if choice.finish_reason:
                ending = Ending.SAID  # some servers never send [DONE]
                if choice.usage:
                    usage = read_usage(choice.usage) or usage
    return End(ending, usage)


def error_event(fault: Fault, blocks: Sequence[bytes]) -> bytes:  # noqa: ARG001 - not numbered
    """Return the event that ends a failed stream."""
    return sse.event(openai.write_error(fault))


#: Members that OpenAI documents, and those that compatible servers and routers add.
MEMBERS: Final = Members.of(
    "messages",
    list[msgspec.Raw],
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens "
    "metadata modalities n parallel_tool_calls prediction presence_penalty prompt_cache_key "
    "prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop "
    "store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity "
    "web_search_options "
    # OpenRouter, vLLM, Ollama, LiteLLM
    "cache_control chat_template_kwargs keep_alive min_p models options plugins prompt provider reasoning "
    "repetition_penalty thinking top_k transforms usage",
)


def write_body(items: Sequence[Any], system: str) -> dict[str, Any]:
    """Messages and a system text as a body."""
    first = [{"role": "system", "content": system}] if system else []
    return {"messages": [*first, *items]}


def read_item(item: Mapping[str, Any]) -> Message:
    """Read one message, already decoded from JSON."""
    role = read_role(item.get("role"))
    texts, images = read_content(item.get("content"))
    if role is Role.TOOL:
        # A function result of the time before tools has a name and no id; its call is read the same way.
        call_id = string(item.get("tool_call_id")) or string(item.get("name"))
        error = item.get("is_error")  # not in the format, but recorded runs have it
        result = ToolResult(call_id, "\n".join(texts), error if isinstance(error, bool) else None)
        return Message(role, results=(result,), images=images)
    calls = [_call(call) for call in mappings(item.get("tool_calls"))]
    if legacy := mapping(item.get("function_call")):
        name = string(legacy.get("name"))
        calls.append(ToolCall(name, name, as_json(legacy.get("arguments"))))
    return Message(role, texts, tuple(calls), images=images)


def _call(call: Mapping[str, Any]) -> ToolCall:
    body = mapping(call.get("function")) or mapping(call.get("custom"))
    arguments = body.get("arguments", body.get("input"))
    return ToolCall(string(call.get("id")), string(body.get("name")), as_json(arguments))


class _MadeFunction(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str = ""
    arguments: str = ""


class _MadeCall(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    function: _MadeFunction
    id: str = ""
    type: str = ""


class _PlainItem(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message of a chat with one text at most, as agents write their calls and the results of tools."""

    role: Role
    content: str | None = None
    tool_calls: tuple[_MadeCall, ...] = ()
    tool_call_id: str = ""


_decode_plain: Final = msgspec.json.Decoder(_PlainItem).decode


def read_plain(item: Item) -> Message | None:
    """Read an item of a chat that is as plain as most are, at a third of the price; None for any other.

    Raises:
        msgspec.MsgspecError, UnicodeError, RecursionError: it cannot be decoded as one.
    """
    read = _decode_plain(item)
    text, role = read.content, read.role
    if role is TOOL:
        # Without an id it may be a result of the time before tools.
        named = read.tool_call_id
        return Message(role, (), (), (ToolResult(named, text or ""),)) if named else None
    texts = (text,) if text else ()
    if not read.tool_calls:
        return Message(role, texts)
    if len(read.tool_calls) == 1:  # without a list, as most are
        [call] = read.tool_calls
        made = call.function
        return Message(role, texts, (ToolCall(call.id, made.name, made.arguments),))
    calls = [ToolCall(call.id, (made := call.function).name, made.arguments) for call in read.tool_calls]
    return Message(role, texts, tuple(calls))


CHAT: Final = Format(
    format=WireFormat.CHAT,
    folder=__name__,
    path=b"/chat/completions",
    items="messages",
    members=MEMBERS,
    old_tools="functions",
    output_limits=("max_tokens", "max_completion_tokens"),
    shapes=("response_format",),
    system=leading_system,
    body=write_body,
    read_item=read_item,
    read_plain=read_plain,
    read_role=role_of,
    place=place_in_messages,
    read_usage=read_usage,
    completion=read_completion,
    ids=("chatcmpl-", "call_"),
    is_error=openai.is_error,
    error=openai.write_error,
    end=end,
    refusal=openai.status_of,
    error_event=error_event,
    model_call=MODEL_CALL,
)
