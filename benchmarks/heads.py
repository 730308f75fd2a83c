"""What own labels add to length: learned routers of 100, 500 and 1,500 labels, at home and on unseen tasks.

    .venv/bin/python benchmarks/heads.py [--json FILE]

Reads ../shared/data/tiers (or $POINTSMAN_SHARED/data/tiers); needs the extras ``static`` and ``fit``.
Routers are those of ``fit tiers --features kinds``, with kinds made without the source they are measured on.
Prints APGR minus that of length, on the prompts without labels: the mean over draws of the labels (at home)
or pairs of models (unseen tasks), the lowest, and the share of draws in which the interval lies below -.01.
Of the pairs of ``nine_models`` that differ by .05 every fourth is taken.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from left_out import ODD, Remembering, kinds_without, rows, tasks
from numpy.typing import NDArray

from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.kinds_prior import fitter
from pointsman.learning.learning import Corpus, held_out, trust
from pointsman.learning.metrics import Interval, difference_interval
from pointsman.tiers.kinds import Kinds

LABELS = (100, 500, 1_500)

#: Draws of labels at home, and resamples of an interval.
DRAWS, RESAMPLES = 8, 200

#: Every so many pairs of ``nine_models``.
EVERY = 4

#: The least difference of two models, and the loss on unseen tasks that must not be shown.
GAIN, LOSS = 0.05, -0.01

Rows = NDArray[np.intp]


class Pair(NamedTuple):
    """One pair of models on prompts of several tasks."""

    name: str
    corpus: Corpus
    tasks: NDArray[np.str_]


def learned(pair: Pair, labels: Rows, rest: Rows) -> Interval:
    """APGR of a router of these labels minus that of length, on other prompts."""
    own = pair.corpus.take(labels)
    fit = fitter(own)
    bounds = held_out(own, seed=0, fit=fit).bounds
    weights = fit(own, np.arange(len(own)))
    counts = trust(weights.similarity(pair.corpus, rest), bounds)
    weak, strong = counts * weights.evidence(pair.corpus, rest)
    scores = strong - weak + weights.prior(pair.corpus, rest)
    corpus = pair.corpus
    return difference_interval(
        scores, corpus.log_length[rest], corpus.weak[rest], corpus.strong[rest], resamples=RESAMPLES
    )


def strong_weak(kinds: Kinds, encoder: Remembering) -> list[Pair]:
    every = rows("strong_weak")
    found = []
    for name, kept in (
        ("MMLU", [row for row in every if row["bench"] == "mmlu"]),
        ("MMLU without two subjects", [r for r in every if r["bench"] == "mmlu" and r["domain"] not in ODD]),
        ("MMLU and GSM8K", every),
    ):
        outcomes = [PromptOutcome(row["prompt"], float(row["weak"]), float(row["strong"])) for row in kept]
        found.append(
            Pair(name, Corpus.of(outcomes, encoder, kinds), np.array([row["bench"] for row in kept]))
        )
    return found


def nine_models(kinds: Kinds, encoder: Remembering) -> Iterator[Pair]:
    every = rows("nine_models")
    whole = Corpus.of([PromptOutcome(row["prompt"], 0.0, 1.0) for row in every], encoder, kinds)
    names = np.array([row["task"] for row in every])
    quality = {name: np.array([row["scores"][name] for row in every]) for name in sorted(every[0]["scores"])}
    pairs = [
        (low, high)
        for low, high in permutations(quality, 2)
        if quality[high].mean() - quality[low].mean() >= GAIN
    ]
    for low, high in pairs[::EVERY]:
        numbers = (quality[low], quality[high], whole.log_length, whole.rules)
        corpus = Corpus(*numbers, whole.ngrams, whole.vectors, whole.first, whole.shifts)
        yield Pair("nine models", corpus, names)


def at_home(pairs: list[Pair], draws: int) -> dict[str, list[Interval]]:
    found: dict[str, list[Interval]] = {}
    for number, pair in enumerate(pairs):
        draw = np.random.default_rng(number)
        for count in LABELS:
            for _ in range(draws):
                order = draw.permutation(len(pair.corpus))
                found.setdefault(str(count), []).append(learned(pair, order[:count], order[count:]))
    return found


def unseen(pairs: list[Pair]) -> dict[str, dict[str, list[Interval]]]:
    found: dict[str, dict[str, list[Interval]]] = {}
    for number, pair in enumerate(pairs):
        draw = np.random.default_rng(number)
        for name in np.unique(pair.tasks):
            rest, others = np.flatnonzero(pair.tasks == name), np.flatnonzero(pair.tasks != name)
            if pair.corpus.strong[rest].mean() - pair.corpus.weak[rest].mean() < GAIN:
                continue
            for count in LABELS:
                said = learned(pair, draw.permutation(others)[:count], rest)
                found.setdefault(str(name), {}).setdefault(str(count), []).append(said)
    return found


def summary(label: str, found: dict[str, list[Interval]]) -> dict[str, dict[str, float]]:
    lines = {}
    for count, each in found.items():
        values = [interval.value for interval in each]
        harm = sum(interval.high < LOSS for interval in each)
        lines[count] = {
            "mean": round(statistics.fmean(values), 3),
            "lowest": round(min(values), 3),
            "harm": harm,
            "of": len(each),
        }
    told = "   ".join(
        f"{count:>5}: {line['mean']:+.3f} (lowest {line['lowest']:+.3f}, harm {line['harm']} of {line['of']})"
        for count, line in lines.items()
    )
    print(f"{label:28}{told}", flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    encoder, every = Remembering(), tasks()
    exams, nine = (
        kinds_without(every, lambda task, name=name: task.source == name, encoder)  # type: ignore[misc]
        for name in ("strong_weak", "nine_models")
    )
    out: dict[str, object] = {}
    print("Own labels, APGR minus that of length")
    for pair in strong_weak(exams, encoder):
        out[pair.name] = summary(pair.name, at_home([pair], DRAWS))
    pairs = list(nine_models(nine, encoder))
    out["nine models"] = summary("nine models, all tasks", at_home(pairs, 1))
    print("Labels of the other tasks, APGR minus that of length on the task left out")
    for name, found in unseen(pairs).items():
        out[f"unseen {name}"] = summary(name, found)
    (mixed,) = (pair for pair in strong_weak(exams, encoder) if pair.name == "MMLU and GSM8K")
    for name, found in unseen([mixed]).items():
        out[f"unseen {name} of strong_weak"] = summary(f"{name} of strong_weak", found)
    if asked.json:
        asked.json.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
