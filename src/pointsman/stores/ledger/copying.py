"""Copies entries from one ledger into another, each once, also when it is done again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from pointsman.decision.decision import Decision
from pointsman.errors import StoreUnavailable
from pointsman.stores.ledger.port import (
    Entry,
    Ledger,
    Owner,
    PassedRequest,
    PolicyText,
    PromptText,
    Record,
    RunEntry,
    Search,
)

__all__ = ["Copied", "copy_into", "entries_of"]

#: Entries that are compared with what is there, and written, at once.
STEP: Final = 1_000


class Copied:
    """How many entries were copied, and how many were there already."""

    def __init__(self) -> None:
        self.written = 0
        self.there = 0


def entries_of(ledger: Search) -> Iterator[Entry]:
    """Yield everything in a ledger, each decision with its entries, the oldest first.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    yield from ledger.owners()
    policies: set[str] = set()
    for record in ledger.records():
        version = record.decision.policy
        if version not in policies:  # before the first decision by it, with which it is stored
            policies.add(version)
            if (policy := ledger.policy(version)) is not None:
                yield PolicyText(version=version, text=policy)
        yield from _entries_in(record)
    yield from ledger.passed(limit=None, newest_first=False)
    for run in ledger.runs(limit=None, newest_first=False):
        yield from run


def copy_into(target: Ledger, entries: Iterable[Entry]) -> Copied:
    """Append missing entries. Entries that were copied before are found again: nothing is there twice.

    Args:
        target: Stores texts as they are.
        entries: The entries to copy, each decision before the entries that belong to it.

    Raises:
        StoreUnavailable: the target cannot be read or written.
    """
    copied, source, read = Copied(), iter(entries), 0
    # An empty target needs no look-up: all entries but those of one decision are independent.
    is_new = not target.count() and not next(target.passed(limit=1), None)
    known = _Known(target, is_new=is_new)
    while step := list(islice(source, STEP)):
        for entry in known.missing(step):
            target.append(entry)
            copied.written += 1
        while target.waiting and not target.fault:  # a flush gives up after some seconds
            target.flush()
        if target.fault or target.lost:
            raise StoreUnavailable(
                target.fault or f"{target.lost:,} entries could not be stored",
                hint="copy again: copied entries are left out",
            )
        read += len(step)
    copied.there = read - copied.written
    return copied


class _Known:
    """Entries of a target.

    Args:
        target: The ledger.
        is_new: It had nothing at the start.
    """

    def __init__(self, target: Ledger, *, is_new: bool) -> None:
        self._target: Final = target
        self._is_new: Final = is_new
        # Of requests that were passed on a digest of some 100 bytes each: they have no index.
        self._passed: Final = set() if is_new else {hash(each) for each in target.passed(limit=None)}
        self._owned: Final = set() if is_new else {each.object for each in target.owners()}

    def missing(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """Yield those that the target does not have."""
        if self._is_new:
            yield from entries
            return
        ids = {decision for entry in entries if (decision := _decision_of(entry))}
        there = self._target.records_of(sorted(ids))
        runs = {entry.run: self._target.run(entry.run) for entry in entries if isinstance(entry, RunEntry)}
        for entry in entries:
            if isinstance(entry, RunEntry):
                is_there = entry in runs[entry.run]
            elif isinstance(entry, Owner):
                is_there = entry.object in self._owned  # the first owner stays
            elif isinstance(entry, PolicyText):
                is_there = self._target.policy(entry.version) == entry.text
            elif isinstance(entry, PassedRequest):
                is_there = hash(entry) in self._passed
            else:
                record = there.get(_decision_of(entry))
                is_there = record is not None and entry in _entries_in(record)
            if not is_there:
                yield entry


def _decision_of(entry: Entry) -> str:
    """Return the id of the decision that an entry is of; empty for none."""
    return entry.id if isinstance(entry, Decision) else getattr(entry, "decision", "")


def _entries_in(record: Record) -> Iterator[Entry]:
    """Yield a decision and all that belongs to it."""
    yield record.decision
    if record.text is not None:
        yield PromptText(decision=record.decision.id, text=record.text)
    yield from record.attempts
    yield from record.outcomes
    yield from record.shadows
