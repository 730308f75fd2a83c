"""Escalation replayed over recorded runs: in how many failed and successful runs the tier would be raised.

    python benchmarks/escalation.py ../shared/data/trajectories/*.jsonl.gz [--quantile 1.0] [--margin 1.1]

Stuck is what guidance says with its default values. Long is more tool calls, by a tenth, than the successful
runs of the same source and model, in four fifths of the runs, drawn 20 times; a run is judged by limits that
it did not help to make. With fewer than 20 such successes there is no limit. A run that two files hold, by
its source and id, counts once: a copy in the other folds would make the limit that judges it. ``ahead`` is
the share of a raised failed run's calls that still followed.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from pointsman.guidance import GuidancePolicy, Guide, Mode
from pointsman.learning.guidance import Run, replay
from pointsman.reports.escalation import MARGIN, SourceRuns

_FOLDS, _DRAWS = 5, 20


class Recorded(NamedTuple):
    source: str
    model: str
    success: bool
    calls: int
    stuck_at: int | None  # tool calls before guidance fires; None: it does not


def read(files: Sequence[Path]) -> Iterator[Recorded]:
    guide = Guide(GuidancePolicy(mode=Mode.ON))
    seen: set[tuple[str, str]] = set()
    for file in files:
        with gzip.open(file) as lines:
            for line in lines:
                more = json.loads(line)
                run = msgspec.json.decode(line, type=Run)
                source = run.source or file.name.partition(".")[0]
                if name := str(more.get("id", "")):
                    if (source, name) in seen:
                        continue
                    seen.add((source, name))
                done = replay(run, guide)
                fired = done.firings[0].step + 1 if done.firings else None
                yield Recorded(source, str(more.get("model", "")), bool(run.success), len(done.steps), fired)


def raised_at(run: Recorded, limit: int | None) -> int | None:
    """The call after which the tier is raised; None where it is not."""
    long = limit + 1 if limit is not None and run.calls > limit else None
    return min((at for at in (run.stuck_at, long) if at is not None), default=None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--quantile", type=float, default=1.0)
    parser.add_argument("--margin", type=float, default=MARGIN, help="factor on the limit")
    options = parser.parse_args()
    groups: dict[tuple[str, str], list[Recorded]] = defaultdict(list)
    for run in read(options.files):
        groups[run.source, run.model].append(run)
    rng = np.random.default_rng(0)
    tally: dict[tuple[str, bool], list[tuple[bool, bool, float]]] = defaultdict(list)
    for runs in groups.values():
        for _ in range(_DRAWS):
            order = rng.permutation(len(runs))
            for fold in range(_FOLDS):
                held, others = (
                    order[fold::_FOLDS],
                    [i for f in range(_FOLDS) if f != fold for i in order[f::_FOLDS]],
                )
                known = SourceRuns("", successes=[runs[i].calls for i in others if runs[i].success])
                limit = known.limit(options.quantile, options.margin)
                for run in (runs[i] for i in held):
                    at = raised_at(run, limit)
                    ahead = (run.calls - at) / run.calls if at is not None else np.nan
                    row = (run.stuck_at is not None, at is not None, ahead)
                    tally[run.source, run.success].append(row)
                    tally["all", run.success].append(row)
    print("| source | runs | stuck | stuck or long | ahead |\n|---|---|---|---|---|")
    for (source, success), rows in sorted(tally.items()):
        values = np.array(rows, float)
        count = f"{len(rows) // _DRAWS} {'successful' if success else 'failed'}"
        ahead = "-" if np.isnan(values[:, 2]).all() else f"{np.nanmean(values[:, 2]):.0%}"
        print(f"| {source} | {count} | {values[:, 0].mean():.1%} | {values[:, 1].mean():.1%} | {ahead} |")


if __name__ == "__main__":
    main()
