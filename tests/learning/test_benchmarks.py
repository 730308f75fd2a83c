"""What the benchmarks print is the same in every run, and counts no run twice."""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.benchmarks import benchmark


class Name(str):
    """A name whose hash is chosen, as PYTHONHASHSEED would choose it."""

    __slots__ = ()
    salt = 0

    def __hash__(self) -> int:
        return (ord(self[0]) * Name.salt) % 61


def test_the_order_of_arrival_does_not_depend_on_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    projects: Any = benchmark("projects")

    class Pair(SimpleNamespace):
        def __len__(self) -> int:
            return 60

    names = np.array([Name("abcde"[n % 5]) for n in range(60)], object)
    pair = Pair(project=names, number=np.arange(60))
    found = []
    for salt in (1, 7, 40):
        monkeypatch.setattr(Name, "salt", salt)
        found.append(projects.order(pair, "swebench_verified", np.random.default_rng(0)).tolist())
    assert found[0] == found[1] == found[2]


def test_a_run_in_two_files_counts_once(tmp_path: Path) -> None:
    escalation: Any = benchmark("escalation")
    rows = [{"id": f"r{n}", "source": "s", "model": "m", "success": True, "steps": []} for n in range(3)]
    for name, kept in (("one", rows), ("two", rows[:2]), ("three", [{**rows[0], "source": "other"}])):
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in kept)
    files = [tmp_path / f"{name}.jsonl.gz" for name in ("one", "two", "three")]
    assert [run.source for run in escalation.read(files)] == ["s", "s", "s", "other"]


def test_kinds_are_made_without_copies_of_what_they_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome_tasks: Any = benchmark("outcome_tasks")
    used: list[tuple[str, float]] = []

    def fit_double(texts: list[str], failed: list[float], *_: object, **__: object) -> None:
        used.extend(zip(texts, failed, strict=True))

    monkeypatch.setattr(outcome_tasks, "fit_kinds", fit_double)
    monkeypatch.setattr(outcome_tasks, "Kinds", lambda *_: None)

    def a_task(source: str, *prompts: str) -> Any:
        outcomes = [{"m": number % 2} for number in range(len(prompts))]
        return outcome_tasks.task(source, "gsm", [{"prompt": each} for each in prompts], outcomes, learn=True)

    every = [
        a_task("ranked", "How many eggs are left?", "How far is it?"),
        a_task("other", "How  many eggs are left ?", "how many eggs are left", "How many eggs are there?"),
    ]
    encoder = SimpleNamespace(table="")
    outcome_tasks.kinds_without(every, lambda one: one.source == "ranked", encoder)
    assert used == [("How many eggs are there?", 1.0)]
