"""Upstreams and callers of each format as a test of translation needs them: same answer, three formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pointsman.vocabulary import ToolCall, WireFormat
from pointsman.wire import FORMATS, Format, sse
from pointsman.wire.conversation import CallStart

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES

TEXT = "It is sunny in Rome, über 30°."
#: Two calls, by id: name and arguments.
CALLS = (("call_1", "weather", {"city": "Rome"}), ("call_2", "weather", {"city": "Oslo"}))
#: Input tokens without the cache's 100, cached ones, output tokens.
TOKENS = (10, 100, 7)

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


class AnswerRead(NamedTuple):
    """What a caller has read of an answer."""

    text: str
    calls: list[tuple[str, str, dict[str, Any]]]
    stop: str
    tokens: tuple[int | None, int | None] = (None, None)  # input with what was cached, output


class Spoken(NamedTuple):
    """One format: what its providers answer, and how its callers ask and read."""

    wire: Format
    answer: Callable[[bool], dict[str, Any]]  # with calls or a text
    events: Callable[[bool], list[bytes]]
    request: Callable[[], dict[str, Any]]  # a tool loop: a call, its result, a system text, a tool
    read: Callable[[dict[str, Any]], AnswerRead]
    read_stream: Callable[[list[dict[str, Any]]], AnswerRead]
    stops: tuple[str, str]  # of a text, of calls
    error: dict[str, Any]
    error_event: bytes
    closing: bytes

    @property
    def path(self) -> str:
        """Where it is asked."""
        return "/v1" + self.wire.path.decode()


def payloads(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream as their data."""
    found = [sse.data(event) for event in sse.events(stream)]
    return [json.loads(data) for data in found if data and data != b"[DONE]"]


def _events(items: Iterable[dict[str, Any]], *, named: bool) -> list[bytes]:
    return [sse.event(json.dumps(item).encode(), item["type"] if named else "") for item in items]


def _chat_usage() -> dict[str, Any]:
    fresh, cached, out = TOKENS
    details = {"cached_tokens": cached}
    return {
        "prompt_tokens": fresh + cached,
        "completion_tokens": out,
        "total_tokens": fresh + cached + out,
        "prompt_tokens_details": details,
    }


def _chat_call(call: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    function = {"name": call[1], "arguments": json.dumps(call[2])}
    return {"id": call[0], "type": "function", "function": function}


def _chat_answer(calls: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None if calls else TEXT}
    if calls:
        message["tool_calls"] = [_chat_call(call) for call in CALLS]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "big-1"}
    return {**head, "choices": [choice], "usage": _chat_usage()}


def _chat_events(calls: bool) -> list[bytes]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "big-1"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if calls else ""}]
    if calls:
        for index, call in enumerate(CALLS):
            whole = _chat_call(call)
            whole["function"]["arguments"] = ""
            deltas.append({"tool_calls": [{"index": index, **whole}]})
        halves = [(json.dumps(call[2])[:5], json.dumps(call[2])[5:]) for call in CALLS]
        for half in (0, 1):  # of both calls in turn
            for index in (0, 1):
                piece = {"index": index, "function": {"arguments": halves[index][half]}}
                deltas.append({"tool_calls": [piece]})
    else:
        deltas += [{"content": TEXT[:9]}, {"content": TEXT[9:]}]
    chunks = [{**head, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    finish = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
    chunks += [{**head, "choices": [finish]}, {**head, "choices": [], "usage": _chat_usage()}]
    return [*_events(chunks, named=False), b"data: [DONE]\n\n"]


def _chat_request() -> dict[str, Any]:
    tool = {"name": "weather", "description": "Look up the weather", "parameters": SCHEMA}
    return {
        "model": "auto",
        "max_tokens": 500,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather in Bonn?"},
            {"role": "assistant", "content": None, "tool_calls": [_chat_call(EARLIER)]},
            {"role": "tool", "tool_call_id": EARLIER[0], "content": "rain"},
            {"role": "user", "content": "And in Rome?"},
        ],
        "tools": [{"type": "function", "function": tool}],
    }


EARLIER = ("call_0", "weather", {"city": "Bonn"})


def _chat_calls(calls: Sequence[dict[str, Any]]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls]


def _chat_read(answer: dict[str, Any]) -> AnswerRead:
    [choice] = answer["choices"]
    message, usage = choice["message"], answer["usage"]
    calls = _chat_calls(message.get("tool_calls") or [])
    tokens = (usage["prompt_tokens"], usage["completion_tokens"])
    return AnswerRead(message.get("content") or "", calls, choice["finish_reason"], tokens)


def _chat_read_stream(chunks: list[dict[str, Any]]) -> AnswerRead:
    text, stop, calls = "", "", dict[int, dict[str, Any]]()
    tokens: tuple[int | None, int | None] = (None, None)
    for chunk in chunks:
        if usage := chunk.get("usage"):
            tokens = (usage["prompt_tokens"], usage["completion_tokens"])
        for choice in chunk.get("choices", ()):
            delta = choice["delta"]
            text += delta.get("content") or ""
            stop = choice["finish_reason"] or stop
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece["index"], {"function": {"arguments": ""}})
                call["id"] = piece.get("id") or call["id"]
                call["function"]["name"] = piece["function"].get("name") or call["function"]["name"]
                call["function"]["arguments"] += piece["function"].get("arguments") or ""
    return AnswerRead(text, _chat_calls([calls[index] for index in sorted(calls)]), stop, tokens)


