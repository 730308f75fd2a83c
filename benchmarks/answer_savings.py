"""The table of ``eval savings`` with agreement, on the stored answers of ../shared/data: by set and pair.

    .venv/bin/python benchmarks/answer_savings.py [--labels 300] [--splits 10]

Reads ../shared/data/answers and, for the words of the prompts, ../shared/data/tiers/difficulty. Pairs are
those of ``agreement.py``, fixed beforehand. Of a set that has fewer rows than the labels and 100 more,
all but 100 are labels. Rows whose words are not known have no rules and no learned router; it is ranked
by length. Figures are means over draws of the labels and over the pairs, with the worst pair in brackets;
an interval is the mean of the pairs' bounds.
"""

import argparse
import gzip
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np

from agreement import DATA, INSTRUCTIONS, PAIRS
from pointsman.errors import PointsmanError
from pointsman.jsonl import numbered_lines
from pointsman.learning.answers import corpus_of, measured, read_answers, read_prices
from pointsman.learning.savings import LABELS, LEAST_SERVED, Agreement, RouterSavings, Rule, evaluate_savings

DIFFICULTY = Path("../shared/data/tiers/difficulty.jsonl.gz")


def words() -> dict[str, str]:
    """Prompts by set and id."""
    with gzip.open(DIFFICULTY) as lines:
        return {row["id"]: row["prompt"] for row in map(msgspec.json.decode, lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--labels", type=int, default=LABELS)
    parser.add_argument("--splits", type=int, default=10)
    asked = parser.parse_args()
    prompts = words()
    found: dict[str, dict[str, list[RouterSavings]]] = {}
    for first, second, strong in PAIRS:
        models = (first, second, strong)
        rows = read_answers(numbered_lines(DATA), str(DATA), models)
        prices = read_prices(DATA.parent / "prices.json", DATA.name, models)
        for name in sorted({row.set for row in rows}):
            own = [
                msgspec.structs.replace(row, prompt=prompts.get(f"{row.set}/{row.id}", ""))
                for row in rows
                if row.set == name
            ]
            # The words of most of a set do: a row without them is left out, unless many are.
            known = [row for row in own if row.prompt]
            own = known if len(known) > 0.9 * len(own) else own
            by_row = measured(own, (first, second), strong, prices, instructions=INSTRUCTIONS)
            costs = np.stack([by_row.costs[first], by_row.costs[strong]], axis=1)
            rule = Rule(labels=min(asked.labels, len(own) - LEAST_SERVED))
            try:
                table = evaluate_savings(
                    name,
                    corpus_of(own, by_row, first, strong),
                    costs,
                    agreement=Agreement(by_row.ruled, by_row.paid, by_row.agreed),
                    rule=rule,
                    splits=asked.splits,
                )
            except PointsmanError as error:
                print(f"{name}: {error.message}")
                continue
            print(f"{first} + {second} -> {strong}, {name}: {rule.labels} labels of {len(own)}", flush=True)
            for row in table.rows:
                found.setdefault(name, {}).setdefault(row.router, []).append(row)
                less, cost, saved = row.success_minus_strong, row.cost, row.saved_beyond_coin
                print(
                    f"  {row.router:23} fixed {row.fixed:4.0%}  {less.value:+z.4f} [{less.low:+z.4f},"
                    f" {less.high:+z.4f}]  {cost.value:.4f}  {saved.value:+z.4f} [{saved.low:+z.4f},"
                    f" {saved.high:+z.4f}]",
                    flush=True,
                )
    for name, by_router in found.items():
        print(f"{name}: mean of pairs (worst): success - strong, cost, saved beyond coin, shown")
        for router, each in by_router.items():
            lost, paid, saved_ = (
                [row.success_minus_strong.value for row in each],
                [row.cost.value for row in each],
                [row.saved_beyond_coin.value for row in each],
            )
            low, high = (
                fmean(getattr(row.saved_beyond_coin, end) for row in each) for end in ("low", "high")
            )
            shown = sum(row.shown for row in each)
            print(
                f"  {router:23} {fmean(lost):+z.3f} ({min(lost):+z.3f})  {fmean(paid):.3f} ({max(paid):.3f})"
                f"  {fmean(saved_):+z.3f} [{low:+z.3f}, {high:+z.3f}] ({min(saved_):+z.3f})"
                f"  {shown} of {len(each)}"
            )


if __name__ == "__main__":
    main()
