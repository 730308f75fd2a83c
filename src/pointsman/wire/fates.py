"""What may become of a construct in another format: the words of which ``constructs.CONSTRUCTS`` is made."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from pointsman.vocabulary import WireFormat

__all__ = [
    "CHAT",
    "MESSAGES",
    "MOST_STOPS",
    "RESPONSES",
    "Construct",
    "Fate",
    "Kind",
    "changed",
    "exact",
    "refused",
]

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES

#: Characters of all stop sequences that the gateway keeps: each piece of an answer is compared with them.
MOST_STOPS: Final = 1_024


class Kind(StrEnum):
    """What becomes of a construct."""

    EXACT = "exact"  # the same meaning in the other format's own words
    CHANGED = "changed"  # near enough, or left out as a hint may be; reported
    REFUSED = "refused"  # a 400 that names the field


class Fate(NamedTuple):
    """The treatment of a construct by one target."""

    kind: Kind
    how: str  # for a person: what is written instead, or why it is refused


class Construct(NamedTuple):
    """Something a request may hold."""

    fields: Mapping[WireFormat, str]  # the formats that have it, and the field that holds it there
    fates: Mapping[WireFormat, Fate]  # by target; formats that have it themselves are exact unless named


def exact(how: str) -> Fate:
    """Say how a target writes it."""
    return Fate(Kind.EXACT, how)


def changed(how: str) -> Fate:
    """Describe the replacement."""
    return Fate(Kind.CHANGED, how)


def refused(why: str) -> Fate:
    """Say why a target cannot take it."""
    return Fate(Kind.REFUSED, why)
