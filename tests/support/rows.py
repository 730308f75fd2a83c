"""Many rows of a table in one test, which names every row that fails.

A test for each row costs ten milliseconds around it, more than most rows take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

__all__ = ["every_row"]


@contextmanager
def every_row() -> Iterator[Callable[..., AbstractContextManager[None]]]:
    """Yield what checks one row, named by its arguments; fail at the end with all rows that failed."""
    failed: list[str] = []

    @contextmanager
    def row(*name: object) -> Iterator[None]:
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - the other rows are checked too
            failed.append(f"{name}: {type(error).__name__}: {error}")

    yield row
    assert not failed, "\n".join(failed)
