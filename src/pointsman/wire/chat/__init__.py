"""Chat completions: ``POST /v1/chat/completions``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pointsman.vocabulary import Message, Role, ToolCall, ToolResult, WireFormat
from pointsman.wire import _openai_errors as openai_errors
from pointsman.wire.chat import _answer as answer
from pointsman.wire.format import Format, Members
from pointsman.wire.items import (
    as_json,
    leading_system,
    mapping,
    mappings,
    place_in_messages,
    read_content,
    read_role,
    role_of,
    string,
)

__all__ = ["CHAT"]


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
    read_role=role_of,
    place=place_in_messages,
    usage=answer.usage,
    completion=answer.read_completion,
    answer=answer.write_answer,
    is_error=openai_errors.is_error,
    error=openai_errors.write_error,
    end=answer.end,
    refusal=openai_errors.status_of,
    answer_events=answer.answer_events,
    error_event=answer.error_event,
    model_call=answer.MODEL_CALL,
)
