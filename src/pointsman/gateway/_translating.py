"""A stream translated back into the caller's format, with the facts of its beginning and end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from pointsman.decoding import UNREADABLE
from pointsman.errors import UpstreamError
from pointsman.wire.reasoning import SignedTurn
from pointsman.wire.translate import StreamTranslation, Translated

__all__ = ["KEPT", "OnWhole", "Translating", "translating"]

#: Blocks kept from the end of a stream: its closing mark, its usage, its last content, and one to spare.
KEPT: Final = 4


#: Takes a whole answer: its reasoning as only the upstream can check it, its first block and the last few.
OnWhole = Callable[[SignedTurn, Sequence[bytes]], None]


class Translating:
    """Translates the blocks of one stream."""

    def __init__(self, request: Translated, on_whole: OnWhole, secrets: Sequence[bytes] = ()) -> None:
        """``on_whole`` is called before the closing marks go out: the caller may then continue at once."""
        self._stream = StreamTranslation(request, secrets)
        self._on_whole: OnWhole | None = on_whole
        self._first = b""
        self._last: deque[bytes] = deque(maxlen=KEPT)

    @property
    def is_whole(self) -> bool:
        """Whether the closing marks of the caller's format have been written."""
        return self._stream.is_whole

    @property
    def has_failed(self) -> bool:
        """Whether the upstream reported an error."""
        return self._stream.has_failed

    @property
    def blocks(self) -> list[bytes]:
        """The first block that went out, and the last few."""
        return [self._first, *self._last]

    def feed(self, block: bytes) -> bytes:
        """Return the translation of a block of whole events; may be empty.

        Raises:
            UpstreamError: an event cannot be read.
        """
        try:
            return self._keep(self._stream.feed(block))
        except UNREADABLE:
            raise UpstreamError("the upstream sent an event that cannot be read") from None

    def end(self, pending: bytes) -> bytes:
        """Return the rest to send when the upstream has ended the stream well.

        Args:
            pending: A last event without the blank line after it.

        Raises:
            UpstreamError: it cannot be read.
        """
        closing = self.feed(pending + b"\n\n") if pending.strip() else b""
        return closing + self.feed(b"")

    def _keep(self, block: bytes) -> bytes:
        if block:
            self._first = self._first or block
            self._last.append(block)
        if self._on_whole is not None and (turn := self._stream.turn()) is not None:
            self._on_whole(turn, self.blocks)
            self._on_whole = None
        return block


def translating(
    request: Translated | None, on_whole: OnWhole, secrets: Sequence[bytes] = ()
) -> Translating | None:
    """Return what translates a stream, errors without ``secrets``; None for one that is relayed as it is."""
    return None if request is None else Translating(request, on_whole, secrets)
