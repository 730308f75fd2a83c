"""The report on the shadow policy and the shadow model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median

from pointsman.decision.diff import verdict
from pointsman.prices import dollars
from pointsman.reports.replay import Replayed, SessionState, Side, Source, Summary, costs, served
from pointsman.reports.usage import PRICED, answered, cost, usage
from pointsman.stores.ledger import Attempt, Record, ShadowAnswer, ShadowDecision
from pointsman.vocabulary import ModelSpec

__all__ = ["ModelTrial", "ShadowReport", "shadow_report"]


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
        paid = cost(models.get(found.model), used) if used else None
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

    def lines(self) -> Iterator[str]:
        """The same for a person."""
        yield f'model "{self.model}" was asked too: {self.asked:,} answers nobody got'
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
            yield f"no shadow ran for these {self.turns:,} requests; configure [shadow] in pointsman.toml"
        for summary in self.policies.values():
            decided = f"{summary.replayed:,} of {self.turns:,} requests"
            yield f"policy {summary.policy} decided {decided} beside the one that serves"
            yield from (f"  could not decide {n:,}: {why}" for why, n in sorted(summary.refused.items()))
            yield from summary.differences()
        for trial in self.models.values():
            yield from trial.lines()


def shadow_report(records: Iterable[Record], models: Mapping[str, ModelSpec]) -> ShadowReport:
    """Add up trials.

    The tokens of a turn are taken to be the same under another policy: what its model would have written is
    known only if that model was asked too.

    Args:
        records: Oldest first.
        models: With their prices, by configured name.
    """
    report = ShadowReport()
    states: dict[tuple[str, str], SessionState] = {}  # by (policy, session)
    for record in records:
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
            report.policies.setdefault(shadow.policy, Summary(shadow.policy)).add(line)
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
