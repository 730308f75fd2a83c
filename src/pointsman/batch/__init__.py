"""Batch: decisions over tables of columns, by processes of this machine or by Ray.

``classify_batch`` takes an Arrow record batch and returns one with a row for each row of it. It is pure and
picklable, so that whatever maps functions over batches can run it: Ray Data, Polars, DuckDB, Daft, Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pointsman.errors import MissingExtra

if TYPE_CHECKING:
    from pointsman.batch.classify import BatchClassifier, classify_batch

__all__ = ["BatchClassifier", "classify_batch"]

_NAMES: Final = frozenset({"BatchClassifier", "classify_batch"})


def __getattr__(name: str) -> Any:
    """Import names on demand: the command line reads the options of a batch without pyarrow."""
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from pointsman.batch import classify
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("pointsman"):
            raise
        raise MissingExtra("batch", needed_for="pointsman.batch") from error
    return getattr(classify, name)
