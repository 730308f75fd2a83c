"""What one message alone says: scores of all domains, and the pair they make.

Source: seed "Compound BST Classification", steps 1 and 2; docs/decisions/0041 for what was changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pointsman.domains.data import CUE_GROUP, LEXICON, DomainSet
from pointsman.domains.values import Compound, DomainClass, Part
from pointsman.evidence import SignalTable
from pointsman.types import Evidence

__all__ = ["SECONDARY_MIN_SHARE", "SECONDARY_MIN_SIGNALS", "Reading", "Scorer", "pick_secondary"]

#: A secondary domain needs at least this many signals. Source: seed, "Step 1".
SECONDARY_MIN_SIGNALS: Final = 1

#: ... and at least one signal for every this many of the primary: one stray phrase in a long message is no
#: second subject.
SECONDARY_MIN_SHARE: Final = 3


class Reading(msgspec.Struct, frozen=True):
    """One message, read without memory."""

    parts: tuple[Part, ...]  # every task or operational domain found, best first
    raw: Compound
    cue: bool = False  # the person announced a change of subject
    passed_over: bool = False  # a second domain matched, too weakly to count

    def part(self, domain: str) -> Part | None:
        """What was found of a domain, or None."""
        return next((part for part in self.parts if part.domain == domain), None)


def pick_secondary(scores: Sequence[int]) -> bool:
    """Whether the second of two or more scores, best first, is strong enough to count beside the first."""
    return scores[1] >= SECONDARY_MIN_SIGNALS and scores[1] * SECONDARY_MIN_SHARE >= scores[0]


class Scorer:
    """Reads the domains off a scan's hits; runs no pattern itself."""

    def __init__(self, domains: DomainSet, table: SignalTable) -> None:
        self._domains = domains
        self._cues = table.mask(LEXICON, CUE_GROUP)
        self._mask = 0
        #: Bit number -> (rank of the domain, its name, the concept).
        self._meaning: dict[int, tuple[int, str, str]] = {}
        for rank, domain in enumerate(domains):
            for concept in domain.concepts:
                for signal in concept.signals:
                    bit = table.bit(signal)
                    self._mask |= bit
                    self._meaning[bit.bit_length()] = (rank, domain.name, concept.name)
        self._silence = Reading(parts=(), raw=Compound(Part(domains.null)))

    def read(self, evidence: Evidence) -> Reading:
        """Score every domain against one message. Ties go to the smaller priority, then to the name."""
        hits = evidence.hits & self._mask
        if not hits:
            return self._silence
        found: dict[tuple[int, str], dict[str, None]] = {}
        while hits:
            low = hits & -hits
            hits ^= low
            rank, domain, concept = self._meaning[low.bit_length()]
            found.setdefault((rank, domain), {})[concept] = None
        ranked = sorted(
            (-len(concepts), rank, name, tuple(concepts)) for (rank, name), concepts in found.items()
        )
        parts = [Part(name, -score, concepts) for score, _, name, concepts in ranked]
        return self._pair(parts, cue=bool(evidence.hits & self._cues))

    def _pair(self, parts: Sequence[Part], *, cue: bool) -> Reading:
        telling = tuple(p for p in parts if self._domains[p.domain].kind is not DomainClass.NULL)
        if not telling:
            return Reading(parts=(), raw=Compound(parts[0]), cue=cue)
        if len(telling) == 1:
            return Reading(telling, Compound(telling[0]), cue)
        counts = pick_secondary([part.confidence for part in telling])
        return Reading(
            telling, Compound(telling[0], telling[1] if counts else None), cue, passed_over=not counts
        )
