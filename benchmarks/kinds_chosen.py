"""What kinds of prompts add to length and to ``default``: table, number of kinds and weight by cross-fit.

    .venv/bin/python benchmarks/kinds_chosen.py --bbh FOLDER [--json FILE]

Reads ../shared/data (or $POINTSMAN_SHARED/data) and FOLDER, a checkout of suzgunmirac/BIG-Bench-Hard (MIT);
needs the extras ``static``, ``sentence`` and ``fit``. Prints the APGR minus that of length, for requests that
offer no tools.

Sources: ``strong_weak``, ``nine_models``, ``difficulty`` with the answers of ``answers/zeroeval``, and BBH,
one model that answers at once or after reasoning. Rows: each task of the first three alone, and for each
source the mixture of its tasks. Kinds are made without the source of the row, without its task in another
source, and without copies of its prompts. BBH is never learned from: its authors ask that its texts stay out
of training data.

The choice for a source is made on the rows of the other three: of what loses at most .01 on each of them, the
highest mean of mixtures plus mean of single tasks. Weight 0, without kinds, is among the choices. Tables: the
static encoder, and small tables of whole words: vectors of the sentence encoder (Apache-2.0), by principal
components, weighted by the logarithm of the rank of the word, in whole numbers of a byte.
"""

import argparse
import gzip
import json
import re
import statistics
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bootstrap import bootstrap
from left_out import SAME, same_task
from outcome_tasks import Floats, Pair, Remembering, Task, kinds_without, pairs_of, task, tasks
from sklearn.decomposition import PCA
from tiers_quality import DATA

from pointsman.encoders import SentenceEncoder
from pointsman.factory import read_profile
from pointsman.learning.metrics import gap_curve
from pointsman.learning.rankers import by_length, by_rules

COUNTS, WEIGHTS, DIMENSIONS = (64, 256), (1, 2, 3, 4, 6, 8), (16, 32, 64)

#: Pairs of models of a row, and what a row may lose to be chosen on it.
PAIRS, LOSS = 8, -0.01

WORDS = re.compile(r"[a-z]+|[0-9]|[^\sa-z0-9]")
WORDS_READ, CHARACTERS_READ = 256, 2_000

#: Added to the rank of a word before its logarithm, and what that is counted from.
RANK, FROM = 51, 40

Choice = tuple[str, int, int]  # table, kinds, weight
Place = tuple[str, str]  # source, task or "(mixture)"
Gains = dict[Choice, dict[Place, float]]


class WordTable:
    """A static encoder of whole words in few dimensions."""

    def __init__(self, words: Sequence[str], vectors: Floats, dimensions: int) -> None:
        parts = PCA(dimensions, random_state=0).fit_transform(vectors)
        parts *= (np.log(RANK + np.arange(len(words))) - np.log(FROM))[:, None]
        whole = np.rint(parts / np.quantile(np.abs(parts), 0.9995) * 127).clip(-127, 127)
        self._rows = dict(zip(words, whole, strict=True))
        self._nothing = np.zeros(dimensions)
        self._sum = lru_cache(maxsize=None)(self._added)  # kinds are made again for each source
        self.name = f"words-{dimensions}"
        self.table = ""

    def encode(self, texts: Sequence[str], /) -> Floats:
        sums = np.stack([self._sum(text) for text in texts])
        return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9))

    def _added(self, text: str) -> Floats:
        found = WORDS.findall(text[:CHARACTERS_READ].lower())[:WORDS_READ]
        rows = [self._rows[word] for word in found if word in self._rows]
        return np.asarray(np.sum(rows, axis=0)) if rows else self._nothing


def word_tables() -> Iterator[WordTable]:
    encoder = SentenceEncoder()
    vocabulary = encoder._tokenizer.get_vocab()  # in the order of frequency
    every = sorted(vocabulary, key=lambda word: vocabulary[word])
    words = [word for word in every if word.isascii() and WORDS.fullmatch(word)]
    vectors = np.asarray(encoder.encode(words), dtype=np.float64)
    for dimensions in DIMENSIONS:
        yield WordTable(words, vectors, dimensions)


class Row(NamedTuple):
    """Tasks that are ranked together."""

    place: Place
    tasks: list[Task]
    pairs: list[Pair]


def with_answers(one: Task) -> Task:
    """A task of ``difficulty`` with the outcomes of single models on those of its prompts that have any."""
    with gzip.open(DATA / "difficulty.jsonl.gz", "rt") as lines:
        ids = [row["id"].split("/")[-1] for row in map(json.loads, lines) if row["task"] == one.name]
    with gzip.open(DATA.parent / "answers" / "zeroeval.jsonl.gz", "rt") as lines:
        own = {str(row["id"]): row["answers"] for row in map(json.loads, lines) if row["set"] == one.name}
    outcomes = [{model: each["correct"] for model, each in own.get(id_, {}).items()} for id_ in ids]
    return one._replace(outcomes=outcomes, pairs=list(pairs_of(outcomes)))


def big_bench_hard(folder: Path) -> list[Task]:
    """The tasks of BBH: ``direct`` answers at once, ``cot`` after reasoning. A copy counts once."""
    outputs, end = folder / "code-davinci-002-outputs", "_few_shot_template_0-255000.json"
    found = []
    for file in sorted((outputs / "code-davinci-002-direct").glob(f"*{end}")):
        modes = [_right(outputs / f"code-davinci-002-{mode}" / file.name) for mode in ("direct", "cot")]
        both = [prompt for prompt in modes[0] if prompt in modes[1]]
        outcomes = [{"direct": modes[0][prompt], "cot": modes[1][prompt]} for prompt in both]
        name = file.name.removesuffix(end)
        found.append(task("bbh", name, [{"prompt": prompt} for prompt in both], outcomes, learn=False))
    return found


