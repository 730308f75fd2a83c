"""What outcomes by project say of agent tasks: ranking, money, regret, and what shuffled labels claim.

    python benchmarks/projects.py ../shared/data/tiers/agent_tasks.jsonl.gz [--orders 100]

Both sets of SWE-bench tasks, every pair of models of one scaffold whose difference in solved tasks is at
least five points and of which 300 tasks are known (Verified: 200). A project is the repository. The first 250
tasks (Verified: 160) are own outcomes of both models, the others are ranked by the expected gain of the
strong model in their project. Neither set has dates. Tasks of Verified come in the order of their numbers in
each repository, repositories mixed by chance; those of Pro in orders drawn by chance.

Money: the strong model costs five times the weak one (list prices of a provider's large and small model).
At equal success: the least that each ranking pays for 95 % of what the strong model alone solves.
Intervals of the money are those over the pairs of models. The difference of project and length gets a paired
interval too, with whole repositories drawn: its unit is what a project is. Cheap first begins each task on
the weak model and begins anew on the strong one where it is told of a failure.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pointsman.learning.metrics import gap_curve
from pointsman.learning.projects import ProjectOutcome, chance_kept, posteriors
from pointsman.tiers.projects import cell_name

_RATIO: Final = 5.0  # price of the strong model over that of the weak one
_KEPT: Final = 0.95
_OWN: Final = {"swebench_pro": 250, "swebench_verified": 160}
_KNOWN: Final = {"swebench_pro": 300, "swebench_verified": 200}
_LEAST: Final = 0.05
#: Shares of failed and of successful runs of the weak model in which the strong one is called afterwards: by
#: tests, and by the escalation of docs/explanation/guidance.md as it was measured on recorded runs.
_TOLD: Final = {"tests tell": (1.0, 0.0), "trouble tells": (0.248, 0.026)}
#: Draws of the repositories, and orders of each pair in which they are looked at.
_DRAWS: Final = 300
_ORDERS_DRAWN: Final = 8
_REGRET: Final = (0, 25, 50, 100, 150, 200, 250)

Floats = NDArray[np.float64]


class Pair:
    """The tasks that two models tried."""

    def __init__(self, rows: Sequence[dict[str, Any]], weak: str, strong: str) -> None:
        self.weak_name, self.strong_name = weak, strong
        rows = [row for row in rows if weak in row["outcomes"] and strong in row["outcomes"]]
        self.project = np.array([row["category"] for row in rows])
        self.weak: Floats = np.array([row["outcomes"][weak] for row in rows], float)
        self.strong: Floats = np.array([row["outcomes"][strong] for row in rows], float)
        self.length: Floats = np.log([len(row["prompt"]) + 1 for row in rows])
        self.number = np.array(
            [int(found[-1]) if (found := re.findall(r"\d+", row["id"])) else 0 for row in rows]
        )

    def __len__(self) -> int:
        return len(self.weak)


def pairs(rows: Sequence[dict[str, Any]], task_set: str) -> Iterator[Pair]:
    """Yield the pairs of one scaffold, the weaker model first."""
    own = [row for row in rows if row["task_set"] == task_set]
    names = sorted({name for row in own for name in row["outcomes"]})
    for one, other in combinations(names, 2):
        if _scaffold(one) != _scaffold(other):
            continue
        pair = Pair(own, one, other)
        if pair.weak.mean() > pair.strong.mean():
            pair = Pair(own, other, one)
        if len(pair) >= _KNOWN[task_set] and pair.strong.mean() - pair.weak.mean() >= _LEAST:
            yield pair


def _scaffold(name: str) -> tuple[str, bool]:
    return name.partition("/")[0], "cost cap" in name


def order(pair: Pair, task_set: str, rng: np.random.Generator) -> NDArray[np.intp]:
    """An order of arrival."""
    drawn = rng.permutation(len(pair))
    if task_set != "swebench_verified":
        return drawn
    place = np.empty(len(pair))
    for project in sorted(set(pair.project)):  # the order of a set differs between runs
        here = np.flatnonzero(pair.project == project)
        ranked = here[np.argsort(pair.number[here])]
        place[ranked] = np.sort(rng.random(len(here)))
    return np.argsort(place)


def gains(pair: Pair, own: NDArray[np.intp], test: NDArray[np.intp], project: NDArray[Any]) -> Floats:
    """The expected gain of the strong model on each task, by the outcomes of its project."""
    outcomes = [
        ProjectOutcome(id=str(i), project=str(project[i]), model=model, score=float(scores[i]))
        for model, scores in (("weak", pair.weak), ("strong", pair.strong))
        for i in own
    ]
    if not outcomes:
        return np.zeros(len(test))
    found = posteriors(outcomes)
    by = {}
    for name in set(map(str, project[test])):
        cell = found.get(cell_name(name)) or found[cell_name("*")]
        by[name] = cell["strong"].mean - cell["weak"].mean
    return np.array([by[str(name)] for name in project[test]])


def own_success(pair: Pair, own: NDArray[np.intp], test: NDArray[np.intp]) -> Floats:
    """The expected success of the strong model on each task: a ranking without the weak one."""
    outcomes = [
        ProjectOutcome(id=str(i), project=str(pair.project[i]), model="strong", score=float(pair.strong[i]))
        for i in own
    ]
    found = posteriors(outcomes)
    names = [cell_name(str(name)) for name in pair.project[test]]
    return np.array([found.get(name, found[cell_name("*")])["strong"].mean for name in names])


def repositories_drawn(task_set: str, rows: Sequence[dict[str, Any]]) -> tuple[float, float, float]:
    """Project minus length: the mean over pairs and orders, and its interval, whole repositories drawn."""
    rng = np.random.default_rng(0)
    every = list(pairs(rows, task_set))
    names = sorted({str(name) for pair in every for name in pair.project})
    drawn = rng.multinomial(len(names), [1 / len(names)] * len(names), size=_DRAWS).astype(float)
    weights = [dict(zip(names, draw, strict=True)) for draw in (np.ones(len(names)), *drawn)]
    sums: list[list[float]] = [[] for _ in weights]
    for pair in every:
        for seed in range(_ORDERS_DRAWN):
            arrived = order(pair, task_set, np.random.default_rng(seed))
            count = min(_OWN[task_set], len(pair) - 50)
            own, test = arrived[:count], arrived[count:]
            scores, length = gains(pair, own, test, pair.project), pair.length[test]
            weak, strong = pair.weak[test], pair.strong[test]
            for place, each in enumerate(weights):
                weight = np.array([each[str(name)] for name in pair.project[test]])
                if weight @ (strong - weak) > 0:  # a gap to recover
                    ours, theirs = (
                        gap_curve(ranked, weak, strong, weights=weight).apgr for ranked in (scores, length)
                    )
                    sums[place].append(float(ours - theirs))
    means = [float(np.median(values)) for values in sums if values]
    low, high = np.percentile(means[1:], [2.5, 97.5])
    return means[0], float(low), float(high)


def claims(pair: Pair, own: NDArray[np.intp], project: NDArray[Any]) -> dict[str, bool]:
    """The projects of which the weak model is claimed to be good enough, with 90 % certainty."""
    outcomes = [
        ProjectOutcome(id=str(i), project=str(project[i]), model=model, score=float(scores[i]))
        for model, scores in (("weak", pair.weak), ("strong", pair.strong))
        for i in own
    ]
    found = posteriors(outcomes)
    names = set(map(str, project[own]))
    return {
        name: chance_kept(found[cell_name(name)]["weak"], found[cell_name(name)]["strong"], _KEPT) >= 0.9
        for name in names
    }


def apgr(scores: Floats, pair: Pair, test: NDArray[np.intp]) -> float:
    return float(gap_curve(scores, pair.weak[test], pair.strong[test]).apgr)


def cost_at(scores: Floats, weak: Floats, strong: Floats) -> float:
    """The least that a ranking pays for ``_KEPT`` of what the strong model solves, in shares of its cost."""
    wanted = _KEPT * strong.sum()
    _, place = np.unique(-scores, return_inverse=True)  # equal scores go together, in any order
    count = np.bincount(place)
    gain = np.bincount(place, strong - weak)
    solved = weak.sum() + np.concatenate([[0.0], np.cumsum(gain)])
    called = np.concatenate([[0.0], np.cumsum(count)])
    best = called[-1]
    for i in range(len(count)):
        if solved[i] >= wanted:
            best = min(best, called[i])
        elif solved[i + 1] >= wanted:
            best = min(best, called[i] + count[i] * (wanted - solved[i]) / (solved[i + 1] - solved[i]))
    share = best / len(weak)
    return float((1 - share) / _RATIO + share)


def policy_cost(pair: Pair, own: NDArray[np.intp], test: NDArray[np.intp]) -> tuple[float, float]:
    """Cost and solved tasks of the policy with certainty, both in shares of the strong model's."""
    good = claims(pair, own, pair.project)
    takes_weak = np.array([good.get(str(name), False) for name in pair.project[test]])
    solved = np.where(takes_weak, pair.weak[test], pair.strong[test]).sum() / max(pair.strong[test].sum(), 1)
    return float(np.where(takes_weak, 1 / _RATIO, 1.0).mean()), float(solved)


