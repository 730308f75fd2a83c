"""Parquet files in and out: which are read, in which parts, and how a part is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from glob import escape, glob
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pointsman.errors import ConfigError, PointsmanError
from pointsman.stores.replacing import SHARED, replaced

__all__ = [
    "ROWS",
    "OutputFolder",
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
    try:
        with replaced(path, SHARED) as draft:
            yield draft
            with draft.open("rb") as written:
                os.fsync(written.fileno())
    except OSError as error:
        raise PointsmanError(f"cannot write {path}: {error.strerror or error}") from error


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


# The folder that a run writes to: the run's inputs, finished parts, and its lock.


_RUN: Final = "run.json"
#: Version of the shape of ``run.json``.
_VERSION: Final = 1
_DRAFTS: Final = ".part-*.new"
_ANOTHER: Final = "name another folder with --out, or remove this one"


class OutputFolder:
    """A folder of parts. The same command on the same folder resumes an earlier run.

    ``run.json`` lists the inputs of the parts: command, policy, options, and the files read with their sizes.
    """

    def __init__(self, path: Path, run: Mapping[str, object], inputs: Iterable[ParquetInput]) -> None:
        files = [{"file": each.file, "bytes": each.size, "rows": each.rows} for each in inputs]
        described = {"version": _VERSION, **run, "inputs": files}
        self.path: Final = path
        self._run: Final = msgspec.json.format(msgspec.json.encode(described), indent=1) + b"\n"

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Make the folder this run's, or find that it is, and lock other runs out meanwhile.

        Raises:
            PointsmanError: it holds something else, another run is writing to it, or it cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._claim()
            with (self.path / _RUN).open("rb") as held:
                _lock(held.fileno(), self.path)
                self._remove_drafts()
                try:
                    yield
                finally:
                    self._remove_drafts()
        except OSError as error:
            raise PointsmanError(f"cannot write {self.path}: {error.strerror or error}") from error

    def _claim(self) -> None:
        file = self.path / _RUN
        if file.exists():
            if file.read_bytes() != self._run:
                raise PointsmanError(
                    f"{self.path} holds the parts of another run: policy, options or input differ",
                    hint=_ANOTHER,
                )
            return
        if any(self.path.iterdir()):
            raise PointsmanError(f"{self.path} is not empty, and holds no run", hint=_ANOTHER)
        with replaced(file, SHARED) as draft:
            draft.write_bytes(self._run)

    def _remove_drafts(self) -> None:
        """Remove partial files of an ended run."""
        for draft in self.path.glob(_DRAFTS):
            draft.unlink(missing_ok=True)

    def is_finished(self, name: str, rows: int | None = None) -> bool:
        """Whether a part is there and whole, with as many rows as it must have."""
        found = rows_of(self.path / name)
        return found is not None and rows in (None, found)

    def missing_values(self, names: Iterable[str], column: str) -> int:
        """Return how many rows of the parts have a null in a column, from the statistics of the parts."""
        return sum(_nulls(self.path / name, column) for name in names)


def _nulls(path: Path, column: str) -> int:
    metadata = pq.read_metadata(path)
    place = metadata.schema.names.index(column)
    groups = (metadata.row_group(number).column(place) for number in range(metadata.num_row_groups))
    return sum(group.statistics.null_count for group in groups)


def _lock(descriptor: int, path: Path) -> None:
    """Hold a lock that ends with the process, where the system has such."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PointsmanError(f"another run is writing to {path}", hint="wait until it ends") from None
