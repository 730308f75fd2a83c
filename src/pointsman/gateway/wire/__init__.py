"""The three request formats: where each keeps the few things the gateway reads or writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pointsman.gateway.wire.base import End, Ending, Fault, Reply, Usage, Wire
from pointsman.gateway.wire.body import Body
from pointsman.gateway.wire.chat import CHAT
from pointsman.gateway.wire.messages import MESSAGES
from pointsman.gateway.wire.responses import RESPONSES
from pointsman.types import WireFormat

__all__ = ["WIRES", "Body", "End", "Ending", "Fault", "Reply", "Usage", "Wire"]

WIRES: Final[Mapping[WireFormat, Wire]] = {wire.format: wire for wire in (CHAT, RESPONSES, MESSAGES)}
