"""Responses, as strict as a provider: encrypted reasoning is checked, and every call has its output."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from pointsman.wire import sse
from real_agents.checks import check_call, check_name, error, first_parameter, known, one_of, text_of
from real_agents.task import Asked, Issued, Offered, Planned, Provider, Refusal

__all__ = ["PATH", "answer", "error", "events", "read"]

PATH: Final = "/v1/responses"
_MEMBERS: Final = {
    "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream",
    "stream_options", "max_output_tokens", "max_tool_calls", "temperature", "top_p", "top_logprobs", "user",
    "text", "reasoning", "store", "include", "metadata", "service_tier", "prompt_cache_key",
    "safety_identifier", "truncation", "previous_response_id", "background", "conversation", "prompt",
}  # fmt: skip
_USAGE: Final = {
    "input_tokens": 1200,
    "input_tokens_details": {"cached_tokens": 1000},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 10},
    "total_tokens": 1240,
}
_EFFORTS: Final = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}
#: Members of a part, and those that may be there too.
_TEXT: Final = ("type", "text")
_BESIDE: Final = ("annotations", "logprobs")


def read(body: dict[str, Any], headers: dict[str, str], provider: Provider) -> Asked:
    """Read a request. Raises ``Refusal``."""
    codex = headers.get("originator", "").startswith("codex")
    known(body, _MEMBERS | ({"client_metadata"} if codex else set()), "request", ("model", "input"))
    reasoning = known(
        body.get("reasoning", {}), {"effort", "summary", *({"context"} if codex else ()), "mode"}, "reasoning"
    )
    if reasoning.get("effort") is not None:
        one_of(reasoning["effort"], _EFFORTS, "reasoning.effort")
    known(body.get("text", {}), {"format", "verbosity"}, "text")
    reader = _Reader(provider, codex)
    tools = tuple(reader.tools(body.get("tools") or [], ""))
    asked = body["input"]
    if isinstance(asked, list):
        reader.items(asked)
    return Asked(
        tools + tuple(reader.additional),
        tuple(reader.calls),
        reader.results,
        is_parallel=body.get("parallel_tool_calls", True),
        thinks=reasoning.get("effort", "medium") != "none",
        streams=bool(body.get("stream")),
        model=body["model"],
        stores=body.get("store", True),
    )


class _Reader:
    """Reads items in their order."""

    def __init__(self, provider: Provider, codex: bool) -> None:
        self._provider = provider
        self._codex = codex
        self.additional: list[Offered] = []
        self.calls: list[str] = []
        self.results: dict[str, str] = {}

    def tools(self, tools: list[Any], namespace: str) -> Iterator[Offered]:
        for at, tool in enumerate(tools):
            where = f"tools[{at}]"
            match tool.get("type"):
                case "function":
                    members = {"type", "name", "description", "parameters", "strict", "output_schema",
                               "defer_loading"}  # fmt: skip
                    known(tool, members, where, ("name",))
                    field = first_parameter(tool["parameters"], where)
                    yield Offered(check_name(tool["name"], where), namespace, field=field)
                case "custom":
                    known(tool, {"type", "name", "description", "format"}, where, ("name",))
                    yield Offered(check_name(tool["name"], where), namespace, custom=True)
                case "namespace":
                    known(tool, {"type", "name", "description", "tools"}, where, ("name", "tools"))
                    yield from self.tools(tool["tools"], check_name(tool["name"], where))
                case "web_search" | "tool_search" | "image_generation" if self._codex:
                    pass  # offered by an agent that knows this provider; the task has no use for it
                case other:
                    raise Refusal(f"{where}.type: {other!r} is unknown")

    def items(self, items: list[Any]) -> None:
        for at, item in enumerate(items):
            kind = item.get("type") or ("message" if "role" in item else "")
            if self._codex:
                item.pop("internal_chat_message_metadata_passthrough", None)
            self._item(kind, item, f"input[{at}]")
        if missing := [call for call in self.calls if call not in self.results]:
            raise Refusal(f"no tool output found for function call {missing}")

    def _item(self, kind: str, item: dict[str, Any], where: str) -> None:
        match kind:
            case "message":
                self._message(item, where)
            case "function_call" | "custom_tool_call":
                self._call(item, where)
            case "function_call_output" | "custom_tool_call_output":
                self._output(item, where)
            case "reasoning":
                self._reasoning(item, where)
            case "item_reference":
                if item.get("id") not in self._provider.stored:
                    raise Refusal(f"{where}: item with id {item.get('id')!r} not found")
            case "additional_tools" if self._codex:
                self.additional += self.tools(item["tools"], "")
            case "configuration_update" if self._codex:
                pass
            case _:
                raise Refusal(f"{where}.type: {kind!r} is unknown")

    def _message(self, item: dict[str, Any], where: str) -> None:
        known(item, {"type", "role", "content", "id", "status", "phase"}, where, ("role", "content"))
        role = item["role"]
        one_of(role, {"user", "assistant", "system", "developer"}, f"{where}.role")
        content = item["content"]
        if role == "user" and isinstance(content, list):
            content = [part for part in content if part.get("type") not in {"input_image", "input_file"}]
            if not content:
                return
        kind = "output_text" if role == "assistant" else "input_text"
        text_of(content, {kind: _TEXT}, f"{where}.content", _BESIDE)

    def _call(self, item: dict[str, Any], where: str) -> None:
        custom = item["type"] == "custom_tool_call"
        value = "input" if custom else "arguments"
        known(
            item, {"type", "id", "call_id", "name", "status", "namespace", value}, where, ("call_id", "name")
        )
        issued = self._provider.task.issued.get(item["call_id"])
        if issued and issued.by is not self._provider.spoken:
            issued = None  # the tools of another format have no namespaces
        if issued and (item.get("namespace") or "") != issued.tool.namespace:
            raise Refusal(f"{where}: the tool of {item['call_id']} is in {issued.tool.namespace!r}")
        if issued and custom != issued.tool.custom:
            raise Refusal(f"{where}: {item['call_id']} is a call of another kind")
        self.calls.append(check_call(self._provider, item["call_id"], item["name"], item[value], where))

    def _output(self, item: dict[str, Any], where: str) -> None:
        known(item, {"type", "id", "call_id", "output", "status", "name"}, where, ("call_id", "output"))
        if item["call_id"] not in self.calls:
            raise Refusal(f"{where}: no tool call found for {item['call_id']!r}")
        issued = self._provider.task.issued[item["call_id"]]
        custom = issued.tool.custom and issued.by is self._provider.spoken
        if custom and item["type"] != "custom_tool_call_output":
            raise Refusal(f"{where}: {item['type']} for a custom tool")
        kinds = {"input_text": _TEXT, "output_text": _TEXT}
        output = text_of(item["output"], kinds, f"{where}.output", _BESIDE)
        self.results[item["call_id"]] = self.results.get(item["call_id"], "") + output

    def _reasoning(self, item: dict[str, Any], where: str) -> None:
        members = {"type", "id", "summary", "content", "encrypted_content", "status"}
        known(item, members, where, ("summary",))
        if item.get("encrypted_content") not in self._provider.signatures:
            raise Refusal(f"{where}: the encrypted content could not be verified")
        self._provider.returned.add(item["encrypted_content"])


def _response(turn: Asked, status: str, output: list[Any]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": turn.model,
        "output": output,
        "parallel_tool_calls": turn.is_parallel,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": _USAGE if status == "completed" else None,
    }


def _items(said: Planned, turn: Asked, provider: Provider) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if said.thinking:
        summary = [{"type": "summary_text", "text": said.thinking}]
        found.append(
            {
                "type": "reasoning",
                "id": f"rs_{said.signature}",
                "summary": summary,
                "encrypted_content": said.signature,
            }
        )
    content = [{"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}]
    found.append(
        {
            "type": "message",
            "id": f"msg_{secrets.token_hex(12)}",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    )
    found += [_call(call) for call in said.calls]
    if turn.stores:
        provider.stored |= {item["id"] for item in found}
    return found


def _call(call: Issued) -> dict[str, Any]:
    kind, value = ("custom_tool_call", "input") if call.tool.custom else ("function_call", "arguments")
    item = {
        "type": kind,
        "id": f"fc_{call.id}",
        "status": "completed",
        "call_id": call.id,
        "name": call.tool.name,
        value: call.json,
    }
    return item | ({"namespace": call.tool.namespace} if call.tool.namespace else {})


def answer(said: Planned, turn: Asked, provider: Provider) -> dict[str, Any]:
    """The whole answer."""
    return _response(turn, "completed", _items(said, turn, provider))


def events(said: Planned, turn: Asked, provider: Provider) -> Iterator[bytes]:
    number = count()

    def event(kind: str, **members: Any) -> bytes:
        data = {"type": kind, "sequence_number": next(number), **members}
        return sse.event(json.dumps(data).encode(), kind)

    for kind in ("response.created", "response.in_progress"):
        yield event(kind, response=_response(turn, "in_progress", []))
    items = _items(said, turn, provider)
    for index, item in enumerate(items):
        yield event("response.output_item.added", output_index=index, item=_begun(item))
        for kind, members in _pieces(item):
            yield event(kind, item_id=item["id"], output_index=index, **members)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=_response(turn, "completed", items))


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"summary": [], "content": [], "arguments": "", "input": ""}
    begun = {name: empty.get(name, value) for name, value in item.items()}
    return begun | ({"status": "in_progress"} if "status" in item else {})


def _pieces(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    match item["type"]:
        case "reasoning":
            [part] = item["summary"]
            place = {"summary_index": 0}
            kind = "response.reasoning_summary_text"
            yield "response.reasoning_summary_part.added", {**place, "part": {**part, "text": ""}}
            yield f"{kind}.delta", {**place, "delta": part["text"]}
            yield f"{kind}.done", {**place, "text": part["text"]}
            yield "response.reasoning_summary_part.done", {**place, "part": part}
        case "message":
            [part] = item["content"]
            place = {"content_index": 0}
            yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
            for word in part["text"].split(" "):
                yield "response.output_text.delta", {**place, "delta": word + " ", "logprobs": []}
            yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
            yield "response.content_part.done", {**place, "part": part}
        case kind:
            value = "input" if kind == "custom_tool_call" else "arguments"
            name = "custom_tool_call_input" if kind == "custom_tool_call" else "function_call_arguments"
            text = item[value]
            for at in range(0, len(text), 9):
                yield f"response.{name}.delta", {"delta": text[at : at + 9]}
            yield f"response.{name}.done", {value: text}
