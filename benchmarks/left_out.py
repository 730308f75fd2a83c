"""How well rankings do on sources and tasks that kinds of prompts were not made from.

    .venv/bin/python benchmarks/left_out.py

Reads ../shared/data/tiers (or $POINTSMAN_SHARED/data/tiers); needs the extras ``static`` and ``fit``. Prints
the APGR of length, both rule profiles, kinds beside length and beside ``default``: with each source left
out of the kinds, and with each task left out (the same task of another source too). ``nine_models`` and
``agent_tasks`` are means over the pairs of models whose stronger one gains at least .05. The last lines are
differences to length, with intervals over tasks drawn whole. Random is .500 everywhere.
"""

import gzip
import json
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pointsman.encoders import StaticEncoder
from pointsman.encoders.kinds import table_hash
from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.kinds import fit_kinds
from pointsman.learning.metrics import bootstrap, gap_curve
from pointsman.learning.rankers import by_kinds, by_length, by_rules, persons_text
from pointsman.tiers.kinds import Kinds

DATA = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[2] / "shared")) / "data" / "tiers"

#: Gain from which a pair of models is measured, and prompts that both must have answered.
GAIN, BOTH = 0.05, 100

#: The two subjects of MMLU that made most of earlier gains: one template, and wrongly marked answers.
ODD = {"moral_scenarios", "high_school_mathematics"}

#: Tasks of several sources that are one task.
SAME = {"gsm8k": "gsm", "math-l5": "math"}

Row = dict[str, Any]
Floats = NDArray[np.float64]


class Task(NamedTuple):
    """The prompts of one task of one source."""

    source: str
    name: str
    texts: list[str]  # the person's words
    prompts: list[PromptOutcome]
    failed: list[float]  # share of models; empty where kinds are not made from it
    pairs: list[tuple[list[int], Floats, Floats]]  # places, weak, strong


class Remembering:
    """The static encoder, which encodes each text once."""

    def __init__(self) -> None:
        self._encoder = StaticEncoder()
        self.name = self._encoder.name
        self.table = table_hash(self._encoder)
        self._known: dict[str, NDArray[np.float32]] = {}

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for start in range(0, len(new), 256):
            part = new[start : start + 256]
            self._known.update(zip(part, self._encoder.encode(part), strict=True))
        return np.stack([self._known[text] for text in texts])


def rows(name: str) -> list[Row]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def pairs_of(outcomes: Sequence[dict[str, Any]]) -> Iterator[tuple[list[int], Floats, Floats]]:
    """Pairs of models, of one scaffold where their names have one, of which the second gains."""
    models = sorted({model for each in outcomes for model in each})
    for weak, strong in permutations(models, 2):
        if "/" in weak and weak.split("/")[0] != strong.split("/")[0]:
            continue
        places = [at for at, each in enumerate(outcomes) if weak in each and strong in each]
        low, high = (np.array([float(outcomes[at][model]) for at in places]) for model in (weak, strong))
        if len(places) >= BOTH and high.mean() - low.mean() >= GAIN:
            yield places, low, high


def task(source: str, name: str, own: list[Row], outcomes: list[dict[str, Any]], *, learn: bool) -> Task:
    prompts = [PromptOutcome(row["prompt"], 0.0, 0.0) for row in own]
    failed = [1 - statistics.fmean(map(float, each.values())) for each in outcomes] if learn else []
    texts = [persons_text(row["prompt"]) for row in own]
    return Task(source, name, texts, prompts, failed, list(pairs_of(outcomes)))


def tasks() -> list[Task]:
    def split(source: str, key: str, scores: Callable[[Row], dict[str, Any]], *, learn: bool = True) -> None:
        every = rows(source)
        for name in sorted({str(row[key]) for row in every}):
            own = [row for row in every if str(row[key]) == name]
            found.append(task(source, name, own, [scores(row) for row in own], learn=learn))

    found: list[Task] = []
    split("strong_weak", "bench", lambda row: {"weak": row["weak"], "strong": row["strong"]})
    split("nine_models", "task", lambda row: row["scores"])
    split("difficulty", "task", lambda row: {"models": 1 - row["difficulty"]})
    split("agent_tasks", "task_set", lambda row: row["outcomes"], learn=False)
    return found


def measured(one: Task, kinds: Kinds, keep: Callable[[int], bool] = lambda _: True) -> dict[str, float]:
    """Mean APGR over the pairs of a task, by ranking."""
    default = by_rules(one.prompts, "default")
    rankings = {
        "length": by_length(one.prompts),
        "seed": by_rules(one.prompts, "seed"),
        "default": default,
        **by_kinds(one.prompts, kinds, default),
    }
    found: dict[str, list[float]] = {name: [] for name in rankings}
    for places, weak, strong in one.pairs:
        kept = [at for at, place in enumerate(places) if keep(place)]
        at = np.array(places)[kept]
        for name, scores in rankings.items():
            found[name].append(gap_curve(scores[at], weak[kept], strong[kept]).apgr)
    return {name: statistics.fmean(values) for name, values in found.items()}


def kinds_without(every: list[Task], left_out: Callable[[Task], bool], encoder: Remembering) -> Kinds:
    used = [each for each in every if each.failed and not left_out(each)]
    texts = [text for each in used for text in each.texts]
    failed = [value for each in used for value in each.failed]
    return Kinds(fit_kinds(texts, failed, encoder, table=encoder.table), encoder, encoder.table)


def table(
    title: str, every: list[Task], left_out: Callable[[Task, Task], bool], encoder: Remembering
) -> None:
    print(f"\n{title}\n")
    odd = [row.get("domain") in ODD for row in rows("strong_weak") if row["bench"] == "mmlu"]
    found: dict[str, dict[str, float]] = {}
    for one in every:
        if not one.pairs:
            continue
        kinds = kinds_without(every, lambda other, one=one: left_out(one, other), encoder)  # type: ignore[misc]
        found[f"{one.source} {one.name}"] = measured(one, kinds)
        if one.source == "strong_weak" and one.name == "mmlu":
            found["the same without two subjects"] = measured(one, kinds, lambda at: not odd[at])
    names = list(next(iter(found.values())))
    print(f"{'':34}" + "".join(f"{name:>17}" for name in names))
    for label, values in found.items():
        print(f"{label:34}" + "".join(f"{values[name]:17.3f}" for name in names))
    whole = [values for label, values in found.items() if label != "the same without two subjects"]
    print(f"{'mean of tasks':34}" + "".join(f"{statistics.fmean(v[n] for v in whole):17.3f}" for n in names))
    print(f"{'worst':34}" + "".join(f"{min(v[n] for v in whole):17.3f}" for n in names))
    for name in names[1:]:
        gains = np.array([values[name] - values["length"] for values in whole])
        drawn = bootstrap(lambda at, gains=gains: float(gains[at].mean()), len(gains))  # type: ignore[misc]
        print(
            f"{name} - length: {drawn.value:+.3f} [{drawn.low:+.3f}, {drawn.high:+.3f}], "
            f"worst {gains.min():+.3f}"
        )


def main() -> None:
    every, encoder = tasks(), Remembering()
    table("Each source left out", every, lambda one, other: one.source == other.source, encoder)
    table(
        "Each task left out",
        every,
        lambda one, other: SAME.get(one.name, one.name) == SAME.get(other.name, other.name),
        encoder,
    )


if __name__ == "__main__":
    main()
