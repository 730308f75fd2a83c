"""Upstreams whose models think, and which refuse reasoning that they did not write, as the providers do."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

from pointsman.vocabulary import WireFormat
from pointsman.wire import sse
from support.servers import Asked, ScriptedUpstream, reply

__all__ = ["CALLERS", "TOOL_RESULT", "Caller", "StrictUpstream"]

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES
TOOL_RESULT: Final = "12 degrees"
_THOUGHTS: Final = {"thinking", "redacted_thinking"}
SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}}


class _Refused(Exception):
    """The provider's 400."""


class StrictUpstream:
    """One provider: signs its reasoning, checks what comes back, and calls two tools before each answer."""

    def __init__(self, name: str, wire: WireFormat, *, words: bool = True) -> None:
        """Start one; ``words``: False where it shows nothing of its reasoning."""
        self.name = name
        self.wire = wire
        self.words = words
        self.rounds = 1  # of calls in a turn (Messages)
        self.thinks_once = (
            False  # only before the first calls of a turn, which then has to begin so (Messages)
        )
        self.lingers = False  # a stream stays open behind its last event, until the next request
        self.count = 0  # answers given
        self.returned: list[list[str]] = []  # own reasoning in each request, by its number
        self.thought: list[bool] = []  # whether it was allowed to think
        self.server = ScriptedUpstream(self.answer)
        self._waiting = asyncio.Event()
        self._issued: dict[str, str] = {}  # by signature: the words

    async def answer(self, asked: Asked, send: Any) -> None:
        """Check a request and answer it."""
        self._waiting.set()
        body = json.loads(asked.body)
        try:
            self.returned.append(_CHECKS[self.wire](self, body))
        except _Refused as refused:
            error = {"type": "invalid_request_error", "message": str(refused)}
            await reply(send, 400, json.dumps({"type": "error", "error": error}).encode())
            return
        self.count += 1
        content, events = _WRITERS[self.wire](self, body)
        if not body.get("stream"):
            await reply(send, 200, json.dumps(content).encode())
            return
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for event in events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        if self.lingers:
            self._waiting = asyncio.Event()
            await self._waiting.wait()
        await send({"type": "http.response.body", "body": b""})

    def sign(self, words: str) -> str:
        """Return a signature that only this provider accepts."""
        digest = hmac.new(self.name.encode(), f"{self.count} {words}".encode(), hashlib.sha256).digest()
        signature = base64.b64encode(digest * 4).decode()
        self._issued[signature] = words
        return signature

    def check(self, signature: str | None, words: str) -> bool:
        """Whether this provider has signed these words."""
        return self._issued.get(signature or "") == words

    def thoughts(self, part: int) -> str:
        """What it thinks before part ``part`` of its present answer."""
        return f"{self.name} thinks {self.count}.{part}"


# Messages.


def _check_messages(provider: StrictUpstream, body: dict[str, Any]) -> list[str]:
    thinking, messages = body.get("thinking", {}), body["messages"]
    enabled = thinking.get("type") == "enabled"
    if enabled and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
        raise _Refused("max_tokens must be greater than thinking.budget_tokens")
    if any(one["role"] == other["role"] for one, other in itertools.pairwise(messages)):
        raise _Refused("roles must alternate here")
    found = []
    for at, message in enumerate(messages):
        blocks = message["content"] if isinstance(message["content"], list) else []
        for number, block in enumerate(blocks):
            signature = block.get("signature", block.get("data"))
            if block["type"] in _THOUGHTS:
                if not provider.check(signature, block.get("thinking", "")):
                    kind = block["type"]
                    raise _Refused(f"messages.{at}.content.{number}: Invalid `signature` in `{kind}` block")
                found.append(signature)
    if enabled and messages[-1]["content"][0]["type"] == "tool_result":
        back = 2 * _rounds(body) if provider.thinks_once else 2
        first = messages[-back]["content"][0]["type"]
        if first not in _THOUGHTS:
            place = f"messages.{len(messages) - 2}.content.0.type"
            raise _Refused(
                f"{place}: Expected `thinking` or `redacted_thinking`, but "
                f"found `{first}`. When `thinking` is enabled, a final `assistant` message must start with a "
                "thinking block"
            )
    provider.thought.append(enabled or thinking.get("type") == "adaptive")
    return found


