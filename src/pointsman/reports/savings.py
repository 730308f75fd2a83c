"""Net savings against a baseline model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pointsman.decision.decision import Decision
from pointsman.errors import PointsmanError
from pointsman.reports.usage import PRICED, Usage, answered, cost, usage, writing
from pointsman.stores.ledger import Attempt, Record, Shadow, ShadowAnswer
from pointsman.vocabulary import ModelSpec, Stage

__all__ = ["Savings", "savings"]

#: Reasons of a decision whose question was asked, and paid for, in vain.
_ASKED_IN_VAIN: Final = frozenset({"tiers.abstained.llm-failed", "tiers.abstained.llm-invalid"})

#: What is added up turn by turn.
_ADDED: Final = (
    *("counted", "no_answer", "no_usage", "at_baseline", "answers", "baseline_cache", "assumed", "switches"),
    *("retries", "questions", "verification", "trials", "shadow", "judging", "writes"),
)


@dataclass(slots=True)
class Savings:
    """Amounts in the currency of the prices. ``net`` is the least that is left, but for ``writes``."""

    baseline: str
    baseline_caches: bool = True  # it has a price of cached input
    turns: int = 0
    counted: int = 0  # turns with an answer, its usage and a price
    no_answer: int = 0
    no_usage: int = 0
    no_price: int = 0  # turns of which a part was served by a model without a price
    unpriced: Counter[str] = field(default_factory=Counter)  # of these, by that model
    at_baseline: float = 0.0  # the same tokens at the baseline's prices
    answers: float = 0.0  # what the answers cost
    baseline_cache: float = 0.0  # the most that its own cache would have saved of that
    assumed: int = 0  # turns in which nothing says how much that is
    switches: int = 0
    retries: float = 0.0  # attempts that did not answer, where usage is known
    questions: int = 0
    verification: float = 0.0  # an estimate: the most a question costs, times the questions
    trials: int = 0
    shadow: float = 0.0  # answers of a shadow model, where usage is known
    judging: float = 0.0  # what judges of two answers cost, as recorded with their verdicts
    writes: float = 0.0  # the most that prompt caches charged for writing, over the price of input

    @property
    def net(self) -> float:
        """What was saved, after everything but ``writes``."""
        spent = self.answers + self.retries + self.verification + self.shadow + self.judging
        return self.at_baseline - self.baseline_cache - spent

    @property
    def share(self) -> float:
        """Net saving as a share of what the baseline would have cost."""
        would = self.at_baseline - self.baseline_cache
        return self.net / would if would else 0.0

    def known(self, amount: float | None, model: str) -> float:
        """Return an amount; where it is None, remember the model whose price is unknown."""
        if amount is None:
            self.unpriced[model] = 1
            return 0.0
        return amount

    def add(self, turn: Savings) -> None:
        """Add one turn, or leave all of it out where a price is unknown."""
        self.turns += turn.turns
        if turn.unpriced:
            self.no_price += 1
            self.unpriced.update(turn.unpriced)
            return
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(turn, name))

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        amounts = (
            "at_baseline",
            "baseline_cache",
            "answers",
            "retries",
            "verification",
            "shadow",
            "judging",
            "net",
        )
        return {
            "baseline": self.baseline,
            "turns": self.turns,
            "counted": self.counted,
            "lacking": {
                "no_answer": self.no_answer,
                "no_usage": self.no_usage,
                "no_price": self.no_price,
                "models": dict(sorted(self.unpriced.items())),
                "share": round(1 - self.counted / self.turns, PRICED) if self.turns else 0.0,
            },
            "baseline_caches": self.baseline_caches,
            "assumed": self.assumed,
            "switches": self.switches,
            "questions": self.questions,
            "trials": self.trials,
            **{name: round(getattr(self, name), PRICED) for name in amounts},
            "net_share": round(self.share, PRICED),
            "writes_at_most": round(self.writes, PRICED),
            "net_after_writes": round(self.net - self.writes, PRICED),
        }

    def lines(self) -> Iterator[str]:
        """The report for a person."""
        lacking = self.turns - self.counted
        share = f"{lacking / self.turns:.1%}" if self.turns else "-"
        yield f'saved against always "{self.baseline}", over {self.counted:,} of {self.turns:,} turns'
        yield f"  the same tokens at its prices    {self.at_baseline:>12.4f}"
        yield f"  of that from its cache, at most  {-self.baseline_cache:>12.4f}"
        yield f"  answers                          {-self.answers:>12.4f}  {self.switches:,} changes of model"
        yield f"  attempts that did not answer     {-self.retries:>12.4f}"
        yield f"  verification, at most            {-self.verification:>12.4f}  {self.questions:,} questions"
        yield f"  answers of a shadow model        {-self.shadow:>12.4f}  {self.trials:,} answers"
        if self.judging:
            yield f"  judges of two answers            {-self.judging:>12.4f}"
        yield f"  net, at least                    {self.net:>12.4f}  {self.share:+.1%}"
        yield from self._unknown()
        yield (
            f"left out: {lacking:,} turns ({share}): {self.no_answer:,} without an answer, "
            f"{self.no_usage:,} without usage, {self.no_price:,} by a model without a price"
        )
        if self.unpriced:
            named = ", ".join(f'"{name}" {count:,}' for name, count in sorted(self.unpriced.items()))
            yield f"without a price: {named}; set input_per_million and output_per_million of each"

    def _unknown(self) -> Iterator[str]:
        """What no record says, and which way it changes the net."""
        if not self.baseline_caches:
            yield f'unknown: "{self.baseline}" has no cached_input_per_million, so no cache of it counts'
        if self.assumed:
            yield f"assumed: in {self.assumed:,} turns it reads all that the turn before sent from its cache"
        if self.writes:
            left = self.net - self.writes
            most = f"{self.writes:.4f} more; net then {left:.4f}"
            yield f"not counted: writing to prompt caches, at most {most}"


class _Before(NamedTuple):
    """The turn before, of the same session."""

    model: str  # that answered last; empty where none did yet
    input: int | None  # tokens of the turn; None where no answer says
    at: float  # seconds since the epoch
    alone: bool  # no model but the baseline was tried


def savings(
    records: Iterable[Record],
    models: Mapping[str, ModelSpec],
    baseline: str,
    *,
    question: float | None = 0.0,
    verifier: str = "",
) -> Savings:
    """Add up what was saved.

    The baseline is taken to have read all of the turn before from its cache, unless that has expired, or the
    baseline itself answered both: the most it could have, so that the saving is not overstated, whatever the
    upstream that answered reports of its own cache. A turn of which anything was served by a model without a
    price is left out as a whole.

    Args:
        records: Oldest first.
        models: With their prices, by configured name.
        baseline: Name of the model that would have served everything.
        question: What verifying one tier costs at most; None where that is unknown.
        verifier: Name of the model that verifies tiers.

    Raises:
        PointsmanError: the baseline is none of the models, or has no price.
    """
    _check_baseline(models, baseline)
    caches = models[baseline].cached_input_per_million is not None
    found = Savings(baseline, caches)
    before: dict[str, _Before] = {}
    asked: dict[str, int] = {}
    for record in records:
        turn = Savings(baseline, turns=1)
        session = record.decision.input.conversation
        if _has_asked(record.decision, asked):
            turn.questions = 1
            turn.verification = turn.known(question, verifier)
        _add_retries(turn, record.attempts, models)
        _add_shadows(turn, record.shadows, models)
        turn.judging = sum(outcome.cost for outcome in record.outcomes)
        now = _add_answer(turn, record, models, before.get(session))
        if session:
            before[session] = now
        found.add(turn)
    return found


def _check_baseline(models: Mapping[str, ModelSpec], baseline: str) -> None:
    if baseline not in models:
        known = ", ".join(models) or "none"
        raise PointsmanError(f'no model "{baseline}" to compare with', hint=f"models here: {known}")
    if not models[baseline].is_priced:
        priced = ", ".join(name for name, model in models.items() if model.is_priced) or "none"
        raise PointsmanError(f'the price of "{baseline}" is unknown', hint=f"models with a price: {priced}")


def _has_asked(decision: Decision, asked: dict[str, int]) -> bool:
    """Whether a verification is paid for: once per user message; tool calls find its answer remembered."""
    tier = decision.tier
    if tier is None:
        return False
    in_vain = any(reason.code in _ASKED_IN_VAIN for reason in tier.reasons)
    if tier.stage is not Stage.VERIFIED and not in_vain:
        return False
    session, message = decision.input.session, decision.input.user_message
    paid = in_vain or not session or asked.get(session) != message
    if not in_vain:
        asked[session] = message
    return paid


def _add_retries(turn: Savings, attempts: Iterable[Attempt], models: Mapping[str, ModelSpec]) -> None:
    tried = tuple(attempts)
    answer = answered(tried)
    for attempt in tried:
        spent = usage(attempt)
        if attempt is not answer and spent:
            turn.retries += turn.known(cost(models.get(attempt.model), spent), attempt.model)
            turn.writes += writing(models.get(attempt.model), spent)


def _add_shadows(turn: Savings, shadows: Iterable[Shadow], models: Mapping[str, ModelSpec]) -> None:
    for shadow in shadows:
        if isinstance(shadow, ShadowAnswer):
            turn.trials += 1
            if spent := usage(shadow):
                turn.shadow += turn.known(cost(models.get(shadow.model), spent), shadow.model)
                turn.writes += writing(models.get(shadow.model), spent)


def _add_answer(
    turn: Savings, record: Record, models: Mapping[str, ModelSpec], before: _Before | None
) -> _Before:
    """Add what the answer cost and would have cost; return what the next turn of the session has to know.

    Every turn counts for the next, one without usage too: the baseline would have read its input.
    """
    answer, used = answered(record.attempts), usage(answered(record.attempts))
    now = _Before(
        answer.model if answer else before.model if before else "",
        used.input if used else None,
        record.decision.input.arrived_at,
        all(attempt.model == turn.baseline for attempt in record.attempts),
    )
    if answer is None:
        turn.no_answer = 1
    elif used is None:
        turn.no_usage = 1
    else:
        turn.counted = 1
        turn.answers = turn.known(cost(models.get(answer.model), used), answer.model)
        turn.switches = int(bool(before and before.model not in {"", answer.model}))
        _add_baseline(turn, models, used, before, now)
    return now


def _add_baseline(
    turn: Savings, models: Mapping[str, ModelSpec], used: Usage, before: _Before | None, now: _Before
) -> None:
    baseline = models[turn.baseline]
    turn.at_baseline = cost(baseline, used) or 0.0
    if now.alone and (before is None or before.alone):
        return  # the baseline itself: what it reports is what it would have had
    turn.writes += writing(models.get(now.model), used)
    kept = baseline.cache_seconds
    if before is None or (kept is not None and now.at - before.at > kept):
        return
    sent = used.input if before.input is None else min(before.input, used.input)
    cached = max(used.cached, sent)
    turn.baseline_cache = turn.at_baseline - (cost(baseline, used._replace(cached=cached)) or 0.0)
    turn.assumed = int(cached > used.cached)
