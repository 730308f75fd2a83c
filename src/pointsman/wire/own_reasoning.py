"""What of a request's reasoning another provider wrote, and the edits that take it out.

A request that goes to an upstream in the caller's own format is relayed byte for byte. Only in a conversation
that was at another upstream as well may reasoning have to go: no provider takes that of another one
(docs/decisions/0124).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from pointsman.wire.body import Body, Edit

__all__ = ["Cleaned", "Origin", "OwnReasoning", "Thought"]


class Thought(NamedTuple):
    """One piece of reasoning in a request."""

    mark: str  # its signature or encrypted content, its id, or how its words begin
    is_signed: bool  # or known by its id


class Origin(Protocol):
    """Knows who wrote what in a conversation."""

    def is_foreign(self, thought: Thought, *, among_signed: bool) -> bool:
        """Whether another upstream wrote it. ``among_signed``: the conversation holds signed reasoning."""
        ...

    def is_foreign_call(self, identifier: str) -> bool:
        """Whether another upstream made the call with this id."""
        ...


class Cleaned(NamedTuple):
    """Edits that leave an upstream's own reasoning alone in a request."""

    edits: list[Edit]
    changed: tuple[str, ...]  # ids of constructs


class OwnReasoning(NamedTuple):
    """How one format holds reasoning."""

    translated: Callable[[bytes], bool]  # whether a body seems to hold what our translation wrote
    clean: Callable[[Body, Origin], Cleaned]  # raises ``UNREADABLE``
    marks: Callable[[bytes], Sequence[str]]  # of an answer or of events: by what their author is known again
    asked: str = ""  # the member without which no answer holds any; empty: one may hold it all the same
