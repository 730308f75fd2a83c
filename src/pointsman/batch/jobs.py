"""Job of an engine."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

__all__ = ["RowJob"]


class RowJob(Protocol):
    """A function over record batches: picklable, and each row of the result is of the row in its place."""

    @property
    def name(self) -> str:
        """The command."""
        ...

    def describe(self) -> dict[str, object]:
        """Inputs of the result other than the rows, as JSON values."""
        ...

    def columns(self, schema: pa.Schema, file: str = "") -> list[str]:
        """The columns that are read. Raises ``ConfigError`` that names file, column and the expected type."""
        ...

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the result."""
        ...

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the result of a batch."""
        ...
