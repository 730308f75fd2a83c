"""The work of a batch: its job, where it reads and writes, and what runs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BatchEngine", "Reports", "RowJob", "SessionPart", "Work"]

#: Is told how many rows there are to do, and gives what is told rows as they are done.
Reports: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], None]]]


class BatchEngine(StrEnum):
    """What runs the work."""

    LOCAL = "local"  # processes of this machine
    RAY = "ray"  # Ray Data: this machine, or the cluster of RAY_ADDRESS


class Work(NamedTuple):
    """Where a job reads and writes, and what runs it."""

    pattern: str  # names the files that are read
    out: Path
    engine: BatchEngine = BatchEngine.LOCAL
    workers: int = 1


class SessionPart(NamedTuple):
    """One part of a job over sessions: some of them."""

    number: int

    @property
    def name(self) -> str:
        """Its file."""
        return f"part-{self.number:05d}.parquet"


class RowJob(Protocol):
    """A function over record batches: picklable, and each row of the result is of the row in its place."""

    @property
    def name(self) -> str:
        """The command."""

    def describe(self) -> dict[str, object]:
        """Inputs of the result other than the rows, as JSON values."""

    def columns(self, schema: pa.Schema, file: str = "") -> list[str]:
        """The columns that are read. Raises ``ConfigError`` that names file, column and the expected type."""

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the result."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the result of a batch."""
