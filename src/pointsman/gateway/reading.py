"""From the body of a request to a turn: its session, and the conversation it goes on with."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

import msgspec

from pointsman.beside import beside
from pointsman.errors import MalformedRequest
from pointsman.gateway.conversations import Chains, Link
from pointsman.gateway.session_id import fingerprint, named_session
from pointsman.vocabulary import LARGE, Turn, WireFormat
from pointsman.wire import Body
from pointsman.wire.request import turn_from_body
from pointsman.wire.stored_conversation import Earlier

__all__ = ["read_turn"]


async def read_turn(
    wire: WireFormat, named: Mapping[bytes, bytes], body: Body, chains: Chains
) -> tuple[Turn, Link | None]:
    """Read a request, and the conversation that it continues where the provider keeps that.

    Raises:
        MalformedRequest: it names no model, or is not what its format asks for.
    """
    if "model" not in body.members and "prompt" not in body.members:  # a stored prompt may name one
        raise MalformedRequest(
            "the request names no model", hint='"auto" lets the gateway choose', param="model"
        )
    now, size = time.time(), len(body.raw)
    link = chains.continued(body, now) if wire is WireFormat.RESPONSES else None
    session = named_session(named, body) or (link.session if link else "")
    earlier = link.earlier if link else None
    if size <= LARGE:
        return _turn(wire, body, session, now, earlier), link
    return await beside(size, partial(_turn, wire, body, session, now, earlier)), link


def _turn(wire: WireFormat, body: Body, session: str, arrived_at: float, earlier: Earlier | None) -> Turn:
    """Read a request; its words name the session where nothing else does."""
    turn = turn_from_body(wire, body.readable, session=session, arrived_at=arrived_at, earlier=earlier)
    return turn if session else msgspec.structs.replace(turn, session=fingerprint(turn))
