"""Whether the error that a learned router states is at least the measured one, on a task left out.

    .venv/bin/python benchmarks/calibration.py [--labels 1500] [--every 12]

Reads ../shared/data/tiers (or $POINTSMAN_SHARED/data/tiers); needs the extras ``static`` and ``fit``. Routers
of both features are fitted on six tasks of ``nine_models``, for every so many pairs of models that differ by
.05, and asked about the seventh; ``own`` is a fifth as many prompts of the same six tasks, without labels.
Prints how often the stated error is at least the measured one, the means of both, and the largest shortfall.
The measured one includes what fifteen bins of so few prompts show by chance.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from heads import Rows
from outcome_tasks import Remembering, kinds_without, tasks
from tiers_quality import rows

from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.fit import calibrate
from pointsman.learning.kinds_prior import fitter
from pointsman.learning.learning import Corpus, held_out, trust
from pointsman.learning.metrics import calibration_error

#: The least difference of two models.
GAIN = 0.05


def corpora(encoder: Remembering, every: int) -> Iterator[Corpus]:
    """All prompts of the nine models, with the outcomes of one pair of models after another."""
    own = rows("nine_models")
    kinds = kinds_without(tasks(), lambda one: one.source == "nine_models", encoder)
    whole = Corpus.of([PromptOutcome(row["prompt"], 0.0, 1.0) for row in own], encoder, kinds)
    scores = {
        name: np.array([float(row["scores"][name]) for row in own]) for name in sorted(own[0]["scores"])
    }
    pairs = [
        (low, high) for low in scores.values() for high in scores.values() if (high - low).mean() >= GAIN
    ]
    for weak, strong in pairs[::every]:
        yield replace(whole, weak=weak, strong=strong)


def errors(corpus: Corpus, labels: Rows, asked: Sequence[Rows]) -> Iterator[list[tuple[float, float]]]:
    """Stated and measured error of the weak and the strong model, for each set of prompts."""
    own = corpus.take(labels)
    fit = fitter(own)
    unseen, weights = held_out(own, seed=0, fit=fit), fit(own, np.arange(len(own)))
    outcomes = ((own.weak, corpus.weak), (own.strong, corpus.strong))
    scaled = [
        calibrate(unseen.raw[at], known, first=own.first, seed=0)[0] for at, (known, _) in enumerate(outcomes)
    ]
    for rest in asked:
        likeness = trust(weights.similarity(corpus, rest), unseen.bounds)
        raw = likeness * weights.evidence(corpus, rest)
        raw[0] -= weights.prior(corpus, rest)
        found = []
        for calibration, values, (_, happened) in zip(scaled, raw, outcomes, strict=True):
            chances = [calibration.probability(float(value)) for value in values]
            pairs = zip(chances, likeness, strict=True)
            stated = np.mean([calibration.stated_error(chance, float(like)) for chance, like in pairs])
            found.append((float(stated), calibration_error(chances, happened[rest])))
        yield found


def show(title: str, found: Sequence[tuple[float, float]]) -> None:
    stated, measured = (np.array(column) for column in zip(*found, strict=True))
    print(
        f"{title:24}{np.mean(stated >= measured):6.1%} of {len(found):3} stated at least the measured; "
        f"mean stated {stated.mean():.3f}, measured {measured.mean():.3f}, "
        f"largest shortfall {max((measured - stated).max(), 0):.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--labels", type=int, default=1_500)
    parser.add_argument("--every", type=int, default=12)
    asked = parser.parse_args()
    names = np.array([row["task"] for row in rows("nine_models")])
    every = list(corpora(Remembering(), asked.every))
    for features in ("kinds", "n-grams"):
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for number, known in enumerate(every):
            corpus = known if features == "kinds" else replace(known, shifts=None, vectors=None)
            for task in sorted(set(names)):
                others = np.random.default_rng(number).permutation(np.flatnonzero(names != task))
                own = others[asked.labels : asked.labels + asked.labels // 5]
                left_out = np.flatnonzero(names == task)
                there, here = errors(corpus, others[: asked.labels], (left_out, own))
                found[task] += there
                found["all left out"] += there
                found["own"] += here
        for title, each in found.items():
            show(f"{features}, {title}", each)


if __name__ == "__main__":
    main()
