"""A stream on its way back into the caller's format, and what is known of its beginning and end."""

from __future__ import annotations

from collections import deque
from typing import Final

from pointsman.decoding import UNREADABLE
from pointsman.errors import UpstreamError
from pointsman.wire.signed_turns import SignedTurn
from pointsman.wire.translate import StreamTranslation, Translated

__all__ = ["KEPT", "Translating"]

#: Blocks kept from the end of a stream: its closing mark, its usage, its last content, and one to spare.
KEPT: Final = 4


class Translating:
    """Translates the blocks of one stream."""

    def __init__(self, request: Translated) -> None:
        self._stream = StreamTranslation(request)
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

    def turn(self) -> SignedTurn | None:
        """Return the reasoning of the whole answer, as only the upstream can check it."""
        return self._stream.turn()

    @property
    def blocks(self) -> list[bytes]:
        """The first block that went out, and the last few."""
        return [self._first, *self._last]

    def feed(self, block: bytes) -> bytes:
        """Return what a block of whole events amounts to; may be empty.

        Raises:
            UpstreamError: an event cannot be read.
        """
        try:
            return self._keep(self._stream.feed(block))
        except UNREADABLE:
            raise UpstreamError("the upstream sent an event that cannot be read") from None

    def end(self, pending: bytes) -> bytes:
        """Return what is still to go out when the upstream has ended the stream well.

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
        return block
