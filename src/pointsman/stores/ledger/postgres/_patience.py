"""Connections that wait for PostgreSQL no longer than a given time."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg

__all__ = ["PatientConnection", "Silent"]

T = TypeVar("T")


class Silent(psycopg.OperationalError):
    """The server holds the connection open and answers nothing."""


class PatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits no longer than its patience, in seconds.

    The server enforces the limits of a statement. A server that is frozen, or on a frozen host, does not.
    """

    patience = math.inf

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **more: Any) -> T:
        """Wait for a step of the protocol."""
        found: T = super().wait(_until(gen, self.patience), *args, **more)
        return found


def _until(gen: Generator[Any, Any, T], patience: float) -> Generator[Any, Any, T]:
    deadline = time.monotonic() + patience
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:  # psycopg looks every tenth of a second
                raise Silent(f"nothing was answered for {patience:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        answer: T = end.value
        return answer
