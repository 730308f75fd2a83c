"""Scores of every ranker for each prompt of Parquet files: what ``pointsman eval tiers`` measures."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pointsman.batch.columns import NUMBER, TEXT, find
from pointsman.batch.row_jobs import Finished
from pointsman.encoders.learned_routers import load_kinds, load_scorer, open_kinds
from pointsman.errors import PointsmanError
from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.rankers import (
    DIGEST,
    ERRORS,
    LEARNED,
    RULES,
    STATED,
    first_alike,
    persons_text,
    prompt_digest,
    scores_of,
)
from pointsman.learning.tiers import ScoredPrompts, scored
from pointsman.tiers.kinds import Kinds
from pointsman.tiers.learned_router import LearnedScorer

__all__ = ["BASE", "BatchRanker", "scored_in"]

_PROMPT: Final = "prompt"
_GROUPS: Final = ("domain", "task")
_BENCH: Final = "bench"

#: Columns of the output before those of the rankers (docs/reference/batch.md).
BASE: Final = pa.schema(
    [
        ("weak", pa.float64()),
        ("strong", pa.float64()),
        ("group", pa.string()),
        ("bench", pa.string()),
        ("alike", pa.binary(DIGEST)),
        ("characters", pa.int64()),
        ("error", pa.string()),
    ]
)


class BatchRanker:
    """Scores prompts by length, both rule profiles, kinds and a learned router. Picklable."""

    name: Final = "eval tiers"

    def __init__(
        self, *, weak: str = "", strong: str = "", kinds: str = "off", learned_router: Path | None = None
    ) -> None:
        """Take the columns of the two models' scores, and the ranker compared with the rules.

        Args:
            weak: Column of the weak model's scores; by default ``weak``.
            strong: Column of the strong model's; by default ``strong``.
            kinds: ``default``, ``off`` or a file; left out where the extra ``static`` is not installed.
            learned_router: Its file.
        """
        self.weak, self.strong = weak or "weak", strong or "strong"
        self.learned_router = learned_router
        self.kinds = kinds if open_kinds(load_kinds(kinds)) else "off"
        self.rankers: tuple[str, ...] = ("length", *RULES)
        if self.kinds != "off":
            self.rankers += ("kinds", "kinds + default")
        if learned_router:
            self.rankers += (LEARNED, *STATED, *ERRORS)

    def describe(self) -> dict[str, object]:
        """Inputs of the output other than the rows."""
        file = load_kinds(self.kinds)
        router = self.learned_router
        return {
            "columns": [self.weak, self.strong],
            "kinds": file.digest if file else None,
            "learned_router": hashlib.sha256(router.read_bytes()).hexdigest() if router else None,
        }

    def columns(self, schema: pa.Schema, file: str = "") -> list[str]:
        """Return the columns that are read.

        Raises:
            ConfigError: one is missing or of another type; names file, column and expected.
        """
        needed = [find(schema, _PROMPT, TEXT, file)]
        needed += [find(schema, name, NUMBER, file) for name in (self.weak, self.strong)]
        return needed + [
            find(schema, name, TEXT, file) for name in (*_GROUPS, _BENCH) if name in schema.names
        ]

    def schema(self, _: pa.Schema) -> pa.Schema:
        """Return the columns of the output."""
        return pa.schema([*BASE, *((name, pa.float64()) for name in self.rankers)])

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Score every prompt. A row that cannot be read has ``error`` alone."""
        values = {name: batch.column(name).to_pylist() for name in self.columns(batch.schema)}
        errors = list(map(_wrong, values[_PROMPT], values[self.weak], values[self.strong]))
        places = [place for place, error in enumerate(errors) if error is None]
        rows = [self._outcome(values, place) for place in places]
        scorer = _scorer(self.learned_router) if self.learned_router else None
        scores = scores_of(rows, _kinds(self.kinds), scorer)
        found: list[dict[str, object]] = [{"error": error} for error in errors]
        for at, (place, row) in enumerate(zip(places, rows, strict=True)):
            found[place] = {
                "weak": row.weak,
                "strong": row.strong,
                "group": row.group,
                "bench": row.bench,
                "alike": prompt_digest(row.prompt),
                "characters": len(persons_text(row.prompt)),
                **{name: float(scores[name][at]) for name in self.rankers},
            }
        return pa.RecordBatch.from_pylist(found, self.schema(batch.schema))

    def _outcome(self, values: dict[str, list[Any]], place: int) -> PromptOutcome:
        named = {name: values[name][place] or "" for name in (*_GROUPS, _BENCH) if name in values}
        return PromptOutcome(
            values[_PROMPT][place],
            float(values[self.weak][place]),
            float(values[self.strong][place]),
            next((named[name] for name in _GROUPS if named.get(name)), ""),
            named.get(_BENCH, ""),
        )


def _wrong(prompt: str | None, weak: float | None, strong: float | None) -> str | None:
    if prompt is None:
        return "the prompt is null"
    for score in (weak, strong):
        if score is None:
            return "a score is null"
        if not 0 <= score <= 1:
            return f"a score is outside 0..1: {score:g}"
    return None


@lru_cache(maxsize=2)
def _kinds(name: str) -> Kinds | None:
    return open_kinds(load_kinds(name))


@lru_cache(maxsize=2)
def _scorer(file: Path) -> LearnedScorer:
    return load_scorer(file)


# Results of the parts of ``BatchRanker``, as arrays: some 300 bytes a row.


def scored_in(job: BatchRanker, done: Finished) -> tuple[ScoredPrompts, list[bytes], NDArray[np.int64]]:
    """Return every prompt that could be read with its scores, its digest, and characters of a person's words.

    Raises:
        PointsmanError: none could be read.
    """
    parts = [pq.read_table(done.folder.path / name) for name in done.parts]
    table = pa.concat_tables(parts)
    table = table.filter(table["error"].is_null())
    if not table.num_rows:
        raise PointsmanError("no row could be read", hint='column "error" of the output has the reasons')
    outcomes = _outcomes(table)
    digests: list[bytes] = table["alike"].to_pylist()
    found: dict[str, NDArray[np.float64]] = {name: table[name].to_numpy() for name in job.rankers}
    return scored(outcomes, found, first_alike(digests)), digests, table["characters"].to_numpy()


def _outcomes(table: pa.Table) -> list[PromptOutcome]:
    known: dict[str, str] = {}  # each name once
    columns = [table[name].to_pylist() for name in ("weak", "strong", "group", "bench")]
    return [
        PromptOutcome("", weak, strong, known.setdefault(group, group), known.setdefault(bench, bench))
        for weak, strong, group, bench in zip(*columns, strict=True)
    ]