def interval(values: Sequence[float]) -> str:
    kept = np.array([value for value in values if not math.isnan(value)])
    if not len(kept):
        return "-"
    low, high = np.percentile(kept, [2.5, 97.5])
    return f"{kept.mean():.3f} [{low:.3f}, {high:.3f}]"


def evaluate(task_set: str, rows: Sequence[dict[str, Any]], orders: int) -> None:
    count = _OWN[task_set]
    print(f"\n{task_set}: {count} own outcomes of each model, {orders} orders; mean [95 % of orders]")
    print("| weak | strong | tasks | length | project | project − length | shuffled | claims | shuffled |")
    print("|---|---|---|---|---|---|---|---|---|")
    found: dict[str, list[float]] = {}
    per_pair: list[float] = []
    for pair in pairs(rows, task_set):
        one: dict[str, list[float]] = {}
        for seed in range(orders):
            _one_order(pair, task_set, np.random.default_rng(seed), one)
        for name, values in one.items():
            found.setdefault(name, []).append(float(np.nanmean(values)))
        per_pair.append(float(np.nanmean(one["difference"])))
        cells = (interval(one[name]) for name in ("length", "project", "difference", "shuffled"))
        shown = (pair.weak_name.partition("/")[2], pair.strong_name.partition("/")[2], len(pair), *cells)
        said = (f"{np.mean(one['claims']):.3f}", f"{np.mean(one['shuffled claims']):.3f}")
        print(f"| {' | '.join(map(str, (*shown, *said)))} |")
    print(f"mean over {len(per_pair)} pairs: " + ", ".join(
        f"{name} {np.mean(found[name]):.3f}" for name in ("length", "project", "difference", "shuffled")
    ))  # fmt: skip
    print(f"pairs with project above length: {sum(each > 0 for each in per_pair)} of {len(per_pair)}")
    value, low, high = repositories_drawn(task_set, rows)
    print(f"project − length, median over pairs and {_ORDERS_DRAWN} orders, repositories drawn: "
          f"{value:+.3f} [{low:+.3f}, {high:+.3f}]")  # fmt: skip
    print(f"APGR by the strong model's own success in the project: {interval(found['own success'])}")
    print("cost at 95 % of the strong model's success, in shares of always strong (always weak: .200):")
    for name in ("cost length", "cost project", "cost mixture"):
        print(f"  {name[5:]:12} {interval(found[name])}")
    print(f"policy with 90 % certainty: cost {interval(found['policy cost'])}, "
          f"success {interval(found['policy success'])} of always strong")  # fmt: skip
    print(f"always weak: total cost {1 / _RATIO:.3f}, cost of a success "
          f"{interval(found['weak per success'])}, successes {interval(found['weak solves'])}")  # fmt: skip
    for told in _TOLD:
        total, success, solved = (
            interval(found[f"cheap first{part}, {told}"]) for part in (" costs", "", " solves")
        )
        print(f"cheap first, {told}: total cost {total}, cost of a success {success} of always strong, "
              f"successes {solved}")  # fmt: skip
    print("regret: APGR by own outcomes " + ", ".join(
        f"{n}: {np.mean(found[f'after {n}']):.3f}" for n in _REGRET if f"after {n}" in found
    ))  # fmt: skip


