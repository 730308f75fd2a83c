"""The report on the shadow policy and the shadow model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from pointsman.agreement import COUNTED, AgreementPolicy, Result, result_of, serves_first
from pointsman.decision.diff import verdict
from pointsman.learning.intervals import MARGIN
from pointsman.prices import dollars
from pointsman.reports.labels import ScoredAnswers
from pointsman.reports.replay import Replayed, SessionState, Side, Source, Summary, costs, served
from pointsman.reports.usage import PRICED, answered, cost, usage
from pointsman.stores.ledger import Attempt, ComparedAnswers, Record, ShadowAnswer, ShadowDecision
from pointsman.stores.ledger.port import may_be_paid
from pointsman.text.extract import draw
from pointsman.vocabulary import ModelSpec

__all__ = [
    "AgreementReport",
    "ModelTrial",
    "RuleReport",
    "ShadowReport",
    "agreement_report",
    "shadow_report",
]


#: The ledger holds no row for a request that a shadow model was not asked about.
_SKIPPED: Final = (
    "skipped (busy, rate, money, unfit …): pointsman_shadow_answers_total in /metrics counts why"
)


@dataclass(slots=True)
class ModelTrial:
    """One model compared with those that served. Amounts are in US dollars."""

    model: str
    asked: int = 0
    failed: Counter[str] = field(default_factory=Counter)  # by class of failure
    finishes: Counter[str] = field(default_factory=Counter)
    compared: int = 0  # answers of which both are known
    same_tools: int = 0  # of these, how many call the same tools in the same order
    times: list[tuple[float, float]] = field(default_factory=list)  # ms: this model, the caller's answer
    outputs: list[tuple[int, int]] = field(default_factory=list)  # tokens: this model, the caller's answer
    priced: int = 0  # answers with usage and prices on both sides
    cost: float = 0.0  # of these
    cost_beside: float = 0.0  # of the answers the callers got to the same requests
    spent: float = 0.0  # on all answers whose usage is known
    unpriced: int = 0  # answers whose usage is known and whose price is not

    def add(self, found: ShadowAnswer, answer: Attempt | None, models: Mapping[str, ModelSpec]) -> None:
        """Count one answer with the attempt that answered the caller."""
        self.asked += 1
        used = usage(found)
        paid = cost(models.get(found.model), used)
        self.spent += paid or 0.0
        self.unpriced += used is not None and paid is None
        if found.error:
            self.failed[found.error] += 1
            return
        self.finishes[found.said.finish or "not said"] += 1
        if found.beside is not None:
            self.compared += 1
            self.same_tools += found.said.tools == found.beside.tools
        if answer is None:
            return
        self.times.append((found.total_ms, answer.total_ms))
        theirs = usage(answer)
        if used and theirs:
            self.outputs.append((used.output, theirs.output))
            theirs_paid = cost(models.get(answer.model), theirs)
            if paid is not None and theirs_paid is not None:
                self.priced += 1
                self.cost += paid
                self.cost_beside += theirs_paid

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        return {
            "model": self.model,
            "asked": self.asked,
            "failed": dict(sorted(self.failed.items())),
            "finishes": dict(sorted(self.finishes.items())),
            "tools": {"compared": self.compared, "same": self.same_tools},
            "median_ms": _medians(self.times),
            "median_output_tokens": _medians(self.outputs),
            "cost": {
                "answers": self.priced,
                "this": round(self.cost, PRICED) if self.priced else None,
                "beside": round(self.cost_beside, PRICED) if self.priced else None,
                "spent": None if self.unpriced else round(self.spent, PRICED),
            },
        }

    def lines(self, turns: int) -> Iterator[str]:
        """The same for a person; ``turns``: all requests of the report."""
        asked = f"{self.asked:,} of {turns:,} requests"
        yield f'model "{self.model}" was asked too: {asked}; nobody got its answers'
        if self.asked < turns:
            yield f"  the others: before it was configured, outside of the share, or {_SKIPPED}"
        if self.failed:
            kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.failed.items()))
            yield f"  failed: {kinds}"
        if self.finishes:
            yield "  ended with " + ", ".join(f"{k} {n:,}" for k, n in sorted(self.finishes.items()))
        if self.compared:
            share = self.same_tools / self.compared
            yield f"  the same tools called as in the caller's answer: {self.same_tools:,} ({share:.1%})"
        if self.times:
            this, beside = _medians(self.times)
            yield f"  median time {this:,.0f} ms, the caller's answers {beside:,.0f} ms"
        if self.outputs:
            this, beside = _medians(self.outputs)
            yield f"  median output {this:,.0f} tokens, the caller's answers {beside:,.0f}"
        if self.priced:
            beside_cost = f"where the caller's answers cost {dollars(self.cost_beside)}"
            yield f"  cost {dollars(self.cost)} {beside_cost} ({self.priced:,} answers)"
        if self.unpriced:
            yield f"  spent on it: unknown; {self.unpriced:,} answers of a model without a price"
        else:
            yield f"  spent on it: {dollars(self.spent)}"


@dataclass(slots=True)
class ShadowReport:
    """Everything tried, in order of appearance."""

    turns: int = 0
    policies: dict[str, Summary] = field(default_factory=dict)  # by version
    models: dict[str, ModelTrial] = field(default_factory=dict)  # by configured name

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        return {
            "turns": self.turns,
            "policies": [summary.to_json() for summary in self.policies.values()],
            "models": [trial.to_json() for trial in self.models.values()],
        }

    def blocks(self) -> Iterator[str]:
        """The same for a person."""
        if not self.policies and not self.models:
            yield (
                f"no shadow ran for these {self.turns:,} requests; [shadow] in pointsman.toml makes one run\n"
                f"where it does: they were outside of the share, or {_SKIPPED}"
            )
        for summary in self.policies.values():
            decided = f"{summary.replayed:,} of {self.turns:,} requests"
            yield f"policy {summary.policy} decided {decided} beside the one that serves"
            yield from (f"  could not decide {n:,}: {why}" for why, n in sorted(summary.refused.items()))
            yield from summary.differences()
        for trial in self.models.values():
            yield from trial.lines(self.turns)


def shadow_report(
    records: Iterable[Record], models: Mapping[str, ModelSpec], margin: float = MARGIN
) -> ShadowReport:
    """Add up trials.

    The tokens of a turn are taken to be the same under another policy: what its model would have written is
    known only if that model was asked too.

    Args:
        records: Oldest first.
        models: With their prices, by configured name.
        margin: Within which a model is good enough.
    """
    report = ShadowReport()
    states: dict[tuple[str, str], SessionState] = {}  # by (policy, session)
    answers = ScoredAnswers(models, margin)
    for record in answers.noted(records):
        report.turns += 1
        answer = answered(record.attempts)
        for shadow in record.shadows:
            if isinstance(shadow, ShadowAnswer):
                trial = report.models.setdefault(shadow.model, ModelTrial(shadow.model))
                trial.add(shadow, answer, models)
                continue
            if not isinstance(shadow, ShadowDecision):
                continue
            key = shadow.policy, record.decision.input.conversation
            line, states[key] = _turn(record, shadow, models, states.get(key, SessionState()))
            report.policies.setdefault(shadow.policy, Summary(shadow.policy, answers)).add(line)
    return report


def _turn(
    record: Record, shadow: ShadowDecision, models: Mapping[str, ModelSpec], before: SessionState
) -> tuple[Replayed, SessionState]:
    """One turn under both policies, and the state for the next one of its session."""
    then, now = verdict(record.decision), shadow.verdict
    was = served(record.decision, record.attempts)
    would = was if now.model in {None, then.model} else now.model or ""
    cache, paid, pays = costs(usage(answered(record.attempts)), models, before, was, would)
    line = Replayed(
        id=shadow.decision,
        session=record.decision.input.session,
        arrived_at=record.decision.input.arrived_at,
        source=Source.NOTHING if shadow.error else Source.WORDS,
        then=Side.of(then, paid),
        now=Side.of(now, pays),
        changed=shadow.changed,
        why=shadow.why,
        cache=cache,
        asks=shadow.asks,
        refused=shadow.error,
    )
    if shadow.error or not record.decision.input.conversation:
        return line, before
    return line, SessionState(then=was, now=would)


def _medians(pairs: list[tuple[int, int]] | list[tuple[float, float]]) -> tuple[float, float]:
    if not pairs:
        return float("nan"), float("nan")
    return median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)


@dataclass(slots=True)
class RuleReport:
    """One `[agreement.NAME]` table. Amounts are in US dollars."""

    rule: str
    results: Counter[Result] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)  # what the answers that agreed were
    controls: int = 0  # requests on which both agreed, and whose strong answer is known
    confirmed: int = 0  # of these, how many have the same strong answer
    differences: int = 0  # requests on which both differ, and whose strong answer is known
    sided: Counter[str] = field(default_factory=Counter)  # of these, whose answer the strong one is
    times: list[float] = field(default_factory=list)  # ms until it was known who serves
    priced: int = 0  # requests asked whose every cost is known
    paid: float = 0.0  # for these, all answers included
    alone: float = 0.0  # what the strong model alone costs for these
    skipped: float = 0.0  # paid for requests that were fit and not asked
    by_cheap: int = 0  # requests that a cheap model served
    would: Counter[str] = field(default_factory=Counter)  # who serves by today's table

    @property
    def asked(self) -> int:
        """Requests for which both were asked."""
        return sum(self.results.values()) - self.results[Result.SKIPPED]

    @property
    def agreed(self) -> int:
        """Requests on which both agreed."""
        return self.results[Result.AGREED] + self.results[Result.CONTROL]

    @property
    def saved(self) -> float:
        """Savings against the strong model alone; negative if it cost more."""
        return self.alone - self.paid

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        return {
            "rule": self.rule,
            "asked": self.asked,
            "results": {each.value: self.results[each] for each in Result},
            "agreed_on": dict(sorted(self.kinds.items())),
            "control": {"compared": self.controls, "same": self.confirmed},
            "different": {"compared": self.differences, **dict(sorted(self.sided.items()))},
            "median_ms": round(median(self.times), 1) if self.times else None,
            "cost": {
                "requests": self.priced,
                "paid": round(self.paid, PRICED),
                "strong_alone": round(self.alone, PRICED),
                "saved": round(self.saved, PRICED),
                "skipped": round(self.skipped, PRICED),
            },
            "served_by_cheap": self.by_cheap,
            "today": dict(sorted(self.would.items())),
        }

    def lines(self) -> Iterator[str]:
        """The same for a person."""
        asked = self.asked
        yield f"agreement ({self.rule}): {asked:,} requests asked of two models"
        if not asked:
            yield f"  skipped: {self.results[Result.SKIPPED]:,}"
            return
        counts = ", ".join(f"{each} {self.results[each]:,}" for each in Result if self.results[each])
        yield f"  agreed: {self.agreed / asked:.1%} ({counts})"
        if self.kinds:
            yield "  agreed on: " + ", ".join(f"{kind} {n:,}" for kind, n in sorted(self.kinds.items()))
        yield f"  control: the strong model gave the same answer in {self.confirmed:,} of {self.controls:,}"
        if self.differences:
            sided = ", ".join(f"{who} {n:,}" for who, n in sorted(self.sided.items()))
            yield f"  where they differed, the strong model's answer was that of: {sided}"
        if self.times:
            yield f"  median time until it was known who serves: {median(self.times):,.0f} ms"
        yield from self._money()
        if self.would:
            by_whom = ", ".join(f"{who} {n:,}" for who, n in sorted(self.would.items()))
            yield f"  by today's table: {by_whom}; as recorded, cheap {self.by_cheap:,}"

    def _money(self) -> Iterator[str]:
        if not self.priced:
            yield "  saved: unknown; no request has usage and prices of all its answers"
            return
        share = f" ({self.saved / self.alone:.0%})" if self.alone else ""
        against = f"{dollars(self.alone)} of the strong model alone, over {self.priced:,} requests"
        yield f"  paid {dollars(self.paid)} instead of {against}: saved {dollars(self.saved)}{share}"
        if self.skipped:
            yield f"  skipped requests, of which the two were not asked, cost {dollars(self.skipped)}"


@dataclass(slots=True)
class AgreementReport:
    """Every table that was in use, in order of appearance."""

    requests: int = 0
    rules: dict[str, RuleReport] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        return {"requests": self.requests, "rules": [rule.to_json() for rule in self.rules.values()]}

    def blocks(self) -> Iterator[str]:
        """The same for a person."""
        if not self.rules:
            yield (
                f"no cheap models were asked for these {self.requests:,} requests; "
                "configure [agreement.NAME] in pointsman.toml"
            )
        for rule in self.rules.values():
            yield from rule.lines()


def agreement_report(
    records: Iterable[Record],
    models: Mapping[str, ModelSpec],
    policies: Mapping[str, AgreementPolicy],
) -> AgreementReport:
    """Add up comparisons.

    A request that a cheap model served is taken to use as many tokens of the strong model.

    Args:
        records: Oldest first.
        models: With their prices, by configured name.
        policies: The tables of today, by which each request is decided again from its record.
    """
    report = AgreementReport()
    disagreed: Counter[tuple[str, str]] = Counter()  # by table and session
    for record in records:
        report.requests += 1
        for entry in record.shadows:
            if not isinstance(entry, ComparedAnswers):
                continue
            rule = report.rules.setdefault(entry.rule, RuleReport(entry.rule))
            policy = policies.get(entry.rule)
            _count(rule, entry)
            strong = entry.strong or (policy.strong if policy else None) or "".join(record.decision.chain[:1])
            _add_costs(rule, record, entry, models, strong)
            if policy is not None:
                rule.would[_would(policy, entry, record.decision.input.session, disagreed)] += 1
    return report


def _count(rule: RuleReport, entry: ComparedAnswers) -> None:
    rule.results[entry.result] += 1
    first, second = entry.strong_same
    if entry.result in {Result.AGREED, Result.CONTROL}:
        rule.kinds[entry.compared.value] += 1
    if entry.result is Result.CONTROL and first is not None:
        rule.controls += 1
        rule.confirmed += first
    if entry.result is Result.DIFFERENT and first is not None:
        rule.differences += 1
        rule.sided["first" if first else "second" if second else "neither"] += 1
    if entry.result is not Result.SKIPPED:
        rule.times.append(entry.elapsed_ms)
        rule.by_cheap += not entry.strong


def _add_costs(
    rule: RuleReport, record: Record, entry: ComparedAnswers, models: Mapping[str, ModelSpec], strong: str
) -> None:
    answer = answered(record.attempts)
    used = usage(answer)
    if answer is None or used is None:
        return
    tried = filter(may_be_paid, record.attempts)  # a model that failed at once costs nothing
    paid = [cost(models.get(attempt.model), usage(attempt)) for attempt in tried]
    if entry.result is Result.SKIPPED:
        rule.skipped += sum(filter(None, paid))
        return
    alone = cost(models.get(strong), used)
    if alone is None or None in paid:
        return
    rule.priced += 1
    rule.paid += sum(filter(None, paid))
    rule.alone += alone


def _would(
    policy: AgreementPolicy, entry: ComparedAnswers, session: str, disagreed: Counter[tuple[str, str]]
) -> str:
    """Return the serving side under a table of the configuration: "cheap", "strong" or "unknown".

    Counts the disagreements of the session as the gateway does.
    """
    key = entry.rule, session
    if session and disagreed[key] >= policy.disagreements:
        return "strong"
    result: Result = entry.result
    if result is Result.SKIPPED:
        return "unknown"
    if result in {Result.AGREED, Result.CONTROL}:
        drawn = draw("agreement", policy.seed, entry.decision) < policy.share
        result = result_of(entry.compared, agreed=True, is_control=drawn)
    if result in COUNTED:
        disagreed[key] += 1
    return "cheap" if serves_first(policy, result) else "strong"
