"""A chat completions request: its members, and one of its messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pointsman.vocabulary import Message, Role, ToolCall, ToolResult
from pointsman.wire._items import as_json, mapping, mappings, read_content, read_role, string
from pointsman.wire.base import ABSENT, Members

__all__ = ["MEMBERS", "read_item", "write_body"]


class _Members(msgspec.Struct, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """Members that OpenAI documents, and those that compatible servers and routers add."""

    messages: list[msgspec.Raw]
    model: msgspec.Raw = ABSENT
    audio: msgspec.Raw = ABSENT
    frequency_penalty: msgspec.Raw = ABSENT
    function_call: msgspec.Raw = ABSENT
    functions: msgspec.Raw = ABSENT
    logit_bias: msgspec.Raw = ABSENT
    logprobs: msgspec.Raw = ABSENT
    max_completion_tokens: msgspec.Raw = ABSENT
    max_tokens: msgspec.Raw = ABSENT
    metadata: msgspec.Raw = ABSENT
    modalities: msgspec.Raw = ABSENT
    n: msgspec.Raw = ABSENT
    parallel_tool_calls: msgspec.Raw = ABSENT
    prediction: msgspec.Raw = ABSENT
    presence_penalty: msgspec.Raw = ABSENT
    prompt_cache_key: msgspec.Raw = ABSENT
    prompt_cache_retention: msgspec.Raw = ABSENT
    reasoning_effort: msgspec.Raw = ABSENT
    response_format: msgspec.Raw = ABSENT
    safety_identifier: msgspec.Raw = ABSENT
    seed: msgspec.Raw = ABSENT
    service_tier: msgspec.Raw = ABSENT
    stop: msgspec.Raw = ABSENT
    store: msgspec.Raw = ABSENT
    stream: msgspec.Raw = ABSENT
    stream_options: msgspec.Raw = ABSENT
    temperature: msgspec.Raw = ABSENT
    tool_choice: msgspec.Raw = ABSENT
    tools: msgspec.Raw = ABSENT
    top_logprobs: msgspec.Raw = ABSENT
    top_p: msgspec.Raw = ABSENT
    user: msgspec.Raw = ABSENT
    verbosity: msgspec.Raw = ABSENT
    web_search_options: msgspec.Raw = ABSENT
    # OpenRouter, vLLM, Ollama, LiteLLM
    cache_control: msgspec.Raw = ABSENT
    chat_template_kwargs: msgspec.Raw = ABSENT
    keep_alive: msgspec.Raw = ABSENT
    min_p: msgspec.Raw = ABSENT
    models: msgspec.Raw = ABSENT
    options: msgspec.Raw = ABSENT
    plugins: msgspec.Raw = ABSENT
    prompt: msgspec.Raw = ABSENT
    provider: msgspec.Raw = ABSENT
    reasoning: msgspec.Raw = ABSENT
    repetition_penalty: msgspec.Raw = ABSENT
    thinking: msgspec.Raw = ABSENT
    top_k: msgspec.Raw = ABSENT
    transforms: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT


MEMBERS: Final = Members.of(_Members, "messages")


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
