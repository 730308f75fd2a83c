"""Session memory between requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pointsman.capabilities import CapabilityMemory
from pointsman.decision.decision import Injection, RequestInput, StandingInjection
from pointsman.domains import DomainMemory
from pointsman.guidance import GuidanceMemory
from pointsman.text.extract import Searched, fingerprint
from pointsman.vocabulary import History, Purpose

__all__ = [
    "MOST_CHARACTERS",
    "MOST_PLACES",
    "MOST_SUBAGENTS",
    "Additions",
    "Memory",
    "Place",
    "is_beside",
    "latest",
    "model_of_subagent",
    "remember",
    "standing",
    "with_subagent",
    "without_content",
    "without_source",
]


# Texts added to a conversation in earlier requests, and where: they are added again at the same place.
#
# An agent sends its history without the added texts. A text that is added only once is gone in the next
# request: the provider's prompt cache breaks at that message, and the model forgets the text
# (docs/decisions/0133).


#: Additions of one session, and characters of their different texts. Domain texts repeat, so 64 places are
#: some 8 kB of memory. Beyond either bound the older half is dropped at once: the cache then breaks once.
MOST_PLACES: Final = 64
MOST_CHARACTERS: Final = 16_384
#: How far a message is looked for from where it stood: agents take out or put in a reminder of their own.
_DISTANCES: Final = (0, -1, 1, -2, 2, -3, 3, -4, 4)


class Place(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The additions of one request, and their message."""

    index: int  # of the message in the history
    key: str  # what stays the same of that message
    texts: tuple[int, ...]  # positions in ``Additions.texts``


