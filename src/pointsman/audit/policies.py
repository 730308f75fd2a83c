"""What other policies would have saved on the same logs: sure, by outcomes, unknown; or refused, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pointsman.audit.figures import SessionFigures
from pointsman.audit.money import Pricing
from pointsman.audit.replay import PolicyReplay
from pointsman.audit.savings import Comparison, Criterion, Run, Saved, compare
from pointsman.audit.session import Session
from pointsman.audit.verdict import (
    Stake,
    amount,
    dollars,
    outcomes_blocks,
    run_of,
    said_by_outcomes,
    said_of_stakes,
    stake_of,
    stakes_blocks,
    tried,
)
from pointsman.decision.policy import Policy
from pointsman.printable import Block, counted
from pointsman.remembering import summed
from pointsman.vocabulary import Tier

__all__ = ["PolicyVerdict", "policy_blocks", "policy_verdicts"]


class PolicyVerdict(NamedTuple):
    """Results of one policy."""

    name: str
    version: str
    tiers: Mapping[str, Mapping[Tier, str]]  # models by provider, where the policy names none
    decided: Mapping[Tier, int]  # requests by tier
    requests: int  # decided and priced
    moved: int  # of these, to another model
    before: float  # dollars at list prices
    after: float  # the same tokens on the policy's models, their caches simulated
    sure: float  # of ``roles`` requests; negative: they cost more
    roles: int  # titles, topics, summaries and probes that move
    costs_more: float  # of work that moves to dearer models, or whose caches are lost
    compared: tuple[Comparison, ...]
    stakes: tuple[Stake, ...]
    refused: tuple[str, ...]  # why nothing is claimed of it
    left_out: tuple[str, ...]  # what is in none of the amounts
    sure_worth: float = 0.0  # of ``sure``: paid by a subscription
    costs_more_worth: float = 0.0  # of ``costs_more``

    @property
    def claimed(self) -> tuple[Comparison, ...]:
        """Comparisons with outcomes that show a saving."""
        return () if self.refused else tuple(each for each in self.compared if each.verdict == "saves")

    @property
    def sentence(self) -> str:
        """All of it in a few words."""
        if self.refused:
            return f"Policy {self.name} is refused: {'; '.join(self.refused)}."
        if not self.requests:
            return f"Policy {self.name}: nothing could be decided."
        if not self.moved:
            return f"Policy {self.name} moves none of {counted(self.requests, 'request')} to another model."
        amounts = (
            f"{dollars(self.before)} before, {dollars(self.after)} after for the same tokens at list prices"
        )
        more = amount(self.costs_more, self.costs_more_worth)
        dearer = f"Moves that cost more: {more}." if self.costs_more > 0 else ""
        parts = (
            f"Policy {self.name} moves {self.moved:,} of {counted(self.requests, 'request')}: {amounts}.",
            self._sure(),
            said_by_outcomes(self.claimed, self.compared),
            f"Unknown: {said_of_stakes(self.stakes) or 'nothing is at stake.'}",
            dearer,
        )
        return " ".join(filter(None, parts))

    def _sure(self) -> str:
        if self.sure < 0:
            return f"Titles, topics, summaries and probes cost {amount(-self.sure, -self.sure_worth)} more."
        return f"Sure to save: {amount(self.sure, self.sure_worth)}."

    def to_json(self) -> dict[str, object]:
        """Plain values, in dollars."""
        return {
            "sentence": self.sentence,
            **self._asdict(),
            "sure": round(self.sure, 6),
            "sure_worth": round(self.sure_worth, 6),
            "costs_more": round(self.costs_more, 6),
            "costs_more_worth": round(self.costs_more_worth, 6),
            "before": round(self.before, 6),
            "after": round(self.after, 6),
            "compared": [each._asdict() for each in self.compared],
            "claimed": [each._asdict() for each in self.claimed],
            "stakes": [each._asdict() for each in self.stakes],
        }

    def blocks(self) -> Iterator[Block]:
        """Lines and tables."""
        yield self.sentence
        for provider, tiers in self.tiers.items():
            if len(set(tiers.values())) > 1:
                served = ", ".join(f"{tier} {id_}" for tier, id_ in tiers.items())
                yield f"Tiers of {provider}, by price: {served}."
        yield from self.left_out
        if self.compared:
            yield from outcomes_blocks(self.compared)
        if self.stakes and not self.refused:
            yield ""
            yield from stakes_blocks(self.stakes)


def policy_blocks(found: Sequence[PolicyVerdict]) -> Iterator[Block]:
    """What other policies would have done."""
    for each in found:
        yield ""
        yield from each.blocks()


def policy_verdicts(
    policies: Mapping[str, Policy],
    logged: Iterable[Session],
    sessions: Sequence[SessionFigures],
    pricing: Pricing,
    margin: float = 0.0,
) -> tuple[PolicyVerdict, ...]:
    """Decide all sessions again under each policy, and evaluate the results.

    Args:
        policies: By the name that a person is shown.
        logged: The sessions of the logs, one at a time.
        sessions: Their figures, with labels.
        pricing: What tokens cost.
        margin: Of success, within which a model is good enough.
    """
    replays = [PolicyReplay(name, policy, sessions, pricing) for name, policy in policies.items()]
    for session in logged:
        for each in replays:
            each.add(session)
    runs = {of.id: run for of in sessions if (run := run_of(of, pricing))}
    own = [_Judged(each, runs) for each in replays]
    criterion = Criterion(max(1, sum(len(each.comparable) for each in own)), margin)
    return tuple(each.verdict(criterion) for each in own)


class _Judged:
    """One replay compared with the runs of the logs."""

    def __init__(self, replay: PolicyReplay, runs: Mapping[str, Run]) -> None:
        self._replay = replay
        self._runs = runs
        #: Runs of both models that the policy sends to one model: it chooses by what was asked, so that
        #: these are as comparable as all runs of a project are.
        self._sent = {
            pair: {name: run for name, run in runs.items() if replay.sums.sent.get(name) == pair[1]}
            for pair in replay.sums.whole
        }
        self.comparable = [pair for pair, sent in self._sent.items() if tried([pair], sent.values())]

    def verdict(self, criterion: Criterion) -> PolicyVerdict:
        """Results of the policy, which shares the risk of all comparisons."""
        replay, sums = self._replay, self._replay.sums
        compared = {pair: compare(self._sent[pair].values(), *pair, criterion) for pair in self.comparable}
        work = [*sums.whole.values(), *sums.part.values(), *sums.dearer.values()]
        return PolicyVerdict(
            name=replay.name,
            version=replay.version,
            tiers={
                provider: {tier: spec.id for tier, spec in tiers.items()}
                for provider, tiers in replay.tiers.items()
            },
            decided=dict(sorted(sums.decided.items(), key=lambda each: each[0].rank)),
            requests=sums.requests,
            moved=sum(each.requests for each in (sums.roles, *work)),
            before=sums.before,
            after=sums.after,
            sure=sums.roles.dollars,
            roles=sums.roles.requests,
            costs_more=-sum(each.dollars for each in work if each.dollars < 0),
            compared=tuple(compared.values()),
            stakes=tuple(self._stakes(compared, criterion)),
            refused=tuple(self._refused(compared)),
            left_out=tuple(self._left_out()),
            sure_worth=sums.roles.worth,
            costs_more_worth=-sum(each.worth for each in work if each.dollars < 0),
        )

    def _stakes(
        self, compared: Mapping[tuple[str, str], Comparison], criterion: Criterion
    ) -> Iterator[Stake]:
        """What outcomes do not decide: sessions that change models within, and undecided comparisons."""
        whole = (
            (pair, each)
            for pair, each in self._replay.sums.whole.items()
            if pair not in compared or compared[pair].verdict == "unknown"
        )
        open_ = summed([*self._replay.sums.part.items(), *whole], Saved())
        for pair, each in sorted(open_.items(), key=lambda item: -item[1].dollars):
            if each.dollars > 0:
                yield stake_of(*pair, each.dollars, self._runs, criterion, worth=each.worth)

    def _refused(self, compared: Mapping[tuple[str, str], Comparison]) -> Iterator[str]:
        for each in compared.values():
            if each.verdict == "harmful":
                low, high = each.interval
                yield f"{each.cheap} solves fewer than {each.dear} ({low:+.0%} to {high:+.0%})"
        if self._replay.sums.unpriced_instead:
            names = _counted(self._replay.sums.unpriced_instead)
            yield f"its models have no price: {names}; give them one in the policy's file"

    def _left_out(self) -> Iterator[str]:
        sums = self._replay.sums
        if sums.unpriced:
            names = _counted(sums.unpriced)
            yield f"Not compared, for the catalogue has no price of the logged model: {names}."
        if sums.undecided:
            yield f"Not decided, for the log holds nobody's words: {counted(sums.undecided, 'request')}."
        if sums.refused:
            yield f"No model of the policy can serve {counted(sums.refused, 'request')}; they keep theirs."
        if self._replay.asks:
            yield "The policy asks a model where it is unsure; here nobody was asked."


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} ({counted(count, 'request')})" for name, count in counts.most_common())
