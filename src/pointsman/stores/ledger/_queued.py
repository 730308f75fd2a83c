"""Common base of ledgers with a queue of entries that a thread writes."""

from __future__ import annotations

import logging
import operator
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import compress, groupby
from math import inf, isfinite
from typing import Any, Final, TypeAlias

from pointsman.decision.decision import Decision, TextMode
from pointsman.errors import StoreUnavailable
from pointsman.stores.batch_writer import BATCH, BatchWriter
from pointsman.stores.ledger._spill import SpillFile
from pointsman.stores.ledger.outcome_reports import Admission, unknown
from pointsman.stores.ledger.port import MAX_POLICY, MAX_TEXT, Attempt, Entry, Outcome, PolicyText, PromptText
from pointsman.stores.ledger.redact import LONGEST

__all__ = ["DECISIONS", "GatheredUses", "HeldEntries", "QueuedLedger", "of_types", "policies_used"]

log = logging.getLogger(__name__)

DECISIONS: Final = frozenset({Decision})
_policy_of: Final = operator.attrgetter("policy")
_arrival_of: Final = operator.attrgetter("input.arrived_at")


class HeldEntries:
    """Entries that wait for the next read, which writes them: no thread, and nothing to do until then.

    Args:
        write: Writes a batch, as ``BatchWriter`` has it; called by one thread at a time.
        size: Entries that may wait; beyond it the oldest make room.
        lock: Held while entries are written.
        dropped: Is called with an entry that made room.
    """

    fault: Final = ""

    def __init__(
        self,
        write: Callable[[Sequence[Entry]], int],
        *,
        size: int,
        lock: AbstractContextManager[object],
        dropped: Callable[[Entry], None],
    ) -> None:
        self._write: Final = write
        self._size: Final = size
        self._lock: Final = lock
        self._dropped: Final = dropped
        self._queue: Final[deque[Entry]] = deque()
        self._closed = False
        self.written = 0
        self.lost = 0

    @property
    def waiting(self) -> int:
        """Entries that no read has asked for."""
        return len(self._queue)

    def put(self, entry: Entry) -> bool:
        """Queue an entry; False when it is lost."""
        if self._closed:
            self.lost += 1
            return False
        self._queue.append(entry)
        if len(self._queue) > self._size:
            with suppress(IndexError):  # it is being written
                self._dropped(self._queue.popleft())
        return True

    def flush(self) -> None:
        """Write what waits. A batch that cannot be written is lost."""
        with self._lock:
            while batch := list(self._taken()):
                try:
                    refused = self._write(batch)
                except Exception:  # a reader learns it from the log and from ``lost``, as of a file
                    log.warning("ledger: a batch is lost", exc_info=True)
                    refused = len(batch)
                self.written += len(batch) - refused
                self.lost += refused

    def close(self) -> bool:
        """Write the waiting entries, and take no more."""
        self.flush()
        self._closed = True
        return True

    def resume(self) -> None:
        """Nothing is left by an earlier process."""

    def _taken(self) -> Iterator[Entry]:
        """Take the entries of one batch."""
        with suppress(IndexError):  # none is left
            for _ in range(BATCH):
                yield self._queue.popleft()


