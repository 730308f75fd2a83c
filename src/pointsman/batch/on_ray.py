"""The Ray engine: Ray Data reads and decides; this process writes the same parts as the local engine.

Ray divides rows into blocks as its memory suits. In order, the number of rows of each row group
gives the part of a row; the path in each row proves it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pointsman.batch.files import ROWS, Part, write_bytes, write_part, write_rows
from pointsman.batch.replay import RECORD, BatchReplayer, part_of
from pointsman.batch.work import RowJob, SessionPart, Work
from pointsman.errors import MissingExtra, PointsmanError

__all__ = ["rows_on_ray", "sessions_on_ray"]

_PATH: Final = "path"  # Ray's own name of the column
_PART: Final = "part"
_ROWS: Final = "rows"
_FILE: Final = "file"
#: Partitions that Ray shuffles records into at most; its own default.
_PARTITIONS: Final = 200
#: Bytes of Ray's object store on one machine; a block waits there until it is written.
_OBJECT_STORE: Final = 256 * 2**20


@contextmanager
def _ray_data(workers: int) -> Iterator[Any]:
    """Return ``ray.data``, connected: to this program's Ray, to ``RAY_ADDRESS``, or to a new local Ray.

    A local Ray listens on the loopback address alone, sends no usage statistics, and ends here.

    Raises:
        MissingExtra: Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.data
    except ModuleNotFoundError as error:
        raise MissingExtra("ray", needed_for="--engine ray") from error
    ours = not ray.is_initialized()
    if ours:
        here: dict[str, Any] = {
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE,
            "_node_ip_address": "127.0.0.1",
        }
        elsewhere = os.environ.get("RAY_ADDRESS")
        ray.init(log_to_driver=False, logging_level=logging.ERROR, **({} if elsewhere else here))
        logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    before = context.execution_options.preserve_order, context.enable_progress_bars
    context.execution_options.preserve_order, context.enable_progress_bars = True, False
    try:
        yield ray.data
    finally:
        context.execution_options.preserve_order, context.enable_progress_bars = before
        if ours:
            ray.shutdown()


@dataclass(frozen=True)
class _WithPath:
    """A job that includes the path of each row."""

    job: RowJob

    def __call__(self, table: pa.Table) -> pa.Table:
        done = [
            self.job(batch).append_column(_PATH, batch.column(_PATH))
            for batch in table.to_batches()
            if batch.num_rows
        ]
        return pa.Table.from_batches(done) if done else table.slice(0, 0)


def rows_on_ray(job: RowJob, schema: pa.Schema, parts: Sequence[Part], work: Work) -> Iterator[int]:
    """Write the parts of these files that are not finished, and yield rows as they are written.

    Args:
        job: The job.
        schema: The columns of the result.
        parts: All row groups of the files, in their order; parts with a file are left unchanged.
        work: Where and how.
    """
    files = list(dict.fromkeys(part.file for part in parts))
    if not files:
        return
    columns = job.columns(pq.read_schema(files[0]), files[0])
    with _ray_data(work.workers) as data:
        read = data.read_parquet(list(map(_whole, files)), columns=columns, include_paths=True)
        decided = read.map_batches(_WithPath(job), batch_format="pyarrow", batch_size=ROWS)
        rows = _Rows(iter(decided.iter_batches(batch_format="pyarrow", batch_size=None)), schema)
        for part in parts:
            done = rows.of(part)
            if (work.out / part.name).exists():
                for _ in done:
                    pass
                continue
            write_part(work.out / part.name, schema, done)
            yield part.rows
        rows.end()


def _whole(file: str) -> str:
    return str(Path(file).resolve())


class _Rows:
    """What Ray returns, block after block, cut where row groups end."""

    def __init__(self, blocks: Iterator[pa.Table], schema: pa.Schema) -> None:
        self._blocks = blocks
        self._schema = schema
        self._rest: pa.Table | None = None

    def of(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the next row group."""
        missing, file = part.rows, _whole(part.file)
        while missing:
            if self._rest is None or not self._rest.num_rows:
                self._rest = self._next(part)
            taken = self._rest.slice(0, missing)
            self._rest = self._rest.slice(taken.num_rows)
            missing -= taken.num_rows
            if taken[_PATH].unique().to_pylist() != [file]:
                raise PointsmanError(f"Ray returned rows of another file than {file}")
            yield from taken.select(self._schema.names).cast(self._schema).to_batches()

    def end(self) -> None:
        """Check that there is nothing more; Ray's own threads end with its last block."""
        if (self._rest is not None and self._rest.num_rows) or next(self._blocks, None) is not None:
            raise PointsmanError("Ray returned more rows than the files hold")

    def _next(self, part: Part) -> pa.Table:
        block = next(self._blocks, None)
        if block is None:
            raise PointsmanError(f"Ray returned fewer rows than {part.file} holds")
        return block


@dataclass(frozen=True)
class _WithPart:
    """Adds to each record its part, and leaves out those of parts that are finished."""

    parts: int
    waiting: frozenset[int]

    def __call__(self, table: pa.Table) -> pa.Table:
        records = table[RECORD].cast(pa.large_binary())
        parts = [part_of(record or b"", self.parts) for record in records.to_pylist()]
        wanted = pa.array([part in self.waiting for part in parts], pa.bool_())
        return pa.table({RECORD: records, _PART: pa.array(parts, pa.int32())}).filter(wanted)


@dataclass(frozen=True)
class _PartFile:
    """Replays a part, and returns the bytes of its file."""

    job: BatchReplayer

    def of(self, table: pa.Table) -> pa.Table:
        done, sink = self.job(table[RECORD]), pa.BufferOutputStream()
        write_rows(sink, self.job.schema, done.to_batches())
        data = pa.array([sink.getvalue().to_pybytes()], pa.large_binary())
        return pa.table({_PART: table[_PART][:1], _ROWS: [done.num_rows], _FILE: data})


def sessions_on_ray(
    job: BatchReplayer, files: Sequence[str], waiting: Iterable[SessionPart], count: int, work: Work
) -> Iterator[int]:
    """Write the parts that wait, and yield rows as they are written.

    Ray groups records by part instead of by session: a part has all records of its sessions, and there are
    some thousand parts for millions of sessions.

    Args:
        job: The job.
        files: The input files.
        waiting: The parts that are not finished.
        count: Parts in all.
        work: Where and how.
    """
    left = {part.number: work.out / part.name for part in waiting}
    with _ray_data(work.workers) as data:
        read = data.read_parquet(list(map(_whole, files)), columns=[RECORD])
        dealt = read.map_batches(_WithPart(count, frozenset(left)), batch_format="pyarrow", batch_size=ROWS)
        done = dealt.groupby(_PART, num_partitions=min(count, _PARTITIONS)).map_groups(
            _PartFile(job).of, batch_format="pyarrow"
        )
        for block in done.iter_batches(batch_format="pyarrow", batch_size=None):
            for row in block.to_pylist():
                write_bytes(left.pop(row[_PART]), row[_FILE])
                yield row[_ROWS]
    for path in left.values():  # parts that no session belongs to
        write_part(path, job.schema, ())
