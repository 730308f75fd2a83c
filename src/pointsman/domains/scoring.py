"""Scoring one message: scores of all domains, and the primary and secondary domain.

Source: docs/sources/compound-domains.md, "Step 1: score all domains" and "Step 2: extract primary and
secondary"; differences: docs/notebook/0041.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, reduce
from operator import attrgetter, or_
from typing import Final

import msgspec

from pointsman.domains.data import CUE_GROUP, LEXICON, Compound, Domain, DomainClass, DomainSet, Part, Source
from pointsman.evidence import SignalTable
from pointsman.vocabulary import Encoder, Evidence

#: A secondary domain needs at least this many signals.
#: Source: docs/sources/compound-domains.md, "Step 1: score all domains".
SECONDARY_MIN_SIGNALS: Final = 1

#: ... and at least one signal for every this many of the primary: one stray phrase in a long message is no
#: second subject.
SECONDARY_MIN_SHARE: Final = 3

#: Least cosine with the nearest example where memory has no task, and where it has one.
NEAR: Final = 0.4
VERY_NEAR: Final = 0.6

#: Least lead over the nearest example of any other domain.
LEAD: Final = 0.05


class Reading(msgspec.Struct, frozen=True, gc=False):
    """One message, read without memory."""

    parts: tuple[Part, ...]  # every task or operational domain found, best first
    raw: Compound
    cue: bool = False  # the person announced a change of subject
    passed_over: bool = False  # a second domain matched, too weakly to count

    def part(self, domain: str) -> Part | None:
        """Match of a domain, or None."""
        for part in self.parts:
            if part.domain == domain:
                return part
        return None


def pick_secondary(first: int, second: int) -> bool:
    """Whether the second-best score is strong enough to count as secondary."""
    return second >= SECONDARY_MIN_SIGNALS and second * SECONDARY_MIN_SHARE >= first


#: Parts kept by each domain, about 1 kB each: the same few concepts are found again and again, and putting a
#: part together takes three times as long as looking it up.
_KEPT_PARTS: Final = 256


class Scorer:
    """Reads the domains off a scan's hits; runs no pattern itself."""

    def __init__(self, domains: DomainSet, table: SignalTable) -> None:
        self._cues = table.mask(LEXICON, CUE_GROUP)
        listeners = [(domain.kind, _listener(domain, table)) for domain in domains]
        self._telling = tuple(each for kind, each in listeners if kind is not DomainClass.NULL)
        self._small_talk = tuple(each for kind, each in listeners if kind is DomainClass.NULL)
        #: The hits of all domains. A message without any of them reads as ``silence``.
        self.mask = reduce(or_, (mask for _, (mask, _) in listeners), 0)
        self.silence = Reading(parts=(), raw=Compound(Part(domains.null)))

    def read(self, evidence: Evidence) -> Reading:
        """Score every domain against one message. Ties go to the smaller priority, then to the name."""
        hits = evidence.hits & self.mask
        if not hits:
            return self.silence
        parts = _found(self._telling, hits)
        if not parts:
            return Reading((), Compound(_found(self._small_talk, hits)[0]))
        cue = evidence.hits & self._cues != 0
        if len(parts) == 1:
            return Reading(tuple(parts), Compound(parts[0]), cue)
        first, second = parts[0], parts[1]
        if pick_secondary(first.confidence, second.confidence):
            return Reading(tuple(parts), Compound(first, second), cue)
        return Reading(tuple(parts), Compound(first), cue, passed_over=True)


#: A domain's mask over the signal table, and what to make of its hits.
_Listener = tuple[int, Callable[[int], Part]]


def _listener(domain: Domain, table: SignalTable) -> _Listener:
    concepts = [(c.name, reduce(or_, (table.bit(s) for s in c.signals), 0)) for c in domain.concepts]

    @lru_cache(_KEPT_PARTS)
    def part(hits: int) -> Part:
        names = tuple(name for name, mask in concepts if hits & mask)
        return Part(domain.name, len(names), names)

    return reduce(or_, (mask for _, mask in concepts), 0), part


def _found(listeners: tuple[_Listener, ...], hits: int) -> list[Part]:
    """The domains that were mentioned, best first; equals stay in the order of the listeners."""
    parts = []
    for mask, part in listeners:
        if own := hits & mask:
            parts.append(part(own))
    if len(parts) > 1:
        parts.sort(key=_confidence, reverse=True)
    return parts


_confidence: Final = attrgetter("confidence")


class ExampleMatcher:
    """Compares messages with the example utterances of a domain set.

    Examples of the null domain ("that sounds good") filter small talk: a message nearest to one of them is
    nothing else.
    """

    def __init__(self, domains: DomainSet, encoder: Encoder) -> None:
        """Encode the examples once. Domains without examples are never found here."""
        self._encoder = encoder
        self._examples = [(domain, text) for domain in domains for text in domain.examples]
        self._vectors = encoder.encode([text for _, text in self._examples])

    def read(self, text: str, *, carrying: bool) -> Reading | None:
        """Read one message that has no signal.

        Args:
            text: the user's words.
            carrying: memory has a task that the message would continue.

        Returns:
            A reading of one domain with one signal, the example; None when no example is near enough.
        """
        if not self._examples:
            return None
        similarities = (self._vectors @ self._encoder.encode([text])[0]).tolist()
        best, nearest = max((similarity, -index) for index, similarity in enumerate(similarities))
        domain, example = self._examples[-nearest]
        rival = max(
            (s for s, (other, _) in zip(similarities, self._examples, strict=True) if other is not domain),
            default=0.0,
        )
        near_enough = best >= (VERY_NEAR if carrying else NEAR) and best - rival >= LEAD
        if domain.kind is DomainClass.NULL or not near_enough:
            return None
        part = Part(domain.name, 1, (f"like: {example}",), source=Source.EXAMPLES)
        return Reading((part,), Compound(part))
