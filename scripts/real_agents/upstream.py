"""A strict scripted upstream of one format, on a port of its own."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from pointsman.vocabulary import WireFormat
from real_agents import strict_chat, strict_messages, strict_responses
from real_agents.task import Provider, Refusal
from support.servers import Running

__all__ = ["CALLERS_KEY", "UPSTREAMS_KEY", "scripted", "serving"]

CALLERS_KEY = "key-of-the-caller"
UPSTREAMS_KEY = "key-of-the-upstream"


#: What reads, answers and refuses in each format; all have the same functions.
_FORMATS: Final[dict[WireFormat, Any]] = {
    WireFormat.CHAT: strict_chat,
    WireFormat.RESPONSES: strict_responses,
    WireFormat.MESSAGES: strict_messages,
}


def scripted(
    provider: Provider, kept: Path | None = None, *, only: Container[int] | None = None
) -> Starlette:
    """An upstream.

    Args:
        provider: Whom it plays.
        kept: A folder for the bodies it gets.
        only: The steps at which it is up; None: all.
    """
    spoken, task = provider.spoken, provider.task
    wire = _FORMATS[spoken]

    async def ask(request: Request) -> Response:
        body = await request.body()
        headers = dict(request.headers)
        provider.asked.append(body)
        if kept:
            _keep(kept / f"{spoken}-{len(provider.asked):02d}.json", headers, body)
        try:
            _check_headers(spoken, headers, body)
            turn = wire.read(json.loads(body), headers, provider)
            if only is not None and turn.tools and turn.step + 1 not in only:
                return JSONResponse(wire.error("overloaded"), 503, {"retry-after": "60"})
            said = task.answer(turn, provider)
        except Refusal as refusal:
            task.refusals.append(str(refusal))
            return JSONResponse(wire.error(str(refusal)), 400)
        if turn.streams:
            return StreamingResponse(wire.events(said, turn, provider), media_type="text/event-stream")
        return JSONResponse(wire.answer(said, turn, provider))

    return Starlette(routes=[Route(wire.PATH, ask, methods=["POST"])])


def _keep(file: Path, headers: dict[str, str], body: bytes) -> None:
    file.write_text(json.dumps({"headers": headers, "body": json.loads(body)}, indent=1), encoding="utf-8")


def _check_headers(spoken: WireFormat, headers: dict[str, str], body: bytes) -> None:
    """The upstream's own key where its providers expect it; nothing of the caller's."""
    key = headers.get("x-api-key") if spoken is WireFormat.MESSAGES else headers.get("authorization")
    if key not in {UPSTREAMS_KEY, f"Bearer {UPSTREAMS_KEY}"}:
        raise Refusal("invalid API key")
    if CALLERS_KEY in str(headers) or CALLERS_KEY.encode() in body:
        raise Refusal("the caller's key has reached the upstream")
    if foreign := [name for name in headers if spoken is not WireFormat.MESSAGES and "anthropic" in name]:
        raise Refusal(f"headers of another provider: {foreign}")
    if any(name.startswith("x-pointsman") for name in headers):
        raise Refusal("headers of the gateway's own")


@contextmanager
def serving(app: ASGIApp) -> Iterator[int]:
    """Serve on a free port of loopback."""
    with Running(uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))) as running:
        yield running.port
