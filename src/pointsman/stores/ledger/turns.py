"""The summary of each turn, made from a decision, its entries, and the turn before.

Everything that depends on the order of turns is settled here, in tokens and without a price, so that the
costs against any baseline follow from sums (docs/notebook/0160).
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from pointsman.decision.decision import Decision
from pointsman.guidance import Firing
from pointsman.model_choice.chains import LOWER_TIER
from pointsman.prices import Prices
from pointsman.remembering import Bounded
from pointsman.stores.ledger.port import (
    COMPARED,
    Attempt,
    Outcome,
    Record,
    ShadowAnswer,
    may_be_paid,
)
from pointsman.stores.ledger.reading import FIRED, GAPS, RESULTS, SELECTED, DecisionRow, Part, Usage, row_of
from pointsman.vocabulary import Stage

__all__ = [
    "Before",
    "TurnSummary",
    "Turns",
    "answered",
    "cost",
    "goes_on",
    "rows_of",
    "usage",
]

#: Characters of a token, as where a request's length is estimated.
CHARACTERS: Final = 4

#: Turns and sessions remembered while their answers are awaited.
REMEMBERED: Final = 4_096
#: Of the turns, those that are remembered whole though they are answered, 6 to 12 kB each: an entry that
#: comes later, as an outcome does, reads its turn from the ledger.
WHOLE: Final = 128

#: Reasons of a decision whose question was asked, and paid for, in vain.
_ASKED_IN_VAIN: Final = frozenset({"tiers.abstained.llm-failed", "tiers.abstained.llm-invalid"})
_NO_ANSWER, _NO_USAGE, _COUNTED = map(RESULTS.index, ("no_answer", "no_usage", "counted"))
_code_of: Final = operator.attrgetter("code")
_number_of: Final = operator.attrgetter("number")
#: How the sources of outcomes begin that no person and no program reported.
_NOT_SAID: Final = ("implicit:", "judge:")

#: Capabilities of a turn that a list shows and finds: whoever selects more does not select.
_MOST_SELECTED: Final = 16

#: Most tokens of a turn: sums of a million such turns are numbers that SQLite can hold.
MOST: Final = 10**12

_UNUSED: Final = (0, 0, 0, 0, 0)

Belonging: TypeAlias = Attempt | Outcome | ShadowAnswer
_Answer: TypeAlias = "tuple[Attempt | None, Usage | None, str | None]"


#: In C: ``Usage(...)`` runs a frame of Python, for each answer of the gateway.
_make_usage: Final[Callable[[tuple[int, ...]], Usage]] = partial(tuple.__new__, Usage)


class Before(NamedTuple):
    """The turn before, of the same session."""

    model: str  # that answered last; empty where none did yet
    input: int | None  # tokens of the turn; None if no answer reports them
    at: float  # seconds since the epoch
    tried: str | None  # the one model that was tried; empty for several, None for none


read_before: Final = msgspec.json.Decoder(Before).decode


def answered(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the attempt that answered, if one did."""
    for attempt in reversed(attempts):
        if 200 <= attempt.status < 300 and not attempt.error:
            return attempt
    return None


def usage(attempt: Attempt | ShadowAnswer | None) -> Usage | None:
    """Return the tokens of an answer, ``MOST`` at most; None if the upstream did not report them."""
    if attempt is None:
        return None
    sent, cached, output = attempt.input_tokens, attempt.cached_tokens or 0, attempt.output_tokens
    if sent is None or output is None:
        return None
    if sent > MOST or output > MOST:
        sent, output = min(sent, MOST), min(output, MOST)
    cached, written = min(sent, cached), attempt.written_tokens
    if not written:
        return _make_usage((sent, cached, output, 0, 0))
    written = min(sent - cached, written)
    return _make_usage((sent, cached, output, written, min(written, attempt.written_1h_tokens or 0)))


