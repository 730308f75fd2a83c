"""A bounded queue and the one thread that empties it in batches: how stores write off the request path."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from pointsman.errors import PointsmanError

__all__ = ["BATCH", "BatchWriter"]

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Most entries of one transaction: 1.8 µs a row in a batch against 17 alone, and nothing gained beyond.
BATCH: Final = 1_000


class BatchWriter(Generic[T]):
    """Hands entries to ``write`` in batches, from a thread of its own that starts with the first entry.

    ``write`` returns how many entries of its batch it had to refuse. When it raises a ``PointsmanError`` or
    an ``OSError`` the batch is kept and tried again; after anything else the batch is lost. The entries
    put are at every moment those ``written``, ``lost`` and ``waiting``, each exactly once. The log tells when
    writing begins to fail, and when it succeeds again.

    Args:
        write: called from the writer's thread only.
        size: entries that may wait; what comes beyond is lost and counted.
        name: of the thread, and of the store in the log.
        linger: seconds for which entries gather into a batch.
        retry: seconds between attempts while ``write`` fails.
        upkeep: does a piece of other work in the writer's thread and tells whether more is left. Called after
            what was queued is written, and again while nothing waits. Must not raise.
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
    ) -> None:
        self._write: Final = write
        self._size: Final = size
        self._name: Final = name
        self._linger: Final = linger
        self._retry: Final = retry
        self._upkeep: Final = upkeep
        self._queue: Final[deque[T | threading.Event]] = deque()
        self._batch: list[T] = []
        self._lock: Final = threading.Lock()
        self._wake: Final = threading.Event()  # there is something to do
        self._hurry: Final = threading.Event()  # someone waits for it
        self._idle = True
        self._closed = False
        self._thread: threading.Thread | None = None
        self.written = 0
        self.lost = 0
        self.fault = ""  # why the last write failed; empty after one that did not
        self._stuck = False  # a batch is kept, to be tried again
        self._lost_before = 0  # entries lost when writing began to fail

    @property
    def waiting(self) -> int:
        """Entries put and neither written nor lost."""
        queued = tuple(self._queue)
        return len(self._batch) + sum(not isinstance(entry, threading.Event) for entry in queued)

    def put(self, entry: T) -> bool:
        """Queue an entry; False when it is lost. Never blocks and never raises."""
        if self._closed or len(self._queue) >= self._size:
            self._lose(1)
            return False
        self._queue.append(entry)
        if self._idle:
            self._rouse()
        return True

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until nothing put before is waiting, ``timeout`` seconds at most; False when it still is.

        Nobody waits for a store that fails.
        """
        if self._thread is None or self._stuck:
            return not self.waiting
        reached = threading.Event()
        self._queue.append(reached)
        self._hurry.set()
        self._wake.set()
        return reached.wait(timeout) and not self._stuck

    def close(self, timeout: float = 6.0) -> bool:
        """Try once more to write what waits, count as lost what cannot be written, and end the thread.

        Returns:
            False when it is still at it after ``timeout`` seconds; by default longer than SQLite waits.
        """
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        self._hurry.set()
        self._wake.set()
        if thread is None:
            return True
        thread.join(timeout)
        return not thread.is_alive()

    def _rouse(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the system has no thread left; the next entry asks again
                    self._fail(str(error))
                    return
                self._thread = thread
        self._wake.set()

    def _run(self) -> None:
        while self._await_work():
            if not self._closed:
                self._hurry.wait(self._linger)
                self._hurry.clear()
            self._drain()
            while self._upkeep() and not (self._queue or self._closed):
                pass

    def _await_work(self) -> bool:
        """Sleep until something is queued; False when closed and nothing is."""
        self._idle = True  # before the queue is looked at: whoever adds later sees it and wakes us
        while not self._queue and not self._closed:
            self._wake.wait()
            self._wake.clear()
        self._idle = False
        return bool(self._queue)

    def _drain(self) -> None:
        """Write what is queued now. What comes meanwhile gathers anew, or a busy store never ends writing."""
        due = len(self._queue)
        while self._batch or due > 0:
            due -= BATCH
            flushing = self._fill()
            written = self._write_batch()
            for reached in flushing:
                reached.set()
            if not written:
                self._give_up()

    def _fill(self) -> list[threading.Event]:
        """Take entries into the batch; return what waits for them to be written."""
        flushing: list[threading.Event] = []
        while self._queue and len(self._batch) < BATCH:
            entry = self._queue.popleft()
            if isinstance(entry, threading.Event):
                flushing.append(entry)
            else:
                self._batch.append(entry)
        return flushing

    def _write_batch(self) -> bool:
        """Write the batch; False when it is to be tried again."""
        if not self._batch:
            return True
        try:
            refused = self._write(self._batch)
        except (PointsmanError, OSError) as error:
            self._stuck = True
            self._fail(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - one bad batch must not end the thread; it is counted
            self._fail(f"{type(error).__name__}: {error}", unforeseen=True)
            refused = len(self._batch)
        else:
            self._recover()
        self._stuck = False
        self.written += len(self._batch) - refused
        self._lose(refused)
        self._batch.clear()
        return True

    def _give_up(self) -> None:
        """After a failure: lose what waits when closed, else pause before the next attempt."""
        if not self._closed:
            self._hurry.wait(self._retry)
            self._hurry.clear()
            return
        log.warning("%s: lost at shutdown: %d", self._name, self.waiting)
        while self._batch:
            self._lose(len(self._batch))
            self._batch.clear()
            for reached in self._fill():
                reached.set()

    def _fail(self, fault: str, *, unforeseen: bool = False) -> None:
        if not self.fault:
            self._lost_before = self.lost
            what = "a batch is lost" if unforeseen else f"what comes waits, {self._size:,} entries at most"
            log.warning("%s: %s; %s", self._name, fault, what, exc_info=unforeseen)
        self.fault = fault

    def _recover(self) -> None:
        if self.fault:
            log.warning("%s: recovered; lost meanwhile: %d", self._name, self.lost - self._lost_before)
        self.fault = ""

    def _lose(self, count: int) -> None:
        if count:
            with self._lock:
                self.lost += count