def _right(file: Path) -> dict[str, float]:
    """By question, whether it was answered; the shares are those of the file's own ``eval_metrics``."""
    found: dict[str, float] = {}
    for each in json.loads(file.read_text())["outputs"]:
        question = each["input"].split("\nQ: ")[-1].split("\nA:")[0]
        answer = re.split("[Tt]he answer is", each["prediction"])[-1].strip().split("\n")[0]
        found[question] = float(_bare(answer) == _bare(each["target"]))
    return found


def _bare(answer: str) -> str:
    return answer.strip().rstrip(".").strip().lower()


def rows_of(every: list[Task]) -> list[Row]:
    found = []
    for source in dict.fromkeys(each.source for each in every):
        own = [each for each in every if each.source == source]
        mixed = list(pairs_of([outcome for each in own for outcome in each.outcomes]))
        found.append(Row((source, "(mixture)"), own, mixed))
        if source != "bbh":
            found += [Row((source, each.name), [each], each.pairs) for each in own if each.pairs]
    return found


def gains_of(
    every: list[Task], rows: list[Row], encoders: Sequence[Remembering | WordTable]
) -> dict[str, Gains]:
    """APGR minus that of length, by what kinds are added to."""
    slope = read_profile("default").per_log_length
    length = [np.log(np.maximum(by_length(each.prompts), 1.0)) for each in every]
    base = {"length": length, "default": [by_rules(each.prompts, "default") / slope for each in every]}
    plain = {row.place: apgr(row, every, length) for row in rows}

    def gains(scores: list[Floats]) -> dict[Place, float]:
        return {row.place: apgr(row, every, scores) - plain[row.place] for row in rows}

    found: dict[str, Gains] = {name: {("none", 0, 0): gains(scores)} for name, scores in base.items()}
    for encoder in encoders:
        for count in COUNTS:
            shifts = [shifts_of(each, every, encoder, count) for each in every]
            for weight in WEIGHTS:
                for name, scores in base.items():
                    added = [score + weight * shift for score, shift in zip(scores, shifts, strict=True)]
                    found[name][encoder.name, count, weight] = gains(added)
            print(f"{encoder.name}, {count} kinds: done", flush=True)
    return found


def shifts_of(one: Task, every: list[Task], encoder: Any, count: int) -> Floats:
    """Shifts of weight 1 for a task, from kinds that know neither it nor its source."""
    name = SAME.get(one.name, one.name)

    def left_out(other: Task) -> bool:
        return other.source == one.source or same_task(one.name, other.name)

    key = (one.source, name if any(left_out(each) and each.source != one.source for each in every) else "")
    if (encoder.name, count) not in _MADE:
        _MADE.clear()
    made = _MADE.setdefault((encoder.name, count), {})
    if key not in made:
        made[key] = kinds_without(every, left_out, encoder, count=count, weight=1.0)
    return np.array([made[key].shift(text) for text in one.texts])


_MADE: dict[tuple[str, int], dict[tuple[str, str], Any]] = {}


def apgr(row: Row, every: list[Task], scores: list[Floats]) -> float:
    """Mean over at most ``PAIRS`` of the pairs of models."""
    own = [score for each, score in zip(every, scores, strict=True) if any(each is one for one in row.tasks)]
    score = np.concatenate(own)
    pairs = row.pairs[:: max(-(-len(row.pairs) // PAIRS), 1)]
    return statistics.fmean(gap_curve(score[each.places], each.weak, each.strong).apgr for each in pairs)


def chosen(gains: Gains, left: str) -> Choice:
    def worth(choice: Choice) -> tuple[bool, float]:
        others = {place: gain for place, gain in gains[choice].items() if place[0] != left}
        mixed = [gain for (_, name), gain in others.items() if name == "(mixture)"]
        single = [gain for (_, name), gain in others.items() if name != "(mixture)"]
        worst = min(others.values())
        return worst >= LOSS, statistics.fmean(mixed) + statistics.fmean(single) if worst >= LOSS else worst

    return max(gains, key=worth)


def told(name: str, gains: Gains) -> None:
    """Print each source with the choice that was made without it, and the mean with sources drawn."""
    print(f"\nkinds + {name}, minus length")
    by_source, worst = [], (1.0, ("", ""))
    for source in dict.fromkeys(source for source, _ in next(iter(gains.values()))):
        choice = chosen(gains, source)
        own = {place: gain for place, gain in gains[choice].items() if place[0] == source}
        by_source.append(statistics.fmean(own.values()))
        worst = min(worst, *((gain, place) for place, gain in own.items()))
        each = ", ".join(f"{task} {gain:+.3f}" for (_, task), gain in own.items())
        print(f"  {source}: table {choice[0]}, {choice[1]} kinds, weight {choice[2]}: {each}")
    values = np.array(by_source)
    mean = bootstrap(lambda at: float(values[at].mean()), len(values))
    print(
        f"  mean of {len(values)} sources, drawn: {mean.value:+.3f} [{mean.low:+.3f}, {mean.high:+.3f}]; "
        f"worst row {worst[0]:+.3f} ({' '.join(worst[1])})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bbh", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    learned = [each for each in tasks() if each.source != "agent_tasks"]
    every = [with_answers(each) if each.source == "difficulty" else each for each in learned]
    every += big_bench_hard(asked.bbh)
    found = gains_of(every, rows_of(every), [Remembering(), *word_tables()])
    for name, gains in found.items():
        told(name, gains)
    if asked.json:
        flat = [
            [name, *choice, *place, round(gain, 4)]
            for name, gains in found.items()
            for choice, rows in gains.items()
            for place, gain in rows.items()
        ]
        asked.json.write_text(json.dumps(flat) + "\n")


if __name__ == "__main__":
    main()
