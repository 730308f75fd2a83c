"""How well the learned router ranks, inside and outside what it has seen, beside everything it has to beat.

    .venv/bin/python benchmarks/learned_router_quality.py [--litellm PYTHON] [--splits 8]
        [--features hashed] [--pairs]

Reads ../shared/data (or $POINTSMAN_SHARED/data). Routers are made by ``fit_tiers``, written, read again and
asked through ``LearnedScorer``, as ``pointsman fit tiers`` and ``classify --learned-router`` do, without
naming a prompt's subject. Every table gives the mean over random splits, the lowest of them, and the 95 %
bootstrap interval of the mean over prompts; the last column is the learned router minus the ranker, resampled
together. APGR: random is .500.

``--litellm`` names an interpreter whose environment has litellm, for its complexity router; without it that
line says so. ``--pairs`` leaves each task of nine_models out for all 36 pairs of models (10 minutes).
"""

import argparse
import gzip
import json
import math
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive
from pointsman.encoders.learned_routers import encoder_of
from pointsman.errors import PointsmanError
from pointsman.factory import build_engine, read_profile
from pointsman.learning.datasets import Features, PromptOutcome
from pointsman.learning.fit import fit_tiers
from pointsman.learning.learning import LENGTH_SLOPE, RULES_SLOPE, Corpus, Predicted, fit_weights, held_out
from pointsman.learning.metrics import gap_curve
from pointsman.learning.rankers import by_length, by_rules, persons_text
from pointsman.tiers.learned_router import LearnedRouter, LearnedScorer, read_learned_router
from pointsman.vocabulary import ModelQuery, ModelReply
from pointsman.wire.request import request_from_text

DATA = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[2] / "shared")) / "data" / "tiers"

#: Picked after all pairs had been seen; ``--pairs`` shows how each of them does.
WEAK, STRONG = "codegemma-7b", "gemma-2-9b-it"

#: Resamples of the interval of a mean over splits.
RESAMPLES = 200

#: APGR published or measured by others over the whole of both benches; this script has half of each.
PUBLISHED = {
    "RouteLLM, best published": {"MMLU": 0.603, "GSM8K": 0.622},
    "original 15 dimensions": {"MMLU": 0.554, "GSM8K": 0.547},
    "prompt length": {"MMLU": 0.586, "GSM8K": 0.601},
    "LiteLLM complexity router": {"MMLU": 0.583, "GSM8K": 0.537},
}

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Split = tuple[Rows, Floats]  # rows measured, and the learned router's score of each


@dataclass(frozen=True)
class Bench:
    """Outcomes, what of them does not depend on a learned router, and every ranking that needs no fitting."""

    outcomes: Sequence[PromptOutcome]
    texts: Sequence[str]  # the person's words
    rankings: dict[str, Floats]

    @property
    def quality(self) -> tuple[Floats, Floats]:
        return np.array([row.weak for row in self.outcomes]), np.array([row.strong for row in self.outcomes])

    def __len__(self) -> int:
        return len(self.outcomes)


def lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def strong_weak(bench: str) -> list[PromptOutcome]:
    return [
        PromptOutcome(row["prompt"], float(row["weak"]), float(row["strong"]), row["domain"])
        for row in lines("strong_weak")
        if row["bench"] == bench
    ]


def nine_models(weak: str, strong: str) -> list[PromptOutcome]:
    return [
        PromptOutcome(row["prompt"], row["scores"][weak], row["scores"][strong], row["task"])
        for row in lines("nine_models")
    ]


def prepared(outcomes: Sequence[PromptOutcome], litellm: str) -> Bench:
    rankings = {
        "random": np.zeros(len(outcomes)),
        "length": by_length(outcomes),
        "seed": by_rules(outcomes, "seed"),
        "default": by_rules(outcomes, "default"),
    }
    if litellm:
        rankings["LiteLLM"] = by_litellm(outcomes, litellm)
    return Bench(outcomes, [persons_text(row.prompt) for row in outcomes], rankings)


