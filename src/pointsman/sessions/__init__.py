"""Floor 6: where session memory is kept."""

from __future__ import annotations

from pointsman.sessions.memory import MemorySessions
from pointsman.sessions.port import SessionStore

__all__ = ["MemorySessions", "SessionStore"]