def _messages_usage() -> dict[str, int]:
    fresh, cached, out = TOKENS
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": out,
    }


def _messages_call(call: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call[0], "name": call[1], "input": call[2]}


def _messages_head() -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "big-1", "stop_sequence": None}


def _messages_answer(calls: bool) -> dict[str, Any]:
    text = {"type": "text", "text": TEXT}
    content = [_messages_call(call) for call in CALLS] if calls else [text]
    stop = "tool_use" if calls else "end_turn"
    return {**_messages_head(), "content": content, "stop_reason": stop, "usage": _messages_usage()}


def _messages_events(calls: bool) -> list[bytes]:
    usage = _messages_usage()
    head = {**_messages_head(), "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": head}, {"type": "ping"}]
    if calls:
        for index, call in enumerate(CALLS):
            written = json.dumps(call[2])
            begin = {**_messages_call(call), "input": {}}
            events.append({"type": "content_block_start", "index": index, "content_block": begin})
            for piece in ("", written[:4], written[4:]):
                delta = {"type": "input_json_delta", "partial_json": piece}
                events.append({"type": "content_block_delta", "index": index, "delta": delta})
            events.append({"type": "content_block_stop", "index": index})
    else:
        block = {"type": "text", "text": ""}
        events.append({"type": "content_block_start", "index": 0, "content_block": block})
        for piece in (TEXT[:9], TEXT[9:]):
            delta = {"type": "text_delta", "text": piece}
            events.append({"type": "content_block_delta", "index": 0, "delta": delta})
        events.append({"type": "content_block_stop", "index": 0})
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    used = {"output_tokens": TOKENS[2]}
    events += [{"type": "message_delta", "delta": stop, "usage": used}, {"type": "message_stop"}]
    return _events(events, named=True)


def _messages_request() -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": EARLIER[0], "content": "rain"}
    return {
        "model": "auto",
        "max_tokens": 500,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Weather in Bonn?"},
            {"role": "assistant", "content": [_messages_call(EARLIER)]},
            {"role": "user", "content": [result, {"type": "text", "text": "And in Rome?"}]},
        ],
        "tools": [{"name": "weather", "description": "Look up the weather", "input_schema": SCHEMA}],
    }


def _messages_read(answer: dict[str, Any]) -> AnswerRead:
    blocks, usage = answer["content"], answer["usage"]
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
    return AnswerRead(text, calls, answer["stop_reason"], _sum(usage))


def _sum(usage: dict[str, Any]) -> tuple[int | None, int | None]:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(usage.get(name) or 0 for name in names), usage["output_tokens"]


def _messages_read_stream(events: list[dict[str, Any]]) -> AnswerRead:
    blocks, stop, usage, is_open = list[dict[str, Any]](), "", dict[str, Any](), False
    for event in events:
        match event["type"]:
            case "message_start":
                usage.update(event["message"]["usage"])
            case "content_block_start":
                assert not is_open
                assert event["index"] == len(blocks)
                blocks.append({**event["content_block"], "json": ""})
                is_open = True
            case "content_block_delta":
                delta, block = event["delta"], blocks[event["index"]]
                assert event["index"] == len(blocks) - 1
                assert is_open
                block["text"] = block.get("text", "") + delta.get("text", "")
                block["json"] += delta.get("partial_json", "")
            case "content_block_stop":
                is_open = False
            case "message_delta":
                stop = event["delta"]["stop_reason"]
                usage.update({name: value for name, value in event["usage"].items() if value is not None})
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["json"])
    return _messages_read({"content": blocks, "stop_reason": stop, "usage": {"output_tokens": None, **usage}})


def _responses_usage() -> dict[str, Any]:
    fresh, cached, out = TOKENS
    return {
        "input_tokens": fresh + cached,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": fresh + cached + out,
    }


def _responses_call(call: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    arguments = json.dumps(call[2])
    return {"type": "function_call", "id": f"fc_{call[0]}", "call_id": call[0], "name": call[1],
            "arguments": arguments, "status": "completed"}  # fmt: skip


def _responses_output(calls: bool) -> list[dict[str, Any]]:
    if calls:
        return [_responses_call(call) for call in CALLS]
    part = {"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}
    return [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}]


def _responses_head(status: str) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "big-1",
            "error": None, "incomplete_details": None, "parallel_tool_calls": True, "tool_choice": "auto",
            "tools": []}  # fmt: skip


def _responses_answer(calls: bool) -> dict[str, Any]:
    return {**_responses_head("completed"), "output": _responses_output(calls), "usage": _responses_usage()}


