"""Floor 1: the wire formats, one folder each, and what they share.

A further format is one more folder and one line of ``WIRES``. ``request.read_request`` reads a request of any
format; ``body.Body`` is a request body with the places of its members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pointsman.vocabulary import WireFormat
from pointsman.wire.base import End, Ending, Fault, ModelCall, Reply, Usage, Wire
from pointsman.wire.body import Body
from pointsman.wire.chat import CHAT
from pointsman.wire.messages import MESSAGES
from pointsman.wire.responses import RESPONSES

__all__ = ["ASKABLE", "WIRES", "Body", "End", "Ending", "Fault", "Reply", "Usage", "Wire", "guess_wire"]

#: In order of preference where one is to be chosen.
WIRES: Final[Mapping[WireFormat, Wire]] = {wire.format: wire for wire in (CHAT, RESPONSES, MESSAGES)}
#: Those in which Pointsman queries models.
ASKABLE: Final[Mapping[WireFormat, ModelCall]] = {
    wire.format: wire.model_call for wire in WIRES.values() if wire.model_call
}


def guess_wire(headers: Iterable[bytes], path: str = "") -> Wire:
    """The format that a client speaks which asks for something else than an endpoint of a format.

    Args:
        headers: Names of the request's headers, in lower case.
        path: Where it asked.
    """
    names = frozenset(headers)
    for wire in WIRES.values():
        if wire.header and (wire.header in names or wire.path.decode() in path):
            return wire
    return CHAT
