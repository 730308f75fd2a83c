"""The local engine: processes of this machine, each working on one item at a time."""

from __future__ import annotations

import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from pointsman.errors import PointsmanError

__all__ = ["available_cores", "run_local"]

Item = TypeVar("Item")
#: Works on one item, and reports rows as they are done. Picklable.
Task: TypeAlias = Callable[[Item, Callable[[int], None]], None]

#: Seconds that a worker gets to end by itself.
_PATIENCE: Final = 10.0


def available_cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Done(NamedTuple):
    """An item is done."""


class _Failed(NamedTuple):
    """An item cannot be done."""

    message: str
    hint: str


def run_local(task: Task[Item], items: Iterable[Item], workers: int) -> Iterator[int]:
    """Work on every item in one of several processes, and yield rows as they are done.

    With one worker the work is done in this process. A worker ends when this process does, however that ends.

    Raises:
        PointsmanError: an item cannot be done, or a worker ended; the others are ended.
    """
    waiting = deque(items)
    if workers <= 1 or len(waiting) <= 1:
        for item in waiting:
            done: list[int] = []
            task(item, done.append)
            yield sum(done)
        return
    pool = _Workers(task, min(workers, len(waiting)))
    try:
        yield from pool.run(waiting)
    finally:
        pool.close()


class _Workers:
    """Processes that were started afresh: threads and open connections are not inherited."""

    def __init__(self, task: Task[Any], count: int) -> None:
        context = get_context("spawn")
        self._busy: dict[Connection, tuple[BaseProcess, Any]] = {}
        self._free: list[tuple[Connection, BaseProcess]] = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, task), daemon=True)
            process.start()
            theirs.close()  # so that the death of either side is the end of the pipe
            self._free.append((ours, process))

    def run(self, waiting: deque[Any]) -> Iterator[int]:
        while waiting or self._busy:
            while waiting and self._free:
                self._give(waiting.popleft())
            for connection in wait(list(self._busy)):
                assert isinstance(connection, Connection)  # noqa: S101 - nothing else is waited for
                yield self._take(connection)

    def _give(self, item: Any) -> None:
        connection, process = self._free.pop()
        self._busy[connection] = process, item
        try:
            connection.send(item)
        except OSError:
            raise self._died(connection) from None

    def _take(self, connection: Connection) -> int:
        try:
            said = connection.recv()
        except (EOFError, OSError):
            raise self._died(connection) from None
        if isinstance(said, int):
            return said
        process, _ = self._busy.pop(connection)
        self._free.append((connection, process))
        if isinstance(said, _Failed):
            raise PointsmanError(said.message, hint=said.hint)
        return 0

    def _died(self, connection: Connection) -> PointsmanError:
        process, item = self._busy[connection]
        process.join(_PATIENCE)
        return PointsmanError(
            f"a worker process ended (exit code {process.exitcode}) at {_shown(item)}",
            hint="the same command goes on from there; fewer --workers take less memory",
        )

    def close(self) -> None:
        """End all workers."""
        all_ = [*self._free, *((connection, process) for connection, (process, _) in self._busy.items())]
        for connection, process in all_:
            connection.close()
            process.terminate()
        for _, process in all_:
            process.join(_PATIENCE)


def _work(connection: Connection, task: Task[Any]) -> None:
    """Loop of a worker: one item after the other, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process ends the others
    try:
        while True:
            connection.send(_tried(task, connection.recv(), connection))
    except (EOFError, OSError):  # the process that started this one is gone
        return


def _tried(task: Task[Any], item: Any, connection: Connection) -> _Done | _Failed:
    try:
        task(item, connection.send)
    except PointsmanError as error:
        return _Failed(error.message, error.hint)
    except Exception:  # noqa: BLE001 - the process that started this one says it
        return _Failed(f"failed at {_shown(item)}: {traceback.format_exc(limit=-3)}", "")
    return _Done()


def _shown(item: Any) -> str:
    return str(getattr(item, "name", item))
