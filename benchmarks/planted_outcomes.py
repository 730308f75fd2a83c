"""How often an audit claims a saving that is not there: outcomes planted in copies of real runs.

Real runs of agents are copied, with the task of each as its project and its success as its outcome. Half of
the copies go to a second, cheaper model, whose chance of success is moved by a known difference. Then the
audit's comparison decides. ``shuffled`` deals the outcomes of all runs anew.

    python benchmarks/planted_outcomes.py RUNS.jsonl.gz [--seeds 1000] [--margin 0.1] [--sent]

With ``--sent`` it decides about a policy that sends the runs of every second task to the cheaper model, and a
quarter of the others: only these are compared, as an audit does with a replayed policy.

``RUNS`` has one JSON object per line with ``task`` and ``success``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections import Counter, defaultdict
from pathlib import Path

from pointsman.audit.savings import Criterion, Run, compare

DIFFERENCES = {"-0.15": -0.15, "-0.1": -0.1, "0": 0.0, "+0.15": 0.15, "shuffled": 0.0}
SIZES = (90, 200, 300, 500, 1_000, 2_000)


def main() -> None:
    """Print the shares of verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--source", default="tau-bench-airline", help="of the runs, where they have several")
    parser.add_argument("--seeds", type=int, default=1_000)
    parser.add_argument("--margin", type=float, default=0.0, help="loss of success that is tolerated")
    parser.add_argument(
        "--sent", action="store_true", help="compare what a policy sends to the cheaper model"
    )
    options = parser.parse_args()
    criterion = Criterion(margin=options.margin)
    real = read(options.runs, options.source)
    print(f"{sum(map(len, real.values()))} runs of {len(real)} tasks; {options.seeds} seeds; shares in %")
    print(f"{'planted':>9} {'runs':>5} {'saves':>6} {'harmful':>8} {'nothing':>8}")
    for name, difference in DIFFERENCES.items():
        for size in SIZES:
            found = Counter(
                compare(
                    sent(runs, real, chance) if options.sent else runs, "dear", "cheap", criterion
                ).verdict
                for chance in map(random.Random, range(options.seeds))
                for runs in [planted(real, size, difference, chance, shuffled=name == "shuffled")]
            )
            saves, harmful, unknown = (
                100 * found[each] / options.seeds for each in ("saves", "harmful", "unknown")
            )
            print(f"{name:>9} {size:>5} {saves:>6.1f} {harmful:>8.1f} {unknown:>8.1f}")


def read(file: Path, source: str) -> dict[str, list[bool]]:
    """Outcomes by task."""
    found: dict[str, list[bool]] = defaultdict(list)
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            if run.get("source", source) == source:
                found[str(run["task"])].append(bool(run["success"]))
    return found


def planted(
    real: dict[str, list[bool]], size: int, difference: float, chance: random.Random, *, shuffled: bool
) -> list[Run]:
    """Copy runs, every second one to the cheaper model, with a difference of success."""
    tasks = sorted(real)
    runs = []
    for at in range(size):
        task = tasks[at // 2 % len(tasks)]
        cheap = at % 2 == 1
        solved = chance.choice(real[task])
        if cheap:
            solved = moved(solved, real, difference, chance)
        cost = (0.2 if cheap else 1.0) * chance.uniform(0.5, 1.5)
        runs.append(Run(task, "cheap" if cheap else "dear", solved, cost))
    if shuffled:
        outcomes = [run.solved for run in runs]
        chance.shuffle(outcomes)
        runs = [run._replace(solved=solved) for run, solved in zip(runs, outcomes, strict=True)]
    return runs


def sent(runs: list[Run], real: dict[str, list[bool]], chance: random.Random) -> list[Run]:
    """The runs that a policy sends to the cheaper model: it knows what is asked, and no outcome."""
    always = set(sorted(real)[::2])
    return [run for run in runs if run.cluster in always or chance.random() < 0.25]


def moved(solved: bool, real: dict[str, list[bool]], difference: float, chance: random.Random) -> bool:
    """Turn failures into successes, or successes into failures, so that the mean moves by ``difference``."""
    share = sum(sum(own) / len(own) for own in real.values()) / len(real)
    if difference > 0 and not solved:
        return chance.random() < difference / (1 - share)
    if difference < 0 and solved:
        return chance.random() >= -difference / share
    return solved


if __name__ == "__main__":
    main()
