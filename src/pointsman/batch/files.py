"""Parquet files in and out: which are read, in which parts, and how a part is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from glob import escape, glob
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pointsman.errors import ConfigError, PointsmanError

__all__ = [
    "ROWS",
    "ParquetInput",
    "Part",
    "read_part",
    "rows_of",
    "sources",
    "write_bytes",
    "write_part",
    "write_rows",
]

#: Rows that are read and decided at once, so that a part of any length takes the same memory.
ROWS: Final = 4_096
#: Rows of a row group that is written. The bytes of a part depend on it.
_WRITTEN: Final = 65_536
_SUFFIX: Final = ".parquet"


class Part(NamedTuple):
    """One row group of the input, and the file of the output that its rows go to."""

    name: str
    file: str
    row_group: int
    rows: int


class ParquetInput(NamedTuple):
    """One file that is read."""

    file: str
    size: int  # bytes
    rows: int
    schema: pa.Schema
    row_groups: tuple[int, ...]  # rows of each
    uncompressed: int  # bytes of all columns

    def parts(self, number: int) -> Iterator[Part]:
        """Yield its row groups; ``number`` is its place among the files."""
        for group, rows in enumerate(self.row_groups):
            yield Part(f"part-{number:05d}-{group:05d}{_SUFFIX}", self.file, group, rows)


def sources(pattern: str) -> list[ParquetInput]:
    """Return the Parquet files that a pattern names, by name: ``x/**/*.parquet``, a file, or a folder.

    Raises:
        ConfigError: there is none, or one is not a Parquet file.
    """
    named = escape(pattern) if Path(pattern).exists() else pattern
    wanted = str(Path(named) / f"*{_SUFFIX}") if Path(pattern).is_dir() else named
    found = sorted(glob(wanted, recursive=True))  # noqa: PTH207 - a pattern may be absolute
    files = [each for each in found if Path(each).is_file()]
    if not files:
        raise ConfigError(f'no file matches "{pattern}"', hint="quote the pattern: --in 'x/*.parquet'")
    return [_source(file) for file in files]


def _source(file: str) -> ParquetInput:
    try:
        with pq.ParquetFile(file) as opened:
            metadata, schema = opened.metadata, opened.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"not a Parquet file: {error}", place=file) from None
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return ParquetInput(
        file,
        Path(file).stat().st_size,
        metadata.num_rows,
        schema.remove_metadata(),
        tuple(group.num_rows for group in groups),
        sum(group.total_byte_size for group in groups),
    )


def read_part(part: Part, choose: Callable[[pa.Schema, str], list[str]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a row group in batches of ``ROWS``, with the columns that ``choose`` returns.

    Raises:
        PointsmanError: the file cannot be read.
    """
    try:
        with pq.ParquetFile(part.file) as opened:
            columns = choose(opened.schema_arrow, part.file)
            yield from opened.iter_batches(
                ROWS, row_groups=[part.row_group], columns=columns, use_threads=False
            )
    except (pa.ArrowException, OSError) as error:
        raise PointsmanError(f"{part.file}: row group {part.row_group} cannot be read: {error}") from None


def write_part(
    path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, row_group: int = _WRITTEN
) -> None:
    """Write a part under another name, and rename it when it is whole and on disk.

    Raises:
        PointsmanError: it cannot be written.
    """
    with _draft(path) as draft:
        write_rows(draft, schema, batches, row_group=row_group)


def write_bytes(path: Path, data: bytes) -> None:
    """Write what ``write_rows`` has written elsewhere, as ``write_part`` does.

    Raises:
        PointsmanError: it cannot be written.
    """
    with _draft(path) as draft:
        draft.write_bytes(data)


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(path)
    except OSError as error:
        raise PointsmanError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)


def write_rows(
    sink: Any, schema: pa.Schema, batches: Iterable[pa.RecordBatch], *, row_group: int = _WRITTEN
) -> None:
    """Write rows as Parquet. The bytes depend on the rows alone, not on how they are divided into batches."""
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for table in _groups(batches, schema, row_group):
            writer.write_table(table, row_group_size=row_group)


def _groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema, size: int) -> Iterator[pa.Table]:
    """The same rows in tables of ``size`` rows, each column in one piece."""
    kept: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        rest = batch
        while count + rest.num_rows >= size:
            kept.append(rest.slice(0, size - count))
            yield pa.Table.from_batches(kept, schema).combine_chunks()
            rest, kept, count = rest.slice(kept[-1].num_rows), [], 0
        if rest.num_rows:
            kept.append(rest)
            count += rest.num_rows
    if kept:
        yield pa.Table.from_batches(kept, schema).combine_chunks()


def rows_of(path: Path) -> int | None:
    """Return how many rows a part has; None if it is missing or partial."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError):
        return None
