"""Floor 7: the audit of logs that agents and gateways left behind; nothing leaves the machine."""

from __future__ import annotations

from pointsman.audit.collect import Collection, Read
from pointsman.audit.figures import SessionFigures, figures
from pointsman.audit.session import Certainty, Request, Session, ToolUse, Usage
from pointsman.audit.sources import Home, Log, Source, sources

__all__ = [
    "Certainty",
    "Collection",
    "Home",
    "Log",
    "Read",
    "Request",
    "Session",
    "SessionFigures",
    "Source",
    "ToolUse",
    "Usage",
    "figures",
    "sources",
]
