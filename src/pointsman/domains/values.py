"""Value types of domains: classes, results and their parts, and memory.

All are frozen, compare by value and turn into plain JSON values with ``msgspec.to_builtins``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

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
    "format_signature",
    "parse_signature",
    "restore_from_signature",
]

#: The domain of a message without any signal.
#: Source: docs/sources/compound-domains.md, "Step 2: extract primary and secondary".
CONVERSATION: Final = "conversation"


class DomainClass(StrEnum):
    """Role of a domain in a conversation; declared in the data."""

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
    """Domains of one user message, before and after memory."""

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
    """Session memory of domains. A few hundred bytes as JSON."""

    pair: Pair = Pair()
    momentum: int = 0  # turns that confirmed the pair
    operational: str = ""  # the last operational domain that was accepted
    last: str = ""  # primary of the last message with a signal
    operational_run: int = 0  # operational messages since the last task message
    quiet: int = 0  # messages without a signal since the last one with
    key: str = ""  # the user message that ``outcome`` belongs to
    outcome: MomentumStep | None = None


# The signature of a pair of domains, in the format of docs/sources/compound-domains.md.


def format_signature(primary: Mapping[str, Any], secondary: Mapping[str, Any] | None) -> str:
    """Both domains in alphabetical order, joined by ``+``."""
    return "+".join(sorted(part["domain"] for part in (primary, secondary) if part))


def parse_signature(signature: str) -> set[str]:
    """The domains of a signature."""
    return set(signature.split("+"))


def restore_from_signature(
    signature: str, new_primary: dict[str, Any], new_secondary: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The signature's domains with this turn's confidences; a domain without signals gets 0.

    A single domain takes the confidence and signals of the new primary, whatever domain that is. Of two, the
    new primary comes first; when it is neither, both get 0, in alphabetical order.

    Source: docs/sources/compound-domains.md, "Step 3: apply compound momentum".
    """
    first, *rest = sorted(parse_signature(signature), key=lambda name: (name != new_primary["domain"], name))
    if not rest:
        return {**new_primary, "domain": first}, None
    if first != new_primary["domain"]:
        return _as_dict(first, 0, []), _as_dict(rest[0], 0, [])
    known = new_secondary if new_secondary and new_secondary["domain"] == rest[0] else None
    return new_primary, known or _as_dict(rest[0], 0, [])


def _as_dict(domain: str, confidence: int, signals: list[str]) -> dict[str, Any]:
    return {"domain": domain, "confidence": confidence, "matched_signals": signals}
