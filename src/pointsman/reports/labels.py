"""Labelling progress: the next decision, and the number of missing labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Final, NamedTuple

import msgspec

from pointsman.decision.decision import Decision
from pointsman.learning.datasets import LEAST_FOR_POLICY, LEAST_FOR_TIERS
from pointsman.reports.outcomes import Scored, kept_answers, prompts, scored
from pointsman.reports.usage import answered
from pointsman.stores.ledger import DecisionFilter, Record, Search
from pointsman.stores.ledger.export import record
from pointsman.tiers.ngrams import ngram_key
from pointsman.vocabulary import AgentRole, Stage

__all__ = ["Labels", "Pairs", "Queued", "count_pairs", "labels", "queue"]


# Which answers are most worth an outcome: near a boundary, unfamiliar, or of an agent in trouble.

#: Confidence below which a tier is near a boundary: .5 is on it (docs/notebook/0023).
_NEAR: Final = 0.55
#: Similarity to the training data below which the learned router does not know a prompt well.
_UNFAMILIAR: Final = 0.5
_BY_SCORE: Final = frozenset({Stage.RULES, Stage.LEARNED})
_TROUBLE: Final = ("escalation.", "guidance.")
#: By the number of kept answers without a label: labels of both models are what ``fit tiers`` compares.
_KEPT: Final[tuple[tuple[str, ...], ...]] = (
    (), ("the other answer has no label",), ("answers of two models are kept",),
)  # fmt: skip


class Queued(NamedTuple):
    """A decision that an outcome would tell most about."""

    decision: str
    why: tuple[str, ...]  # empty: ordinary traffic
    project: str
    at: float


def queue(records: Iterable[Record]) -> list[Queued]:
    """Return the decisions without an outcome, the most reasons first, then the newest; ordinary ones last.

    Of one user message only the decision with the most reasons is returned, and none where one of it has an
    outcome that was not derived.
    """
    best: dict[tuple[str, int | str], Queued] = {}
    judged: set[tuple[str, int | str]] = set()
    for each in records:
        asked = each.decision.input
        open_answers = [answer for answer in kept_answers(each) if not answer.is_labelled]
        if not open_answers and any(not outcome.source.startswith("implicit:") for outcome in each.outcomes):
            judged.add((asked.session, asked.user_message or each.decision.id))
        if (
            (each.outcomes and not open_answers)
            or answered(each.attempts) is None
            or asked.role is AgentRole.HELPER
        ):
            continue
        why = (*(_KEPT[len(open_answers)]), *_reasons(each.decision))
        found = Queued(each.decision.id, why, asked.project, asked.arrived_at)
        key = (asked.session, asked.user_message or found.decision)
        if key not in best or len(found.why) > len(best[key].why):
            best[key] = found
    left = [each for key, each in best.items() if key not in judged]
    return sorted(left, key=lambda each: (-len(each.why), -each.at, each.decision))


def _reasons(decision: Decision) -> Iterator[str]:
    tier = decision.tier
    if tier is not None and tier.stage in _BY_SCORE and tier.confidence < _NEAR:
        yield f"near a boundary (confidence {tier.confidence:.2f})"
    learned = tier.learned_router if tier is not None else None
    if learned is not None and learned.similarity < _UNFAMILIAR:
        yield f"unfamiliar (similarity {learned.similarity:.2f})"
    if any(reason.code.startswith(_TROUBLE) for reason in decision.reasons):
        yield "the agent was in trouble"
    if any(reason.code == "routing.lower-tier" for reason in decision.reasons):
        yield "a lower tier served"
    if any(reason.code == "projects.explore" for reason in decision.reasons):
        yield "a cheaper tier was tried"


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
        """Prompts until ``pointsman fit tiers`` can report."""
        return max(0, LEAST_FOR_TIERS - self.prompts)

    @property
    def missing_for_policy(self) -> int:
        """Prompts until ``pointsman fit policy`` can report."""
        return max(0, LEAST_FOR_POLICY - self.prompts)


class Labels(msgspec.Struct, frozen=True):
    """The state of labelling."""

    queue: tuple[Queued, ...]  # what teaches most first
    labelled: frozenset[str]  # decisions with an outcome of a person or a program, about the served answer
    scored: Mapping[str, Scored]  # by decision: what is counted of it
    is_complete: bool  # False: there are more decisions than were read
    is_text_kept: bool  # False: of no labelled decision the words are kept, without which nothing is fitted


def labels(ledger: Search, *, limit: int = 100) -> Labels:
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
