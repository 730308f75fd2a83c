"""The SessionStore port, and the stored form of a memory: no word of a conversation leaves the process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from pointsman.decision.memory import Memory, without_content
from pointsman.remembering import Bounded


class SessionStore(Protocol):
    """Bounded (least recently used, time to live). Values are a session's ``Memory`` as JSON bytes.

    Every method may raise ``StoreUnavailable``, which is not the same as knowing nothing of a session.
    """

    @property
    def waits(self) -> bool:
        """Whether reading and writing may wait for another machine; an event loop then uses a thread."""

    @property
    def fault(self) -> str:
        """Why sessions cannot be recorded just now; empty when all is well."""

    @property
    def lost(self) -> int:
        """Changes held in memory that could not be recorded, since the start."""

    def get(self, session: str, /) -> bytes | None:
        """Return a session's last memory, or None when unknown, expired or evicted."""

    def put(self, session: str, memory: bytes, /) -> None:
        """Store a session's memory; may evict another session's."""

    def forget(self, session: str, /) -> bool:
        """Forget a session; tell whether anything was known of it."""

    def sessions(self) -> Iterator[tuple[str, float]]:
        """Yield the stored sessions and when each was last put, in seconds since the epoch."""

    def close(self) -> None:
        """Release files and connections."""


#: What a memory holds that holds any text: a call that failed, or something added to a message.
_MARKS: Final = (b'"error"', b'"additions"')

#: Sessions with a memory that is held with its texts: those that are stuck, 8 kB each.
WHOLE: Final = 1_000

read_memory: Final = msgspec.json.Decoder(Memory).decode
encode_memory: Final = msgspec.json.Encoder().encode


def stored_form(memory: bytes) -> bytes:
    """Return a memory with digests in the place of texts; the same bytes if it holds none."""
    if not any(mark in memory for mark in _MARKS):
        return memory
    try:
        return encode_memory(without_content(read_memory(memory)))
    except msgspec.MsgspecError:  # of another program: it knows what it keeps
        return memory


def is_text(name: str) -> bool:
    """Tell whether a name has UTF-8: a lone surrogate, which JSON can smuggle in, has none."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class WholeMemories:
    """The texts of memories that are stored outside with digests in their place."""

    def __init__(self) -> None:
        self._kept: Final = Bounded[str, tuple[bytes, bytes]](WHOLE)  # as stored, and as put

    def store(self, session: str, memory: bytes) -> bytes:
        """Return what of a memory may be stored outside."""
        stored = stored_form(memory)
        self._kept.pop(session, None)
        if stored is not memory:
            self._kept.keep(session, (stored, memory))
        return stored

    def whole(self, session: str, found: bytes) -> bytes:
        """Return a stored memory with its texts, unless the session has continued in another process."""
        stored, whole = self._kept.get(session, (b"", b""))
        return whole if stored and stored == found else found
