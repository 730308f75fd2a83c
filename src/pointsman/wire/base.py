"""The interface of a wire format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeVar

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import WireFormat

__all__ = ["End", "Ending", "Fault", "Reply", "Usage", "Wire", "lenient"]

T = TypeVar("T")

_WORD: Final = re.compile(r"\S+\s*|\s+")


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens as the upstream reported them. Cached input is part of input, in every format."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None


class Ending(Enum):
    """How a stream ended."""

    COMPLETE = "complete"  # it said so itself
    SAID = "said"  # the answer is whole, the closing mark is missing: fine if the connection ended well
    REFUSED = "refused"  # the upstream sent an error event of its own
    CUT = "cut"  # neither: whoever reads it must not take it for whole


class End(msgspec.Struct, frozen=True):
    """The end of a stream."""

    ending: Ending
    usage: Usage = Usage()


class Fault(msgspec.Struct, frozen=True):
    """An error, independent of the wire format."""

    status: int
    message: str  # for a person; never a key or a body
    code: str = ""  # stable: "model_not_found", "upstream_timeout"
    param: str | None = None  # the field at fault


class Reply(msgspec.Struct, frozen=True):
    """An answer the gateway itself gives: of the demo upstream, or to a command."""

    id: str  # hexadecimal; each format puts its own prefix before it
    model: str
    text: str = ""
    tool: str = ""  # name of the tool to call; empty: none
    arguments: Mapping[str, Any] = {}
    input_tokens: int = 0
    output_tokens: int = 0
    created: int = 0  # seconds since the epoch
    wants_usage: bool = False  # chat streams report usage only when asked
    asked: Mapping[str, msgspec.Raw] = {}  # members of the request, some of which Responses repeats

    def pieces(self) -> Iterator[str]:
        """Yield the text word by word, as a model writes it."""
        return (found[0] for found in _WORD.finditer(self.text))


class Wire(Protocol):
    """One request format. Implementations hold no state."""

    @property
    def format(self) -> WireFormat:
        """Which one."""
        ...

    @property
    def items(self) -> str:
        """Name of the field that holds the conversation."""
        ...

    @property
    def path(self) -> bytes:
        """Path of its endpoint below an upstream's ``base_url``."""
        ...

    def usage(self, answer: bytes) -> Usage:
        """Read the usage of a whole answer.

        Raises:
            UNREADABLE: the answer is not JSON.
        """
        ...

    def end(self, blocks: Sequence[bytes]) -> End:
        """Say how a stream ended, from its first block of events and its last few."""
        ...

    def refusal(self, block: bytes) -> int | None:
        """Return the HTTP status that a stream's first block amounts to when it is an error event."""
        ...

    def is_error(self, answer: bytes) -> bool:
        """Whether an answer is an error in this format's shape."""
        ...

    def error(self, fault: Fault) -> bytes:
        """Return the body of an error answer."""
        ...

    def error_event(self, fault: Fault, blocks: Sequence[bytes]) -> bytes:
        """Return the event that ends a failed stream, whose first and last blocks were ``blocks``."""
        ...

    def answer(self, reply: Reply) -> bytes:
        """Return a whole answer."""
        ...

    def answer_events(self, reply: Reply) -> Iterator[bytes]:
        """Return the same answer as a stream of events."""
        ...


def lenient(decode: Callable[[msgspec.Raw], T | None], raw: msgspec.Raw) -> T | None:
    """Decode what an upstream reports beside its answer; None when absent or of another shape.

    A price list of a kind we do not know is no reason to throw an answer away.
    """
    try:
        return decode(raw)
    except UNREADABLE:
        return None