def by_litellm(outcomes: Sequence[PromptOutcome], python: str) -> Floats:
    """The score of LiteLLM's complexity router, asked in its own environment, without its look online."""
    asked = "".join(json.dumps(row.prompt) + "\n" for row in outcomes)
    child = Path(__file__).with_name("litellm_scores.py")
    done = subprocess.run(
        [python, str(child)],
        input=asked,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    said = json.loads(done.stdout.splitlines()[-1])
    return np.array(said["scores"])


class Trainer:
    """Fits learned routers on some rows of a bench and scores others, through the file."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.learned_routers: list[LearnedRouter] = []
        self.sizes: list[int] = []

    def scores(self, bench: Bench, train: Rows, test: Rows, seed: int) -> Floats:
        try:
            fit = fit_tiers([bench.outcomes[row] for row in train], features=self.features, seed=seed)
        except PointsmanError:  # the strong model is no better on these rows: nothing can be learned
            return LENGTH_SLOPE * np.log(bench.rankings["length"][test] + 1)
        data = msgspec.json.encode(fit.learned_router)
        learned_router = read_learned_router(data, "learned_router")
        self.learned_routers, self.sizes = [learned_router], [*self.sizes, len(data)]
        scorer, rules = (
            LearnedScorer(learned_router, encoder_of(learned_router)),
            bench.rankings[learned_router.rules],
        )
        return np.array([scorer.score(bench.texts[row], rules=rules[row]).score for row in test])

    def sampled(self, bench: Bench, labels: int, splits: int) -> list[Split]:
        """Fitted on random rows, measured on all others."""

        def split(seed: int) -> Split:
            order = np.random.default_rng(seed).permutation(len(bench))
            train, test = order[:labels], order[labels:]
            return test, self.scores(bench, train, test, seed)

        return [split(seed) for seed in range(splits)]

    def parts(self, bench: Bench, part: NDArray[Any], *, seed: int, labels: int = 0) -> Split:
        """Each part scored by a router fitted on the other parts, or on so many random rows of them."""
        scores = np.zeros(len(bench))
        draw = np.random.default_rng(seed)
        for each in sorted(set(part.tolist())):
            train, test = np.flatnonzero(part != each), np.flatnonzero(part == each)
            train = draw.permutation(train)[:labels] if labels else train
            scores[test] = self.scores(bench, train, test, seed)
        return np.arange(len(bench)), scores


def folds(bench: Bench, count: int, seed: int) -> NDArray[Any]:
    return np.random.default_rng(seed).permutation(len(bench)) % count


def groups(bench: Bench, count: int, seed: int) -> NDArray[Any]:
    """Whole subjects dealt into parts."""
    names = sorted({row.group for row in bench.outcomes})
    dealt = dict(zip(names, np.random.default_rng(seed).permutation(len(names)) % count, strict=True))
    return np.array([dealt[row.group] for row in bench.outcomes])


def table(title: str, bench: Bench, splits: Sequence[Split], against: str = "") -> None:
    """One line per ranker: mean, lowest and interval over the same rows as the learned router's."""
    weak, strong = bench.quality
    ranked = {
        name: [(rows, scores[rows]) for rows, scores in _whole(bench, splits, name)]
        for name in bench.rankings
    }
    ranked["learned_router"] = list(splits)

    def means(runs: Sequence[Split], weights: Floats | None = None) -> list[float]:
        return [
            float(
                gap_curve(
                    scores, weak[rows], strong[rows], weights=weights[rows] if weights is not None else None
                ).apgr
            )
            for rows, scores in runs
        ]

    draw = np.random.default_rng(0)
    drawn = [
        np.bincount(draw.integers(0, len(bench), len(bench)), minlength=len(bench)).astype(float)
        for _ in range(RESAMPLES)
    ]
    resampled = {
        name: np.array([statistics.fmean(means(runs, weights)) for weights in drawn])
        for name, runs in ranked.items()
    }
    learned_router = statistics.fmean(means(ranked["learned_router"]))
    print(f"\n{title} ({len(splits)} splits)" + (f"; asked: {against}" if against else ""))
    print(f"{'':10}{'mean':>7}{'lowest':>8}  {'95 % interval':15}  learned router minus this")
    for name, runs in ranked.items():
        values = means(runs)
        mean, (low, high) = statistics.fmean(values), np.quantile(resampled[name], [0.025, 0.975])
        less, more = np.quantile(resampled["learned_router"] - resampled[name], [0.025, 0.975])
        gain = "" if name == "learned_router" else f"{learned_router - mean:+.3f} [{less:+.3f}, {more:+.3f}]"
        print(f"{name:10}{mean:7.3f}{min(values):8.3f}  [{low:.3f}, {high:.3f}]   {gain}", flush=True)
    if "LiteLLM" not in bench.rankings:
        print("LiteLLM      not measured: name an interpreter that has it with --litellm")


def _whole(bench: Bench, splits: Sequence[Split], name: str) -> list[Split]:
    return [(rows, bench.rankings[name]) for rows, _ in splits]


def shuffled_claims(bench: Bench, labels: int, times: int, features: Features) -> int:
    """How often outcomes dealt to the wrong prompts are called an improvement."""
    found = 0
    for seed in range(times):
        draw = np.random.default_rng(seed)
        rows = [bench.outcomes[row] for row in draw.permutation(len(bench))[:labels]]
        dealt = [rows[row] for row in draw.permutation(len(rows))]
        wrong = [
            replace(own, weak=other.weak, strong=other.strong) for own, other in zip(rows, dealt, strict=True)
        ]
        found += fit_tiers(wrong, features=features, seed=seed).improves
    return found


def all_pairs(bench: Bench) -> None:
    """Every pair of models, each task left out in turn, by the fit itself without its claims."""
    models = sorted(
        (scored := [row["scores"] for row in lines("nine_models")])[0],
        key=lambda model: statistics.fmean(row[model] for row in scored),
    )
    corpus = Corpus.of(bench.outcomes)
    tasks = np.array([row.group for row in bench.outcomes])
    better = dict.fromkeys(("length", "seed", "default"), 0)
    best = sensible = sensible_best = 0
    print("\nnine_models, whole task left out, every pair (weaker on the whole first)")
    print(f"{'weak':32} {'strong':32} {'gain':>5} {'router':>6} {'length':>6} {'seed':>6} {'default':>7}")
    for weak, strong in combinations(models, 2):
        qualities = [np.array([row[name] for row in scored]) for name in (weak, strong)]
        score = _left_out(replace(corpus, weak=qualities[0], strong=qualities[1]), tasks)
        apgr = {name: float(gap_curve(ranking, *qualities).apgr) for name, ranking in bench.rankings.items()}
        own, gain = float(gap_curve(score, *qualities).apgr), float((qualities[1] - qualities[0]).mean())
        for rival in better:
            better[rival] += own > apgr[rival]
        won = all(own > apgr[rival] for rival in better)
        best, sensible, sensible_best = (
            best + won,
            sensible + (gain >= 0.1),
            sensible_best + (won and gain >= 0.1),
        )
        print(
            f"{weak:32} {strong:32} {gain:5.2f} {own:6.3f} "
            + " ".join(f"{apgr[rival]:6.3f}" for rival in better)
            + ("  above all" if won else ""),
            flush=True,
        )
    print("above", ", ".join(f"{rival} {count}" for rival, count in better.items()), f"and all {best} of 36")
    print(f"where the strong model gains at least .10: above all {sensible_best} of {sensible}")


def _left_out(corpus: Corpus, tasks: NDArray[Any]) -> Floats:
    scores = np.zeros(len(corpus))
    for task in sorted(set(tasks.tolist())):
        train, test = np.flatnonzero(tasks != task), np.flatnonzero(tasks == task)
        part = corpus.take(train)
        if part.strong.mean() <= part.weak.mean():  # nothing to learn: the prior of any learned router
            scores[test] = LENGTH_SLOPE * corpus.log_length[test] + RULES_SLOPE * corpus.rules[test]
            continue
        weights = fit_weights(part, np.arange(len(part)))
        raw = Predicted.by(weights, corpus, test).raw(held_out(part, seed=0).bounds)
        scores[test] = raw[1] - raw[0]
    return scores


def speed(bench: Bench, learned_router: LearnedRouter) -> None:
    """CPU time of one score of a 450-character prompt, beside the rules' whole decision of it."""
    texts = [text for text in bench.texts if 430 <= len(text) <= 470][:200]
    scorer = LearnedScorer(learned_router, encoder_of(learned_router))
    engine = build_engine(Policy(profile=read_profile("default")))

    def decide(text: str) -> None:
        drive(engine.decide(request_from_text(text), Memory(), ""), nobody)

    runs: dict[str, Callable[[str], object]] = {
        "learned_router": lambda text: scorer.score(text, rules=0.1),
        "rules": decide,
    }
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(41):  # in turn, so that a busy moment falls on both
        for name, run in runs.items():
            began = time.process_time()
            for text in texts:
                run(text)
            taken[name].append((time.process_time() - began) / len(texts) * 1e6)
    print("\nCPU µs for a 450-character prompt: median (least) of 41 rounds over 200 prompts")
    for name, times in taken.items():
        print(f"{name:10}{statistics.median(times):7.1f} ({min(times):.1f})")


def nobody(need: ModelQuery) -> ModelReply:
    raise AssertionError(need)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--litellm", default="", help="interpreter of an environment with litellm")
    parser.add_argument("--splits", type=int, default=8)
    parser.add_argument("--shuffles", type=int, default=10)
    parser.add_argument("--features", type=Features, default=Features.HASHED, choices=list(Features))
    parser.add_argument("--pairs", action="store_true", help="all pairs of nine_models")
    asked = parser.parse_args()
    trainer = Trainer(asked.features)
    few = math.ceil(asked.splits / 2)

    mmlu = prepared(strong_weak("mmlu"), asked.litellm)
    gsm8k = prepared(strong_weak("gsm8k"), asked.litellm)
    nine = prepared(nine_models(WEAK, STRONG), asked.litellm)
    print("Published or measured elsewhere, on the whole of each bench")
    for name, figures in PUBLISHED.items():
        print(f"  {name:28}" + "  ".join(f"{bench} {value:.3f}" for bench, value in figures.items()))

    table("MMLU, 1,500 random labels", mmlu, trainer.sampled(mmlu, 1_500, asked.splits), ">= .70")
    learned_router, size = trainer.learned_routers[-1], max(trainer.sizes)
    table("MMLU, 100 random labels", mmlu, trainer.sampled(mmlu, 100, asked.splits), ">= .63")
    whole = [trainer.parts(gsm8k, folds(gsm8k, 5, seed), seed=seed) for seed in range(few)]
    table("GSM8K, 5-fold", gsm8k, whole, ">= length + .02")
    for labels, title in ((1_500, "1,500 labels of the others"), (0, "all labels of the others")):
        dealt = [trainer.parts(mmlu, groups(mmlu, 4, seed), seed=seed, labels=labels) for seed in range(few)]
        table(f"MMLU, a quarter of the subjects left out, {title}", mmlu, dealt, ">= length - .01")
    tasks = np.array([row.group for row in nine.outcomes])
    table(f"nine_models, whole task left out, {WEAK} to {STRONG}", nine, [trainer.parts(nine, tasks, seed=0)])
    if asked.pairs:
        all_pairs(nine)

    print(f"\nShuffled labels called an improvement, of {asked.shuffles}:")
    for name, bench, labels in (("MMLU 1,500", mmlu, 1_500), ("MMLU 100", mmlu, 100), ("GSM8K", gsm8k, 0)):
        print(
            f"  {name:11}{shuffled_claims(bench, labels or len(bench), asked.shuffles, asked.features)}",
            flush=True,
        )
    speed(mmlu, learned_router)
    print(f"\nfile of the learned router: {size:,} bytes at most")


if __name__ == "__main__":
    main()
