"""The folder that a run writes to: the run's inputs, finished parts, and its lock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq

from pointsman.batch.files import ParquetInput, rows_of
from pointsman.errors import PointsmanError

__all__ = ["OutputFolder"]

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
        draft = self.path / f".part-{os.getpid()}.new"
        draft.write_bytes(self._run)
        draft.replace(file)

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
