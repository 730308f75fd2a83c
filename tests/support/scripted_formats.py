"""The three formats as a test needs them: a request, an answer, and how each says that it is over."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Format, Reply

REPLY = Reply(id="ab12", model="model-0", text="Hello big world", input_tokens=3, output_tokens=4)


class Spoken(NamedTuple):
    """One format."""

    path: str
    wire: Format
    request: Callable[..., dict[str, Any]]
    closing: bytes  # stands in a stream that is whole, and only there
    message: Callable[[dict[str, Any]], str]  # the text of an error answer

    @property
    def whole(self) -> bytes:
        """An upstream's answer."""
        return self.wire.answer(REPLY)

    @property
    def events(self) -> list[bytes]:
        """The same as a stream."""
        return list(self.wire.answer_events(REPLY))

    def body(self, **extra: Any) -> bytes:
        """A request as bytes."""
        return json.dumps({**self.request(), **extra}).encode()


def _chat() -> dict[str, Any]:
    return {"model": "auto", "messages": [{"role": "user", "content": "hello"}]}


def _responses() -> dict[str, Any]:
    return {"model": "auto", "input": "hello"}


def _messages() -> dict[str, Any]:
    return {"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}


def _message(body: dict[str, Any]) -> str:
    return str(body["error"]["message"])


SPOKEN = {
    "chat": Spoken("/v1/chat/completions", FORMATS[WireFormat.CHAT], _chat, b"data: [DONE]", _message),
    "responses": Spoken(
        "/v1/responses", FORMATS[WireFormat.RESPONSES], _responses, b"event: response.completed", _message
    ),
    "messages": Spoken(
        "/v1/messages", FORMATS[WireFormat.MESSAGES], _messages, b"event: message_stop", _message
    ),
}
