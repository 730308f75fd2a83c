"""Jobs that look at whole sessions: records are dealt to parts by session; each part is done by itself."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pointsman.batch.files import OutputFolder, ParquetInput, read_part, rows_of, sources, write_part
from pointsman.batch.replay import RECORD, BatchReplayer, part_of
from pointsman.batch.row_jobs import Finished, run_local
from pointsman.batch.work import BatchEngine, Reports, SessionPart, Work
from pointsman.errors import PointsmanError
from pointsman.remembering import grouped
from pointsman.reports.replay import Replayed, Summary

__all__ = ["replay_sessions", "summary_of"]


#: Bytes of records that a part holds, about: it is in memory as a whole.
_PART: Final = 64 * 2**20
#: Parts at most: above some 256 GB of records parts grow instead.
_MOST: Final = 4_096
#: Bytes of records that wait in memory before they are dealt to the files of their parts.
_WAITING: Final = 256 * 2**20
_DEALT: Final = ".sessions"
_COMPLETE: Final = "complete"


def _replay(job: BatchReplayer, out: Path, part: SessionPart, report: Callable[[int], None]) -> None:
    """Replay the records that were dealt to a part."""
    done = job(_dealt_to(out / _DEALT / part.name))
    write_part(out / part.name, job.schema, done.to_batches())
    report(done.num_rows)


def replay_sessions(job: BatchReplayer, work: Work, started: Reports) -> Finished:
    """Decide all records of Parquet files again, those of a session in the order of time.

    A part that an earlier run has finished is left as it is. A worker holds one part in memory, the process
    that deals records to parts at most ``_WAITING`` bytes of them; both engines write the same bytes.

    Args:
        job: What decides.
        work: Where and how.
        started: Shows how far it has come.

    Raises:
        ConfigError: no file is there, or a column is missing or of another type.
        PointsmanError: a file cannot be read or written, or the folder belongs to another run.
        MissingExtra: Ray is asked for, and is not installed.
    """
    inputs = sources(work.pattern)
    for each in inputs:
        job.columns(each.schema, each.file)
    count = min(max(-(-sum(each.uncompressed for each in inputs) // _PART), 1), _MOST)
    parts = [SessionPart(number) for number in range(count)]
    folder = OutputFolder(work.out, {"command": job.name, "parts": count, **job.describe()}, inputs)
    with folder.opened():
        waiting = [part for part in parts if not folder.is_finished(part.name)]
        found = sum(rows_of(work.out / part.name) or 0 for part in set(parts) - set(waiting))
        total = sum(each.rows for each in inputs)
        with started(total - found) as report:
            for rows in _run(job, work, inputs, waiting, count):
                report(rows)
    return Finished(folder, tuple(part.name for part in parts), total, found)


def _run(
    job: BatchReplayer, work: Work, inputs: list[ParquetInput], waiting: list[SessionPart], count: int
) -> Iterator[int]:
    if waiting and work.engine is BatchEngine.RAY:
        from pointsman.batch.on_ray import sessions_on_ray

        yield from sessions_on_ray(job, [each.file for each in inputs], waiting, count, work)
    elif waiting:
        _deal(job, inputs, count, work.out / _DEALT)
        yield from run_local(partial(_replay, job, work.out), waiting, work.workers)
    shutil.rmtree(work.out / _DEALT, ignore_errors=True)


def _deal(job: BatchReplayer, inputs: list[ParquetInput], count: int, folder: Path) -> None:
    """Append each record to the file of its part; once for all runs on the same folder."""
    if (folder / _COMPLETE).exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir()
        waiting: defaultdict[int, list[pa.Array]] = defaultdict(list)
        size = 0
        for records in _records(job, inputs):
            for number, dealt in _by_part(records, count):
                waiting[number].append(dealt)
            size += records.nbytes
            if size >= _WAITING:
                _append(folder, waiting)
                size = 0
        _append(folder, waiting)
        (folder / _COMPLETE).touch()
    except OSError as error:
        raise PointsmanError(f"cannot write {folder}: {error.strerror or error}") from error


def _records(job: BatchReplayer, inputs: list[ParquetInput]) -> Iterator[pa.Array]:
    for place, each in enumerate(inputs):
        for part in each.parts(place):
            for batch in read_part(part, job.columns):
                yield batch.column(0).cast(pa.large_binary())


def _by_part(records: pa.Array, count: int) -> Iterator[tuple[int, pa.Array]]:
    found = enumerate(records.to_pylist())
    places = grouped((part_of(record or b"", count), place) for place, record in found)
    for number, dealt in places.items():
        yield number, records.take(pa.array(dealt))


def _append(folder: Path, waiting: defaultdict[int, list[pa.Array]]) -> None:
    for number, dealt in waiting.items():
        batch = pa.record_batch({RECORD: pa.concat_arrays(dealt)})
        with (
            (folder / SessionPart(number).name).open("ab") as file,
            pa.ipc.new_stream(file, batch.schema) as out,
        ):
            out.write_batch(batch)
    waiting.clear()


def _dealt_to(path: Path) -> pa.ChunkedArray:
    """The records of a part: one stream after the other."""
    chunks: list[pa.Array] = []
    if path.exists():
        with path.open("rb") as file:
            size = path.stat().st_size
            while file.tell() < size:
                chunks += [batch.column(0) for batch in pa.ipc.open_stream(file)]
    return pa.chunked_array(chunks, pa.large_binary())


# Summary of a replay of Parquet files, read from the parts it wrote.


_COLUMN = "replayed"


def summary_of(job: BatchReplayer, done: Finished) -> Summary:
    """Return the counts over all rows, those of earlier runs included. Takes some microseconds a row."""
    decode, summary = msgspec.json.Decoder(Replayed).decode, Summary(job.version)
    for name in done.parts:
        with pq.ParquetFile(done.folder.path / name) as part:
            for batch in part.iter_batches(columns=[_COLUMN]):
                for line in batch.column(0).to_pylist():
                    if line is not None:
                        summary.add(decode(line))
    return summary
