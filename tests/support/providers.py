"""Providers as strict as the real ones: a path they do not have is a 404, an unknown member a 400."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Fault, Format, Reply
from support.servers import Asked, ScriptedUpstream, reply

__all__ = ["SAID", "Provider"]

#: What every model answers.
SAID: Final = "Good day from a scripted model"

_OPENAI: Final = "frequency_penalty presence_penalty logit_bias n seed stop user"
#: Members of a chat request that OpenAI documents; others are refused by it.
_CHAT: Final = frozenset(
    (
        "messages model audio function_call functions logprobs max_completion_tokens max_tokens metadata "
        "modalities parallel_tool_calls prediction prompt_cache_key reasoning_effort response_format "
        "safety_identifier service_tier store stream stream_options temperature tool_choice tools "
        f"top_logprobs top_p verbosity web_search_options {_OPENAI}"
    ).split()
)


class Provider:
    """One provider: formats, key, models, and what it has been asked."""

    def __init__(
        self,
        formats: Sequence[str],
        models: Sequence[str],
        *,
        key: str = "",
        prefix: str = "/v1",
        calls_tools: bool = True,
        thinks: bool = False,
        lists: Mapping[str, Any] | None = None,
    ) -> None:
        """Take what it speaks.

        Args:
            formats: Wire formats, whose paths it has.
            models: Ids that it serves; any other is a 404.
            key: That callers must present; empty: none, as on a machine of one's own.
            prefix: Of its paths.
            thinks: Whether a thinking block comes first in an answer of Messages that is not streamed.
            calls_tools: Whether its models call a tool that is demanded.
            lists: More of each entry in its list of models.
        """
        self._wires = {
            prefix + FORMATS[WireFormat(each)].path.decode(): FORMATS[WireFormat(each)] for each in formats
        }
        self._models = tuple(models)
        self._key = key
        self._prefix = prefix
        self._calls_tools = calls_tools
        self._thinks = thinks
        self._lists = lists or {}
        self.refused: list[str] = []
        self.served = 0
        self._upstream = ScriptedUpstream(self._answer)

    @contextmanager
    def running(self) -> Iterator[str]:
        """Serve, and give the base URL."""
        with self._upstream.running() as url:
            yield url + self._prefix

    async def _answer(self, asked: Asked, send: Any) -> None:
        path = asked.path.partition("?")[0]
        if path == f"{self._prefix}/models" and not asked.body:
            data = [{"id": each, "object": "model", **self._lists} for each in self._models]
            await reply(send, 200, json.dumps({"object": "list", "data": data}).encode())
            return
        wire = self._wires.get(path)
        if wire is None:
            await self._refuse(send, 404, f"there is no {path}")
            return
        body = json.loads(asked.body)
        if why := self._wrong(wire, asked, body):
            await self._refuse(send, *why, wire=wire)
            return
        self.served += 1
        if self._thinks and not body.get("stream") and wire.format == "messages":
            answer = json.loads(wire.answer(_written(wire, body, calls_tools=self._calls_tools)))
            thought = {"type": "thinking", "thinking": "A greeting.", "signature": "c2lnbmVk"}
            answer["content"].insert(0, thought)
            await reply(send, 200, json.dumps(answer).encode())
            return
        await _send(
            wire, _written(wire, body, calls_tools=self._calls_tools), send, stream=body.get("stream")
        )

    def _wrong(self, wire: Format, asked: Asked, body: dict[str, Any]) -> tuple[int, str] | None:
        """The status and the reason of a refusal."""
        shown = asked.headers.get("x-api-key" if wire.format == "messages" else "authorization", "")
        shown = shown or asked.headers.get("authorization", "") if self._prefix != "/v1" else shown
        if self._key and shown.removeprefix("Bearer ") != self._key:
            return 401, "the key is wrong"
        if missing := [name for name in (wire.items, "model", *wire.required) if not body.get(name)]:
            return 400, f"{missing[0]} is required"
        if body["model"] not in self._models:
            return 404, f"there is no model {body['model']}"
        known = _CHAT if wire.format == "chat" else set(wire.members.names)
        if unknown := body.keys() - known:
            return 400, f"unrecognized argument {min(unknown)}"
        return _limits(wire, asked, body)

    async def _refuse(
        self, send: Any, status: int, why: str, wire: Format = FORMATS[WireFormat.CHAT]
    ) -> None:
        self.refused.append(why)
        await reply(send, status, wire.error(Fault(status, why, "refused")))


def _limits(wire: Format, asked: Asked, body: dict[str, Any]) -> tuple[int, str] | None:
    """What one provider alone insists on."""
    if wire.format == "messages" and "anthropic-version" not in asked.headers:
        return 400, "anthropic-version is required"
    if wire.format == "responses" and body.get("max_output_tokens", 16) < 16:
        return 400, "max_output_tokens is at least 16"
    reasons = wire.format == "chat" and body["model"].startswith("gpt-")
    if reasons and body["model"].startswith("gpt-6") and body.get("tools"):
        return 400, "function tools with reasoning are not supported in chat completions"
    if reasons and ("max_tokens" in body or body.get("temperature", 1) != 1):
        return 400, "a reasoning model takes max_completion_tokens and no temperature"
    return None


def _written(wire: Format, body: dict[str, Any], *, calls_tools: bool) -> Reply:
    tools = body.get("tools") or []
    name = ""
    if tools and body.get("tool_choice") in ("required", {"type": "any"}) and calls_tools:
        name = tools[0].get("name") or tools[0]["function"]["name"]
    return Reply(
        id="ab12",
        model=body["model"],
        text="" if name else SAID,
        tool=name,
        arguments={"status": "ready"} if name else {},
        input_tokens=12,
        output_tokens=6,
        wants_usage=bool(body.get("stream_options", {}).get("include_usage")) and wire.format == "chat",
    )


async def _send(wire: Format, answer: Reply, send: Any, *, stream: bool | None) -> None:
    if not stream:
        await reply(send, 200, wire.answer(answer))
        return
    head = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    for event in wire.answer_events(answer):
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