def cost(model: Prices | None, used: Usage | None) -> float | None:
    """Cost of tokens at a model's prices, in US dollars; None if a price or the usage is unknown."""
    return None if model is None or used is None else model.cost(*used)


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
    is_stored: bool = False  # it has a row
    outcomes: int = 0  # how many were added
    answer: _Answer | None = None  # of the attempts so far, once somebody has asked

    def settle(self) -> Before | None:
        """Take over the known state of the turn before, and return it."""
        if (previous := self.previous) is not None:
            self.before = previous.after()
        return self.before

    def answered(self) -> _Answer:
        """The attempt that answered, its tokens, and the model that was tried."""
        known = self.answer
        if known is None:
            answer = answered(self.attempts)
            known = self.answer = answer, usage(answer), self.tried()
        return known

    def after(self) -> Before:
        """State of this turn for the next turn of the session."""
        answer, used, tried = self.answered()
        before = self.before
        model = answer.model if answer else before.model if before else ""
        return Before(model, used[0] if used else None, self.decision.input.arrived_at, tried)

    def add(self, entry: Belonging) -> None:
        """Add what became of it; of outcomes the last that a person or a program reported."""
        match entry:
            case Attempt():
                self.attempts, self.answer = (*self.attempts, entry), None
            case ShadowAnswer():
                self.trials += (entry,)
            case Outcome():
                self.outcomes += 1
                self.judging += entry.cost
                if not entry.model and not entry.source.startswith(_NOT_SAID):
                    self.said = entry

    def begin_again(self, entries: Iterable[Belonging]) -> None:
        """Replace the known entries of the turn by these."""
        self.attempts, self.trials, self.said, self.answer = (), (), None, None
        self.judging, self.outcomes = 0.0, 0
        for entry in entries:
            self.add(entry)

    def row(self) -> DecisionRow:
        """The summary."""
        return row_of(self.values())

    def values(self) -> tuple[Any, ...]:
        """The values of the fields of a row, the result by its number, and the model that ``tried`` names."""
        decision, tries = self.decision, self.attempts
        asked, tier, guidance = decision.input, decision.tier, decision.guidance
        if len(tries) > 1:
            tries = tuple(sorted(tries, key=_number_of))
            answer, tried = answered(tries), self.tried()
            used = usage(answer)
        else:
            answer, used, tried = self.answered()
        gap, reused, own, switched = self._beside_before(answer, used, tried)
        said = self.said
        first = decision.chain[0] if decision.chain else ""
        model = answer.model if answer else first
        firings = guidance.firings if guidance else ()
        signals = asked.signals
        if firings or decision.capabilities:
            signals = (*signals, *_marks(decision, firings))
        has_parts = self.trials or len(tries) > 1 or (tries and answer is None)
        return (
            decision.id, asked.arrived_at, asked.session, asked.caller,
            asked.role._value_ if asked.role else "",
            asked.project, asked.project_name, asked.client, tier.tier._value_ if tier else "", model,
            _COUNTED if used else _NO_USAGE if answer else _NO_ANSWER,
            tries[-1].status if tries else 0, len(tries),
            bool(firings),
            # A cheap model whose answer was compared with another's is no downgrade.
            (model != first and first != "" and COMPARED not in [each.error for each in tries])
            or LOWER_TIER in map(_code_of, decision.reasons),
            bool(decision.abstained),
            said.label if said else "", said.score if said else None, said is not None,
            *(used or _UNUSED), gap, reused, own, switched, self.asked, len(self.trials),
            sum(len(each.text) for each in decision.injections) // CHARACTERS if decision.injections else 0,
            self.judging,
            tuple(filter(None, decision.domains.effective.domains)) if decision.domains else (),
            signals, tuple(_parts(tries, answer, self.trials)) if has_parts else (), tried,
        )  # fmt: skip

    def bare(self) -> TurnSummary:
        """The turn with the figures of its request alone."""
        made = self.decision
        return TurnSummary(Decision(id=made.id, input=made.input, policy=made.policy, tier=None, chain=()))

    def tried(self) -> str | None:
        """The one model that was tried; empty for several, None for none."""
        attempts = self.attempts
        if len(attempts) == 1:
            return attempts[0].model
        models = {attempt.model for attempt in attempts}
        return None if not models else models.pop() if len(models) == 1 else ""

    def _beside_before(
        self, answer: Attempt | None, used: Usage | None, tried: str | None
    ) -> tuple[int, int, str, bool]:
        """Gap, reused tokens, own model and change of model of a turn that is counted."""
        before = self.settle()
        if answer is None or used is None:
            return -1, 0, "", False
        tried = tried or ""
        input_tokens, cached, *_ = used
        if before is None:
            return -1, cached, tried, False
        own = tried if before.tried in (None, tried) else ""
        gap = _gap(self.decision.input.arrived_at - before.at)
        sent = input_tokens if before.input is None else min(before.input, input_tokens)
        return gap, max(cached, sent), own, before.model not in ("", answer.model)


def _marks(decision: Decision, firings: Iterable[Firing]) -> Iterator[str]:
    """The classifiers that fired, and the capabilities selected anew.

    Names of tools that a request offers are left out: they are the callers' words, of which there is no end.
    """
    yield from dict.fromkeys(FIRED + each.classifier for each in firings)
    if (chosen := decision.capabilities) and not (chosen.continued or chosen.bypass):
        tools = {tool.name for tool in chosen.offered}
        names = [SELECTED + name for name in chosen.selected if name not in tools]
        yield from names[:_MOST_SELECTED]


def _gap(seconds: float) -> int:
    """The class of ``GAPS``: more seconds than its lower bound, so that a bound itself is not beyond it."""
    found = bisect_right(GAPS, seconds) - 1
    return max(0, found - (found > 0 and GAPS[found] == seconds))


def _parts(
    tries: Iterable[Attempt], answer: Attempt | None, trials: Iterable[ShadowAnswer]
) -> Iterator[Part]:
    for attempt in tries:
        if attempt is answer:
            continue
        if spent := usage(attempt):
            yield Part("retry", attempt.model, *spent)
        elif may_be_paid(attempt):
            yield Part("unmetered", attempt.model, *_UNUSED)
    for trial in trials:
        if spent := usage(trial):
            yield Part("shadow", trial.model, *spent)
        elif may_be_paid(trial):
            yield Part("unmetered", trial.model, *_UNUSED)


