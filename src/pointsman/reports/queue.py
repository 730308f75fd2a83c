"""Which answers are most worth an outcome: near a boundary, unfamiliar, or of an agent in trouble."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pointsman.decision.decision import Decision
from pointsman.reports.kept_answers import kept_answers
from pointsman.reports.usage import answered
from pointsman.stores.ledger import Record
from pointsman.vocabulary import AgentRole, Stage

__all__ = ["Queued", "queue"]

#: Confidence below which a tier is near a boundary: .5 is on it (docs/decisions/0023).
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
    for record in records:
        asked = record.decision.input
        open_answers = [each for each in kept_answers(record) if not each.is_labelled]
        if not open_answers and any(
            not outcome.source.startswith("implicit:") for outcome in record.outcomes
        ):
            judged.add((asked.session, asked.user_message or record.decision.id))
        if (
            (record.outcomes and not open_answers)
            or answered(record.attempts) is None
            or asked.role is AgentRole.HELPER
        ):
            continue
        why = (*(_KEPT[len(open_answers)]), *_reasons(record.decision))
        found = Queued(record.decision.id, why, asked.project, asked.arrived_at)
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
