"""The answers of one decision that a person can judge: the caller's and a shadow model's, without names."""

from __future__ import annotations

from typing import NamedTuple

from pointsman.reports.outcomes import IMPLICIT
from pointsman.reports.usage import HASHED, answered
from pointsman.sampling import draw
from pointsman.stores.ledger import Record, ShadowAnswer

__all__ = ["KeptAnswer", "kept_answers"]


class KeptAnswer(NamedTuple):
    """The text of one answer."""

    model: str  # as an outcome names it: that of the shadow; empty for the answer that the caller got
    text: str
    is_labelled: bool  # a person, a program or a judge said how good it is


def kept_answers(record: Record) -> tuple[KeptAnswer, ...]:
    """Return both answers where ``[shadow] text`` kept them, in an order drawn once per decision.

    A label must not depend on which model is thought to have answered: nothing in the order tells.
    """
    served = answered(record.attempts)
    for shadow in record.shadows:
        if not isinstance(shadow, ShadowAnswer) or shadow.error or served is None:
            continue
        texts = (shadow.beside_text, shadow.text)
        if all(text and not text.startswith(HASHED) for text in texts):
            said = {outcome.model for outcome in record.outcomes if not outcome.source.startswith(IMPLICIT)}
            both = (
                KeptAnswer("", texts[0] or "", bool(said & {"", served.model})),
                KeptAnswer(shadow.model, texts[1] or "", shadow.model in said),
            )
            return both if draw("kept answers", record.decision.id) < 0.5 else both[::-1]
    return ()
