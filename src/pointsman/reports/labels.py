"""What a person who gives labels needs to know: which decision is next, and how many are missing."""

from __future__ import annotations

from typing import Final

import msgspec

from pointsman.learning.datasets import LEAST_FOR_POLICY, LEAST_FOR_TIERS
from pointsman.reports.queue import Queued, queue
from pointsman.stores.ledger import DecisionFilter, Ledger

__all__ = ["Labels", "labels"]

#: Decisions that the queue is chosen from, the newest.
NEWEST: Final = 5_000


class Labels(msgspec.Struct, frozen=True):
    """The state of labelling."""

    queue: tuple[Queued, ...]  # what teaches most first
    labelled: int  # decisions with an outcome of a person or a program
    missing_for_tiers: int  # labels of different prompts until ``pointsman fit tiers`` says anything
    missing_for_policy: int  # until ``pointsman fit policy`` does
    is_text_kept: bool  # False: of no labelled decision the words are kept, without which nothing is fitted


def labels(ledger: Ledger, *, limit: int = 100) -> Labels:
    """Return the queue among the newest decisions, and how far ``fit`` is away.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    newest = ledger.search(DecisionFilter(labelled=False), limit=NEWEST).rows
    found = queue(ledger.records(since=newest[-1].at)) if newest else []
    said = ledger.search(DecisionFilter(labelled=True), limit=NEWEST).rows
    count = len(said)
    kept = (ledger.text(row.id) for row in said[:20])
    return Labels(
        queue=tuple(found[:limit]),
        labelled=count,
        missing_for_tiers=max(0, LEAST_FOR_TIERS - count),
        missing_for_policy=max(0, LEAST_FOR_POLICY - count),
        is_text_kept=not said or any(kept),
    )