class Turns:
    """Turns while they happen: remembers the last of each session, and those that may still be answered.

    Beyond ``size`` sessions or turns the oldest are forgotten: a session that comes back after that begins
    anew, as if it had no turn before. Of an answered turn beyond the latest ``WHOLE`` only its state for the
    next one is remembered.
    """

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size: Final = size
        self._turns: Final = Bounded[str, TurnSummary](size)  # by id of the decision
        self._latest: Final[deque[TurnSummary]] = deque()  # at most ``WHOLE``
        self._last: Final = Bounded[str, TurnSummary | Before](size)  # by conversation
        self._verified: Final = Bounded[str, int](size)  # message asked about last, by session

    @property
    def is_empty(self) -> bool:
        """Whether no session is known."""
        return not self._last

    def begin(self, decision: Decision) -> TurnSummary:
        """Begin a turn, or take its decision, which was made again. Turns come in order of arrival."""
        turns = self._turns
        turn = turns.get(decision.id)
        if turn is not None:  # its place among the turns stays
            if turn.decision is not decision:
                turn.decision, turn.is_stored = decision, False
            return turn
        turn = TurnSummary(decision, self._has_asked(decision))
        if session := decision.input.conversation:
            self._follow(turn, session)
        if len(turns) >= self._size:
            turns.popitem(last=False)
        turns[decision.id] = turn
        latest = self._latest
        latest.append(turn)
        if len(latest) > WHOLE:
            self._shed(latest.popleft())
        return turn

    def take(self, entries: Iterable[Decision | Belonging]) -> tuple[dict[str, TurnSummary], list[Belonging]]:
        """Take entries in their order.

        Returns:
            The turns that they change, by id of the decision, and the entries of other turns.
        """
        turns: dict[str, TurnSummary] = {}
        others: list[Belonging] = []
        known, begin = self._turns, self.begin
        for entry in entries:
            if type(entry) is Decision:
                turns[entry.id] = begin(entry)
            elif (turn := known.get(entry.decision)) is not None:  # type: ignore[union-attr]  # no decision
                turn.add(entry)  # type: ignore[arg-type]  # as above
                turns[entry.decision] = turn  # type: ignore[union-attr]  # as above
            else:
                others.append(entry)  # type: ignore[arg-type]  # as above
        return turns, others

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
        self._last.keep(session, before)

    def adopt(self, turn: TurnSummary) -> None:
        """Remember a turn that began earlier."""
        session = turn.decision.input.conversation
        last = self._last.get(session)
        if isinstance(last, Before) and last.at == turn.decision.input.arrived_at:
            self._last[session] = turn
        self._turns.keep(turn.decision.id, turn)

    def clear(self) -> None:
        """Forget everything."""
        self._turns.clear()
        self._latest.clear()
        self._last.clear()
        self._verified.clear()

    def _follow(self, turn: TurnSummary, session: str) -> None:
        last = self._last.pop(session, None)
        if type(last) is TurnSummary:
            last.settle()
            last.previous = None  # else every turn of a session would stay in memory
            turn.previous = last
        elif last is None:
            if len(self._last) >= self._size:
                self._last.popitem(last=False)
        else:
            turn.before = last  # type: ignore[assignment]  # the other of the two
        self._last[session] = turn

    def _has_asked(self, decision: Decision) -> bool:
        """Whether a verification is paid for: once per user message; tool calls use the answer again."""
        tier = decision.tier
        if tier is None:
            return False
        in_vain = not _ASKED_IN_VAIN.isdisjoint(map(_code_of, tier.reasons))
        if not in_vain and tier.stage is not Stage.VERIFIED:
            return False
        session, message = decision.input.session, decision.input.user_message
        paid = in_vain or not session or self._verified.get(session) != message
        if not in_vain:
            self._verified.keep(session, message)
        return paid


def goes_on(decision: Decision, before: Decision) -> bool:
    """Whether a decision uses the verification that was paid for with the one before it."""
    same = decision.input.user_message == before.input.user_message
    return same and _is_verified(decision) and _is_verified(before) and not _asked_in_vain(decision)


def _is_verified(decision: Decision) -> bool:
    return decision.tier is not None and decision.tier.stage is Stage.VERIFIED


def _asked_in_vain(decision: Decision) -> bool:
    return decision.tier is not None and not _ASKED_IN_VAIN.isdisjoint(map(_code_of, decision.tier.reasons))


def rows_of(records: Iterable[Record], turns: Turns | None = None) -> Iterator[DecisionRow]:
    """Summarise records, the oldest first."""
    turns = turns or Turns()
    for record in records:
        turn = turns.begin(record.decision)
        for entry in (*record.attempts, *record.shadows, *record.outcomes):
            if isinstance(entry, Belonging):
                turn.add(entry)
        yield turn.row()
