"""Session memory between requests, and reading memory stored by another version."""

from __future__ import annotations

from typing import Final

import msgspec

from pointsman.capabilities.tools import ToolMemory
from pointsman.domains import DomainMemory
from pointsman.guidance import GuidanceMemory
from pointsman.text.extract import Searched

__all__ = ["Memory", "decode_memory", "encode_memory"]


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one session remembers between turns; plain JSON values."""

    model: str = ""  # configured name of the model in use
    message: str = ""  # identity of the latest user message
    turns: int = 0  # user messages so far
    enriched_at: int = -1  # messages in the history when the current user message was enriched
    domains: DomainMemory = DomainMemory()
    guidance: GuidanceMemory = GuidanceMemory()
    tools: ToolMemory = ToolMemory()
    called: tuple[str, ...] = ()  # names of all tools called so far
    counted: int = 0  # messages searched for them
    searched: Searched = Searched()  # for the user's words


encode_memory: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Memory).decode


def decode_memory(kept: bytes | None) -> Memory:
    """Return what was kept of a session; a memory in a shape of another version starts afresh.

    A session is at most a day old, and a wrong guess at what its values meant would be worse than none.
    """
    if not kept:
        return Memory()
    try:
        return _decode(kept)
    except msgspec.ValidationError:  # JSON, and not of this shape; what is no JSON is damaged: that is told
        return Memory()