def _one_order(pair: Pair, task_set: str, rng: np.random.Generator, one: dict[str, list[float]]) -> None:
    arrived = order(pair, task_set, rng)
    count = min(_OWN[task_set], len(pair) - 50)
    own, test = arrived[:count], arrived[count:]
    weak, strong = pair.weak[test], pair.strong[test]
    if strong.sum() <= weak.sum():
        return  # no gap to recover
    shuffled = rng.permutation(pair.project)
    scores = gains(pair, own, test, pair.project)
    values = {
        "length": apgr(pair.length[test], pair, test),
        "project": apgr(scores, pair, test),
        "shuffled": apgr(gains(pair, own, test, shuffled), pair, test),
        "claims": float(np.mean(list(claims(pair, own, pair.project).values()))),
        "shuffled claims": float(np.mean(list(claims(pair, own, shuffled).values()))),
        "cost length": cost_at(pair.length[test], weak, strong),
        "cost project": cost_at(scores, weak, strong),
        "cost mixture": cost_at(np.zeros(len(test)), weak, strong),
    }
    for told, (failed, good) in _TOLD.items():
        raised = np.where(weak > 0, good, failed)
        cost = 1 / _RATIO + raised.mean()
        solved = np.where(weak > 0, 1.0, raised * strong).mean()
        values[f"cheap first costs, {told}"] = float(cost)
        values[f"cheap first, {told}"] = float(cost / solved * strong.mean())
        values[f"cheap first solves, {told}"] = float(solved / strong.mean())
    values["own success"] = apgr(own_success(pair, own, test), pair, test)
    values["weak solves"] = float(weak.mean() / strong.mean())
    values["weak per success"] = (1 / _RATIO) / values["weak solves"] if weak.any() else math.nan
    values["difference"] = values["project"] - values["length"]
    values["policy cost"], values["policy success"] = policy_cost(pair, own, test)
    for number in _REGRET:
        if number <= count:
            values[f"after {number}"] = apgr(gains(pair, own[:number], test, pair.project), pair, test)
    for name, value in values.items():
        one.setdefault(name, []).append(value)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--orders", type=int, default=100)
    options = parser.parse_args()
    with gzip.open(options.data) as lines:
        rows = [json.loads(line) for line in lines]
    for task_set in _OWN:
        evaluate(task_set, rows, options.orders)


if __name__ == "__main__":
    main()