def _rounds(body: dict[str, Any]) -> int:
    """How often tools have been called since the person spoke."""
    asked = reversed([message for message in body["messages"] if message["role"] == "user"])
    results = itertools.takewhile(lambda message: message["content"][0]["type"] == "tool_result", asked)
    return sum(1 for _ in results)


def _write_messages(provider: StrictUpstream, body: dict[str, Any]) -> tuple[dict[str, Any], Iterator[bytes]]:
    content: list[dict[str, Any]] = []
    rounds = _rounds(body)
    if provider.thought[-1] and not (provider.thinks_once and rounds):
        words = provider.thoughts(0) if provider.words else ""
        content.append({"type": "thinking", "thinking": words, "signature": provider.sign(words)})
        provider.count += 100  # so that this signature is another
        content.append({"type": "redacted_thinking", "data": provider.sign("")})
        provider.count -= 100
    calls = rounds < provider.rounds
    if calls:
        content.append({"type": "text", "text": "Let me look."})
        content += [
            {"type": "tool_use", "id": f"toolu_{provider.name}_{provider.count}_{n}", "name": "weather",
             "input": {"city": f"C{n}"}}
            for n in (0, 1)
        ]  # fmt: skip
    else:
        content.append({"type": "text", "text": f"{provider.name}: answer  {provider.count}\n"})
    message = {
        "id": f"msg_{provider.name}{provider.count}", "type": "message", "role": "assistant",
        "model": provider.name, "content": content, "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 5},
    }  # fmt: skip
    return message, _messages_events(message)


def _messages_events(message: dict[str, Any]) -> Iterator[bytes]:
    def event(kind: str, **members: Any) -> bytes:
        return sse.event(json.dumps({"type": kind, **members}).encode(), kind)

    yield event("message_start", message={**message, "content": [], "stop_reason": None})
    for index, block in enumerate(message["content"]):
        empty, deltas = dict(block), list[dict[str, Any]]()
        match block["type"]:
            case "thinking":
                empty |= {"thinking": "", "signature": ""}
                deltas = [
                    {"type": "thinking_delta", "thinking": block["thinking"]},
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
            case "text":
                empty["text"] = ""
                deltas = [
                    {"type": "text_delta", "text": piece} for piece in (block["text"][:3], block["text"][3:])
                ]
            case "tool_use":
                empty["input"] = {}
                deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        yield event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=stop, usage={"output_tokens": 5})
    yield event("message_stop")


# Responses.


def _check_responses(provider: StrictUpstream, body: dict[str, Any]) -> list[str]:
    if body.get("previous_response_id"):
        raise _Refused(f"Previous response with id '{body['previous_response_id']}' not found.")
    provider.thought.append("reasoning" in body)
    found: list[str] = []
    for item in body["input"]:
        if item.get("type") != "reasoning":
            continue
        encrypted = item.get("encrypted_content")
        words = "".join(part["text"] for part in item["summary"])
        if not encrypted:
            raise _Refused(f"Item with id '{item.get('id')}' not found: `store` is set to false.")
        if not provider.check(encrypted, words):
            raise _Refused(f"The encrypted content for item {item.get('id')} could not be verified.")
        found.append(encrypted)
    return found


def _write_responses(
    provider: StrictUpstream, body: dict[str, Any]
) -> tuple[dict[str, Any], Iterator[bytes]]:
    output: list[dict[str, Any]] = []
    number = f"{provider.name}{provider.count}"
    if provider.thought[-1]:
        words = provider.thoughts(0) if provider.words else ""
        summary = [{"type": "summary_text", "text": words}] if words else []
        thought = {"type": "reasoning", "id": f"rs_{number}", "summary": summary}
        signature = provider.sign(words)
        if "reasoning.encrypted_content" in body.get("include", ()):
            thought["encrypted_content"] = signature
        output.append(thought)
    calls = body["input"][-1].get("type") != "function_call_output"
    if calls:
        output += [
            {"type": "function_call", "id": f"fc_{number}_{n}", "call_id": f"call_{number}_{n}",
             "name": "weather", "arguments": json.dumps({"city": f"C{n}"}), "status": "completed"}
            for n in (0, 1)
        ]  # fmt: skip
    else:
        part = {
            "type": "output_text",
            "text": f"{provider.name}: answer  {provider.count}\n",
            "annotations": [],
        }
        output.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
                       "content": [part]})  # fmt: skip
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    response = {"id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed",
                "model": provider.name, "output": output, "usage": usage}  # fmt: skip
    return response, _responses_events(response)


