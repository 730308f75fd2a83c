"""Floor 1: the wire formats, one folder each, and their shared parts.

A further format is one more folder and one name in ``FORMATS``. ``request.read_request`` reads a request of
any format; ``body.Body`` is a request body with the places of its members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pointsman.vocabulary import WireFormat
from pointsman.wire.body import Body
from pointsman.wire.chat import CHAT
from pointsman.wire.conversation import Usage
from pointsman.wire.format import End, Ending, Fault, Format, ModelCall, Reply
from pointsman.wire.messages import MESSAGES
from pointsman.wire.responses import RESPONSES

__all__ = ["ASKABLE", "ENDPOINTS", "FORMATS", "Body", "End", "Ending", "Fault", "Format", "Reply", "Usage",
           "guess_wire"]  # fmt: skip

#: In order of preference where one is to be chosen.
FORMATS: Final[Mapping[WireFormat, Format]] = {wire.format: wire for wire in (CHAT, RESPONSES, MESSAGES)}
#: By path, in both spellings: some clients add the version to their base URL, some to their path.
ENDPOINTS: Final[Mapping[bytes, Format]] = {
    prefix + wire.path: wire for wire in FORMATS.values() for prefix in (b"", b"/v1")
}
#: Those in which Pointsman queries models.
ASKABLE: Final[Mapping[WireFormat, ModelCall]] = {
    wire.format: wire.model_call for wire in FORMATS.values() if wire.model_call
}


def guess_wire(headers: Iterable[bytes], path: str = "") -> Format:
    """The format that a client speaks which asks for something else than an endpoint of a format.

    Args:
        headers: Names of the request's headers, in lower case.
        path: The path of its request.
    """
    names = frozenset(headers)
    for wire in FORMATS.values():
        if wire.header and (wire.header in names or wire.path.decode() in path):
            return wire
    return CHAT
