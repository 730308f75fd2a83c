"""The summary of each turn, made from a decision, its entries, and the turn before.

Everything that depends on the order of turns is settled here, in tokens and without a price, so that the
costs against any baseline follow from sums (docs/notebook/0160).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from pointsman.decision.decision import Decision
from pointsman.guidance import Firing
from pointsman.stores.ledger.port import (
    COMPARED,
    Attempt,
    Outcome,
    Record,
    ShadowAnswer,
)
from pointsman.stores.ledger.reading import FIRED, GAPS, SELECTED, DecisionRow, Part
from pointsman.vocabulary import Stage

__all__ = [
    "Before",
    "TurnSummary",
    "Turns",
    "Usage",
    "answered",
    "goes_on",
    "rows_of",
    "usage",
]

#: Characters of a token, as where a request's length is estimated.
CHARACTERS: Final = 4

#: Turns and sessions remembered while their answers are awaited.
REMEMBERED: Final = 4_096
#: Of the turns, those that are remembered whole though they are answered, some kilobytes each: not fewer than
#: one batch writes.
WHOLE: Final = 1_000

#: Reasons of a decision whose question was asked, and paid for, in vain.
_ASKED_IN_VAIN: Final = frozenset({"tiers.abstained.llm-failed", "tiers.abstained.llm-invalid"})
_LOWER: Final = "routing.lower-tier"
#: How the sources of outcomes begin that no person and no program reported.
_NOT_SAID: Final = ("implicit:", "judge:")

#: Capabilities of a turn that a list shows and finds: whoever selects more does not select.
_MOST_SELECTED: Final = 16

#: Most tokens of a turn: sums of a million such turns are numbers that SQLite can hold.
MOST: Final = 10**12

_UNUSED: Final = (0, 0, 0)

Kept = TypeVar("Kept")
Belonging: TypeAlias = Attempt | Outcome | ShadowAnswer


class Usage(NamedTuple):
    """Tokens of one attempt."""

    input: int
    cached: int  # of the input, read from the provider's cache
    output: int


class Before(NamedTuple):
    """The turn before, of the same session."""

    model: str  # that answered last; empty where none did yet
    input: int | None  # tokens of the turn; None if no answer reports them
    at: float  # seconds since the epoch
    tried: str | None  # the one model that was tried; empty for several, None for none


def answered(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the attempt that answered, if one did."""
    for attempt in reversed(attempts):
        if 200 <= attempt.status < 300 and not attempt.error:
            return attempt
    return None


def usage(attempt: Attempt | ShadowAnswer | None) -> Usage | None:
    """Return the tokens of an answer; None if the upstream did not report them."""
    if attempt is None or attempt.input_tokens is None or attempt.output_tokens is None:
        return None
    sent = min(attempt.input_tokens, MOST)
    return Usage(sent, min(attempt.cached_tokens or 0, sent), min(attempt.output_tokens, MOST))


