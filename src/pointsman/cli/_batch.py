"""Options of the commands that read Parquet files, and what these print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointsman.batch.work import BatchEngine, Reports, RowJob, Work
from pointsman.cli.output import FAILED, echo, needs_extra
from pointsman.cli.terminal import progress
from pointsman.errors import PointsmanError

if TYPE_CHECKING:
    from pointsman.batch.row_jobs import Finished

InOption = Annotated[
    str, typer.Option("--in", help="Parquet files to read instead: 'x/*.parquet', a file, or a folder.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="With --in: folder of Parquet files to write, or to resume.")
]
EngineOption = Annotated[
    BatchEngine, typer.Option("--engine", help="With --in: processes of this machine, or Ray.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="With --in: processes; default: one for each core.")
]
ColumnOption = Annotated[
    str | None,
    typer.Option(
        "--column", help="With --in: column of the input, as text=NAME, messages=NAME or request=NAME."
    ),
]


def work_of(
    pattern: str, out: Path | None, engine: BatchEngine, workers: int | None, **others: object
) -> Work | None:
    """Return the options of a batch; None without Parquet files.

    Args:
        pattern: ``--in``.
        out: ``--out``.
        engine: ``--engine``.
        workers: ``--workers``.
        others: By name, options that do not go with ``--in``.

    Raises:
        PointsmanError: ``--in`` lacks ``--out`` or has an option that it cannot go with, or it is ``--in``
            that the others lack.
        MissingExtra: pyarrow is not installed.
    """
    if not pattern:
        if out or workers or engine is not BatchEngine.LOCAL:
            raise PointsmanError("--out, --engine and --workers go with --in")
        return None
    for name, value in others.items():
        if value:
            raise PointsmanError(f"{name} does not go with --in")
    if out is None:
        raise PointsmanError("--in needs a folder to write to", hint="name it with --out DIR")
    with needs_extra("batch", "--in"):
        from pointsman.batch.row_jobs import available_cores
    return Work(pattern, out, engine, workers or available_cores())


def run_rows(job: RowJob, work: Work) -> Finished:
    """Run a job over rows, showing on a terminal how far it has come."""
    from pointsman.batch.row_jobs import map_rows

    return map_rows(job, work, rows_shown(job.name))


def rows_shown(label: str) -> Reports:
    """Return what shows rows on a terminal as they are done."""

    @contextmanager
    def started(total: int) -> Iterator[Callable[[int], None]]:
        with progress(label, total) as bar:
            yield bar.advance if bar else lambda _: None

    return started


def say_finished(done: Finished, out: Path) -> None:
    """Print how many rows were done, and the number done by an earlier run."""
    before = f", {done.found:,} of them by an earlier run" if done.found else ""
    echo(f"{done.rows:,} rows{before}; {len(done.parts):,} files in {out}")


def say_unreadable(done: Finished, column: str) -> None:
    """End with the exit code of failed rows, if a column has a reason for any row."""
    failed = done.rows - done.folder.missing_values(done.parts, column)
    if failed:
        echo(f'{failed:,} rows could not be read; column "{column}" says why', err=True)
        raise typer.Exit(FAILED)
