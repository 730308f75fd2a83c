"""Jobs that look at each row by itself, run over the row groups of Parquet files by either engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from pointsman.batch.files import ParquetInput, Part, read_part, sources, write_part
from pointsman.batch.jobs import RowJob
from pointsman.batch.local import run_local
from pointsman.batch.output import OutputFolder
from pointsman.batch.work import BatchEngine, Reports, Work
from pointsman.errors import ConfigError

__all__ = ["Finished", "map_rows"]


class Finished(NamedTuple):
    """A job that is done."""

    folder: OutputFolder
    parts: tuple[str, ...]  # names, in the order of the input
    rows: int
    found: int  # rows of parts that an earlier run had finished


@dataclass(frozen=True)
class _PartTask:
    """Reads a row group, and writes its part."""

    job: RowJob
    schema: pa.Schema
    out: Path

    def __call__(self, part: Part, report: Callable[[int], None]) -> None:
        def done() -> Iterator[pa.RecordBatch]:
            for batch in read_part(part, self.job.columns):
                yield self.job(batch)
                report(batch.num_rows)

        write_part(self.out / part.name, self.schema, done())


def map_rows(job: RowJob, work: Work, started: Reports) -> Finished:
    """Run a job over all rows of Parquet files, each row group into a separate part.

    Parts that an earlier run of the same job has finished are left as they are. Memory does not grow with
    the rows, and both engines write the same bytes.

    Args:
        job: The job.
        work: Where and how.
        started: Shows how far it has come.

    Raises:
        ConfigError: no file is there, or a column is missing or of another type.
        PointsmanError: a file cannot be read or written, or the folder belongs to another run.
        MissingExtra: Ray is asked for, and is not installed.
    """
    inputs = sources(work.pattern)
    schema = _schema(job, inputs)
    folder = OutputFolder(work.out, {"command": job.name, **job.describe()}, inputs)
    parts = [part for number, each in enumerate(inputs) for part in each.parts(number)]
    with folder.opened():
        waiting = [part for part in parts if not folder.is_finished(part.name, part.rows)]
        rows, left = (sum(part.rows for part in each) for each in (parts, waiting))
        task = _PartTask(job, schema, work.out)
        if work.engine is BatchEngine.RAY:
            from pointsman.batch.on_ray import rows_on_ray

            unfinished = {part.file for part in waiting}
            done = rows_on_ray(job, schema, [part for part in parts if part.file in unfinished], work)
        else:
            done = run_local(task, waiting, work.workers)
        with started(left) as report:
            for count in done:
                report(count)
    return Finished(folder, tuple(part.name for part in parts), rows, rows - left)


def _schema(job: RowJob, inputs: list[ParquetInput]) -> pa.Schema:
    """The columns of the result; the same for all files."""
    first, *others = inputs
    columns, expected = job.columns(first.schema, first.file), job.schema(first.schema)
    for each in others:
        found = job.columns(each.schema, each.file)
        if found != columns:
            raise ConfigError(
                f"its columns are {', '.join(found)}; expected are {', '.join(columns)}, as in {first.file}",
                place=each.file,
            )
        if (kept := job.schema(each.schema)) != expected:
            raise ConfigError(f"{_differing(kept, expected)}, as in {first.file}", place=each.file)
    return expected


def _differing(found: pa.Schema, expected: pa.Schema) -> str:
    pairs = zip(found, expected, strict=True)
    here, there = next((here, there) for here, there in pairs if here != there)
    return f'column "{here.name}" is of type {here.type}; expected is {there.type}'
