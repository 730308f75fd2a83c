"""The number of this process among those of one gateway, and their common directory."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["ALONE", "Worker"]


class Worker(NamedTuple):
    """One of the processes that serve one address."""

    number: int = 1  # from 1
    of: int = 1  # how many there are
    folder: Path = Path()  # of this run alone, for this user alone; nothing where there is one process

    @property
    def is_alone(self) -> bool:
        """Whether it is the only one."""
        return self.of == 1

    def part(self, bound: int) -> int:
        """Return this worker's part of a bound that holds for all of them together."""
        return bound // self.of + (self.number <= bound % self.of)


ALONE: Final = Worker()
