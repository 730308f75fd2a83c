"""Implicit outcomes, derived from later requests, and the export of training data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from statistics import fmean
from typing import Final, NamedTuple

import msgspec

from pointsman.model_choice.chains import chances_of
from pointsman.remembering import grouped
from pointsman.reports.usage import answered, kept_words
from pointsman.stores.ledger import Outcome, Record, ShadowAnswer
from pointsman.stores.ledger.outcome_reports import CALLER
from pointsman.text.extract import draw, takes_back
from pointsman.tiers.escalation import RAISED
from pointsman.trajectory import Step
from pointsman.vocabulary import Stage

__all__ = [
    "IMPLICIT",
    "JUDGE",
    "Fittable",
    "KeptAnswer",
    "by_people",
    "derive",
    "kept_answers",
    "new_outcomes",
    "prompts",
    "score_of_answer",
    "scored",
    "scores_of",
]

#: How the sources of outcomes begin that were derived, and that a model gave as judge of two answers.
IMPLICIT: Final = "implicit:"
JUDGE: Final = "judge:"
_BY_GUIDANCE: Final = "guidance.raise-tier"
#: Codes of a request whose tier is above the one decided.
_HIGHER: Final = RAISED | {_BY_GUIDANCE, "escalation.stays"}

#: Failed calls in a row that count against an answer. Source: the error-streak detector's default.
STREAK: Final = 3

#: Characters below which the same message twice is no retry: "yes, go on" is said again and again.
SHORT: Final = 20


def new_outcomes(said: Iterable[Outcome], known: Sequence[Outcome]) -> Iterator[Outcome]:
    """Yield new outcomes, without those recorded at any time."""
    seen = {_said(outcome) for outcome in known}
    for outcome in said:
        if _said(outcome) not in seen:
            seen.add(_said(outcome))
            yield outcome


def _said(outcome: Outcome) -> tuple[object, ...]:
    return outcome.decision, outcome.model, outcome.score, outcome.label, outcome.source, outcome.comment


def derive(records: Iterable[Record]) -> Iterator[Outcome]:
    """Yield the implicit outcomes of records, the oldest first, that the records do not have yet.

    People who leave say nothing, so silence is no good sign. The one good sign is that the agent's last call
    for a user message shows passed tests, when the next message comes.
    """
    sessions: dict[str, _Session] = {}
    for record in records:
        if name := record.decision.input.conversation:
            yield from sessions.setdefault(name, _Session()).after(record)


class _Session:
    """One session as far as it has been read."""

    def __init__(self) -> None:
        self._latest: Record | None = None
        self._first: Record | None = None  # of the current user message
        self._errors = 0  # in a row, since that message
        self._last: Step | None = None  # the latest telling call, since that message
        self._said: set[tuple[str, str]] = set()  # (decision, source)

    def after(self, record: Record) -> Iterator[Outcome]:
        """Evidence of this turn about earlier ones."""
        before, first = self._latest, self._first
        now = record.decision
        new = first is not None and first.decision.input.user_message != now.input.user_message
        self._said.update((now.id, outcome.source) for outcome in record.outcomes)
        if before is not None and first is not None:
            if self._streak(now.input.steps):
                yield from self._against(first, "error-streak", now.input.arrived_at)
            if new:
                yield from self._ended(first, now.input.arrived_at)
            for sign, shown in _SIGNS.items():
                if shown(before, record):
                    yield from self._against(before, sign, now.input.arrived_at)
        if first is None or new:
            self._first, self._errors, self._last = record, 0, None
        telling = [step for step in now.input.steps if not step.is_neutral]
        self._last = telling[-1] if telling else self._last
        self._latest = record

    def _ended(self, first: Record, at: float) -> Iterator[Outcome]:
        """Evidence of the last call of a user message about its work: passed tests, or a failure."""
        if self._last is None:
            return
        if self._last.is_error:
            yield from self._against(first, "ended-in-error", at)
        elif self._last.progress == "test_passed":
            yield from self._against(first, "tests-passed", at, score=1.0)

    def _streak(self, steps: Iterable[Step]) -> bool:
        """Whether these calls complete a streak. Calls that say nothing of the agent are passed over."""
        longest = 0
        for step in steps:
            if not step.is_neutral:
                self._errors = self._errors + 1 if step.is_error else 0
                longest = max(longest, self._errors)
        return longest >= STREAK

    def _against(self, record: Record, sign: str, at: float, *, score: float = 0.0) -> Iterator[Outcome]:
        decision, source = record.decision.id, f"{IMPLICIT}{sign}"
        if (decision, source) not in self._said:
            self._said.add((decision, source))
            yield Outcome(decision=decision, score=score, label=sign, source=source, at=at)


def _retried(before: Record, record: Record) -> bool:
    """The same message again: sent anew after an answer, or typed once more."""
    then, now = before.decision.input, record.decision.input
    if then.user_message == now.user_message:
        return then.size == now.size > 0 and not now.steps and answered(before.attempts) is not None
    if now.characters < SHORT:
        return False
    if before.text and record.text:
        return before.text == record.text
    if before.text or record.text:
        return False
    facts = ("signals", "characters", "tokens", "utf16_units", "questions", "script")
    return all(getattr(then, fact) == getattr(now, fact) for fact in facts)


def _escalated(before: Record, record: Record) -> bool:
    """A higher tier was requested than decided: by a user's named tier, or by guidance or trouble."""
    then, now = before.decision, record.decision
    codes, before_it = ({reason.code for reason in each.reasons} for each in (now, then))
    if codes & RAISED or (_BY_GUIDANCE in codes and not before_it & _HIGHER):
        return True
    forced = now.tier is not None and now.tier.stage is Stage.FORCED
    return bool(forced and now.tier and then.tier and now.tier.tier.rank > then.tier.tier.rank)


