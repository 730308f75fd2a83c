"""Floor 6: where session memory is kept."""

from __future__ import annotations

from pointsman.sessions.memory import MemorySessions
from pointsman.sessions.port import SessionStore
from pointsman.sessions.sqlite import SqliteSessions
from pointsman.sessions.valkey import ValkeySessions

__all__ = ["MemorySessions", "SessionStore", "SqliteSessions", "ValkeySessions"]
