"""Measured figures are floors: a change that falls below them is a regression."""

import gzip
import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

from pointsman.capabilities import (
    Capability,
    CapabilityRegistry,
    ClassifierExample,
    LocalScorer,
    TaskClassifierGuide,
)
from pointsman.encoders import load_encoder

SHARED = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[3] / "shared"))
FILE = SHARED / "data" / "capabilities" / "clinc150.jsonl.gz"


@pytest.mark.data
@pytest.mark.skipif(not FILE.exists(), reason="needs ../shared/data or POINTSMAN_SHARED")
@pytest.mark.parametrize(("encoder", "floor"), [("none", 0.72), ("static", 0.785)])
def test_ten_examples_of_each_of_150_intents(encoder: str, floor: float) -> None:
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    examples: defaultdict[str, list[ClassifierExample]] = defaultdict(list)
    for row in rows:
        if row["split"] == "train" and len(examples[row["label"]]) < 10:
            examples[row["label"]].append(ClassifierExample(row["text"], result=True))
    scorer = LocalScorer(
        CapabilityRegistry(
            Capability(label, TaskClassifierGuide(label.replace("_", " "), guide))
            for label, guide in sorted(examples.items())
        ),
        load_encoder(encoder),
    )
    unseen = [row for row in rows if row["split"] == "val"][::6]
    right = 0
    for row in unseen:
        probabilities = scorer.probabilities(row["text"])
        right += max(probabilities, key=probabilities.__getitem__) == row["label"]
    assert right / len(unseen) > floor
