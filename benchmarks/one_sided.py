"""What outcomes of one model a prompt are worth beside paired ones: ``fit tiers --features kinds``.

    .venv/bin/python benchmarks/one_sided.py [--draws 8] [--labels 100 500 1500]

Reads ../shared/data/tiers (or $POINTSMAN_SHARED/data/tiers); needs the extras ``static`` and ``fit``. Mixed
traffic: equal draws of the twelve sources of ``savings.py``, one pair of models for each source and draw, and
kinds made without the source and the task that they are measured on. Printed is the APGR of the router minus
that of length on 500 other prompts of the same draw: of paired labels; of as many prompts with the outcome of
one model, which chance chose with even chances, or with .1 for the strong one; of the prior alone; and of
outcomes dealt anew among the prompts, which say nothing. Intervals are over the draws, which share prompts.
"""

import argparse
import statistics
from dataclasses import replace
from functools import partial

import numpy as np
from bootstrap import bootstrap
from left_out import same_task
from outcome_tasks import Remembering, Task, kinds_without, tasks
from savings import sources
from scipy import sparse

from pointsman.learning.kinds_prior import fitter
from pointsman.learning.learning import Corpus, held_out, trust
from pointsman.learning.metrics import Floats, Rows, gap_curve
from pointsman.learning.one_sided import Fit, Observed

#: Prompts that are ranked, and the chance of the strong model in each way of labelling.
RANKED, WAYS = 500, {"even chances": 0.5, "strong .1": 0.1}


def corpora() -> list[tuple[Task, Corpus]]:
    every, encoder, found = tasks(), Remembering(), []
    for one in sources():
        name = one.name.strip("()").split()[0]

        def related(other: Task, one: Task = one, name: str = name) -> bool:
            return other.source == one.source or same_task(name, other.name)

        kinds = kinds_without(every, related, encoder)
        found.append((one, Corpus.of(one.prompts, encoder, kinds)))
    return found


def mixed(every: list[tuple[Task, Corpus]], count: int, seed: int) -> Corpus:
    """Equal draws of all sources, in an order drawn by chance."""
    draw, parts = np.random.default_rng(seed), []
    for one, whole in every:
        _, places, weak, strong = one.pairs[draw.integers(len(one.pairs))]
        at = draw.permutation(len(places))[: -(-count // len(every))]
        parts.append(replace(whole.take(np.array(places)[at]), weak=weak[at], strong=strong[at]))
    starts = np.cumsum([0, *map(len, parts)])
    weak, strong, lengths, rules, vectors, shifts = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("weak", "strong", "log_length", "rules", "vectors", "shifts")
    )
    ngrams = sparse.vstack([part.ngrams for part in parts], format="csr")
    first = np.concatenate([part.first + start for part, start in zip(parts, starts, strict=False)])
    together = Corpus(weak, strong, lengths, rules, ngrams, vectors, first, shifts)
    return together.take(draw.permutation(len(together)))


def gain(own: Corpus, fit: Fit, whole: Corpus, rest: Rows) -> float:
    """APGR of the router of some labels minus that of length, on other prompts."""
    weights = fit(own, np.arange(len(own)))
    counts = trust(weights.similarity(whole, rest), held_out(own, seed=0, fit=fit).bounds)
    weak, strong = counts * weights.evidence(whole, rest)
    return over_length(strong - weak + weights.prior(whole, rest), whole, rest)


def over_length(scores: Floats, whole: Corpus, rest: Rows) -> float:
    weak, strong = whole.weak[rest], whole.strong[rest]
    own, length = gap_curve(scores, weak, strong), gap_curve(whole.log_length[rest], weak, strong)
    return float(own.apgr - length.apgr)


def served(own: Corpus, chance: float, draw: np.random.Generator) -> tuple[Corpus, Fit]:
    """The labels that a gateway has which gives the strong model this share of the prompts by chance."""
    strong = draw.random(len(own)) < chance
    seen = np.stack([~strong, strong])
    chances = np.tile([[1 - chance], [chance]], len(own))
    observed = Observed(np.where(seen, [own.weak, own.strong], 0.0), seen, chances)
    values = observed.filled(own, np.arange(len(own)))
    return replace(own, weak=values[0], strong=values[1]), observed.fitter(fitter(own))


def measured(whole: Corpus, labels: int, seed: int) -> dict[str, float]:
    draw = np.random.default_rng((seed, labels))
    chosen, rest = np.arange(RANKED, len(whole))[:labels], np.arange(RANKED)
    own = whole.take(chosen)
    other = draw.permutation(len(own))
    shuffled = replace(own, weak=own.weak[other], strong=own.strong[other])
    prior = np.asarray(whole.log_length[rest] + (0.0 if whole.shifts is None else whole.shifts[rest]))
    found = {"prior": over_length(prior, whole, rest), "paired": gain(own, fitter(own), whole, rest)}
    for name, chance in WAYS.items():
        found[name] = gain(*served(own, chance, draw), whole, rest)
    found["shuffled"] = gain(*served(shuffled, 0.5, draw), whole, rest)
    return found


def mean_of(values: Floats, at: Rows) -> float:
    return float(values[at].mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 500, 1_500])
    asked = parser.parse_args()
    every = corpora()
    for labels in asked.labels:
        found = [measured(mixed(every, labels + RANKED, seed), labels, seed) for seed in range(asked.draws)]
        print(f"{labels:,} prompts with labels, {asked.draws} draws: APGR - length")
        for name in found[0]:
            values = np.array([each[name] for each in found])
            by = bootstrap(partial(mean_of, values), len(values))
            part = statistics.fmean(values) / statistics.fmean(each["paired"] for each in found)
            told = f"{by.value:+.3f} [{by.low:+.3f}, {by.high:+.3f}]  {part:.2f} of paired"
            print(f"  {name:14} {told}", flush=True)


if __name__ == "__main__":
    main()
