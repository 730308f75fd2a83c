"""Session stores: where session memory is kept."""

from __future__ import annotations

from pointsman.stores.sessions.memory import MemorySessions
from pointsman.stores.sessions.port import SessionStore
from pointsman.stores.sessions.sqlite import SqliteSessions
from pointsman.stores.sessions.valkey import ValkeySessions

__all__ = ["MemorySessions", "SessionStore", "SqliteSessions", "ValkeySessions"]
