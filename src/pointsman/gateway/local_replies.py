"""Answers of the gateway itself, without calling a model: router commands, and the end of a stuck run."""

from __future__ import annotations

import hashlib
from typing import Final

from pointsman.decision.decision import Decision
from pointsman.gateway.live_state import RouterCommand
from pointsman.gateway.relay import Headers, Send, send_body
from pointsman.text.extract import persons_words
from pointsman.vocabulary import AgentRequest
from pointsman.wire import Body, Reply, Wire

__all__ = ["answer_command", "last_word", "send_words"]

#: Prefix of the in-band command. Source: docs/sources/prompt-classifier.md, "Configuration".
_COMMAND: Final = "/router"


def answer_command(request: AgentRequest, command: RouterCommand | None) -> str:
    """Return the answer to a ``/router`` message; empty when the turn is none, or commands are off."""
    if command is None:
        return ""
    words = persons_words(request)
    if words.split(maxsplit=1)[:1] != [_COMMAND]:
        return ""
    return command(words.removeprefix(_COMMAND).strip())


def last_word(decision: Decision) -> str:
    """Return what ends a run that guidance stops; empty when it goes on."""
    guidance = decision.guidance
    if guidance is None or not guidance.stop or guidance.firing is None:
        return ""
    return f"Pointsman stopped this run: {guidance.firing.reason}. {guidance.firing.text}".strip()


async def send_words(
    wire: Wire, body: Body, request: AgentRequest, text: str, sent: Headers, send: Send
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
        sent.append((b"content-type", b"application/json"))
        await send_body(send, 200, sent, wire.answer(reply))
        return 200
    sent.append((b"content-type", b"text/event-stream"))
    await send({"type": "http.response.start", "status": 200, "headers": sent})
    for event in wire.answer_events(reply):
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
    return 200