def _responses_events(calls: bool) -> list[bytes]:
    begun = {**_responses_head("in_progress"), "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(_responses_output(calls)):
        empty: dict[str, Any] = {**item, "status": "in_progress"}
        empty["arguments" if calls else "content"] = "" if calls else []
        place = {"output_index": index, "item_id": item["id"]}
        events.append({"type": "response.output_item.added", "output_index": index, "item": empty})
        events += _item_events(item, place)
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": _responses_answer(calls)})
    return _events(({**event, "sequence_number": n} for n, event in enumerate(events)), named=True)


def _item_events(item: dict[str, Any], place: dict[str, Any]) -> list[dict[str, Any]]:
    if item["type"] == "function_call":
        kind, text = "response.function_call_arguments", item["arguments"]
        pieces = [{"type": f"{kind}.delta", **place, "delta": piece} for piece in (text[:4], text[4:])]
        return [*pieces, {"type": f"{kind}.done", **place, "arguments": text}]
    part, place = item["content"][0], {**place, "content_index": 0}
    deltas = [
        {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
        for piece in (TEXT[:9], TEXT[9:])
    ]
    return [
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *deltas,
        {"type": "response.output_text.done", **place, "text": TEXT, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
    ]


def _responses_request() -> dict[str, Any]:
    call = {name: value for name, value in _responses_call(EARLIER).items() if name not in {"id", "status"}}
    tool = {"type": "function", "name": "weather", "description": "Look up the weather", "parameters": SCHEMA}
    return {
        "model": "auto",
        "max_output_tokens": 500,
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "Weather in Bonn?"},
            call,
            {"type": "function_call_output", "call_id": EARLIER[0], "output": "rain"},
            {"role": "user", "content": [{"type": "input_text", "text": "And in Rome?"}]},
        ],
        "tools": [tool],
    }


def _responses_read(answer: dict[str, Any]) -> AnswerRead:
    output, usage = answer["output"], answer.get("usage") or {}
    parts = [part for item in output if item["type"] == "message" for part in item["content"]]
    calls = [(i["call_id"], i["name"], json.loads(i["arguments"])) for i in output if "arguments" in i]
    text = "".join(part["text"] for part in parts)
    return AnswerRead(text, calls, answer["status"], (usage.get("input_tokens"), usage.get("output_tokens")))


def _responses_read_stream(events: list[dict[str, Any]]) -> AnswerRead:
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    arguments: dict[int, str] = {}
    text = ""
    for event in events:
        if event["type"] == "response.output_text.delta":
            text += event["delta"]
        elif event["type"] == "response.function_call_arguments.delta":
            index = event["output_index"]
            arguments[index] = arguments.get(index, "") + event["delta"]
    if events[-1]["type"] != "response.completed":
        return AnswerRead(text, [], "")
    answer = _responses_read(events[-1]["response"])
    assert text == answer.text
    assert [json.loads(arguments[index]) for index in sorted(arguments)] == [c[2] for c in answer.calls]
    return answer


_REFUSED = {"type": "invalid_request_error", "message": "max_tokens is too large"}
_OPENAI_ERROR = {"error": {**_REFUSED, "param": "max_tokens", "code": "invalid_value"}}
_BROKEN = {"type": "server_error", "message": "the model broke down", "code": "server_error", "param": None}

SAMPLES: dict[WireFormat, Spoken] = {
    CHAT: Spoken(
        FORMATS[CHAT],
        _chat_answer,
        _chat_events,
        _chat_request,
        _chat_read,
        _chat_read_stream,
        ("stop", "tool_calls"),
        _OPENAI_ERROR,
        sse.event(json.dumps({"error": _BROKEN}).encode()),
        b"data: [DONE]",
    ),
    RESPONSES: Spoken(
        FORMATS[RESPONSES],
        _responses_answer,
        _responses_events,
        _responses_request,
        _responses_read,
        _responses_read_stream,
        ("completed", "completed"),
        _OPENAI_ERROR,
        sse.event(
            json.dumps(
                {
                    "type": "response.failed",
                    "sequence_number": 9,
                    "response": {
                        **_responses_head("failed"),
                        "output": [],
                        "error": {"code": "server_error", "message": "the model broke down"},
                    },
                }
            ).encode(),
            "response.failed",
        ),
        b"event: response.completed",
    ),
    MESSAGES: Spoken(
        FORMATS[MESSAGES],
        _messages_answer,
        _messages_events,
        _messages_request,
        _messages_read,
        _messages_read_stream,
        ("end_turn", "tool_use"),
        {"type": "error", "error": _REFUSED},
        sse.event(
            json.dumps(
                {
                    "type": "error",
                    "error": {"type": "api_error", "message": "the model broke down"},
                }
            ).encode(),
            "error",
        ),
        b"event: message_stop",
    ),
}


def call_start(index: int, identifier: str, name: str, custom: bool = False) -> CallStart:
    return CallStart(index, ToolCall(identifier, name, "", custom))
