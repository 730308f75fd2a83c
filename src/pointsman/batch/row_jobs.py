"""Jobs that look at each row by itself, run over the row groups of Parquet files by either engine."""

from __future__ import annotations

import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from pointsman.batch.files import OutputFolder, ParquetInput, Part, read_part, sources, write_part
from pointsman.batch.work import BatchEngine, Reports, RowJob, Work
from pointsman.errors import ConfigError, PointsmanError

__all__ = ["Finished", "RowJob", "available_cores", "map_rows", "run_local"]


class Finished(NamedTuple):
    """A job that is done."""

    folder: OutputFolder
    parts: tuple[str, ...]  # names, in the order of the input
    rows: int
    found: int  # rows of parts that an earlier run had finished


def _write(job: RowJob, schema: pa.Schema, out: Path, part: Part, report: Callable[[int], None]) -> None:
    """Read a row group, and write its part."""

    def done() -> Iterator[pa.RecordBatch]:
        for batch in read_part(part, job.columns):
            yield job(batch)
            report(batch.num_rows)

    write_part(out / part.name, schema, done())


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
        task = partial(_write, job, schema, work.out)
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


# The local engine: processes of this machine, each working on one item at a time.


Item = TypeVar("Item")
#: Works on one item, and reports rows as they are done. Picklable.
Task: TypeAlias = Callable[[Item, Callable[[int], None]], None]

#: Seconds that a worker gets to end by itself.
_PATIENCE: Final = 10.0


def available_cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Done(NamedTuple):
    """An item is done."""


class _Failed(NamedTuple):
    """An item cannot be done."""

    message: str
    hint: str


def run_local(task: Task[Item], items: Iterable[Item], workers: int) -> Iterator[int]:
    """Work on every item in one of several processes, and yield rows as they are done.

    With one worker the work is done in this process. A worker ends when this process does, however that ends.

    Raises:
        PointsmanError: an item cannot be done, or a worker ended; the others are ended.
    """
    waiting = deque(items)
    if workers <= 1 or len(waiting) <= 1:
        for item in waiting:
            done: list[int] = []
            task(item, done.append)
            yield sum(done)
        return
    pool = _Workers(task, min(workers, len(waiting)))
    try:
        yield from pool.run(waiting)
    finally:
        pool.close()


class _Workers:
    """Processes that were started afresh: threads and open connections are not inherited."""

    def __init__(self, task: Task[Any], count: int) -> None:
        context = get_context("spawn")
        self._busy: dict[Connection, tuple[BaseProcess, Any]] = {}
        self._free: list[tuple[Connection, BaseProcess]] = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, task), daemon=True)
            process.start()
            theirs.close()  # so that the death of either side is the end of the pipe
            self._free.append((ours, process))

    def run(self, waiting: deque[Any]) -> Iterator[int]:
        while waiting or self._busy:
            while waiting and self._free:
                self._give(waiting.popleft())
            for connection in wait(list(self._busy)):
                assert isinstance(connection, Connection)  # noqa: S101 - nothing else is waited for
                yield self._take(connection)

    def _give(self, item: Any) -> None:
        connection, process = self._free.pop()
        self._busy[connection] = process, item
        try:
            connection.send(item)
        except OSError:
            raise self._died(connection) from None

    def _take(self, connection: Connection) -> int:
        try:
            said = connection.recv()
        except (EOFError, OSError):
            raise self._died(connection) from None
        if isinstance(said, int):
            return said
        process, _ = self._busy.pop(connection)
        self._free.append((connection, process))
        if isinstance(said, _Failed):
            raise PointsmanError(said.message, hint=said.hint)
        return 0

    def _died(self, connection: Connection) -> PointsmanError:
        process, item = self._busy[connection]
        process.join(_PATIENCE)
        return PointsmanError(
            f"a worker process ended (exit code {process.exitcode}) at {_shown(item)}",
            hint="the same command goes on from there; fewer --workers take less memory",
        )

    def close(self) -> None:
        """End all workers."""
        all_ = [*self._free, *((connection, process) for connection, (process, _) in self._busy.items())]
        for connection, process in all_:
            connection.close()
            process.terminate()
        for _, process in all_:
            process.join(_PATIENCE)


def _work(connection: Connection, task: Task[Any]) -> None:
    """Loop of a worker: one item after the other, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process ends the others
    try:
        while True:
            connection.send(_tried(task, connection.recv(), connection))
    except (EOFError, OSError):  # the process that started this one is gone
        return


def _tried(task: Task[Any], item: Any, connection: Connection) -> _Done | _Failed:
    try:
        task(item, connection.send)
    except PointsmanError as error:
        return _Failed(error.message, error.hint)
    except Exception:  # noqa: BLE001 - the process that started this one says it
        return _Failed(f"failed at {_shown(item)}: {traceback.format_exc(limit=-3)}", "")
    return _Done()


def _shown(item: Any) -> str:
    return str(getattr(item, "name", item))