def _corrected(before: Record, record: Record) -> bool:
    """The next message takes the answer back; needs stored text."""
    new = before.decision.input.user_message != record.decision.input.user_message
    return new and bool(record.text and takes_back(record.text))


#: What one turn says against the turn before it.
_SIGNS: Final[Mapping[str, Callable[[Record, Record], bool]]] = {
    "retry": _retried,
    "escalation": _escalated,
    "correction": _corrected,
}


class Fittable(msgspec.Struct, frozen=True, omit_defaults=True):
    """How well each model did on a prompt, 0 to 1: by one decision, or a line for ``pointsman fit tiers``."""

    prompt: str
    scores: Mapping[str, float]
    domain: str = ""  # that the prompt was last decided in, where domains are found
    chances: Mapping[str, float] = {}  # with which chance was to choose each model; empty: a rule chose
    session: str = ""  # digest of it: prompts of one session belong together; empty where several said it


def scored(record: Record, *, callers: bool = True) -> Fittable | None:
    """Return the input of ``fit`` from one decision; None without stored text or scores.

    Args:
        record: Of one turn.
        callers: Whether the outcomes count that ordinary callers posted, where keys have roles.
    """
    if not callers:
        kept = tuple(outcome for outcome in record.outcomes if not outcome.source.startswith(CALLER))
        record = msgspec.structs.replace(record, outcomes=kept)
    text = kept_words(record.text)
    scores = dict(scores_of(record)) if text else {}
    if not text or not scores:
        return None
    seen = record.decision.domains
    domain = seen.effective.domains[0] if seen else ""
    chances = _chances(record)
    name = record.decision.input.session
    session = blake2b(name.encode(), digest_size=8).hexdigest() if name else ""
    return Fittable(text, scores, domain, chances, session)


def _chances(record: Record) -> dict[str, float]:
    """The probability with which each model was drawn; empty unless the model that answered was drawn."""
    answer, chain = answered(record.attempts), record.decision.chain
    if answer is None or not chain or answer.model != chain[0]:
        return {}  # a fallback answered
    return chances_of(record.decision.reasons)