_EMPTY: Final[dict[str, Any]] = {"summary": [], "content": [], "arguments": ""}


def _responses_events(response: dict[str, Any]) -> Iterator[bytes]:
    number = 0

    def event(kind: str, **members: Any) -> bytes:
        nonlocal number
        number += 1
        return sse.event(json.dumps({"type": kind, "sequence_number": number - 1, **members}).encode(), kind)

    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=begun)
    for at, item in enumerate(response["output"]):
        begin = {name: value for name, value in item.items() if name != "encrypted_content"}
        begin |= {name: empty for name, empty in _EMPTY.items() if name in item}
        yield event("response.output_item.added", output_index=at, item=begin)
        place = {"output_index": at, "item_id": item["id"]}
        for part in item.get("summary", ()):
            yield event("response.reasoning_summary_text.delta", **place, summary_index=0, delta=part["text"])
        for part in item.get("content", ()):
            yield event("response.output_text.delta", **place, content_index=0, delta=part["text"])
        if "arguments" in item:
            yield event("response.function_call_arguments.delta", **place, delta=item["arguments"])
        yield event("response.output_item.done", output_index=at, item=item)
    yield event("response.completed", response=response)


# Chat.


def _check_chat(provider: StrictUpstream, body: dict[str, Any]) -> list[str]:
    provider.thought.append("reasoning_effort" in body)
    for at, message in enumerate(body["messages"]):
        if unknown := message.keys() - {"role", "content", "tool_calls", "tool_call_id", "refusal"}:
            raise _Refused(f"Unknown parameter: 'messages[{at}].{unknown.pop()}'.")
    return []


def _write_chat(provider: StrictUpstream, body: dict[str, Any]) -> tuple[dict[str, Any], Iterator[bytes]]:
    number = f"{provider.name}{provider.count}"
    calls = body["messages"][-1]["role"] != "tool"
    message: dict[str, Any] = {"role": "assistant", "content": f"{provider.name}: answer {provider.count}"}
    if calls:
        message["content"] = None
        message["tool_calls"] = [
            {"id": f"call_{number}_{n}", "type": "function",
             "function": {"name": "weather", "arguments": json.dumps({"city": f"C{n}"})}}
            for n in (0, 1)
        ]  # fmt: skip
    head = {"id": f"chatcmpl-{number}", "created": 1, "model": provider.name}
    reason = "tool_calls" if calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    answer = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    return answer, _chat_events(head, message, reason)


def _chat_events(head: dict[str, Any], message: dict[str, Any], reason: str) -> Iterator[bytes]:
    delta = dict(message)
    if "tool_calls" in delta:
        delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(delta["tool_calls"])]
    for delta_, finish in ((delta, None), ({}, reason)):
        choice = {"index": 0, "delta": delta_, "finish_reason": finish}
        yield sse.event(json.dumps({**head, "object": "chat.completion.chunk", "choices": [choice]}).encode())
    yield b"data: [DONE]\n\n"


_CHECKS: Final = {MESSAGES: _check_messages, RESPONSES: _check_responses, CHAT: _check_chat}
_WRITERS: Final = {MESSAGES: _write_messages, RESPONSES: _write_responses, CHAT: _write_chat}


# Callers.


class Caller:
    """An agent of one format that sends back of an answer all that it has been given, as the SDKs do."""

    path = ""
    items = ""
    text = "text"  # the type of a part that is one

    def __init__(self, **settings: Any) -> None:
        self.history: list[Any] = []
        self.settings = settings

    def body(self, model: str, *, stream: bool) -> bytes:
        """Return the next request: a person's words, or the results of the calls just made."""
        results = self.results()
        self.history += results or [self.words(f"Question {len(self.history)}?")]
        asked = {"model": model, **self.request(), **self.settings, self.items: self.history}
        return json.dumps(asked | ({"stream": True} if stream else {})).encode()

    def words(self, text: str) -> Any:
        return {"role": "user", "content": [{"type": self.text, "text": text}]}

    def request(self) -> dict[str, Any]:
        raise NotImplementedError

    def results(self) -> list[Any]:
        raise NotImplementedError

    def take(self, answer: bytes, *, stream: bool) -> None:
        """Put an answer into the history."""
        raise NotImplementedError