class QueuedLedger(ABC):
    """The writing side of the port.

    Args:
        queue: entries that may wait to be written.
        text: the stored form of prompts.
        spill: where entries wait that are beyond the queue; None: they are lost.
    """

    def __init__(self, *, queue: int, text: TextMode, spill: SpillFile | None = None) -> None:
        self._queue: Final = queue
        self._mode: Final[TextMode] = text
        self._admission: Final = Admission(queue + BATCH)  # as many as may wait, in the queue and its batch
        self._flush_others: Callable[[], None] | None = None
        self._policy: PolicyText | None = None  # waits for the first decision by it
        self._spill: Final = spill
        self._writer: BatchWriter[Entry] | HeldEntries = BatchWriter(
            self._write, size=queue, name="ledger", upkeep=self._upkeep, spill=spill
        )

    @property
    def lost(self) -> int:
        """Entries that could not be stored, since the start."""
        return self._writer.lost

    @property
    def spilled(self) -> int:
        """Entries that went into the spill file, since the start."""
        return self._spill.spilled if self._spill is not None else 0

    @property
    def waiting(self) -> int:
        """Entries appended, or left by an earlier run, and not yet written."""
        return self._writer.waiting

    @property
    def fault(self) -> str:
        """Why the last write failed; empty after one that did not."""
        return self._writer.fault

    def start(self) -> None:
        """Prepare the store before the first entry. A failure is logged, and tried again with that entry."""
        try:
            self.check()
        except StoreUnavailable as error:
            log.warning("%s; new entries wait, %d at most", error.message, self._queue)
        if self._spill is not None and self._spill.has_leftover():
            self._writer.resume()

    def check(self) -> None:  # noqa: B027 - a file is opened by the thread that writes it
        """Find out whether the store can be written, if that takes no entry.

        Raises:
            StoreUnavailable: it cannot be.
        """

    def append(self, entry: Entry, /) -> None:
        """Queue one entry; encoding and writing happen in the thread."""
        if type(entry) is Attempt:
            self._writer.put(entry)
            return
        if type(entry) is Decision:
            if self._policy is not None:
                self._put_policy(self._policy, entry.policy)
            self._admission.waits(entry.id, entry.input.caller)
            if not self._writer.put(entry):
                self._admission.written((entry,))
            return
        if type(entry) is PolicyText:
            self._policy = entry if len(entry.text) <= MAX_POLICY else None
            return
        if type(entry) is PromptText:
            if self._mode == "off":
                return
            if len(entry.text) > MAX_TEXT + LONGEST:  # what waits holds on to its text
                entry = PromptText(decision=entry.decision, text=entry.text[: MAX_TEXT + LONGEST])
        self._writer.put(entry)

    def _put_policy(self, waiting: PolicyText, version: str) -> None:
        """Queue the text of the policy that decides now: a gateway that decides nothing writes nothing."""
        if waiting.version == version:
            self._policy = None
            self._writer.put(waiting)

    def add_outcome(self, outcome: Outcome, /, *, caller: str = "") -> None:
        """Queue an outcome reported from outside, without making the writer hurry.

        Raises:
            UnknownDecision: there is no such decision of the caller's, neither written nor waiting.
            TooManyOutcomes: it has all it may have.
            StoreUnavailable: the store cannot be read, or the outcome cannot be queued.
        """
        admission, wanted = self._admission, outcome.decision
        with admission.lock:
            is_waiting = admission.is_waiting(wanted, caller)
            count = 0 if is_waiting else self._outcomes_written(wanted, caller)
            if count is None and self._flush_others is not None:  # it may wait in another process
                self._flush_others()
                count = self._outcomes_written(wanted, caller)
            if count is None:
                raise unknown(wanted)
            admission.admit(wanted, count)
            if not self._writer.put(outcome):
                raise StoreUnavailable(
                    "the outcome cannot be stored: the ledger's queue is full, or it is closed"
                )

    def share(self, flush_others: Callable[[], None], writers: int = 1) -> None:
        """Write the same store as other processes do.

        Args:
            flush_others: Asks the others to write what waits. Must not raise.
            writers: How many there are: entries gather for longer, so that all together begin as many
                transactions as one would.
        """
        self._flush_others = flush_others
        if isinstance(self._writer, BatchWriter):
            self._writer.linger *= writers

    def flush(self) -> None:
        """Write everything queued, here and in other processes that write the same store."""
        self._writer.flush()
        if self._flush_others is not None:
            self._flush_others()

    def flush_own(self) -> None:
        """Write everything queued here."""
        self._writer.flush()

    def _write(self, batch: Sequence[Entry]) -> int:
        """Write a batch; return how many of it have no row."""
        waits = False
        try:
            return self._write_rows(batch)
        except (StoreUnavailable, OSError):
            waits = True  # to be tried again
            raise
        finally:
            if not waits:
                self._admission.written(of_types(batch, DECISIONS))

    @abstractmethod
    def _write_rows(self, batch: Sequence[Entry]) -> int:
        """Write a batch in the writer's thread; return how many of it have no row.

        Raises:
            StoreUnavailable, OSError: it is tried again, with more behind it.
        """

    @abstractmethod
    def _outcomes_written(self, decision: str, caller: str) -> int | None:
        """Return the number of a decision's written outcomes; None if the decision is unknown.

        An empty ``caller`` means any. Waiting entries are not written.

        Raises:
            StoreUnavailable: the store cannot be read.
        """

    def _upkeep(self) -> bool:
        """Do a piece of other work in a pause of writing; tell whether more may be left."""
        return False


def of_types(entries: Sequence[Entry], types: frozenset[type]) -> list[Any]:
    """Return the entries of some types. No line of Python runs for each of a thousand."""
    return list(compress(entries, map(types.__contains__, map(type, entries))))


#: Of a policy its version, since when and until when it decided, and how often.
PolicyUses: TypeAlias = list[tuple[str, float, float, int]]


def policies_used(decisions: Iterable[Decision]) -> PolicyUses:
    """The policies of decisions: since when and until when they decided, and how often."""
    rows = []
    for version, found in groupby(sorted(decisions, key=_policy_of), key=_policy_of):
        times = list(map(_arrival_of, found))
        known = list(filter(isfinite, times)) or [0.0]
        rows.append((version, min(known), max(known), len(times)))
    return rows


class GatheredUses:
    """Uses of policies before they are written: their row is a page that not each batch has to write.

    Uses of another policy than before are due at once, so that a stored ledger shows the latest. A
    killed process leaves those of its last ``seconds`` uncounted, and no entry.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds: Final = seconds
        self._written: tuple[float, set[str]] = -inf, set()  # when the last were due, and their versions
        self.waiting: PolicyUses = []
        self.is_asked = False  # whether all are due

    def ask(self, flush: Callable[[], object]) -> None:
        """Have all written, by ``upkeep``: in the pause after this flush, which is over with the next one."""
        if self.waiting:
            self.is_asked = True
            flush()

    def split(self, decisions: Iterable[Decision], now: float) -> tuple[PolicyUses, PolicyUses]:
        """Return the uses to write, with those by decisions of now, and what will then be waiting."""
        uses = [*self.waiting, *policies_used(decisions)]
        at, known = self._written
        versions = {version for version, *_ in uses}
        is_asked, self.is_asked = self.is_asked, False
        if not (uses and (is_asked or versions != known or not 0 <= now - at < self._seconds)):
            return [], uses
        self._written = now, versions
        return uses, []
