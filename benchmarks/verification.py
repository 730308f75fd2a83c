"""What asking a model buys, by how often it is right: the default margin beside the seed's rule.

    .venv/bin/python benchmarks/verification.py

A simulated verifier answers the product's own questions (tiers/decision.py). On ``strong_weak`` the
right answer is COMPLEX where only the strong model is right, else SIMPLE; on ``tier_labels`` it is the label.
With the stated probability it gives the right answer, else another one. Where a rule does not ask, or has
spent its budget, its profile decides as it does live.

For outcomes the figure is APGR net of questions: prompts are ranked by tier and then by score, and what was
spent on questions is missing from the budget for strong calls. Prices are in calls of the strong model: a
weak call .06 (as Mixtral's to GPT-4's), a question .005 (500 characters to a small model, one word back). For
labels it is the share of prompts that get their label. 95 % bootstrap intervals; differences are paired.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import msgspec
import numpy as np
from bootstrap import bootstrap
from numpy.typing import NDArray
from tiers_quality import rows

from pointsman.drivers import drive
from pointsman.learning.metrics import Interval, gap_curve
from pointsman.learning.rankers import persons_text
from pointsman.stores.pattern_cache import open_scanner
from pointsman.tiers import (
    Spending,
    TierDecision,
    TierProfile,
    TierScorer,
    Verification,
    builtin_profile,
)
from pointsman.tiers.profile import Confidence
from pointsman.vocabulary import ModelQuery, ModelReply, Tier

ACCURACIES = (0.5, 0.6, 0.7, 0.8, 0.9)
WEAK_CALL = 0.06
QUESTION = 0.005
RESAMPLES = 300

Figure = Callable[["Asked", NDArray[np.intp]], float]

#: The seed's rule on the profile that users get: what remains is the rule alone.
SEED_RULE = Confidence(below=0.70)


@dataclass
class Asked:
    """A profile's decisions on some prompts, verified."""

    keys: NDArray[np.float64]  # rank of the tier, and the score below it
    tiers: list[Tier]
    questions: NDArray[np.bool_]


class Verified:
    """A profile, its scanner, and the evidence of every prompt."""

    def __init__(
        self, profile: TierProfile, prompts: Sequence[str], budget: Verification | None = None
    ) -> None:
        self._budget = budget
        scanner = open_scanner(profile.signals())
        self._scorer = TierScorer(profile, scanner.table)
        self._evidence = [scanner.scan(persons_text(prompt)) for prompt in prompts]

    def decide(self, truth: Sequence[Tier], others: Sequence[Tier], accuracy: float) -> Asked:
        draw, spending = Random(0), Spending()
        decisions: list[TierDecision] = []
        asked = np.zeros(len(truth), dtype=bool)
        for at, (evidence, right) in enumerate(zip(self._evidence, truth, strict=True)):
            says = right if draw.random() < accuracy else draw.choice([t for t in others if t is not right])
            if self._budget:
                spending = self._budget.request(spending, 0.0)
            unsure = self._scorer.by_rules(evidence).needs_verification
            refused = self._budget.refuses(spending, 0.0) if self._budget and unsure else ""
            if unsure and not refused:
                asked[at] = True
                spending = self._budget.ask(spending, 0.0) if self._budget else spending
            answer = ModelReply(error="budget") if refused else ModelReply(says)
            decisions.append(drive(self._scorer.decide(evidence), partial(_reply, answer)))
        scores = np.array([each.score for each in decisions])
        ranks = np.array([each.tier.rank for each in decisions], dtype=np.float64)
        below = (scores - scores.min()) / (np.ptp(scores) + 1e-9)  # from 0 to less than 1
        return Asked(ranks + below, [each.tier for each in decisions], asked)


def _reply(reply: ModelReply, _: ModelQuery) -> ModelReply:
    return reply


def net_apgr(
    asked: Asked, weak: NDArray[np.float64], strong: NDArray[np.float64], at: NDArray[np.intp]
) -> float:
    """Area under the curve as far as the money reaches that questions leave."""
    curve = gap_curve(asked.keys[at], weak[at], strong[at])
    spent = QUESTION * float(asked.questions[at].mean()) / (1 - WEAK_CALL)
    kept = np.linspace(0.0, 1.0 - spent, 400)
    return float(np.trapezoid(np.interp(kept, curve.share, curve.gap), kept))


def shown(found: Interval, sign: str = "") -> str:
    return f"{found.value:{sign}.3f} [{found.low:{sign}.3f}, {found.high:{sign}.3f}]".rjust(26)


def table(
    title: str, ways: dict[str, Verified], truth: Sequence[Tier], others: Sequence[Tier], figure: Figure
) -> None:
    print(f"\n{title}")
    for accuracy in ACCURACIES:
        found = {name: way.decide(truth, others, accuracy) for name, way in ways.items()}
        own = found["default, margin"]
        print(f"  accuracy {accuracy}{'asks':>22}{'figure':>26}{'margin minus this':>26}")
        for name, got in found.items():
            value = interval(partial(figure, got), len(truth))
            against = shown(interval(more(figure, own, got), len(truth)), "+") if got is not own else ""
            print(f"    {name:24}{got.questions.mean():>7.1%}{shown(value)}{against}")


def more(figure: Figure, own: Asked, other: Asked) -> Callable[[NDArray[np.intp]], float]:
    return lambda at: figure(own, at) - figure(other, at)


def interval(figure: Callable[[NDArray[np.intp]], float], count: int) -> Interval:
    return bootstrap(figure, count, resamples=RESAMPLES)


def ways(prompts: Sequence[str]) -> dict[str, Verified]:
    default, seed = builtin_profile("default"), builtin_profile("seed")
    other = msgspec.structs.replace(default, escalation=SEED_RULE)
    return {
        "default, margin": Verified(default, prompts),
        "seed": Verified(seed, prompts),
        "seed, 15 %": Verified(seed, prompts, Verification(model="small")),
        "default, seed's rule": Verified(other, prompts),
        "the same, 15 %": Verified(other, prompts, Verification(model="small")),
    }


def outcomes(sample: list[dict[str, Any]], title: str) -> None:
    weak = np.array([row["weak"] for row in sample], dtype=np.float64)
    strong = np.array([row["strong"] for row in sample], dtype=np.float64)
    truth = [Tier.COMPLEX if gain > 0 else Tier.SIMPLE for gain in strong - weak]
    table(
        title,
        ways([row["prompt"] for row in sample]),
        truth,
        (Tier.SIMPLE, Tier.COMPLEX),
        lambda asked, at: net_apgr(asked, weak, strong, at),
    )


def labels() -> None:
    sample = rows("tier_labels")
    truth = [Tier(row["expected_tier"]) for row in sample]

    def right(asked: Asked, at: NDArray[np.intp]) -> float:
        hits = np.array([tier is label for tier, label in zip(asked.tiers, truth, strict=True)])
        return float(hits[at].mean())

    table(
        "tier_labels: share with their label",
        ways([row["prompt"] for row in sample]),
        truth,
        tuple(Tier),
        right,
    )


def main() -> None:
    every = rows("strong_weak")
    for bench in sys.argv[1:] or ("mmlu", "gsm8k"):
        outcomes([row for row in every if row["bench"] == bench], f"strong_weak, {bench}: net APGR")
    labels()


if __name__ == "__main__":
    main()
