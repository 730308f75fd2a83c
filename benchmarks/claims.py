"""How often ``fit tiers --features kinds`` claims an improvement: of real labels, and of shuffled ones.

    .venv/bin/python benchmarks/claims.py [--draws 200] [--labels 1500] [--json FILE]

Reads ../shared/data/tiers (or $POINTSMAN_SHARED/data/tiers); needs the extras ``static`` and ``fit``.
Draws labels from MMLU without its two odd subjects, with kinds made without this source. Prints the mean of
the cross-fitted difference to length, and the share of draws in which it is shown against length, against
length and chance, and against both rule profiles too, which is what ``improves`` says; and the share that
``fit tiers`` calls better than length, by the test of the signal (docs/decisions/0169).
Shuffled: the outcomes belong to other prompts.
"""

import argparse
import json
import statistics
from pathlib import Path

import numpy as np
from msgspec import structs
from outcome_tasks import ODD, Floats, Remembering, kinds_without, tasks
from tiers_quality import rows

from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.fit import RIVALS, claim, signal_chance
from pointsman.learning.intervals import wilson
from pointsman.learning.kinds_prior import fitter
from pointsman.learning.learning import Corpus, held_out
from pointsman.learning.rankers import baselines
from pointsman.tiers.learned_router import Claim


def claims(
    corpus: Corpus, rankings: dict[str, Floats], labels: int, draws: int, *, shuffle: bool
) -> list[Claim]:
    found = []
    for seed in range(draws):
        draw = np.random.default_rng(seed)
        at = draw.permutation(len(corpus))[:labels]
        own = corpus.take(at)
        if shuffle:
            other = draw.permutation(labels)
            numbers = (own.weak[other], own.strong[other], own.log_length, own.rules)
            own = Corpus(*numbers, own.ngrams, own.vectors, own.first, own.shifts)
        raw = held_out(own, seed=seed, fit=fitter(own)).raw
        scores = {name: values[at] for name, values in rankings.items()} | {"learned_router": raw[1] - raw[0]}
        shown = claim(scores, own.weak, own.strong, first=own.first, seed=seed)
        found.append(structs.replace(shown, signal=signal_chance(own, seed=seed)))
    return found


def told(title: str, found: list[Claim]) -> dict[str, float]:
    gain = statistics.fmean(each.against["length"][0] for each in found)
    counts = {
        name: sum(all(each.against[rival][1] > 0 for rival in rivals) for each in found)
        for name, rivals in (
            ("length", ("length",)),
            ("length, chance", ("length", "random")),
            ("improves", RIVALS),
        )
    }
    counts["better than length"] = sum(each.beats_length for each in found)
    low, high = wilson(counts["better than length"], len(found))
    shares = "  ".join(f"{name} {count / len(found):.1%}" for name, count in counts.items())
    print(
        f"{title:10} difference to length {gain:+.3f}  {shares}  (the last {low:.1%} .. {high:.1%})",
        flush=True,
    )
    return {"difference": round(gain, 3), "draws": len(found), **counts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--labels", type=int, default=1_500)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    encoder = Remembering()
    kinds = kinds_without(tasks(), lambda task: task.source == "strong_weak", encoder)
    kept = [row for row in rows("strong_weak") if row["bench"] == "mmlu" and row["domain"] not in ODD]
    outcomes = [PromptOutcome(row["prompt"], float(row["weak"]), float(row["strong"])) for row in kept]
    corpus, rankings = Corpus.of(outcomes, encoder, kinds), baselines(outcomes)
    out = {
        name: told(name, claims(corpus, rankings, asked.labels, asked.draws, shuffle=name == "shuffled"))
        for name in ("real", "shuffled")
    }
    if asked.json:
        asked.json.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