class TurnSummary(msgspec.Struct):
    """A decision with what became of it so far."""

    decision: Decision
    asked: bool = False
    before: Before | None = None
    previous: TurnSummary | None = None  # while its answer may still come
    attempts: tuple[Attempt, ...] = ()  # tuples: a turn is one object to the garbage collector
    trials: tuple[ShadowAnswer, ...] = ()
    said: Outcome | None = None  # the last of the answer that a person or a program reported
    judging: float = 0.0
    stored: tuple[int, DecisionRow] | None = None  # hour and row, as they were written last
    outcomes: int = 0  # how many were added

    def settle(self) -> Before | None:
        """Take over the known state of the turn before, and return it."""
        if self.previous is not None:
            self.before = self.previous.after()
        return self.before

    def after(self) -> Before:
        """State of this turn for the next turn of the session."""
        answer, before = answered(self.attempts), self.before
        used = usage(answer)
        model = answer.model if answer else before.model if before else ""
        return Before(model, used.input if used else None, self.decision.input.arrived_at, self.tried())

    def add(self, entry: Belonging) -> None:
        """Add what became of it; of outcomes the last that a person or a program reported."""
        match entry:
            case Attempt():
                self.attempts += (entry,)
            case ShadowAnswer():
                self.trials += (entry,)
            case Outcome():
                self.outcomes += 1
                self.judging += entry.cost
                if not entry.model and not entry.source.startswith(_NOT_SAID):
                    self.said = entry

    def begin_again(self, entries: Iterable[Belonging]) -> None:
        """Replace the known entries of the turn by these."""
        self.attempts, self.trials, self.said = (), (), None
        self.judging, self.outcomes = 0.0, 0
        for entry in entries:
            self.add(entry)

    def row(self) -> DecisionRow:
        """The summary."""
        decision, asked = self.decision, self.decision.input
        tries = self.attempts
        if len(tries) > 1:
            tries = tuple(sorted(tries, key=lambda attempt: attempt.number))
        answer = answered(tries)
        used = usage(answer)
        sent, cached, output = used or _UNUSED
        said = self.said
        first = decision.chain[0] if decision.chain else ""
        domains, firings = decision.domains, decision.guidance.firings if decision.guidance else ()
        has_parts = self.trials or len(tries) > 1 or (tries and answer is None)
        gap, reused, own, switched = self._beside_before(answer, used)
        return DecisionRow(
            id=decision.id,
            at=asked.arrived_at,
            session=asked.session,
            caller=asked.caller,
            role=asked.role.value if asked.role else "",
            project=asked.project,
            project_name=asked.project_name,
            client=asked.client,
            tier=decision.tier.tier.value if decision.tier else "",
            model=answer.model if answer else first,
            result="counted" if used else "no_usage" if answer else "no_answer",
            status=tries[-1].status if tries else 0,
            attempts=len(tries),
            domains=tuple(filter(None, domains.effective.domains)) if domains else (),
            signals=(*asked.signals, *_marks(decision, firings))
            if firings or decision.capabilities
            else asked.signals,
            stuck=bool(firings),
            downgraded=bool(answer and first and answer.model != first and not _is_agreed(tries))
            or _LOWER in [reason.code for reason in decision.reasons],
            abstained=bool(decision.abstained),
            label=said.label if said else "",
            score=said.score if said else None,
            labelled=said is not None,
            input=sent,
            cached=cached,
            output=output,
            gap=gap,
            reused=reused,
            own=own,
            switched=switched,
            asked=self.asked,
            trials=len(self.trials),
            added=sum(len(each.text) for each in decision.injections) // CHARACTERS,
            judging=self.judging,
            parts=tuple(_parts(tries, answer, self.trials)) if has_parts else (),
        )

    def tried(self) -> str | None:
        """The one model that was tried; empty for several, None for none."""
        if len(self.attempts) == 1:
            return self.attempts[0].model
        models = {attempt.model for attempt in self.attempts}
        return None if not models else models.pop() if len(models) == 1 else ""

    def _beside_before(self, answer: Attempt | None, used: Usage | None) -> tuple[int, int, str, bool]:
        """Gap, reused tokens, own model and change of model of a turn that is counted."""
        before = self.settle()
        if answer is None or used is None:
            return -1, 0, "", False
        tried = self.tried() or ""
        if before is None:
            return -1, used.cached, tried, False
        own = tried if before.tried in {None, tried} else ""
        gap = _gap(self.decision.input.arrived_at - before.at)
        sent = used.input if before.input is None else min(before.input, used.input)
        return gap, max(used.cached, sent), own, before.model not in {"", answer.model}


def _marks(decision: Decision, firings: Iterable[Firing]) -> Iterator[str]:
    """The classifiers that fired, and the capabilities selected anew.

    Names of tools that a request offers are left out: they are the callers' words, of which there is no end.
    """
    yield from dict.fromkeys(FIRED + each.classifier for each in firings)
    if (chosen := decision.capabilities) and not (chosen.continued or chosen.bypass):
        tools = {tool.name for tool in chosen.offered}
        names = [SELECTED + name for name in chosen.selected if name not in tools]
        yield from names[:_MOST_SELECTED]


def _is_agreed(tries: Iterable[Attempt]) -> bool:
    """Whether an answer was compared with another's: a cheap model that serves then is no downgrade."""
    return any(attempt.error == COMPARED for attempt in tries)


def _gap(seconds: float) -> int:
    """The class of ``GAPS``: more seconds than its lower bound, so that a bound itself is not beyond it."""
    found = bisect_right(GAPS, seconds) - 1
    return max(0, found - (found > 0 and GAPS[found] == seconds))


def _parts(
    tries: Iterable[Attempt], answer: Attempt | None, trials: Iterable[ShadowAnswer]
) -> Iterator[Part]:
    for attempt in tries:
        if attempt is not answer and (spent := usage(attempt)):
            yield Part("retry", attempt.model, *spent)
    for trial in trials:
        if spent := usage(trial):
            yield Part("shadow", trial.model, *spent)


