"""Reads a request body into an agent request, with its session and stored conversation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

import msgspec

from pointsman.errors import MalformedRequest
from pointsman.gateway.conversations import Continuation, Conversations
from pointsman.gateway.session_id import fingerprint, named_session
from pointsman.offload import offload
from pointsman.vocabulary import LARGE, AgentRequest
from pointsman.wire import Body
from pointsman.wire.request import read_request
from pointsman.wire.responses.stored_conversation import StoredConversation

__all__ = ["read_turn"]


async def read_turn(
    headers: Mapping[bytes, bytes], body: Body, conversations: Conversations
) -> tuple[AgentRequest, Continuation | None]:
    """Read a request, and the conversation that it continues where the provider keeps that.

    Raises:
        MalformedRequest: it names no model, or is not what its format asks for.
    """
    if "model" not in body and "prompt" not in body:  # a stored prompt may name one
        raise MalformedRequest(
            "the request names no model", hint='the model "auto" lets the gateway choose', param="model"
        )
    now, size = time.time(), len(body.raw)
    continuation = conversations.continued(body, now) if body.wire.is_stateful else None
    session = named_session(headers, body) or (continuation.session if continuation else "")
    earlier = continuation.earlier if continuation else None
    if size <= LARGE:
        return _request(body, session, now, earlier), continuation
    return await offload(size, partial(_request, body, session, now, earlier)), continuation


def _request(body: Body, session: str, arrived_at: float, earlier: StoredConversation | None) -> AgentRequest:
    """Read a request; its words name the session where nothing else does."""
    agent_request = read_request(
        body.wire.format, body, session=session, arrived_at=arrived_at, earlier=earlier
    )
    return (
        agent_request
        if session
        else msgspec.structs.replace(agent_request, session=fingerprint(agent_request))
    )
