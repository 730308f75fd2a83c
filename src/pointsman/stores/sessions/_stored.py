"""What of a session's memory leaves the process: no word of a conversation."""

from __future__ import annotations

from typing import Final

import msgspec

from pointsman.decision.memory import Memory, without_content

__all__ = ["stored_form"]

#: What a memory holds that holds any text: a call that failed, or something added to a message.
_MARKS: Final = (b'"error"', b'"additions"')

_decode: Final = msgspec.json.Decoder(Memory).decode
_encode: Final = msgspec.json.Encoder().encode


def stored_form(memory: bytes) -> bytes:
    """Return a memory with digests in the place of texts; the same bytes where it holds none."""
    if not any(mark in memory for mark in _MARKS):
        return memory
    try:
        return _encode(without_content(_decode(memory)))
    except msgspec.MsgspecError:  # of another program: it knows what it keeps
        return memory
