"""A bounded queue and the one thread that empties it in batches: how stores write off the request path."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from pointsman.errors import PointsmanError
from pointsman.stores._overflow import BATCH, Limits, Overflow, Spill, Tally, fill

__all__ = ["BATCH", "BatchWriter"]

log = logging.getLogger(__name__)

T = TypeVar("T")


class BatchWriter(Tally, Generic[T]):
    """Hands entries to ``write`` in batches, from a separate thread that starts with the first entry.

    ``write`` returns how many entries of its batch it had to refuse. When it raises a ``PointsmanError`` or
    an ``OSError`` the batch is tried again; after anything else the batch is lost. The entries
    put are at every moment those ``written``, ``lost`` and ``waiting``, each exactly once. The log reports
    the first failure of a write, and the first success after it.

    Args:
        write: called from the writer's thread only.
        size: entries that may wait; entries beyond it are lost and counted.
        name: of the thread, and of the store in the log.
        linger: seconds for which entries gather into a batch.
        retry: seconds between attempts while ``write`` fails.
        upkeep: does a piece of other work in the writer's thread and returns whether more is left. Called
            after the queued entries are written, and again while nothing waits. Must not raise.
        spill: where entries wait once the queue is half full, because the store is away or slow: they are
            written before queued ones. A separate thread moves them. Entries that wait at the end stay there.
    """

    def __init__(
        self,
        write: Callable[[Sequence[T]], int],
        *,
        size: int,
        name: str,
        linger: float = 0.2,  # a crash loses this much; each batch costs the event loop a few waits
        retry: float = 1.0,
        upkeep: Callable[[], bool] = lambda: False,
        spill: Spill[T] | None = None,
    ) -> None:
        super().__init__(name, f"{size:,} entries at most{', then in a file' if spill else ''}")
        self._write: Final = write
        self._limits: Final = Limits(name, size, retry)
        self.linger = linger
        self._upkeep: Final = upkeep
        self._queue: Final[deque[T | threading.Event]] = deque()
        self._batch: Final[list[T]] = []
        self._lock: Final = threading.Lock()
        self._wake: Final = threading.Event()  # there is something to do
        self._hurry: Final = threading.Event()  # someone waits for it
        self._idle = True
        self._closed = False
        self._thread: threading.Thread | None = None
        self._stuck = False  # a batch waits for another attempt
        self._overflow: Final = Overflow(spill, self._queue, self._limits, self) if spill else None
        #: Entries in the queue up to which another is put there and nothing else is to be looked at.
        self._room = max((size + 1) // 2 - 1, 0) if spill else size

    @property
    def waiting(self) -> int:
        """Entries put and neither written nor lost."""
        queued = tuple(self._queue)
        held = len(self._batch) + (self._overflow.waiting if self._overflow else 0)
        return held + sum(not isinstance(entry, threading.Event) for entry in queued)

    @property
    def _spilled(self) -> int:
        """Entries in the spill that are not taken."""
        return self._overflow.spilled if self._overflow else 0

    def put(self, entry: T) -> bool:
        """Queue an entry; False when it is lost. Never blocks and never raises."""
        queue = self._queue
        if len(queue) >= self._room:
            return self._put_late(entry)
        queue.append(entry)
        if self._idle:
            self._rouse()
        return True

    def _put_late(self, entry: T) -> bool:
        """Queue an entry when the queue is half full, full or closed."""
        size = self._limits.size
        if self._closed or len(self._queue) >= size:
            self.lose(1)
            if self._overflow and not self._closed:
                self._overflow.rouse()
            return False
        self._queue.append(entry)
        if self._idle:
            self._rouse()
        if self._overflow and len(self._queue) * 2 >= size:
            self._overflow.rouse()
        return True

    def resume(self) -> None:
        """Begin to write the entries that an ended process left in the spill."""
        self._rouse()

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until nothing put before is waiting, ``timeout`` seconds at most; False when it still is.

        It does not wait for a store that fails.
        """
        thread = self._thread
        if thread is None or not thread.is_alive() or self._stuck or self._spilled:
            return not self.waiting
        reached = threading.Event()
        self._queue.append(reached)
        self._hurry.set()
        self._wake.set()
        return reached.wait(timeout) and not self._stuck

    def close(self, timeout: float = 6.0) -> bool:
        """Try once more to write what waits, spill or count as lost what cannot be, and end the thread.

        Returns:
            False when it is still at it after ``timeout`` seconds; by default longer than SQLite waits.
        """
        with self._lock:
            self._closed, self._room = True, 0
            if self._overflow:
                self._overflow.end(time.monotonic() + timeout / 2)
            thread, self._thread = self._thread, None
        atexit.unregister(self.flush)
        self._hurry.set()
        self._wake.set()
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _rouse(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._run, name=self._limits.name, daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the system has no thread left; the next entry asks again
                    self.fail(str(error))
                    return
                self._thread = thread
                atexit.register(self.flush, 1.0)  # of a program that ends without ``close``
        self._wake.set()

    def _run(self) -> None:
        if self._overflow:
            self._overflow.open_leftover()
        while self._await_work():
            if not self._closed:
                self._hurry.wait(self.linger)
                self._hurry.clear()
            self._drain()
            while self._upkeep() and not (self._queue or self._closed):
                pass
        if self._overflow:
            self._overflow.close()

    def _await_work(self) -> bool:
        """Sleep until something is queued; False when closed and nothing is."""
        self._idle = True  # before the queue is looked at: whoever adds later sees it and wakes us
        while not (self._queue or self._spilled or self._closed):
            self._wake.wait()
            self._wake.clear()
        self._idle = False
        return bool(self._queue or self._spilled) and not (self._overflow and self._overflow.is_left)

    def _drain(self) -> None:
        """Write the entries queued now. Later ones form a new batch, or a busy store never ends writing."""
        due = len(self._queue) + self._spilled
        while self._batch or due > 0:
            overflow = self._overflow
            if overflow and overflow.is_due:
                return overflow.leave(self._batch)
            due -= BATCH
            flushing = overflow.fill(self._batch) if overflow else fill(self._queue, self._batch)
            written = self._write_batch()
            for reached in flushing:
                reached.set()
            if not written:
                self._give_up()
        return None

    def _write_batch(self) -> bool:
        """Write the batch; False when it must be tried again."""
        if not self._batch:
            return True
        try:
            refused = self._write(self._batch)
        except (PointsmanError, OSError) as error:
            self._stuck = True
            self.fail(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - one bad batch must not end the thread; it is counted
            self.fail(f"{type(error).__name__}: {error}", unforeseen=True)
            refused = len(self._batch)
        else:
            self.recover()
        self._stuck = False
        self.count(len(self._batch) - refused)
        self.lose(refused)
        if self._overflow:
            self._overflow.confirm()
        self._batch.clear()
        return True

    def _give_up(self) -> None:
        """After a failure: lose the waiting entries when closed, else pause before the next attempt."""
        if not self._closed:
            self._hurry.wait(self._limits.retry)
            self._hurry.clear()
            return None
        if self._overflow:
            return self._overflow.leave(self._batch)
        log.warning("%s: lost at shutdown: %d", self._limits.name, self.waiting)
        while self._batch:
            self.lose(len(self._batch))
            self._batch.clear()
            for reached in fill(self._queue, self._batch):
                reached.set()
        return None
