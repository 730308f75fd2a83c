"""A ledger in memory: for tests, demonstrations and programs that want nothing on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pointsman.decision.decision import Decision, TextMode
from pointsman.stores.ledger._queued import HeldEntries
from pointsman.stores.ledger._retention import Retention
from pointsman.stores.ledger._schema import ledger_in_memory
from pointsman.stores.ledger._sqlite import SqliteLedger
from pointsman.stores.ledger.port import Entry

__all__ = ["MemoryLedger"]

#: Entries of one decision, and rows that belong to one, that are stored on average: a decision, its words,
#: two attempts.
_PER_DECISION: Final = 4

#: Most rows of each table, in decisions. Entries of a decision are removed with it; the rest has this bound.
_BOUNDS: Final = (
    ("decisions", 1), ("passed", 1), ("runs", 1), ("owners", 1), ("attempts", _PER_DECISION),
    ("outcomes", _PER_DECISION), ("texts", _PER_DECISION), ("shadows", _PER_DECISION),
)  # fmt: skip


class MemoryLedger(SqliteLedger):
    """Stores the newest ``size`` decisions with their entries, in a SQLite database in memory.

    Entries become rows with the next read. Of the entries of decisions that are not there the newest rows
    are stored, in case the decision follows.

    Args:
        size: Decisions.
        text: The stored form of prompts.
        queue: Entries that may wait to be written elsewhere before they come here.
    """

    def __init__(self, *, size: int = 10_000, text: TextMode = "off", queue: int = 0) -> None:
        file = ledger_in_memory()
        queue = max(queue, _PER_DECISION * size)
        super().__init__(Path(":memory:"), queue=queue, text=text, retention=Retention(None, None), file=file)
        self._size: Final = size
        self._held: Final = HeldEntries(
            self._write_held, size=_PER_DECISION * size, lock=file.lock, dropped=self._count_dropped
        )
        self._writer = self._held

    @property
    def where(self) -> str:
        """In memory."""
        return "memory"

    def _write_held(self, batch: Sequence[Entry]) -> int:
        """Make rows of a batch, and remove the rows beyond the bounds."""
        try:
            refused = SqliteLedger._write_rows(self, batch)
        finally:
            self._admission.written(entry.id for entry in batch if type(entry) is Decision)
        connection = self._file.writer()
        for table, share in _BOUNDS:
            oldest = f"DELETE FROM {table} WHERE rowid <= (SELECT max(rowid) FROM {table}) - ?"  # noqa: S608 - tables above
            count = connection.execute(oldest, (share * self._size,)).rowcount
            self._removed["size"] += count if table == "decisions" else 0
        return refused

    def _count_dropped(self, entry: Entry) -> None:
        if type(entry) is Decision:
            self._admission.written((entry.id,))
            self._removed["size"] += 1
