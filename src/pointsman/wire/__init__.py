"""Floor 1: the three wire formats, and the fields that the gateway reads or writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pointsman.vocabulary import WireFormat
from pointsman.wire.base import End, Ending, Fault, Reply, Usage, Wire
from pointsman.wire.chat.answer import CHAT
from pointsman.wire.messages.answer import MESSAGES
from pointsman.wire.responses.answer import RESPONSES
from pointsman.wire.spans import Body

__all__ = ["WIRES", "Body", "End", "Ending", "Fault", "Reply", "Usage", "Wire"]

WIRES: Final[Mapping[WireFormat, Wire]] = {wire.format: wire for wire in (CHAT, RESPONSES, MESSAGES)}
