"""What reads and writes one wire format for translation: the interface of each ``translation.CODEC``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from pointsman.wire.constructs import Report
from pointsman.wire.conversation import Completion, Conversation, Event

__all__ = ["Codec", "StreamReader", "StreamWriter"]


class StreamReader(Protocol):
    """Reads the blocks of one stream. Holds what of an event has not arrived whole."""

    def feed(self, block: bytes) -> list[Event]:
        """Return what a block of whole server-sent events says.

        An empty block reports that the connection ended well: what waited for more is then returned.
        """
        ...


class StreamWriter(Protocol):
    """Writes one stream."""

    def write(self, events: Iterable[Event]) -> bytes:
        """Return the server-sent events for these; a ``Stop`` writes the closing marks of the format.

        Nothing closes a stream that had no ``Stop``: the caller must not take it for whole. After ``Failed``
        an error event of the format stands, and no closing mark.
        """
        ...


class Codec(NamedTuple):
    """Reads and writes one format. Requests and answers are JSON; every function is pure."""

    read_request: Callable[[bytes], Conversation]  # raises MalformedRequest
    write_request: Callable[[Conversation, Report], bytes]  # raises Untranslatable
    read_answer: Callable[[bytes], Completion]  # raises ``decoding.UNREADABLE``
    write_answer: Callable[[Completion], bytes]
    stream_reader: Callable[[], StreamReader]
    stream_writer: Callable[[str], StreamWriter]  # given the model's name as the caller is to see it
    #: The same codec with ``write_answer`` and ``stream_writer`` that know the request they answer, where the
    #: format needs it: Responses gives custom tools and namespaces back as the caller offered them.
    for_request: Callable[[Conversation], Codec] | None = None

    def answering(self, request: Conversation) -> Codec:
        """Return the codec whose answers are answers to this request."""
        return self.for_request(request) if self.for_request else self
