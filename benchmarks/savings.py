"""What routers save beyond a coin of equal success, on public outcomes: the table on top of ``measuring.md``.

    .venv/bin/python benchmarks/savings.py [--labels 300] [--margin 0.01] [--splits 10] [--features kinds]

Reads ../shared/data/tiers (or $POINTSMAN_SHARED/data/tiers); needs the extra ``fit``. The cut is fixed as
``pointsman eval savings`` fixes it: the cheapest within the margin of always strong with 90 % certainty, on
labels drawn by chance; figures are means over the draws. Sources: MMLU of ``strong_weak`` without its two odd
subjects, GSM8K, each task of ``nine_models`` and of ``agent_tasks``. Where a source has several pairs of
models, at most six of those that gain .05 are looked at, and its figures are means over them. A source with
fewer rows than the labels and 100 served keeps 100 to be served, and fixes the cut on the rest. A call of the
weak model costs .2 of a call of the strong one; no set has prices of its own, or caches.
"""

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from left_out import without_odd
from outcome_tasks import Task, tasks

from pointsman.errors import PointsmanError
from pointsman.learning.datasets import Features
from pointsman.learning.fit import read_with
from pointsman.learning.learning import Corpus
from pointsman.learning.savings import LABELS, LEAST_SERVED, RouterSavings, Rule, evaluate_savings

#: Money for a call of the weak model, in calls of the strong one.
WEAK_COST = 0.2

#: Pairs of models looked at for each source, and resamples of an interval over all its splits.
PAIRS, RESAMPLES = 6, 500

Values = tuple[float, float, float]  # success - strong, cost, saved beyond a coin


def sources() -> Iterator[Task]:
    """The sources with outcomes of two models or more."""
    for one in tasks():
        if one.pairs:
            yield without_odd(one) if one.name == "mmlu" and one.source == "strong_weak" else one


def measured(one: Task, rule: Rule, splits: int, features: Features) -> Iterator[tuple[RouterSavings, ...]]:
    """The table of every pair of models of a source."""
    whole = Corpus.of(one.prompts, *read_with(features, None))
    for number in range(0, len(one.pairs), max(-(-len(one.pairs) // PAIRS), 1)):
        _, places, weak, strong = one.pairs[number]
        corpus = replace(whole.take(np.array(places)), weak=weak, strong=strong)
        labels = min(rule.labels, len(corpus) - LEAST_SERVED)
        costs = np.tile([WEAK_COST, 1.0], (len(corpus), 1))
        own = Rule(labels=labels, margin=rule.margin, certainty=rule.certainty)
        try:
            found = evaluate_savings(
                one.name,
                corpus,
                costs,
                groups=[one.prompts[at].group for at in places],
                rule=own,
                splits=splits,
                seed=number,
                resamples=RESAMPLES,
            )
        except PointsmanError as error:
            print(f"{one.source} {one.name}: {error.message}")
            continue
        yield found.rows


def means(rows: list[RouterSavings]) -> Values:
    return (
        statistics.fmean(row.success_minus_strong.value for row in rows),
        statistics.fmean(row.cost.value for row in rows),
        statistics.fmean(row.saved_beyond_coin.value for row in rows),
    )


def line(name: str, rows: list[RouterSavings]) -> str:
    less, cost, saved = means(rows)
    lows = statistics.fmean(row.saved_beyond_coin.low for row in rows)
    highs = statistics.fmean(row.saved_beyond_coin.high for row in rows)
    fixed = statistics.fmean(row.fixed for row in rows)
    lost = statistics.fmean(row.success_minus_strong.low for row in rows)
    gained = statistics.fmean(row.success_minus_strong.high for row in rows)
    shown = sum(row.shown for row in rows)
    return (
        f"  {name:15} {fixed:5.0%}  {less:+z.3f} [{lost:+z.3f}, {gained:+z.3f}]  {cost:.3f}"
        f"  {saved:+z.3f} [{lows:+z.3f}, {highs:+z.3f}]  {shown} of {len(rows)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--labels", type=int, default=LABELS)
    parser.add_argument("--margin", type=float, default=0.01)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--features", type=Features, default=Features.AUTO)
    parser.add_argument("--only", default="", help="sources whose name begins so")
    asked = parser.parse_args()
    rule = Rule(labels=asked.labels, margin=asked.margin)
    by_router: dict[str, dict[str, Values]] = {}
    print("  router          fixed  success - strong         cost   saved beyond coin        shown")
    for one in sources():
        if not f"{one.source} {one.name}".startswith(asked.only):
            continue
        rows: dict[str, list[RouterSavings]] = {}
        for table in measured(one, rule, asked.splits, asked.features):
            for row in table:
                rows.setdefault(row.router, []).append(row)
        print(f"{one.source} {one.name}: {len(one.prompts):,} prompts, {len(one.pairs)} pairs", flush=True)
        for name, found in rows.items():
            print(line(name, found), flush=True)
            by_router.setdefault(name, {})[f"{one.source} {one.name}"] = means(found)
    print("mean of sources, worst in brackets: success - strong, cost, saved beyond coin")
    for name, by_source in by_router.items():
        less, cost, saved = zip(*by_source.values(), strict=True)
        print(
            f"  {name:15} {statistics.fmean(less):+z.4f} ({min(less):+z.4f})  {statistics.fmean(cost):.4f}"
            f" ({max(cost):.4f})  {statistics.fmean(saved):+z.4f} ({min(saved):+z.4f})"
        )


if __name__ == "__main__":
    main()
