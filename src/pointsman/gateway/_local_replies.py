"""Responses by the gateway itself, in the caller's format: errors, router commands, end of a stuck run."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from math import ceil
from typing import Any, Final

from pointsman.errors import (
    CallerError,
    IdempotencyKeyBusy,
    LimitReached,
    MethodNotAllowed,
    Overloaded,
    TooLarge,
    Unauthorized,
)
from pointsman.gateway._inbound import Receive, Scope, Send
from pointsman.gateway._relay import send_body
from pointsman.gateway._response_headers import Headers, request_id
from pointsman.gateway.upstream import header_value
from pointsman.offload import offload
from pointsman.text.extract import persons_words
from pointsman.vocabulary import AgentRequest
from pointsman.wire import Body, Fault, Format, Reply

__all__ = [
    "PATHS_HINT",
    "CapturedAnswer",
    "answer_command",
    "error_code",
    "request_line",
    "send_fault",
    "send_refusal",
    "send_shutting_down",
    "send_text",
    "whole_body",
]

#: Where agents find what they look for under another path.
PATHS_HINT: Final = "agents POST to /v1/chat/completions, /v1/responses or /v1/messages"

log = logging.getLogger(__name__)

#: An API key where a path should name something: somebody pasted it in the wrong place.
_KEY: Final = re.compile(r"\b(?:sk|pk|gsk|xai|key)-[\w-]{12,}")

#: Prefix of the in-band command. Source: docs/sources/prompt-classifier.md, "Configuration".
_COMMAND: Final = "/router"
#: Seconds that a caller who takes nothing may delay the shutdown: on any network, time for one packet.
_SHUTDOWN_REPLY: Final = 1.0
#: OpenAI's own codes, where it has one for an error of ours.
_OPENAI_CODES: Final = {
    "UnknownModel": "model_not_found",
    "Unauthorized": "invalid_api_key",
    "LimitReached": "rate_limit_exceeded",
}


async def send_refusal(
    wire: Format,
    error: CallerError | Overloaded,
    headers: Mapping[bytes, bytes],
    send: Send,
    scope: Scope | None = None,
) -> int:
    """Answer a request that cannot be served. Returns the status sent.

    Args:
        wire: The caller's format.
        error: Why.
        headers: The caller's, by name.
        send: Sends to the caller (ASGI).
        scope: Of the request (ASGI), for the log.
    """
    message = str(error)
    param = error.param if isinstance(error, CallerError) else None
    sent: Headers = []
    who = request_line(scope, headers) if scope else "a request"
    log.info("%s refused with status %d: %s", who, error.status, error.message)
    is_final = isinstance(error, CallerError) and not isinstance(error, IdempotencyKeyBusy | LimitReached)
    if is_final:  # without it Claude Code tries a wrong key again for a minute
        sent.append((b"x-should-retry", b"false"))
    if asked := request_id(headers):
        sent.append((b"x-request-id", asked))
    if error.status == Unauthorized.status:
        sent.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, MethodNotAllowed):
        sent.append((b"allow", error.allowed.encode()))
    if isinstance(error, IdempotencyKeyBusy | Overloaded):
        sent.append((b"retry-after", b"1"))
    if isinstance(error, LimitReached):
        sent += error.headers
        if error.wait is not None:
            sent.append((b"retry-after", b"%d" % ceil(error.wait)))
    if isinstance(error, CallerError) and error.decision:
        sent.append((b"x-pointsman-decision-id", error.decision.encode()))
    if isinstance(error, TooLarge | Overloaded) or b"expect" in headers:
        sent.append((b"connection", b"close"))  # the rest of the body is not read
    return await send_fault(wire, Fault(error.status, message, error_code(error), param), sent, send)


def request_line(scope: Scope, headers: Mapping[bytes, bytes]) -> str:
    """A request as the log names it: method, path, client, and the id that the caller gave it."""
    path = _KEY.sub("***", header_value(scope["raw_path"].decode("latin-1")).decode())
    client = f" of {scope['client'][0]}" if scope.get("client") else ""
    asked = header_value(request_id(headers).decode()).decode()
    return f"{scope['method']} {path}{client}{f' (x-request-id {asked})' if asked else ''}"


class CapturedAnswer:
    """The gateway's response to a request of this process: an ASGI ``send``."""

    def __init__(self) -> None:
        self.status = 0  # none yet
        self.headers: Headers = []
        self.body = b""

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        """Take the head, or a part of the body."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
        else:
            self.body += message.get("body", b"")


def whole_body(body: bytes) -> Receive:
    """Return an ASGI ``receive`` that has the whole body, and then a caller who stays."""
    unread = [body]

    async def receive() -> dict[str, Any]:
        if not unread:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": unread.pop(), "more_body": False}

    return receive


async def send_fault(wire: Format, fault: Fault, headers: Headers, send: Send) -> int:
    """Answer with an error. Returns the status sent."""
    headers.append((b"content-type", b"application/json"))
    await send_body(send, fault.status, headers, wire.error(fault))
    return fault.status


async def send_shutting_down(wire: Format, send: Send) -> int:
    """Tell the caller of a cancelled request that the gateway shuts down. Returns the status; 0: none sent.

    An answer that has begun is cut off by the server instead: it must not look whole.
    """
    log.warning("a request was cancelled: the gateway is shutting down")
    fault = Fault(503, "the gateway is shutting down", "shutting_down")
    headers: Headers = [(b"connection", b"close"), (b"retry-after", b"1")]
    with suppress(RuntimeError, TimeoutError):
        async with asyncio.timeout(_SHUTDOWN_REPLY):
            return await send_fault(wire, fault, headers, send)
    return 0


def error_code(error: CallerError | Overloaded) -> str:
    """Return a stable code: OpenAI's if it has one, else the name of the class in snake case."""
    name = type(error).__name__
    known = _OPENAI_CODES.get(name)
    return known or "".join(f"_{c.lower()}" if c.isupper() else c for c in name).strip("_")


async def answer_command(request: AgentRequest, command: Callable[[str, str], str]) -> str:
    """Return the answer to a ``/router`` message; empty when the request is none."""
    words = persons_words(request)
    if words.split(maxsplit=1)[:1] != [_COMMAND]:
        return ""
    asked = words.removeprefix(_COMMAND).strip()
    # The doctor takes a fifth of a second.
    return await offload(len(words), command, asked, request.caller, aside=True)


async def send_text(
    wire: Format, body: Body, request: AgentRequest, text: str, headers: Headers, send: Send
) -> int:
    """Answer with a text in the caller's format, streamed when it asked for a stream. Returns the status."""
    reply = Reply(
        id=hashlib.sha256(body.raw, usedforsecurity=False).hexdigest()[:24],
        model=request.model,
        text=text,
        created=int(request.arrived_at),
        wants_usage=b'"include_usage"' in body.raw,
        asked=body.members,
    )
    if not body.is_true("stream"):
        headers.append((b"content-type", b"application/json"))
        await send_body(send, 200, headers, wire.answer(reply))
        return 200
    headers.append((b"content-type", b"text/event-stream"))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for event in wire.answer_events(reply):
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    return 200
