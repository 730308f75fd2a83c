"""GitHub Copilot CLI: it states the role in headers, and names no session."""

from __future__ import annotations

from typing import Final

from pointsman.vocabulary import Purpose
from pointsman.wire.clients._client import Client, Mark

__all__ = ["COPILOT"]

_TYPE: Final = b"x-interaction-type"

COPILOT: Final = Client(
    name="Copilot CLI",
    read="version 1.0.102 of November 2026: requests of `copilot -p` with a provider of one's own recorded "
    "behind a base URL, and the values of the header that the program holds",
    headers=(_TYPE, b"x-initiator"),
    stated_subagents=((_TYPE, b"conversation-subagent"),),
    folders=("* Current working directory: ",),
    marks=(
        Mark(Purpose.COMPACTION, "Copilot compacts", header=(_TYPE, b"conversation-compaction")),
        Mark(Purpose.HELPER, "Copilot's background request", header=(_TYPE, b"conversation-background")),
    ),
)
