"""A ledger as JSON lines: a file that is rotated and packed, or standard output for a collector.

A line is a row of one entry: ``{"version": 3, "row": "attempt", …}`` with the entry's fields
(docs/reference/ledger.md). Lines are written and never read back: a gateway reads a ledger in memory with
the newest decisions since its start. ``pointsman ledger copy`` makes a ledger of the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from pointsman.decision.decision import TextMode
from pointsman.errors import StoreUnavailable
from pointsman.stores.batch_writer import BatchWriter
from pointsman.stores.ledger._line_files import LineFile, StandardOutput, put_aside
from pointsman.stores.ledger._line_rows import entry_in, kept_entry, line_of, row_of
from pointsman.stores.ledger._memory import MemoryLedger
from pointsman.stores.ledger._retention import NONE_REMOVED, Reason, Retention
from pointsman.stores.ledger.port import Entry

__all__ = ["JsonLinesLedger", "entry_in", "kept_entry", "line_of", "put_aside", "row_of"]

#: Decisions that can be read, some 5 kB each.
RECENT: Final = 2_000


class Lines(Protocol):
    """Where lines go."""

    def write(self, lines: Sequence[bytes]) -> None:
        """Append lines, all of them or none.

        Raises:
            OSError: they cannot be written.
        """
        ...

    def upkeep(self) -> bool:
        """Do a piece of other work; tell whether more may be left."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class JsonLinesLedger(MemoryLedger):
    """Appends every entry as a line. Reading knows the newest decisions that this process appended.

    Args:
        to: The file; None: standard output.
        queue: Entries that may wait to be written.
        text: The stored form of prompts.
        rotate_mb: MiB of a file after which a new one begins.
        gzip: Whether the files before it are packed.
        retention: Limits on their age, and on their size in all.
        recent: Decisions that can be read.
    """

    def __init__(
        self,
        to: Path | None,
        *,
        queue: int = 10_000,
        text: TextMode = "off",
        rotate_mb: float = 64,
        gzip: bool = True,
        retention: Retention = Retention(),  # noqa: B008 - a frozen value
        recent: int = RECENT,
    ) -> None:
        super().__init__(size=recent, text=text, queue=queue)
        self._lines: Final[Lines] = (
            LineFile(to, rotate=int(rotate_mb * 1024 * 1024), gzip=gzip, retention=retention)
            if to
            else StandardOutput()
        )
        self._place: Final = str(to or "standard output")
        self._row_mode = "full"  # of what is kept, all
        self._writer = BatchWriter(self._write, size=queue, name="ledger", upkeep=self._upkeep)

    @property
    def where(self) -> str:
        """The file, or standard output."""
        return self._place

    @property
    def removed(self) -> Mapping[Reason, int]:
        """Nothing: the lines of a removed file are not counted; the log names the file."""
        return NONE_REMOVED

    def flush(self) -> None:
        """Write everything queued, and make rows of it."""
        super().flush()
        self._held.flush()

    def close(self) -> None:
        """Write what waits and release the file; what cannot be written is counted as lost."""
        if self._writer.close():
            self._lines.close()

    def _outcomes_written(self, decision: str, caller: str) -> int | None:
        self._held.flush()
        return super()._outcomes_written(decision, caller)

    def _write_rows(self, batch: Sequence[Entry]) -> int:
        kept: list[Entry] = []
        lines: list[bytes] = []
        refused = 0
        for entry in batch:
            try:
                if (found := kept_entry(entry, self._mode)) is not None:
                    lines.append(line_of(found))
                    kept.append(found)
            except (TypeError, ValueError, RecursionError):  # counted: there is no row of it
                refused += 1
        try:
            self._lines.write(lines)
        except OSError as error:
            raise StoreUnavailable(f"cannot write the ledger: {error}") from error
        for entry in kept:
            self._held.put(entry)
        return refused

    def _upkeep(self) -> bool:
        return self._lines.upkeep()
