"""How rankings do on requests that offer tools.

    .venv/bin/python benchmarks/requests_with_tools.py

Reads ../shared/data/tiers/agent_tasks (or $POINTSMAN_SHARED/data/tiers). Prints, for each task set, the APGR
of length, of profile ``default`` by its keywords, and of the same profile for requests with tools; then the
two differences to length with an interval over the prompts. Each figure is a mean over at most forty pairs of
models, drawn by chance, whose stronger one gains at least .05. The last lines choose between keywords and
length by the other sets alone, and say what that choice gets on the set left out.
"""

import statistics
from collections.abc import Callable
from random import Random

import numpy as np
from bootstrap import bootstrap
from numpy.typing import NDArray
from outcome_tasks import Floats, Pair, task
from tiers_quality import rows

from pointsman.learning.metrics import gap_curve
from pointsman.learning.rankers import by_length, by_rules

#: Pairs of a set, and resamples of an interval.
PAIRS, RESAMPLES = 40, 200

Rows = NDArray[np.intp]

RANKINGS = ("length", "keywords", "with tools")


def mean_apgr(pairs: list[Pair], scores: Floats, drawn: Rows | None = None) -> float:
    """Mean APGR over the pairs; ``drawn`` says how often each prompt counts."""
    found = []
    for pair in pairs:
        places, weak, strong = np.array(pair.places), pair.weak, pair.strong
        if drawn is not None:
            again = np.repeat(np.arange(len(places)), drawn[places])
            places, weak, strong = places[again], weak[again], strong[again]
        if strong.mean() > weak.mean():  # a resample may have no gap to recover
            found.append(gap_curve(scores[places], weak, strong).apgr)
    return statistics.fmean(found)


def difference_to(length: Floats, scores: Floats, pairs: list[Pair]) -> Callable[[Rows], float]:
    """The difference of a ranking to length on some prompts."""

    def difference(at: Rows) -> float:
        drawn = np.bincount(at, minlength=len(length))
        return mean_apgr(pairs, scores, drawn) - mean_apgr(pairs, length, drawn)

    return difference


def main() -> None:
    every, table = rows("agent_tasks"), {}
    print(f"{'':20}{'prompts':>9}{'pairs':>7}" + "".join(f"{name:>12}" for name in RANKINGS))
    for name in sorted({row["task_set"] for row in every}):
        own = [row for row in every if row["task_set"] == name]
        one = task("agent_tasks", name, own, [row["outcomes"] for row in own], learn=False)
        pairs = Random(0).sample(one.pairs, min(PAIRS, len(one.pairs)))
        length, keywords = by_length(one.prompts), by_rules(one.prompts, "default")
        scores = dict(
            zip(RANKINGS, (length, keywords, by_rules(one.prompts, "default", tools=True)), strict=True)
        )
        found = table[name] = {ranking: mean_apgr(pairs, each) for ranking, each in scores.items()}
        cells = "".join(f"{value:12.4f}" for value in found.values())
        print(f"{name:20}{len(one.prompts):9}{len(pairs):7}{cells}")
        for ranking in RANKINGS[1:]:
            by = bootstrap(difference_to(length, scores[ranking], pairs), len(length), resamples=RESAMPLES)
            print(f"  {ranking} - length: {by.value:+.4f} [{by.low:+.4f}, {by.high:+.4f}]")
    for name, found in table.items():
        others = [values for other, values in table.items() if other != name]
        chosen = max(RANKINGS[1:], key=lambda ranking: statistics.fmean(each[ranking] for each in others))
        gained = found[chosen] - found["length"]
        print(f"{name} left out: the others choose {chosen}, {gained:+.4f} to length on it")


if __name__ == "__main__":
    main()
