"""Where a batch reads and writes, and what runs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, TypeAlias

__all__ = ["BatchEngine", "Reports", "SessionPart", "Work"]

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
