"""Overflow of a writer's queue: entries wait in a file, or are lost and counted."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import repeat, starmap
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

__all__ = ["BATCH", "Limits", "Overflow", "Spill", "Tally", "fill"]

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Most entries of one transaction: 1.8 µs a row in a batch against 17 alone, and nothing gained beyond.
BATCH: Final = 1_000


class Limits(NamedTuple):
    """The name of a writer, and its bounds."""

    name: str  # of the thread, and of the store in the log
    size: int  # entries that may wait in the queue
    retry: float  # seconds between attempts while the store fails


class Spill(Protocol[T]):
    """Where entries wait that are beyond the queue. Methods may raise ``OSError``; one thread at a time."""

    waiting: int  # entries that are not taken

    @property
    def where(self) -> str:
        """The file, for the log."""

    def open_leftover(self) -> None:
        """Open a file that an ended process left, if none is in use."""

    def append(self, entries: Sequence[T]) -> int:
        """Append entries, all or none; return how many cannot be encoded."""

    def put_first(self, entries: Sequence[T]) -> int:
        """Insert entries before all others; return how many cannot be encoded."""

    def take(self, most: int) -> tuple[list[T], int]:
        """Return the first entries, which stay until ``confirm``, and how many before them are damaged."""

    def confirm(self) -> None:
        """Remove the taken entries: the store has them."""

    def close(self) -> None:
        """Release the file with its entries."""


def fill(queue: deque[T | threading.Event], batch: list[T]) -> list[threading.Event]:
    """Move the oldest entries of a queue into a batch; return the events of those that wait for them."""
    flushing: list[threading.Event] = []
    # One at a time, so that ``waiting`` counts each in one place or the other; no line of Python runs for it.
    moved = starmap(queue.popleft, repeat((), min(len(queue), BATCH - len(batch))))
    batch.extend(moved)  # type: ignore[arg-type]  # events go below
    if threading.Event in set(map(type, batch)):
        flushing = [entry for entry in batch if isinstance(entry, threading.Event)]
        batch[:] = [entry for entry in batch if not isinstance(entry, threading.Event)]
    return flushing


class Tally:
    """Counts of entries, and the current failure of the store. The log reports its begin and end."""

    def __init__(self, name: str, place: str) -> None:
        self._name: Final = name
        self._place: Final = place  # where entries wait meanwhile, for the log
        self._counting: Final = threading.Lock()
        self._lost_before = 0  # entries lost when writing began to fail
        self.written = 0  # entries that the store has
        self.lost = 0  # entries that could not be stored
        self.fault = ""  # of the last write; empty after one that succeeded

    def count(self, written: int) -> None:
        """Count entries that the store has."""
        self.written += written

    def lose(self, count: int) -> None:
        """Count entries that are lost."""
        if count:
            with self._counting:
                self.lost += count

    def fail(self, fault: str, *, unforeseen: bool = False) -> None:
        """Record that a write failed; ``unforeseen``: with an error for which its batch is lost."""
        if not self.fault:
            self._lost_before = self.lost
            what = "a batch is lost" if unforeseen else f"new entries wait, {self._place}"
            log.warning("%s: %s; %s", self._name, fault, what, exc_info=unforeseen)
        self.fault = fault

    def recover(self) -> None:
        """Record that a write succeeded."""
        if self.fault:
            log.warning("%s: recovered; lost meanwhile: %d", self._name, self.lost - self._lost_before)
        self.fault = ""


class Overflow(Generic[T]):
    """Moves entries into the spill once a queue is half full, and back into batches."""

    def __init__(
        self, spill: Spill[T], queue: deque[T | threading.Event], limits: Limits, tally: Tally
    ) -> None:
        self._spill: Final = spill
        self._queue: Final = queue
        self._limits: Final = limits
        self._tally: Final = tally
        self._moving: Final = threading.Lock()  # held while the spill, or the order behind it, is touched
        self._full: Final = threading.Event()  # the queue is half full
        self._mover: threading.Thread | None = None
        self._in_hand: list[T] = []  # on their way from the queue to the spill
        self._is_taken = False  # the writer's batch is from the spill
        self._fault = ""
        self._has_begun = False
        self._until = math.inf  # when closed: until when the spill is emptied
        self.is_left = False  # what waits was left to the next start

    @property
    def spilled(self) -> int:
        """Entries in the spill that are not taken."""
        return self._spill.waiting

    @property
    def waiting(self) -> int:
        """Entries that are neither in the queue nor taken."""
        return len(self._in_hand) + self._spill.waiting

    @property
    def is_due(self) -> bool:
        """Whether the time is over in which a closed writer empties the spill."""
        return bool(self._spill.waiting) and time.monotonic() > self._until

    def rouse(self) -> None:
        """Let the thread look at the queue."""
        if self._mover is None:
            mover = threading.Thread(target=self._move, name=f"{self._limits.name}-spill", daemon=True)
            try:
                mover.start()
            except RuntimeError:  # the system has no thread left; the next entry asks again
                return
            self._mover = mover
        self._full.set()

    def end(self, until: float) -> None:
        """Move nothing more; ``until`` is when the spill is emptied no longer, by ``time.monotonic``."""
        self._until = until
        self._full.set()

    def open_leftover(self) -> None:
        """Open the file that an ended process left."""
        try:
            self._spill.open_leftover()
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        """Release the spill."""
        with self._moving:
            self._spill.close()

    def fill(self, batch: list[T]) -> list[threading.Event]:
        """Fill a batch, from the spill while that has entries; return the events as ``fill`` does."""
        with self._moving:
            if not (self._spill.waiting or self._is_taken):
                return fill(self._queue, batch)
            if not batch:  # entries of the spill come before those of the queue, in batches of their own
                self._take(batch)
            return []

    def confirm(self) -> None:
        """Remove the entries of the last batch, which the store has, if they are from the spill."""
        if self._is_taken:
            with self._moving:
                self._confirm()

    def leave(self, batch: list[T]) -> None:
        """Leave the waiting entries, in order, to the next start; count those the spill refuses as lost."""
        self.is_left = True
        with self._moving:
            pieces = [] if self._is_taken else [batch]
            put = self._spill.put_first
            while self._queue or pieces:
                if not pieces:
                    for reached in fill(self._queue, self._in_hand):
                        reached.set()
                    pieces, put, self._in_hand = [self._in_hand], self._spill.append, []
                piece = pieces.pop()
                try:
                    self._tally.lose(put(piece))
                except OSError as error:
                    self._fail(error)
                    log.warning("%s: lost at shutdown: %d", self._limits.name, len(piece))
                    self._tally.lose(len(piece))
            batch.clear()
            where = self._spill.where
            log.warning("%s: waiting entries are written after the next start: %s", self._limits.name, where)

    def _take(self, batch: list[T]) -> None:
        try:
            taken, damaged = self._spill.take(BATCH)
            batch += taken
            self._is_taken = True
            if not batch:
                self._confirm()
        except OSError as error:
            self._fail(error)
            time.sleep(self._limits.retry)
            return
        self._tally.lose(damaged)

    def _confirm(self) -> None:
        self._is_taken = False
        try:
            self._spill.confirm()
        except OSError as error:  # a later start may write this batch again
            self._fail(error)
        if not self._spill.waiting and self._has_begun:
            self._has_begun = False
            log.warning("%s: the store has all that waited in the spill file", self._limits.name)
        self.open_leftover()

    def _move(self) -> None:
        while self._until == math.inf:
            self._full.wait()
            self._full.clear()
            while len(self._queue) * 2 >= self._limits.size and self._move_some():
                pass
            if self._fault:
                time.sleep(self._limits.retry)

    def _move_some(self) -> bool:
        """Move the oldest entries of the queue to the end of the spill; False when that is impossible."""
        with self._moving:
            if self._until < math.inf:  # the writer's thread does the rest
                return False
            for reached in fill(self._queue, self._in_hand):
                reached.set()
            try:
                refused = self._spill.append(self._in_hand)
            except OSError as error:
                self._queue.extendleft(reversed(self._in_hand))
                self._in_hand = []
                self._fail(error)
                return False
            self._tally.lose(refused)
            if not self._has_begun:
                self._has_begun = True
                where = self._spill.where
                log.warning("%s: the queue is half full; new entries wait in %s", self._limits.name, where)
            self._in_hand, self._fault = [], ""
        return True

    def _fail(self, error: OSError) -> None:
        if not self._fault:
            file = error.filename or ""
            log.warning("%s: the spill file %s cannot be used: %s", self._limits.name, file, error)
        self._fault = str(error)
