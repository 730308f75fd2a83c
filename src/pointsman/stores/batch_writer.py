"""A bounded queue and the one thread that empties it in batches: how stores write off the request path."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from pointsman.errors import PointsmanError

__all__ = ["BATCH", "BatchWriter", "Spill"]

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Most entries of one transaction: 1.8 µs a row in a batch against 17 alone, and nothing gained beyond.
BATCH: Final = 1_000


class Spill(Protocol[T]):
    """Where entries wait that are beyond the queue. Methods may raise ``OSError``; one thread at a time."""

    waiting: int  # entries that are not taken

    @property
    def where(self) -> str:
        """The file, for the log."""
        ...

    def open_leftover(self) -> None:
        """Go on with what an ended process left, if nothing is in use."""
        ...

    def append(self, entries: Sequence[T]) -> int:
        """Append entries, all or none; return how many cannot be encoded."""
        ...

    def put_first(self, entries: Sequence[T]) -> int:
        """Keep entries before all others; return how many cannot be encoded."""
        ...

    def take(self, most: int) -> tuple[list[T], int]:
        """Return the first entries, which stay until ``confirm``, and how many before them are damaged."""
        ...

    def confirm(self) -> None:
        """Give up what was taken: the store has it."""
        ...

    def close(self) -> None:
        """Release the file with what is in it."""
        ...


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
        spill: where entries wait once the queue is half full, because the store is away or slow: they are
            written before what is queued. A thread of its own moves them. What waits at the end stays there.
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
        self._spill: Final = spill
        self._moving: Final = threading.Lock()  # held while the spill, or the order behind it, is touched
        self._full: Final = threading.Event()  # the queue is half full
        self._mover: threading.Thread | None = None
        self._in_hand: list[T] = []  # on their way from the queue to the spill
        self._from_spill = False  # where the batch is from
        self._spill_fault = ""
        self._spill_began = False
        self._until = math.inf  # when closed: until when the spill is emptied
        self._is_over = False

    @property
    def waiting(self) -> int:
        """Entries put and neither written nor lost."""
        queued = tuple(self._queue)
        held = len(self._batch) + len(self._in_hand) + self._spilled
        return held + sum(not isinstance(entry, threading.Event) for entry in queued)

    @property
    def _spilled(self) -> int:
        """Entries in the spill that are not taken."""
        return self._spill.waiting if self._spill is not None else 0

    def put(self, entry: T) -> bool:
        """Queue an entry; False when it is lost. Never blocks and never raises."""
        if self._closed or len(self._queue) >= self._size:
            self._lose(1)
            self._rouse_mover()
            return False
        self._queue.append(entry)
        if self._idle:
            self._rouse()
        if self._spill is not None and len(self._queue) * 2 >= self._size:
            self._rouse_mover()
        return True

    def resume(self) -> None:
        """Begin to write what an ended process left in the spill."""
        self._rouse()

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until nothing put before is waiting, ``timeout`` seconds at most; False when it still is.

        Nobody waits for a store that fails.
        """
        if self._thread is None or self._stuck or self._spilled:
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
            self._until = time.monotonic() + timeout / 2
            self._closed = True
            thread, self._thread = self._thread, None
        self._hurry.set()
        self._wake.set()
        self._full.set()
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
        self._open_leftover()
        while self._await_work():
            if not self._closed:
                self._hurry.wait(self._linger)
                self._hurry.clear()
            self._drain()
            while self._upkeep() and not (self._queue or self._closed):
                pass
        if self._spill is not None:
            with self._moving:
                self._spill.close()

    def _await_work(self) -> bool:
        """Sleep until something is queued; False when closed and nothing is."""
        self._idle = True  # before the queue is looked at: whoever adds later sees it and wakes us
        while not (self._queue or self._spilled or self._closed):
            self._wake.wait()
            self._wake.clear()
        self._idle = False
        return bool(self._queue or self._spilled) and not self._is_over

    def _drain(self) -> None:
        """Write what is queued now. What comes meanwhile gathers anew, or a busy store never ends writing."""
        due = len(self._queue) + self._spilled
        while self._batch or due > 0:
            if self._spill is not None and self._spilled and time.monotonic() > self._until:
                return self._leave(self._spill)
            due -= BATCH
            flushing = self._fill()
            written = self._write_batch()
            for reached in flushing:
                reached.set()
            if not written:
                self._give_up()
        return None

    def _fill(self) -> list[threading.Event]:
        """Take entries into the batch; return what waits for them to be written."""
        if self._spill is None:
            return self._fill_from(self._batch)
        with self._moving:
            if self._spilled or self._from_spill:  # written before what is queued, and in batches of its own
                if not self._batch:
                    self._fill_from_spill(self._spill)
                return []
            return self._fill_from(self._batch)

    def _fill_from_spill(self, spill: Spill[T]) -> None:
        try:
            self._batch, damaged = spill.take(BATCH)
            self._from_spill = True
            if not self._batch:
                self._confirm(spill)
        except OSError as error:
            self._fail_to_spill(error)
            time.sleep(self._retry)
            return
        self._lose(damaged)

    def _fill_from(self, batch: list[T]) -> list[threading.Event]:
        """Move what waits longest in the queue into a batch; return what waits for it to be written."""
        flushing: list[threading.Event] = []
        queue = self._queue
        while queue and len(batch) < BATCH:
            entry = queue.popleft()  # one at a time: ``waiting`` counts it in one place or the other
            if isinstance(entry, threading.Event):
                flushing.append(entry)
            else:
                batch.append(entry)
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
        if self._spill is not None and self._from_spill:
            with self._moving:
                self._confirm(self._spill)
        self._batch.clear()
        return True

    def _give_up(self) -> None:
        """After a failure: lose what waits when closed, else pause before the next attempt."""
        if not self._closed:
            self._hurry.wait(self._retry)
            self._hurry.clear()
            return None
        if self._spill is not None:
            return self._leave(self._spill)
        log.warning("%s: lost at shutdown: %d", self._name, self.waiting)
        while self._batch:
            self._lose(len(self._batch))
            self._batch.clear()
            for reached in self._fill_from(self._batch):
                reached.set()
        return None

    def _fail(self, fault: str, *, unforeseen: bool = False) -> None:
        if not self.fault:
            self._lost_before = self.lost
            beyond = "" if self._spill is None else ", then in a file"
            what = (
                "a batch is lost"
                if unforeseen
                else f"what comes waits, {self._size:,} entries at most{beyond}"
            )
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

    def _rouse_mover(self) -> None:
        if self._spill is None or self._closed:
            return
        if self._mover is None:
            mover = threading.Thread(
                target=self._move, args=(self._spill,), name=f"{self._name}-spill", daemon=True
            )
            try:
                mover.start()
            except RuntimeError:  # the system has no thread left; the next entry asks again
                return
            self._mover = mover
        self._full.set()

    def _move(self, spill: Spill[T]) -> None:
        while not self._closed:
            self._full.wait()
            self._full.clear()
            while len(self._queue) * 2 >= self._size and self._move_some(spill):
                pass
            if self._spill_fault:
                time.sleep(self._retry)

    def _move_some(self, spill: Spill[T]) -> bool:
        """Move what waits longest in the queue to the end of the spill; False when that is not to be had."""
        with self._moving:
            if self._closed:  # the writer's thread does the rest
                return False
            for reached in self._fill_from(self._in_hand):
                reached.set()
            try:
                refused = spill.append(self._in_hand)
            except OSError as error:
                self._queue.extendleft(reversed(self._in_hand))
                self._in_hand = []
                self._fail_to_spill(error)
                return False
            self._lose(refused)
            if not self._spill_began:
                self._spill_began = True
                log.warning("%s: the queue is half full; what comes waits in %s", self._name, spill.where)
            self._in_hand, self._spill_fault = [], ""
        return True

    def _confirm(self, spill: Spill[T]) -> None:
        """The store has the batch, which is from the spill."""
        self._from_spill = False
        try:
            spill.confirm()
        except OSError as error:  # a later start may write this batch again
            self._fail_to_spill(error)
        if not self._spilled and self._spill_began:
            self._spill_began = False
            log.warning("%s: the store has all that waited in the spill file", self._name)
        self._open_leftover()

    def _open_leftover(self) -> None:
        if self._spill is None:
            return
        try:
            self._spill.open_leftover()
        except OSError as error:
            self._fail_to_spill(error)

    def _leave(self, spill: Spill[T]) -> None:
        """Leave what waits, in order, to the next start; count as lost what the spill does not take."""
        self._is_over = True
        with self._moving:
            pieces = [] if self._from_spill else [self._batch]
            put = spill.put_first
            while self._queue or pieces:
                if not pieces:
                    for reached in self._fill_from(self._in_hand):
                        reached.set()
                    pieces, put, self._in_hand = [self._in_hand], spill.append, []
                piece = pieces.pop()
                try:
                    self._lose(put(piece))
                except OSError as error:
                    self._fail_to_spill(error)
                    log.warning("%s: lost at shutdown: %d", self._name, len(piece))
                    self._lose(len(piece))
            self._batch = []
            log.warning("%s: what waits is written after the next start, from %s", self._name, spill.where)

    def _fail_to_spill(self, error: OSError) -> None:
        if not self._spill_fault:
            log.warning("%s: the spill file %s cannot be used: %s", self._name, error.filename or "", error)
        self._spill_fault = str(error)
