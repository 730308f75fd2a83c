"""Parquet files for tests of batches, and what a run wrote."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TEXTS = (
    "Hello!",
    "What is 2+2?",
    "Fix the bug in the parser and add a test for it.",
    "Prove step by step that the algorithm terminates, then design the distributed architecture.",
    "Translate this sentence into French: good morning",
)


def texts(count: int, start: int = 0) -> list[str]:
    """Different texts of all tiers."""
    return [f"{TEXTS[number % len(TEXTS)]} ({number})" for number in range(start, start + count)]


def write(path: Path, rows_in_group: int = 50, **columns: Any) -> Path:
    """Write a file in row groups of so many rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=rows_in_group)
    return path


def some_files(folder: Path, files: int = 2, rows: int = 120) -> str:
    """Write files of texts with ids; returns the pattern that names them."""
    for number in range(files):
        start = number * rows
        write(folder / f"{number}.parquet", id=list(range(start, start + rows)), text=texts(rows, start))
    return str(folder / "*.parquet")


def written(folder: Path) -> dict[str, bytes]:
    """The bytes of every file of a folder, hidden ones too."""
    return {each.name: each.read_bytes() for each in sorted(folder.iterdir())}


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """All rows of all parts, in order."""
    return [row for part in sorted(folder.glob("*.parquet")) for row in pq.read_table(part).to_pylist()]
