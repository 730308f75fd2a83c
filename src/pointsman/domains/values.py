"""Value types of domains: classes, results and their parts, and memory.

All are frozen, compare by value and turn into plain JSON values with ``msgspec.to_builtins``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

__all__ = [
    "CONVERSATION",
    "Compound",
    "DomainClass",
    "DomainMemory",
    "MomentumStep",
    "Pair",
    "Part",
    "Source",
]

#: The domain of a message without any signal.
#: Source: docs/sources/compound-domains.md, "Step 2: extract primary and secondary".
CONVERSATION: Final = "conversation"


class DomainClass(StrEnum):
    """What a domain is to a conversation; declared in the data."""

    TASK = "task"  # what the person wants done
    OPERATIONAL = "operational"  # a chore on the way: shell, files, git, configuration
    NULL = "null"  # small talk; says nothing about the task


class Source(StrEnum):
    """What found a domain in a message."""

    SIGNALS = "signals"
    EXAMPLES = "examples"  # no signal matched; the nearest example utterance decided


class Part(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One domain of a result."""

    domain: str
    confidence: int = 0  # concepts of the domain found in this message; 0 when it comes from memory
    signals: tuple[str, ...] = ()  # names of those concepts, in total order; never a pattern's source
    carried: bool = False  # memory put it here, not this message
    source: Source = Source.SIGNALS


class Compound(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A primary domain and at most one more."""

    primary: Part
    secondary: Part | None = None

    @property
    def domains(self) -> tuple[str, str]:
        """Primary and secondary by name; an empty string for no secondary."""
        return self.primary.domain, self.secondary.domain if self.secondary else ""

    @property
    def signature(self) -> str:
        """Both names in alphabetical order, joined by ``+``: ``coding+investigation``."""
        first, second = self.domains
        return "+".join(sorted((first, second))) if second else first

    @property
    def carried(self) -> bool:
        """True when any part comes from memory."""
        return self.primary.carried or (self.secondary is not None and self.secondary.carried)


class MomentumStep(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What one user message was found to be, and what memory made of it."""

    raw: Compound  # this message alone
    effective: Compound  # after memory
    momentum: int  # strength of the task pair, in turns
    rule: str  # name of the row of the rule table that applied
    passed_over: bool = False  # a second domain matched, too weakly to count


class Pair(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The one or two domains the conversation's task is in."""

    primary: str = ""  # empty: no task yet
    secondary: str = ""
    primary_silent: int = 0  # confirming turns in a row without a signal of the primary
    secondary_silent: int = 0
    rival: str = ""  # the domain that last challenged the secondary

    def __contains__(self, domain: str) -> bool:
        return domain in (self.primary, self.secondary)

    @property
    def signature(self) -> str:
        """Both names in alphabetical order, joined by ``+``."""
        return "+".join(sorted((self.primary, self.secondary))) if self.secondary else self.primary


class DomainMemory(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What one session remembers about its domains. A few hundred bytes as JSON."""

    pair: Pair = Pair()
    momentum: int = 0  # turns that confirmed the pair
    operational: str = ""  # the last operational domain that was accepted
    last: str = ""  # primary of the last message with a signal
    operational_run: int = 0  # operational messages since the last task message
    quiet: int = 0  # messages without a signal since the last one with
    key: str = ""  # the user message that ``outcome`` belongs to
    outcome: MomentumStep | None = None
