"""Whether the cheap model is good enough: from prompts with scored answers of two models.

The page is read after every label. An interval of a fixed level, read so often, errs far more often than its
level says. So the answer is that of the last of a few looks, and the looks share the level (Bonferroni).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from math import ceil
from statistics import NormalDist
from typing import Final, Literal, NamedTuple

import msgspec

from pointsman.learning.intervals import margin_score, paired_interval
from pointsman.reports.outcomes import IMPLICIT, JUDGE, scores_of
from pointsman.stores.ledger import Record
from pointsman.vocabulary import OF_SUBAGENT, AgentRole, ModelSpec

__all__ = ["LEVEL", "LOOKS", "MARGIN", "GoodEnough", "decided", "good_enough"]

#: Score, of 1, that the cheap model may be worse by.
MARGIN: Final = 0.05
#: Numbers of pairs at which the answer is decided: 30, and whenever they have doubled, eight times.
LOOKS: Final[tuple[int, ...]] = tuple(30 * 2**k for k in range(8))
#: Chance of an answer that is wrong, one-sided, at one look: 2.5 % shared by all looks.
LEVEL: Final = 0.025 / len(LOOKS)
_Z: Final = NormalDist().inv_cdf(1 - LEVEL)
#: Share of pairs that differ, planned with before the first look.
_USUAL: Final = 0.12


class GoodEnough(msgspec.Struct, frozen=True):
    """The answer, and its evidence."""

    answer: Literal["yes", "no", "not known yet"]
    cheap: str = ""  # empty: no two models with a price have answered
    strong: str = ""
    pairs: int = (
        0  # different sessions with answers of both to one request, both scored by people or programs
    )
    looked: int = 0  # of them, the first so many decided: the last look; 0: before the first
    difference: float = 0.0  # mean score of the cheap model minus that of the strong one, at the last look
    low: float = -1.0  # interval whose ends each err with ``LEVEL``
    high: float = 1.0
    missing: int = 0  # to the look that may decide it, so many pairs more; 0: decided, or no look is left
    left_out: int = 0  # pairs with a score that only a judge or a sign gave
    repeated: int = 0  # further pairs of sessions that count already

    def sentence(self) -> str:
        """The answer in words."""
        if not self.cheap:
            return "Not known yet: no request has scored answers of two models with prices."
        names = f"“{self.cheap}” beside “{self.strong}”"
        interval = f"{self.difference:+.2f}, {1 - 2 * LEVEL:.1%} interval {self.low:+.2f} to {self.high:+.2f}"
        of = f"the first {self.looked:,} of " if self.looked < self.pairs else ""
        seen = f"{interval}, from {of}{self.pairs:,} pairs"
        match self.answer:
            case "yes":
                return f"Yes: {names} is not worse by more than {MARGIN:g} ({seen})."
            case "no":
                return f"No: {names} is worse by more than {MARGIN:g} ({seen})."
        if not self.missing:
            return f"Not known yet: {names} was not decided at the last look ({seen})."
        if not self.looked:
            seen = f"{self.pairs} of the {LOOKS[0]} that the first look takes"
        return f"Not known yet: {names} needs about {self.missing:,} more pairs ({seen})."


def good_enough(records: Iterable[Record], models: Mapping[str, ModelSpec]) -> GoodEnough:
    """Compare the two models that most requests have scored answers of.

    Only pairs count: models that serve different requests cannot be compared. They count in the order in
    which their second score was given, and only the first of each session: those of one session are alike.
    Both scores must be by people or programs: verdicts of judges and implicit signs are left out.

    Args:
        records: Of which the outcomes are read; pairs scored at the same time in this order.
        models: With their prices.
    """
    costs = {name: spec.cost(1_000, 0, 1_000) for name, spec in models.items() if spec.is_priced}
    found = [_Turn.of(record, costs) for record in records if len(record.outcomes) > 1]
    seen = Counter(pair for turn in found for pair in combinations(sorted(turn.said), 2))
    if not seen:
        return GoodEnough("not known yet", left_out=sum(len(turn.scored) > 1 for turn in found))
    (pair, _), *_ = sorted(seen.items(), key=lambda each: (-each[1], each[0]))
    cheap, strong = sorted(pair, key=lambda name: (costs[name] or 0.0, name))
    both = [turn for turn in found if turn.said.keys() >= {cheap, strong}]
    first: dict[tuple[str, str], float] = {}
    for turn in sorted(both, key=lambda turn: turn.at):
        first.setdefault(turn.session, turn.said[cheap] - turn.said[strong])
    return msgspec.structs.replace(
        decided(cheap, strong, list(first.values())),
        left_out=sum(turn.scored >= {cheap, strong} for turn in found) - len(both),
        repeated=len(both) - len(first),
    )


class _Turn(NamedTuple):
    """The scores of one turn."""

    session: tuple[str, str]  # caller and session, a sub-agent's parent; without one, the turn for itself
    said: Mapping[str, float]  # by model with a price, its score by people and programs
    scored: frozenset[str]  # models with a price that have a score of any kind
    at: float  # when the last of the answers had its first score by people and programs

    @classmethod
    def of(cls, record: Record, priced: Collection[str]) -> _Turn:
        """Read a record: a judge compares, a sign is implicit, and neither is on the scale of a score."""
        said = tuple(each for each in record.outcomes if not each.source.startswith((IMPLICIT, JUDGE)))
        scores = dict(scores_of(msgspec.structs.replace(record, outcomes=said)))
        first: dict[str, float] = {}
        for each in said:
            if each.score is not None:
                first[each.model] = min(each.at, first.get(each.model, each.at))
        asked = record.decision.input
        is_subagent = asked.role is AgentRole.SUBAGENT
        session = asked.session.partition(OF_SUBAGENT)[0] if is_subagent else asked.session
        return cls(
            (asked.caller, session or record.decision.id),
            {name: score for name, score in scores.items() if name in priced},
            frozenset(name for name, _ in scores_of(record) if name in priced),
            max(first.values(), default=0.0),
        )


def decided(cheap: str, strong: str, differences: Sequence[float]) -> GoodEnough:
    """Answer from the pairs at the last look.

    The cheap model is good enough where the whole interval of the difference lies above minus ``MARGIN``,
    and is not where all of it lies below. How many more pairs decide it is what the pairs that differed, or
    a usual share of them, need at the difference seen, up to the next look.

    Args:
        cheap: Its name.
        strong: Its name.
        differences: Score of the cheap model minus that of the strong one, in the order of the pairs.
    """
    count = len(differences)
    looked = max((look for look in LOOKS if look <= count), default=0)
    if not looked:
        return GoodEnough("not known yet", cheap, strong, count, missing=_look(_USUAL, MARGIN, count) - count)
    seen = differences[:looked]
    better, worse = sum(max(each, 0.0) for each in seen), sum(max(-each, 0.0) for each in seen)
    mean = (better - worse) / looked
    low, high = paired_interval(better, worse, looked, _Z)
    shown = margin_score(better, worse, looked, MARGIN)
    if abs(shown) > _Z:
        return GoodEnough("yes" if shown > 0 else "no", cheap, strong, count, looked, mean, low, high)
    missing = max(_look((better + worse) / looked, mean + MARGIN, count) - count, 0)
    return GoodEnough("not known yet", cheap, strong, count, looked, mean, low, high, missing)


def _look(differing: float, away: float, count: int) -> int:
    """The next look that tells a difference so far from the margin; the last one if none does."""
    needed = ceil(_Z**2 * max(differing, MARGIN) / max(abs(away), 1e-3) ** 2)
    return next((look for look in LOOKS if look > count and look >= needed), LOOKS[-1])
