"""Session stores: where session memory is kept."""

from __future__ import annotations

from pointsman.stores.sessions._memory import MemorySessions
from pointsman.stores.sessions._sqlite import SqliteSessions
from pointsman.stores.sessions._valkey import ValkeySessions
from pointsman.stores.sessions.port import SessionStore

__all__ = ["MemorySessions", "SessionStore", "SqliteSessions", "ValkeySessions"]
