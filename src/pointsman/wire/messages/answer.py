"""Messages: ``POST /v1/messages``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import WireFormat
from pointsman.wire import sse
from pointsman.wire.base import End, Ending, Fault, Reply, Usage, lenient

__all__ = ["MESSAGES"]

_encode: Final = msgspec.json.encode

#: Anthropic's documented error types by status.
_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STATUS: Final = {kind: status for status, kind in _TYPES.items()}


class _Usage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None


class _Answer(msgspec.Struct, gc=False):
    usage: msgspec.Raw = msgspec.Raw()


class _Error(msgspec.Struct, gc=False):
    type: str = ""


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    message: _Answer | None = None
    usage: msgspec.Raw = msgspec.Raw()
    error: _Error | None = None


_decode_usage: Final = msgspec.json.Decoder(_Usage | None).decode
_decode_answer: Final = msgspec.json.Decoder(_Answer).decode
_decode_event: Final = msgspec.json.Decoder(_Event).decode


class _MessagesWire:
    format: Final = WireFormat.MESSAGES
    items: Final = "messages"
    path: Final = b"/messages"

    def usage(self, answer: bytes) -> Usage:
        return _usage(_decode_answer(answer).usage, msgspec.Raw())

    def end(self, blocks: Sequence[bytes]) -> End:
        ending = Ending.CUT
        start = final = msgspec.Raw()
        for event in _events(blocks):
            if event.type == "message_start" and event.message:
                start = event.message.usage
            elif event.type == "message_delta":
                final = event.usage
            elif event.type == "message_stop":
                ending = Ending.COMPLETE
            elif event.type == "error":
                ending = Ending.REFUSED
        return End(ending, _usage(start, final))

    def refusal(self, block: bytes) -> int | None:
        event = next(_events((block,)), None)
        if event is None or event.type != "error":
            return None
        return _STATUS.get(event.error.type, 502) if event.error else 502

    def is_error(self, answer: bytes) -> bool:
        try:
            return _decode_event(answer).error is not None
        except UNREADABLE:
            return False

    def error(self, fault: Fault) -> bytes:
        kind = _TYPES.get(fault.status, "api_error" if fault.status >= 500 else "invalid_request_error")
        return _encode({"type": "error", "error": {"type": kind, "message": fault.message}})

    def error_event(self, fault: Fault, blocks: Sequence[bytes]) -> bytes:  # noqa: ARG002 - not numbered
        return sse.event(self.error(fault), "error")

    def answer(self, reply: Reply) -> bytes:
        return _encode(_message(reply, [_block(reply)], _stop(reply), reply.output_tokens))

    def answer_events(self, reply: Reply) -> Iterator[bytes]:
        def event(kind: str, **fields: Any) -> bytes:
            return sse.event(_encode({"type": kind, **fields}), kind)

        block = _block(reply)
        yield event("message_start", message=_message(reply, [], None, 1))
        empty: dict[str, Any] = {"input": {}} if reply.tool else {"text": ""}
        yield event("content_block_start", index=0, content_block={**block, **empty})
        if reply.tool:
            partial = _encode(reply.arguments).decode()
            yield event(
                "content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": partial}
            )
        for piece in reply.pieces():
            yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield event("content_block_stop", index=0)
        stop = {"stop_reason": _stop(reply), "stop_sequence": None}
        yield event("message_delta", delta=stop, usage={"output_tokens": reply.output_tokens})
        yield event("message_stop")


def _events(blocks: Sequence[bytes]) -> Iterator[_Event]:
    for single in sse.events(b"".join(blocks)):
        try:
            yield _decode_event(sse.data(single))
        except UNREADABLE:
            continue


def _usage(start: msgspec.Raw, final: msgspec.Raw) -> Usage:
    """Put together what ``message_start`` and ``message_delta`` report; the later one counts."""
    first = lenient(_decode_usage, start) or _Usage()
    then = lenient(_decode_usage, final) or _Usage()

    def pick(field: str) -> int | None:
        later: int | None = getattr(then, field)
        earlier: int | None = getattr(first, field)
        return earlier if later is None else later

    plain, cached, written = (
        pick("input_tokens"),
        pick("cache_read_input_tokens"),
        pick("cache_creation_input_tokens"),
    )
    whole = None if plain is None else plain + (cached or 0) + (written or 0)
    return Usage(whole, cached, pick("output_tokens"))


def _block(reply: Reply) -> dict[str, Any]:
    if reply.tool:
        return {
            "type": "tool_use",
            "id": f"toolu_{reply.id}",
            "name": reply.tool,
            "input": dict(reply.arguments),
            "caller": {"type": "direct"},
        }
    return {"type": "text", "text": reply.text, "citations": None}


def _stop(reply: Reply) -> str:
    return "tool_use" if reply.tool else "end_turn"


def _message(reply: Reply, content: list[dict[str, Any]], stop: str | None, output: int) -> dict[str, Any]:
    usage = {
        "input_tokens": reply.input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": None,
        "server_tool_use": None,
        "service_tier": "standard",
        "inference_geo": None,
    }
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": usage,
    }


MESSAGES: Final = _MessagesWire()
