"""The evaluation sets as registries and queries. Splits are by query, by a hash, so that they never move."""

import gzip
import json
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from pointsman.capabilities import Capability, CapabilityRegistry, ClassifierExample, TaskClassifierGuide

SHARED = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[3] / "shared"))
DATA = SHARED / "data" / "capabilities"

Query = tuple[str, frozenset[str]]  # a task and the capabilities it needs


@dataclass
class Dataset:
    """Guides to learn from and queries to be judged on."""

    name: str
    instructions: dict[str, str]
    examples: dict[str, list[str]]
    queries: list[Query]
    far: list[str]  # tasks from another world: nothing serves them
    far_tuning: list[str]  # the same, for choosing thresholds

    def registry(self, examples: int, without: frozenset[str] = frozenset()) -> CapabilityRegistry:
        """Capabilities with the first ``examples`` examples each."""
        return CapabilityRegistry(
            Capability(
                name,
                TaskClassifierGuide(
                    text, [ClassifierExample(each, result=True) for each in self.examples[name][:examples]]
                ),
            )
            for name, text in self.instructions.items()
            if name not in without
        )


def lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def fold(text: str, parts: int) -> int:
    return crc32(text.encode()) % parts


def held_aside(text: str) -> bool:
    """A third of the queries, looked at only to report: no constant was chosen on them."""
    return fold(f"aside {text}", 3) == 0


def clinc150() -> Dataset:
    rows = lines("clinc150")
    examples = defaultdict(list)
    for row in rows:
        if row["split"] == "train":
            examples[row["label"]].append(row["text"])
    return Dataset(
        "CLINC150 val",
        {label: label.replace("_", " ") for label in sorted(examples)},
        examples,
        [(row["text"], frozenset([row["label"]])) for row in rows if row["split"] == "val"],
        [row["text"] for row in rows if row["split"] == "oos_val"],
        [row["text"] for row in rows if row["split"] == "oos_train"],
    )


def banking77() -> Dataset:
    rows = lines("banking77_train")
    examples = defaultdict(list)
    for row in rows:
        if fold(row["text"], 5):
            examples[row["label"]].append(row["text"])
    queries = [(row["text"], frozenset([row["label"]])) for row in rows if not fold(row["text"], 5)]
    return Dataset(
        "BANKING77 1/5",
        {label: label.replace("_", " ") for label in sorted(examples)},
        examples,
        queries,
        [],
        [],
    )


def metatool(only: frozenset[str] = frozenset()) -> Dataset:
    descriptions = json.loads((DATA / "metatool_tools.json").read_text(encoding="utf-8"))
    rows = [row for row in lines("metatool") if not only or row["tool"] in only]
    examples = defaultdict(list)
    for row in rows:
        if fold(row["query"], 5):
            examples[row["tool"]].append(row["query"])
    queries = [(row["query"], frozenset([row["tool"]])) for row in rows if not fold(row["query"], 5)]
    tools = {name: text for name, text in descriptions.items() if not only or name in only}
    return Dataset("MetaTool 1/5", tools, examples, queries, [], [])


def two_tools() -> list[Query]:
    return [(row["query"], frozenset(row["tool"])) for row in lines("metatool_two_tools")]
