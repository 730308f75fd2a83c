"""Messages, as strict as a provider: thinking carries a signature that nobody else can write."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import Any, Final

from pointsman.wire import sse
from real_agents.checks import check_call, check_name, first_parameter, items, known, offered_names, one_of
from real_agents.task import Asked, Offered, Planned, Provider, Refusal

__all__ = ["PATH", "answer", "error", "events", "read"]

PATH: Final = "/v1/messages"
_MEMBERS: Final = {
    "model", "messages", "system", "tools", "tool_choice", "max_tokens", "stream", "temperature", "top_p",
    "top_k", "stop_sequences", "metadata", "thinking", "output_config", "service_tier",
}  # fmt: skip
_BETA: Final = {"context_management", "mcp_servers", "container", "speed", "betas"}  # with anthropic-beta
_BREAKPOINTS: Final = 4
_USAGE: Final = {
    "input_tokens": 200,
    "cache_read_input_tokens": 1000,
    "cache_creation_input_tokens": 0,
    "output_tokens": 40,
}


def read(body: dict[str, Any], headers: dict[str, str], provider: Provider) -> Asked:
    """Read a request. Raises ``Refusal``."""
    beta = headers.get("anthropic-beta", "")
    known(body, _MEMBERS | (_BETA if beta else set()), "request", ("model", "messages", "max_tokens"))
    if "anthropic-version" not in headers:
        raise Refusal("anthropic-version: header is required")
    if json.dumps(body).count('"cache_control"') > _BREAKPOINTS:
        raise Refusal("more than four cache breakpoints")
    thinks = _thinking(body)
    if "metadata" in body:
        known(body["metadata"], {"user_id"}, "metadata")
    tools = tuple(_tool(tool, f"tools[{at}]") for at, tool in enumerate(body.get("tools") or ()))
    offered_names(tools)
    choice = body.get("tool_choice") or {"type": "auto"}
    if "tool_choice" in body and not tools:
        raise Refusal("tool_choice without tools")
    one_of(choice["type"], {"auto", "any", "tool", "none"}, "tool_choice.type")
    if thinks and choice["type"] in {"any", "tool"}:
        raise Refusal("thinking does not go with a forced tool")
    _texts(body.get("system", ""), "system")
    needs_thinking = body.get("thinking", {}).get("type") == "enabled"  # adaptive thinking may be left out
    late = "mid-conversation" in beta
    own = {"output_config"} if "per-turn-control" in beta else set()
    reader = _Reader(provider, late, own)
    calls, results = reader.messages(items(body["messages"], "messages"), needs_thinking)
    return Asked(
        tools,
        calls,
        results,
        is_parallel=not choice.get("disable_parallel_tool_use", False),
        thinks=thinks,
        streams=bool(body.get("stream")),
        model=body["model"],
    )


def _thinking(body: dict[str, Any]) -> bool:
    thinking = known(
        body.get("thinking", {"type": "disabled"}),
        {"type", "budget_tokens", "display"},
        "thinking",
        ("type",),
    )
    kind = thinking["type"]
    one_of(kind, {"enabled", "adaptive", "disabled"}, "thinking.type")
    if kind == "disabled":
        return False
    if kind == "enabled" and not 1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
        raise Refusal("thinking.budget_tokens: at least 1024 and less than max_tokens")
    if body.get("temperature", 1) != 1 or "top_k" in body or body.get("top_p", 1) < 0.95:
        raise Refusal("thinking does not go with temperature, top_k, or top_p below 0.95")
    return True


def _tool(tool: Any, where: str) -> Offered:
    known(
        tool,
        {"name", "description", "input_schema", "cache_control", "type", "strict", "eager_input_streaming",
         "defer_loading"},
        where,
        ("name", "input_schema"),
    )  # fmt: skip
    one_of(tool.get("type", "custom"), {"custom"}, f"{where}.type")
    return Offered(check_name(tool["name"], where), field=first_parameter(tool["input_schema"], where))


def _texts(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    for at, block in enumerate(content):
        known(block, {"type", "text", "cache_control", "citations"}, f"{where}[{at}]", ("type", "text"))
        one_of(block["type"], {"text"}, f"{where}[{at}].type")
        if not block["text"].strip():
            raise Refusal(f"{where}[{at}]: text blocks must hold more than white space")
    return "".join(block["text"] for block in content)


class _Reader:
    """Reads messages in their order."""

    def __init__(self, provider: Provider, late_system: bool, own_members: set[str]) -> None:
        self._provider = provider
        self._late_system = late_system
        self._own_members = own_members  # of a message, beside role and content
        self.calls: list[str] = []
        self.results: dict[str, str] = {}
        self._open: list[str] = []

    def messages(self, messages: list[Any], thinks: bool) -> tuple[tuple[str, ...], dict[str, str]]:
        if messages[0].get("role") != "user":
            raise Refusal("messages[0]: the first message is a user's")
        for at, message in enumerate(messages):
            where = f"messages[{at}]"
            known(message, {"role", "content"} | self._own_members, where, ("role", "content"))
            one_of(message["role"], {"user", "assistant", *(["system"] if self._late_system else [])}, where)
            if message["role"] == "assistant":
                self._assistant(message["content"], where)
            elif message["role"] == "system":
                _texts(message["content"], where)
            else:
                self._user(message["content"], where)
        if self._open or messages[-1]["role"] == "assistant":
            raise Refusal(f"the last message is not a user's, or results are missing: {self._open}")
        if thinks:
            _check_last_turn(messages)
        return tuple(self.calls), self.results

    def _user(self, content: Any, where: str) -> None:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items(content, where)
        for at, block in enumerate(blocks):
            place, kind = f"{where}.content[{at}]", block.get("type")
            one_of(kind, {"text", "image", "document", "tool_result"}, f"{place}.type")
            if kind == "tool_result":
                self._result(block, place)
            elif self._open:
                raise Refusal(f"{place}: results come first; missing are {self._open}")
            elif kind == "text":
                _texts([block], place)
        if self._open:
            raise Refusal(f"{where}: results are missing for {self._open}")

    def _result(self, block: dict[str, Any], where: str) -> None:
        known(block, {"type", "tool_use_id", "content", "is_error", "cache_control"}, where, ("tool_use_id",))
        call = block["tool_use_id"]
        if call not in self._open:
            raise Refusal(f"{where}: a result for {call!r}, which waits for none")
        self._open.remove(call)
        content = block.get("content", "")
        if isinstance(content, list):
            for part in content:
                one_of(part.get("type"), {"text", "image", "document", "search_result"}, where)
            content = "".join(part.get("text", "") for part in content)
        self.results[call] = content

    def _assistant(self, content: Any, where: str) -> None:
        if self._open:
            raise Refusal(f"{where}: results are missing for {self._open}")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items(content, where)
        for at, block in enumerate(blocks):
            place, kind = f"{where}.content[{at}]", block.get("type")
            one_of(kind, {"text", "tool_use", "thinking", "redacted_thinking"}, f"{place}.type")
            if kind == "thinking":
                known(block, {"type", "thinking", "signature"}, place, ("thinking", "signature"))
                if self._provider.signatures.get(block["signature"]) != block["thinking"]:
                    raise Refusal(f"{place}: invalid `signature` in `thinking` block")
                self._provider.returned.add(block["signature"])
            elif kind == "tool_use":
                known(
                    block,
                    {"type", "id", "name", "input", "cache_control", "caller"},
                    place,
                    ("id", "name", "input"),
                )
                if not isinstance(block["input"], dict):
                    raise Refusal(f"{place}.input: an object is expected")
                self._open.append(
                    check_call(self._provider, block["id"], block["name"], block["input"], place)
                )
            elif kind == "text":
                _texts([block], place)
        self.calls += self._open


def _check_last_turn(messages: list[Any]) -> None:
    """While thinking, a turn that waits for results holds thinking: not before each call, but before one."""
    first = ""
    for message in reversed(messages):
        content = message["content"]
        kinds = ["text"] if isinstance(content, str) else [block["type"] for block in content]
        if message["role"] == "user" and "tool_result" not in kinds:
            break
        if message["role"] == "assistant":
            if "thinking" in kinds[0]:
                return
            first = first or kinds[0]
    if first:
        raise Refusal(f"while thinking, a turn of the assistant begins with thinking, not {first}")


def _head(turn: Asked) -> dict[str, Any]:
    return {
        "id": f"msg_{secrets.token_hex(12)}",  # Claude Code joins messages of one id when it resumes
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE | {"output_tokens": 1},
    }


def answer(said: Planned, turn: Asked, _: Provider) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if said.thinking:
        content.append({"type": "thinking", "thinking": said.thinking, "signature": said.signature})
    content.append({"type": "text", "text": said.text})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.tool.name, "input": call.arguments}
        for call in said.calls
    ]
    return _head(turn) | {"content": content, "stop_reason": _stop(said), "usage": _USAGE}


def _stop(said: Planned) -> str:
    return "tool_use" if said.calls else "end_turn"


def events(said: Planned, turn: Asked, _: Provider) -> Iterator[bytes]:
    yield _event("message_start", message=_head(turn))
    yield _event("ping")
    for index, (block, deltas) in enumerate(_blocks(said)):
        yield _event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    yield _event(
        "message_delta",
        delta={"stop_reason": _stop(said), "stop_sequence": None},
        usage={"output_tokens": 40},
    )
    yield _event("message_stop")


def _blocks(said: Planned) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if said.thinking:
        deltas = [
            {"type": "thinking_delta", "thinking": said.thinking},
            {"type": "signature_delta", "signature": said.signature},
        ]
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    words = [{"type": "text_delta", "text": word + " "} for word in said.text.split(" ")]
    yield {"type": "text", "text": ""}, words
    for call in said.calls:
        text = call.json if call.arguments else ""  # nothing is sent for a call without arguments
        pieces = [text[at : at + 9] for at in range(0, len(text), 9)]
        block = {"type": "tool_use", "id": call.id, "name": call.tool.name, "input": {}}
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _event(kind: str, **members: Any) -> bytes:
    return sse.event(json.dumps({"type": kind, **members}).encode(), kind)


def error(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
