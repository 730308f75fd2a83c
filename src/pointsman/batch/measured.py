"""Results of the parts of ``BatchRanker``, as arrays: some 300 bytes a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pointsman.batch.rank import ERRORS, P_STRONG, P_WEAK, BatchRanker
from pointsman.batch.row_jobs import Finished
from pointsman.errors import PointsmanError
from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.rankers import first_alike
from pointsman.learning.tiers import ScoredPrompts

__all__ = ["scored_in"]


def scored_in(job: BatchRanker, done: Finished) -> tuple[ScoredPrompts, NDArray[np.int64]]:
    """Return every prompt that could be read with its scores, and the characters of the person's words.

    Raises:
        PointsmanError: none could be read.
    """
    parts = [pq.read_table(done.folder.path / name) for name in done.parts]
    table = pa.concat_tables(parts)
    table = table.filter(table["error"].is_null())
    if not table.num_rows:
        raise PointsmanError("no row could be read", hint='column "error" of the output has the reasons')
    of_rankers = {name: _floats(table[name]) for name in job.rankers}
    outcomes = _outcomes(table)
    rankings = {
        "random": np.zeros(len(outcomes)),
        **{name: of_rankers[name] for name in ("length", "seed", "default")},
        "oracle": np.array([row.gain for row in outcomes]),
        **{name: found for name, found in of_rankers.items() if name not in {P_WEAK, P_STRONG, *ERRORS}},
    }
    said = {"weak": P_WEAK, "strong": P_STRONG}
    probabilities = {name: of_rankers[column] for name, column in said.items() if column in of_rankers}
    models = zip(said, ERRORS, strict=True)
    errors = {name: of_rankers[column] for name, column in models if column in of_rankers}
    copies = first_alike(table["alike"].to_pylist())
    return ScoredPrompts(outcomes, rankings, copies, probabilities, errors), table["characters"].to_numpy()


def _outcomes(table: pa.Table) -> list[PromptOutcome]:
    known: dict[str, str] = {}  # each name once
    columns = [table[name].to_pylist() for name in ("weak", "strong", "group", "bench")]
    return [
        PromptOutcome("", weak, strong, known.setdefault(group, group), known.setdefault(bench, bench))
        for weak, strong, group, bench in zip(*columns, strict=True)
    ]


def _floats(column: Any) -> NDArray[np.float64]:
    found: NDArray[np.float64] = column.to_numpy()
    return found
