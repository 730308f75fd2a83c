"""``pointsman report kinds``: the kinds of prompts that recorded decisions were near."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from pointsman.stores.ledger import Record
from pointsman.tiers.kinds import KindShift

__all__ = ["KindRow", "kinds_of"]


class KindRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kind in the record."""

    sentence: str
    messages: int  # user messages whose nearest kind it was
    likeness: float  # mean, 0..1
    shift: float  # mean of what it added, in units of ln(characters)
    tiers: dict[str, int]  # tier -> messages


def kinds_of(records: Iterable[Record]) -> tuple[list[KindRow], int]:
    """The kinds of all user messages, the most frequent first, and how many messages were near none.

    A tool iteration repeats the words of its user message and is not counted again.
    """
    near: dict[str, list[tuple[KindShift, str]]] = {}
    none, seen = 0, set()
    for record in records:
        decision = record.decision
        message = (decision.input.session, decision.input.user_message)
        if decision.tier is None or (all(message) and message in seen):
            continue
        seen.add(message)
        if decision.tier.kind:
            near.setdefault(decision.tier.kind.sentence, []).append((decision.tier.kind, decision.tier.tier))
        else:
            none += 1
    return sorted((_row(*item) for item in near.items()), key=lambda row: -row.messages), none


def _row(sentence: str, found: list[tuple[KindShift, str]]) -> KindRow:
    count = len(found)
    return KindRow(
        sentence=sentence,
        messages=count,
        likeness=sum(kind.likeness for kind, _ in found) / count,
        shift=sum(kind.shift for kind, _ in found) / count,
        tiers=dict(Counter(str(tier) for _, tier in found).most_common()),
    )