def _payloads(stream: bytes) -> list[dict[str, Any]]:
    found = [sse.data(event) for event in sse.events(stream)]
    return [json.loads(data) for data in found if data and data != b"[DONE]"]


class ChatCaller(Caller):
    """An agent that speaks chat, and sends no reasoning back: it has no place for it."""

    path, items = "/v1/chat/completions", "messages"

    def request(self) -> dict[str, Any]:
        tool = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
        return {"max_tokens": 20_000, "reasoning_effort": "low", "tools": [tool]}

    def results(self) -> list[Any]:
        calls = (self.history[-1].get("tool_calls") or ()) if self.history else ()
        return [{"role": "tool", "tool_call_id": call["id"], "content": TOOL_RESULT} for call in calls]

    def take(self, answer: bytes, *, stream: bool) -> None:
        if not stream:
            message = json.loads(answer)["choices"][0]["message"]
        else:
            message = {"content": "", "tool_calls": []}
            for chunk in _payloads(answer):
                for choice in chunk["choices"]:
                    message["content"] += choice["delta"].get("content") or ""
                    for piece in choice["delta"].get("tool_calls") or ():
                        if piece["index"] == len(message["tool_calls"]):
                            message["tool_calls"].append({**piece, "function": {"name": "", "arguments": ""}})
                        function = message["tool_calls"][piece["index"]]["function"]
                        function["name"] += piece["function"].get("name") or ""
                        function["arguments"] += piece["function"].get("arguments") or ""
        kept: dict[str, Any] = {"role": "assistant", "content": message["content"]}
        if calls := message.get("tool_calls"):
            kept["tool_calls"] = [
                {"id": call["id"], "type": "function", "function": call["function"]} for call in calls
            ]
        self.history.append(kept)


class ResponsesCaller(Caller):
    """An agent that speaks Responses and holds the conversation itself, as Codex does."""

    path, items, text = "/v1/responses", "input", "input_text"

    def request(self) -> dict[str, Any]:
        tool = {"type": "function", "name": "weather", "parameters": SCHEMA}
        return {"store": False, "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low"},
                "tools": [tool]}  # fmt: skip

    def results(self) -> list[Any]:
        done = {item["call_id"] for item in self.history if item.get("type") == "function_call_output"}
        calls = [
            i["call_id"]
            for i in self.history
            if i.get("type") == "function_call" and i["call_id"] not in done
        ]
        return [{"type": "function_call_output", "call_id": call, "output": TOOL_RESULT} for call in calls]

    def take(self, answer: bytes, *, stream: bool) -> None:
        response = _payloads(answer)[-1]["response"] if stream else json.loads(answer)
        self.history += response["output"]


class MessagesCaller(Caller):
    """An agent that speaks Messages."""

    path, items = "/v1/messages", "messages"

    def request(self) -> dict[str, Any]:
        return {"max_tokens": 20_000, "thinking": {"type": "enabled", "budget_tokens": 2_048},
                "tools": [{"name": "weather", "input_schema": SCHEMA}]}  # fmt: skip

    def results(self) -> list[Any]:
        if not self.history:
            return []
        calls = [block["id"] for block in self.history[-1]["content"] if block["type"] == "tool_use"]
        content = [{"type": "tool_result", "tool_use_id": call, "content": TOOL_RESULT} for call in calls]
        return [{"role": "user", "content": content}] if content else []

    def take(self, answer: bytes, *, stream: bool) -> None:
        content = _blocks(_payloads(answer)) if stream else json.loads(answer)["content"]
        self.history.append({"role": "assistant", "content": content})


def _blocks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            for name, value in event["delta"].items():
                if name != "type":
                    place = "json" if name == "partial_json" else name
                    blocks[-1][place] = blocks[-1].get(place, "") + value
    for block in blocks:
        written = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(written or "{}")
    return blocks


CALLERS: Final[dict[WireFormat, type[Caller]]] = {
    CHAT: ChatCaller,
    RESPONSES: ResponsesCaller,
    MESSAGES: MessagesCaller,
}