def prompts(found: Iterable[Fittable], models: Sequence[str] = ()) -> Iterator[Fittable]:
    """Yield prompts with stored text, with the mean score of each model that answered them.

    A shadow's answer counts if it was scored. Outcomes by people and programs count;
    implicit signs only without any other outcome.

    Args:
        found: Any order. The same words are one prompt. Where chance chose the model and no ``models`` are
            named, each decision is a line, because its chance weighs its model against the others.
        models: Only prompts with a score of each of these, and only these; empty: whatever there is.
    """
    scores: dict[str, dict[str, list[float]]] = {}
    domains: dict[str, str] = {}
    sessions: dict[str, set[str]] = {}
    for each in found:
        if each.chances and len(each.scores) == 1 and not models:
            yield each
            continue
        for model, score in each.scores.items():
            scores.setdefault(each.prompt, {}).setdefault(model, []).append(score)
        domains[each.prompt] = each.domain
        sessions.setdefault(each.prompt, set()).add(each.session)
    for prompt, by_model in scores.items():
        wanted = models or sorted(by_model)
        if all(model in by_model for model in wanted):
            means = {model: fmean(by_model[model]) for model in wanted}
            session, *others = sessions[prompt]
            yield Fittable(prompt, means, domains[prompt], session="" if others else session)


def scores_of(record: Record, *, judged: bool = True) -> Iterator[tuple[str, float]]:
    """Each model with a scored answer to a turn.

    Args:
        record: Of one turn.
        judged: Whether the verdicts of a judge count, which compare two answers and tell no success.
    """
    answer = answered(record.attempts)
    served = answer.model if answer else ""
    said = grouped((outcome.model or served, outcome) for outcome in record.outcomes)
    for name in sorted(said):
        score = _score(each for each in said[name] if judged or not each.source.startswith(JUDGE))
        if score is not None and name:
            yield name, score


def by_people(record: Record) -> Record:
    """The record with the outcomes of people and programs: a judge compares, and a sign is implicit."""
    said = (each for each in record.outcomes if not each.source.startswith((IMPLICIT, JUDGE)))
    return msgspec.structs.replace(record, outcomes=tuple(said))


def score_of_answer(record: Record, *, without: Collection[str] = ()) -> float | None:
    """The score of the answer that the caller received; None if there is none. Judges do not count.

    Args:
        record: Of one turn.
        without: Sources that do not count either.
    """
    answer = answered(record.attempts)
    if answer is None:
        return None
    return _score(
        outcome
        for outcome in record.outcomes
        if outcome.model in {"", answer.model}
        and outcome.source not in without
        and not outcome.source.startswith(JUDGE)
    )


def _score(outcomes: Iterable[Outcome]) -> float | None:
    scored = [outcome for outcome in outcomes if outcome.score is not None]
    said = [outcome for outcome in scored if not outcome.source.startswith((IMPLICIT, JUDGE))]
    judged = [outcome for outcome in scored if outcome.source.startswith(JUDGE)]
    values = [outcome.score for outcome in said or judged or scored if outcome.score is not None]
    return fmean(values) if values else None


# The answers of one decision that a person can judge: the caller's and a shadow model's, without names.


class KeptAnswer(NamedTuple):
    """The text of one answer."""

    model: str  # as an outcome names it: that of the shadow; empty for the answer that the caller got
    text: str
    is_labelled: bool  # a person, a program or a judge said how good it is


def kept_answers(record: Record) -> tuple[KeptAnswer, ...]:
    """Return both answers if ``[shadow] text`` stored them, in an order drawn once per decision.

    A label must not depend on which model is thought to have answered: the order gives no hint.
    """
    served = answered(record.attempts)
    for shadow in record.shadows:
        if not isinstance(shadow, ShadowAnswer) or shadow.error or served is None:
            continue
        answer, other = kept_words(shadow.beside_text), kept_words(shadow.text)
        if answer and other:
            said = {outcome.model for outcome in record.outcomes if not outcome.source.startswith(IMPLICIT)}
            both = (
                KeptAnswer("", answer, bool(said & {"", served.model})),
                KeptAnswer(shadow.model, other, shadow.model in said),
            )
            return both if draw("kept answers", record.decision.id) < 0.5 else both[::-1]
    return ()
