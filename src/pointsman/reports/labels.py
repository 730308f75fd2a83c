"""What a person who gives labels needs to know: which decision is next, and how many are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Final, NamedTuple

import msgspec

from pointsman.learning.datasets import LEAST_FOR_POLICY, LEAST_FOR_TIERS
from pointsman.reports.outcomes import Scored, prompts, scored
from pointsman.reports.queue import Queued, queue
from pointsman.stores.ledger import DecisionFilter, Ledger, Record
from pointsman.stores.ledger.export import record
from pointsman.tiers.ngrams import ngram_key

__all__ = ["Labels", "Pairs", "count_pairs", "labels"]

#: Decisions that the queue is chosen from, the newest; and labelled ones that are counted.
NEWEST: Final = 5_000
#: Labelled decisions before these whose words and scores are read, one by one.
OLDER: Final = 1_000


class Pairs(NamedTuple):
    """What ``pointsman fit`` gets: prompts with labels of the same two models."""

    models: tuple[str, ...] = ()  # the two that most prompts have labels of; empty where there are none
    prompts: int = 0  # different ones, as ``fit`` counts them: case, spaces and numbers do not count
    single: int = 0  # prompts with labels of one model alone

    @property
    def missing_for_tiers(self) -> int:
        """Prompts until ``pointsman fit tiers`` says anything."""
        return max(0, LEAST_FOR_TIERS - self.prompts)

    @property
    def missing_for_policy(self) -> int:
        """Prompts until ``pointsman fit policy`` says anything."""
        return max(0, LEAST_FOR_POLICY - self.prompts)


class Labels(msgspec.Struct, frozen=True):
    """The state of labelling."""

    queue: tuple[Queued, ...]  # what teaches most first
    labelled: frozenset[str]  # decisions with an outcome of a person or a program, about the served answer
    scored: Mapping[str, Scored]  # by decision: what is counted of it
    is_complete: bool  # False: there are more decisions than were read
    is_text_kept: bool  # False: of no labelled decision the words are kept, without which nothing is fitted


def labels(ledger: Ledger, *, limit: int = 100) -> Labels:
    """Return the queue among the newest decisions, and what ``fit`` can use of those that are labelled.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    newest = ledger.search(DecisionFilter(), limit=NEWEST)
    since = newest.rows[-1].at if newest.rows else 0.0
    found: dict[str, Scored] = {}
    waiting = queue(_noted(ledger.records(since=since), found)) if newest.rows else []
    said = ledger.search(DecisionFilter(labelled=True), limit=NEWEST)
    older = [row.id for row in said.rows if row.at < since]
    for wanted in older[:OLDER]:
        if (decision := ledger.get(wanted)) is not None:
            for _ in _noted([record(ledger, decision)], found):
                pass
    kept = (ledger.text(row.id) for row in said.rows[:20])
    return Labels(
        queue=tuple(waiting[:limit]),
        labelled=frozenset(row.id for row in said.rows),
        scored=found,
        is_complete=newest.next is None or (said.next is None and len(older) <= OLDER),
        is_text_kept=not said.rows or any(kept),
    )


def _noted(records: Iterable[Record], into: dict[str, Scored]) -> Iterator[Record]:
    for each in records:
        if (known := scored(each, callers=False)) is not None:
            into[each.decision.id] = known
        yield each


def count_pairs(found: Iterable[Scored]) -> Pairs:
    """Count what ``fittable`` yields for the two models that most prompts have scores of."""
    rows = list(prompts(found))
    counts = Counter(pair for row in rows for pair in combinations(sorted(row.scores), 2))
    if not counts:
        return Pairs(single=len(rows))
    weak, strong = max(counts, key=lambda pair: (counts[pair], pair))
    different = {ngram_key(row.prompt) for row in rows if weak in row.scores and strong in row.scores}
    return Pairs((weak, strong), len(different), sum(len(row.scores) == 1 for row in rows))
