"""Chat completions, as strict as a provider."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Collection, Iterator
from typing import Any, Final

from pointsman.wire import sse
from real_agents.checks import (
    check_call,
    check_name,
    error,
    first_parameter,
    items,
    known,
    offered_names,
    one_of,
    text_of,
)
from real_agents.task import Asked, Offered, Planned, Provider, Refusal

__all__ = ["PATH", "answer", "error", "events", "read"]

PATH: Final = "/v1/chat/completions"
_MEMBERS: Final = {
    "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options",
    "max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "stop", "seed", "user",
    "response_format", "reasoning_effort", "verbosity", "metadata", "store", "service_tier",
    "prompt_cache_key", "safety_identifier", "logprobs", "top_logprobs", "logit_bias", "frequency_penalty",
    "presence_penalty",
}  # fmt: skip
_USAGE: Final = {
    "prompt_tokens": 1200,
    "completion_tokens": 40,
    "total_tokens": 1240,
    "prompt_tokens_details": {"cached_tokens": 1000},
    "completion_tokens_details": {"reasoning_tokens": 10},
}
_EFFORTS: Final = {"none", "minimal", "low", "medium", "high", "xhigh"}
_PARTS: Final = {
    "text": {"type", "text"},
    "refusal": {"type", "refusal"},
    "image_url": {"type", "image_url"},
    "file": {"type", "file"},
    "input_audio": {"type", "input_audio"},
}


def read(body: dict[str, Any], headers: dict[str, str], provider: Provider) -> Asked:
    """Read a request. Raises ``Refusal``."""
    del headers
    known(body, _MEMBERS, "request", ("model", "messages"))
    if "max_tokens" in body and "max_completion_tokens" in body:
        raise Refusal("max_tokens and max_completion_tokens exclude each other")
    if "reasoning_effort" in body:
        one_of(body["reasoning_effort"], _EFFORTS, "reasoning_effort")
    if "stream_options" in body:
        known(body["stream_options"], {"include_usage", "include_obfuscation"}, "stream_options")
        if not body.get("stream"):
            raise Refusal("stream_options without stream")
    tools = tuple(_tool(tool, f"tools[{at}]") for at, tool in enumerate(body.get("tools") or ()))
    offered_names(tools)
    if not tools and ("tools" in body or "tool_choice" in body or "parallel_tool_calls" in body):
        raise Refusal("tools: empty, or tool_choice and parallel_tool_calls without tools")
    calls, results = _messages(items(body["messages"], "messages"), provider)
    return Asked(
        tools,
        calls,
        results,
        is_parallel=body.get("parallel_tool_calls", True),
        thinks=True,  # as models do that are trained to, asked or not
        streams=bool(body.get("stream")),
        model=body["model"],
        reports_usage=bool(body.get("stream_options", {}).get("include_usage")),
    )


def _tool(tool: Any, where: str) -> Offered:
    known(tool, {"type", "function"}, where, ("type", "function"))
    one_of(tool["type"], {"function"}, f"{where}.type")
    function = known(
        tool["function"], {"name", "description", "parameters", "strict"}, f"{where}.function", ("name",)
    )
    name = check_name(function["name"], f"{where}.function.name")
    return Offered(name, field=first_parameter(function.get("parameters"), where))


def _messages(messages: list[Any], provider: Provider) -> tuple[tuple[str, ...], dict[str, str]]:
    calls: list[str] = []
    results: dict[str, str] = {}
    open_calls: list[str] = []
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        role = message.get("role")
        one_of(role, {"system", "developer", "user", "assistant", "tool"}, f"{where}.role")
        if role == "tool":
            known(message, {"role", "tool_call_id", "content"}, where, ("tool_call_id", "content"))
            call = message["tool_call_id"]
            if call not in open_calls:
                raise Refusal(f"{where}: a result for {call!r}, which waits for none")
            open_calls.remove(call)
            results[call] = _content(message["content"], where, {"text"})
            continue
        if open_calls:
            raise Refusal(f"{where}: results are missing for {open_calls}")
        if role == "assistant":
            open_calls = _assistant(message, where, provider)
            calls += open_calls
        else:
            known(message, {"role", "content", "name"}, where, ("content",))
            _content(message["content"], where, _PARTS.keys() - {"refusal"} if role == "user" else {"text"})
    if open_calls:
        raise Refusal(f"results are missing for {open_calls}")
    return tuple(calls), results


def _assistant(message: dict[str, Any], where: str, provider: Provider) -> list[str]:
    known(message, {"role", "content", "name", "tool_calls", "refusal", "reasoning_content"}, where)
    if not isinstance(message.get("reasoning_content", ""), str):
        raise Refusal(f"{where}.reasoning_content: a text is expected")
    if message.get("content") is None and not message.get("tool_calls"):
        raise Refusal(f"{where}: neither content nor calls")
    if message.get("content"):
        _content(message["content"], where, {"text", "refusal"})
    found = []
    for number, call in enumerate(message.get("tool_calls") or ()):
        place = f"{where}.tool_calls[{number}]"
        known(call, {"id", "type", "function"}, place, ("id", "type", "function"))
        function = known(call["function"], {"name", "arguments"}, place, ("name", "arguments"))
        found.append(check_call(provider, call["id"], function["name"], function["arguments"], place))
    return found


def _content(content: Any, where: str, kinds: Collection[str]) -> str:
    return text_of(content, {kind: _PARTS[kind] for kind in kinds}, f"{where}.content")


def _call(issued: Any, arguments: str) -> dict[str, Any]:
    return {
        "id": issued.id,
        "type": "function",
        "function": {"name": issued.tool.name, "arguments": arguments},
    }


def _arguments(issued: Any) -> str:
    return issued.json if issued.arguments else ""  # as several servers write no arguments


def answer(said: Planned, turn: Asked, _: Provider) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
    if said.thinking:
        message["reasoning_content"] = said.thinking
    if said.calls:
        message["tool_calls"] = [_call(call, _arguments(call)) for call in said.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(said)}
    return {**_head("chat.completion", turn), "choices": [choice], "usage": _USAGE}


def _finish(said: Planned) -> str:
    return "tool_calls" if said.calls else "stop"


def _head(kind: str, turn: Asked) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": kind,
        "created": int(time.time()),
        "model": turn.model,
    }


def events(said: Planned, turn: Asked, _: Provider) -> Iterator[bytes]:
    """The stream, with the arguments of two calls interleaved."""
    head = _head("chat.completion.chunk", turn)
    for delta in _deltas(said):
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(said)}]})
    if turn.reports_usage:
        yield _event({**head, "choices": [], "usage": _USAGE})
    yield b"data: [DONE]\n\n"


def _deltas(said: Planned) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    if said.thinking:
        yield {"reasoning_content": said.thinking}
    for word in said.text.split(" "):
        yield {"content": word + " "}
    for index, call in enumerate(said.calls):
        yield {"tool_calls": [{"index": index, **_call(call, "")}]}
    texts = [_arguments(call) for call in said.calls]
    for at in range(0, max(map(len, texts), default=0), 7):
        for index, text in enumerate(texts):
            if piece := text[at : at + 7]:
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _event(data: dict[str, Any]) -> bytes:
    return sse.event(json.dumps(data).encode())