class Additions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The additions of a session."""

    texts: tuple[Injection, ...] = ()  # each once
    places: tuple[Place, ...] = ()  # in the order they were made


def standing(additions: Additions, history: History) -> tuple[StandingInjection, ...]:
    """Return the texts to add again to a history: those of messages that it still holds.

    The others are retained: a session may hold several conversations, each with a separate history.
    """
    moved = 0
    found: list[StandingInjection] = []
    known: dict[int, str] = {}  # each message is read once, however many places are looked for at it
    for place in additions.places:
        at = _find(history, place, moved, known)
        if at is not None:
            moved = at - place.index
            found.append(StandingInjection(at, tuple(additions.texts[number] for number in place.texts)))
    return tuple(sorted(found, key=lambda each: each.index))  # stable: what was added first stays first


def latest(additions: Additions, source: str) -> Injection | None:
    """The text that a source added last, if it is still in memory."""
    for place in reversed(additions.places):
        for number in place.texts:
            if additions.texts[number].source == source:
                return additions.texts[number]
    return None


def _find(history: History, place: Place, moved: int, known: dict[int, str]) -> int | None:
    """Position of a message, searched first at the offset by which the one before it has moved."""
    here, count = place.index + moved, len(history)
    for distance in _DISTANCES:
        at = here + distance
        if not 0 <= at < count:
            continue
        key = known.get(at)
        if key is None:
            key = known[at] = fingerprint(history[at])
        if key == place.key:
            return at
    return None


def remember(additions: Additions, history: History, added: tuple[Injection, ...]) -> tuple[Additions, int]:
    """Remember the texts added to the last message.

    Returns:
        The additions, and how many earlier ones are dropped for want of room.
    """
    index = len(history) - 1
    if index < 0 or not added:
        return additions, 0
    texts = (*additions.texts, *(each for each in added if each not in additions.texts))
    place = Place(index, fingerprint(history[index]), tuple(texts.index(each) for each in added))
    return _bounded(Additions(texts, (*additions.places, place)))


def without_source(additions: Additions, source: str) -> Additions:
    """The additions without the texts of one source, and without places where no other was added."""
    kept = {number for number, text in enumerate(additions.texts) if text.source != source}
    if len(kept) == len(additions.texts):
        return additions
    places = (
        Place(place.index, place.key, tuple(number for number in place.texts if number in kept))
        for place in additions.places
    )
    return _without_unused(additions, tuple(place for place in places if place.texts))


def _bounded(additions: Additions) -> tuple[Additions, int]:
    places = additions.places
    texts = additions.texts
    while (
        len(places) > MOST_PLACES
        or sum(len(texts[number].text) for number in _used(places)) > MOST_CHARACTERS
    ):
        places = places[(len(places) + 1) // 2 :]
    dropped = len(additions.places) - len(places)
    return (_without_unused(additions, places), dropped) if dropped else (additions, 0)


def _without_unused(additions: Additions, places: tuple[Place, ...]) -> Additions:
    renumbered = {old: new for new, old in enumerate(_used(places))}
    return Additions(
        tuple(additions.texts[number] for number in renumbered),
        tuple(
            Place(place.index, place.key, tuple(renumbered[number] for number in place.texts))
            for place in places
        ),
    )


def _used(places: tuple[Place, ...]) -> list[int]:
    return sorted({number for place in places for number in place.texts})


#: Sub-agents of a session whose model is remembered; the one that was new the longest ago is dropped first.
MOST_SUBAGENTS: Final = 8


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """The memory of one session between turns; plain JSON values."""

    model: str = ""  # configured name of the model in use
    used_at: float = 0.0  # arrival of the last request that went to it, seconds since the epoch; 0: unknown
    message: str = ""  # identity of the latest user message
    turns: int = 0  # user messages so far
    enriched: str = ""  # signature of the domains whose text was added last
    domains: DomainMemory = DomainMemory()
    guidance: GuidanceMemory = GuidanceMemory()
    capabilities: CapabilityMemory = CapabilityMemory()
    escalated: str = ""  # identity of the user message for which the tier is raised
    searched: Searched = Searched()  # for the user's words
    started: str = ""  # model given at the latest start, where the tier is decided at one
    messages: int = 0  # of the last request; likewise
    subagents: Mapping[int, str] = {}  # model of each sub-agent's conversation
    additions: Additions = Additions()  # texts added, and to which messages


def is_beside(memory: Memory, asked: RequestInput) -> bool:
    """Whether a sub-agent's request shares the session of the conversation that started it.

    Most clients give a sub-agent a session for itself, whose model is the session's. In a shared session the
    main conversation has a model before the sub-agent begins.
    """
    begins = asked.purpose is Purpose.MESSAGE and not asked.thread
    return bool(memory.model) and (begins or bool(memory.subagents))


def model_of_subagent(memory: Memory, asked: RequestInput) -> str:
    """The model of a sub-agent's conversation; "" at its beginning.

    A conversation has no number before its first tool call, and without guidance never: the request is then
    attributed to the sub-agent that began last.
    """
    if asked.purpose is Purpose.MESSAGE and not asked.thread:
        return ""
    latest = "" if asked.purpose is Purpose.MESSAGE else memory.subagents.get(0, "")
    return memory.subagents.get(asked.thread, latest)


def with_subagent(before: Memory, after: Memory, asked: RequestInput, chosen: str) -> Memory:
    """Return the memory after a sub-agent's request: its model is not that of the session."""
    subagents = dict(before.subagents)
    if chosen:
        subagents[asked.thread] = chosen
    if len(subagents) > MOST_SUBAGENTS:
        del subagents[next(iter(subagents))]
    return msgspec.structs.replace(after, model=before.model, used_at=before.used_at, subagents=subagents)


def without_content(memory: Memory) -> Memory:
    """The memory without any text that may quote a conversation: what may leave the process.

    A failed call has the digest of its error, by which it is recognised. A hint names the error that it
    answers: a reader of this form does not add it again.
    """
    additions = without_source(memory.additions, "guidance")
    guidance = memory.guidance.without_content()
    return msgspec.structs.replace(memory, guidance=guidance, additions=additions)