class Turns:
    """Turns while they happen: remembers the last of each session, and those that may still be answered.

    Beyond ``size`` sessions or turns the oldest are forgotten: a session that comes back after that begins
    anew, as if it had no turn before. Of an answered turn beyond the latest ``WHOLE`` only its state for the
    next one is remembered.
    """

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size: Final = size
        self._turns: Final[OrderedDict[str, TurnSummary]] = OrderedDict()  # by id of the decision
        self._latest: Final[deque[TurnSummary]] = deque()  # at most ``WHOLE``
        self._last: Final[OrderedDict[str, TurnSummary | Before]] = OrderedDict()  # by conversation
        self._verified: Final[OrderedDict[str, int]] = OrderedDict()  # message asked about last, by session

    @property
    def is_empty(self) -> bool:
        """Whether no session is known."""
        return not self._last

    def begin(self, decision: Decision, belonging: Iterable[object] = ()) -> TurnSummary:
        """Begin a turn with the entries that it already has. Turns come in order of arrival."""
        turn = self._turns.get(decision.id)
        if turn is None:
            turn = self._begin(decision)
        if turn.decision is not decision:  # decided again, its place among the turns stays
            turn.decision, turn.stored = decision, None
        for entry in belonging:
            if isinstance(entry, Belonging):
                turn.add(entry)
        return turn

    def _begin(self, decision: Decision) -> TurnSummary:
        turn = TurnSummary(decision, self._has_asked(decision))
        session = decision.input.conversation
        if session:
            self._follow(turn, session)
        _keep(self._turns, decision.id, turn, self._size)
        self._latest.append(turn)
        if len(self._latest) > WHOLE:
            self._shed(self._latest.popleft())
        return turn

    def _shed(self, turn: TurnSummary) -> None:
        """Forget an answered turn, but for its state for the next turn of its session."""
        if answered(turn.attempts) is None:
            return  # it may still be
        self._turns.pop(turn.decision.id, None)
        session = turn.decision.input.conversation
        if self._last.get(session) is turn:
            turn.settle()
            self._last[session] = turn.after()

    def get(self, decision_id: str) -> TurnSummary | None:
        """Return a turn that is remembered."""
        return self._turns.get(decision_id)

    def last_arrival(self, session: str) -> float:
        """Return when the last turn of a session that is remembered arrived; before all time for none."""
        last = self._last.get(session)
        if isinstance(last, TurnSummary):
            return last.decision.input.arrived_at
        return -math.inf if last is None else last.at

    def recall(self, session: str, before: Before) -> None:
        """Remember the last turn of a session, as it was written before."""
        _keep(self._last, session, before, self._size)

    def adopt(self, turn: TurnSummary) -> None:
        """Remember a turn that began earlier."""
        session = turn.decision.input.conversation
        last = self._last.get(session)
        if isinstance(last, Before) and last.at == turn.decision.input.arrived_at:
            self._last[session] = turn
        _keep(self._turns, turn.decision.id, turn, self._size)

    def clear(self) -> None:
        """Forget everything."""
        self._turns.clear()
        self._latest.clear()
        self._last.clear()
        self._verified.clear()

    def _follow(self, turn: TurnSummary, session: str) -> None:
        last = self._last.get(session)
        if isinstance(last, TurnSummary):
            last.settle()
            last.previous = None  # else every turn of a session would stay in memory
            turn.previous = last
        else:
            turn.before = last
        _keep(self._last, session, turn, self._size)

    def _has_asked(self, decision: Decision) -> bool:
        """Whether a verification is paid for: once per user message; tool calls use the answer again."""
        in_vain = _asked_in_vain(decision)
        if not in_vain and not _is_verified(decision):
            return False
        session, message = decision.input.session, decision.input.user_message
        paid = in_vain or not session or self._verified.get(session) != message
        if not in_vain:
            _keep(self._verified, session, message, self._size)
        return paid


def goes_on(decision: Decision, before: Decision) -> bool:
    """Whether a decision uses the verification that was paid for with the one before it."""
    same = decision.input.user_message == before.input.user_message
    return same and _is_verified(decision) and _is_verified(before) and not _asked_in_vain(decision)


def _is_verified(decision: Decision) -> bool:
    return decision.tier is not None and decision.tier.stage is Stage.VERIFIED


def _asked_in_vain(decision: Decision) -> bool:
    return decision.tier is not None and any(
        reason.code in _ASKED_IN_VAIN for reason in decision.tier.reasons
    )


def _keep(kept: OrderedDict[str, Kept], key: str, value: Kept, size: int) -> None:
    if key in kept:
        kept.move_to_end(key)
    elif len(kept) >= size:
        kept.popitem(last=False)
    kept[key] = value


def rows_of(records: Iterable[Record], turns: Turns | None = None) -> Iterator[DecisionRow]:
    """Summarise records, the oldest first."""
    turns = turns or Turns()
    for record in records:
        yield turns.begin(record.decision, (*record.attempts, *record.shadows, *record.outcomes)).row()
