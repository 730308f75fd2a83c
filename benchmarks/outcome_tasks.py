"""The tasks with outcomes of several models, as the benchmarks of rankings read them.

Reads ../shared/data/tiers (or $POINTSMAN_SHARED/data/tiers).
"""

import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tiers_quality import Row, rows

from pointsman.encoders import StaticEncoder
from pointsman.encoders.learned_routers import table_hash
from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.kinds import fit_kinds
from pointsman.learning.rankers import persons_text
from pointsman.tiers.kinds import Kinds

#: Gain from which a pair of models is measured, and prompts that both must have answered.
GAIN, BOTH = 0.05, 100

#: The two subjects of MMLU that made most of earlier gains: one template, and wrongly marked answers.
ODD = {"moral_scenarios", "high_school_mathematics"}

Floats = NDArray[np.float64]


class Pair(NamedTuple):
    """Two models on the prompts that both answered."""

    models: tuple[str, str]
    places: list[int]
    weak: Floats
    strong: Floats


class Task(NamedTuple):
    """The prompts of one task of one source."""

    source: str
    name: str
    texts: list[str]  # the person's words
    prompts: list[PromptOutcome]
    failed: list[float]  # share of models; empty where kinds are not made from it
    pairs: list[Pair]
    outcomes: list[dict[str, Any]]  # by model

    def outcomes_of(self, models: tuple[str, str]) -> tuple[Floats, Floats] | None:
        """The outcomes of two models; None unless they know every prompt."""
        if not all(model in each for each in self.outcomes for model in models):
            return None
        weak, strong = (np.array([float(each[model]) for each in self.outcomes]) for model in models)
        return weak, strong


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


def pairs_of(outcomes: Sequence[dict[str, Any]]) -> Iterator[Pair]:
    """Pairs of models, of one scaffold where their names have one, of which the second gains."""
    models = sorted({model for each in outcomes for model in each})
    for weak, strong in permutations(models, 2):
        if "/" in weak and weak.split("/")[0] != strong.split("/")[0]:
            continue
        places = [at for at, each in enumerate(outcomes) if weak in each and strong in each]
        low, high = (np.array([float(outcomes[at][model]) for at in places]) for model in (weak, strong))
        if len(places) >= BOTH and high.mean() - low.mean() >= GAIN:
            yield Pair((weak, strong), places, low, high)


def task(source: str, name: str, own: list[Row], outcomes: list[dict[str, Any]], *, learn: bool) -> Task:
    prompts = [PromptOutcome(row["prompt"], 0.0, 0.0, str(row.get("category") or "")) for row in own]
    failed = [1 - statistics.fmean(map(float, each.values())) for each in outcomes] if learn else []
    texts = [persons_text(row["prompt"]) for row in own]
    return Task(source, name, texts, prompts, failed, list(pairs_of(outcomes)), outcomes)


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


def kinds_without(every: list[Task], left_out: Callable[[Task], bool], encoder: Any, **options: Any) -> Kinds:
    """Make kinds from all tasks but some, and without copies of their prompts; ``options``: of ``fit_kinds``.

    Sources copy from each other: of the 663 prompts of GSM8K in ``strong_weak``, 527 are in ``difficulty``.
    """
    tested = {normalised(text) for each in every if left_out(each) for text in each.texts}
    used = [
        (text, value)
        for each in every
        if each.failed and not left_out(each)
        for text, value in zip(each.texts, each.failed, strict=True)
        if normalised(text) not in tested
    ]
    texts, failed = [text for text, _ in used], [value for _, value in used]
    return Kinds(fit_kinds(texts, failed, encoder, table=encoder.table, **options), encoder, encoder.table)


def normalised(text: str) -> str:
    """The words of a text in lower case: copies differ in spaces, quotes and signs."""
    return " ".join(re.findall(r"\w+", text.casefold()))
