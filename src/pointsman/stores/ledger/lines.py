"""A ledger as JSON lines: a file that is rotated and packed, or standard output for a collector.

A line is a row of one entry: ``{"version": 3, "row": "attempt", …}`` with the entry's fields
(docs/reference/ledger.md). What is read is the memory of this process: the newest decisions since its start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from pointsman.decision.decision import Decision, TextMode
from pointsman.errors import StoreUnavailable
from pointsman.prices import Prices
from pointsman.stores.ledger._line_files import LineFile, StandardOutput, put_aside
from pointsman.stores.ledger._line_rows import entry_in, kept_entry, line_of, row_of
from pointsman.stores.ledger._memory import MemoryLedger
from pointsman.stores.ledger._queued import QueuedLedger
from pointsman.stores.ledger._retention import NONE_REMOVED, Retention
from pointsman.stores.ledger.port import (
    Attempt,
    Entry,
    Outcome,
    Owner,
    PassedRequest,
    PolicyUse,
    Record,
    RunEntry,
    Shadow,
)
from pointsman.stores.ledger.reading import (
    NO_PRICES,
    DecisionFilter,
    DecisionRow,
    Page,
    Position,
    Totals,
)

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


class JsonLinesLedger(QueuedLedger):
    """Appends every entry as a line. Reading knows the newest decisions that this process appended.

    Args:
        to: The file; None: standard output.
        queue: Entries that may wait to be written.
        text: What is kept of prompts.
        rotate_mb: MiB of a file after which a new one begins.
        gzip: Whether the files before it are packed.
        retention: How long, and up to which size in all, they are kept.
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
        self._recent: Final = MemoryLedger(size=recent, text="full")  # of what is kept, all
        self._lines: Final[Lines] = (
            LineFile(to, rotate=int(rotate_mb * 1024 * 1024), gzip=gzip, retention=retention)
            if to
            else StandardOutput()
        )
        super().__init__(queue=queue, text=text)

    removed: Final = NONE_REMOVED  # of a file that is removed nobody counts the lines: the log names it

    def get(self, decision_id: str, /, *, caller: str = "") -> Decision | None:
        """Return a decision by id; of one caller alone when named."""
        return self._read().get(decision_id, caller=caller)

    def owner(self, object: str, /) -> str | None:  # noqa: A002 - the port's name
        """Return whose an object is; None where nobody made it since the start."""
        return self._read().owner(object)

    def attempts(self, decision_id: str, /) -> tuple[Attempt, ...]:
        """Return a decision's attempts in order."""
        return self._read().attempts(decision_id)

    def outcomes(self, decision_id: str, /) -> tuple[Outcome, ...]:
        """Return a decision's outcomes in order of arrival."""
        return self._read().outcomes(decision_id)

    def shadows(self, decision_id: str, /) -> tuple[Shadow, ...]:
        """Return what was said beside a decision, in order of arrival."""
        return self._read().shadows(decision_id)

    def text(self, decision_id: str, /) -> str | None:
        """Return what was kept of a decision's text."""
        return self._read().text(decision_id)

    def policies(self) -> tuple[PolicyUse, ...]:
        """Return the policies of the decisions that can be read, the one that decided last first."""
        return self._read().policies()

    def policy(self, version: str, /) -> str | None:
        """Return the text of a policy since the start; None where it is not kept."""
        return self._read().policy(version)

    def decisions(
        self, *, limit: int | None = 100, session: str = "", newest_first: bool = True
    ) -> Iterator[Decision]:
        """Yield decisions by time of arrival; of one session and its sub-agents when it is named."""
        return self._read().decisions(limit=limit, session=session, newest_first=newest_first)

    def records(
        self, *, limit: int | None = None, session: str = "", since: float | None = None
    ) -> Iterator[Record]:
        """Yield decisions with all that belongs to them, the oldest first; of one session when named."""
        return self._read().records(limit=limit, session=session, since=since)

    def passed(self, *, limit: int | None = 100, newest_first: bool = True) -> Iterator[PassedRequest]:
        """Yield requests that were passed on as they came, newest first; all when ``limit`` is None."""
        return self._read().passed(limit=limit, newest_first=newest_first)

    def owners(self) -> Iterator[Owner]:
        """Yield whose every object is, the first that was made first."""
        return self._read().owners()

    def run(self, run_id: str, /) -> tuple[RunEntry, ...]:
        """Return what was recorded of an agent's run, in order."""
        return self._read().run(run_id)

    def runs(
        self, *, limit: int | None = 100, session: str = "", newest_first: bool = True
    ) -> Iterator[tuple[RunEntry, ...]]:
        """Yield runs of agents, each as ``run`` gives it, the newest first; of one session when named."""
        return self._read().runs(limit=limit, session=session, newest_first=newest_first)

    def search(
        self,
        wanted: DecisionFilter,
        *,
        before: Position | None = None,
        limit: int = 100,
        models: Mapping[str, Prices] = NO_PRICES,
    ) -> Page:
        """Return a page of the decisions that meet a filter, the newest first."""
        return self._read().search(wanted, before=before, limit=limit, models=models)

    def session(self, session: str, /) -> tuple[DecisionRow, ...]:
        """Return the decisions of a session and its sub-agents, the oldest first."""
        return self._read().session(session)

    def totals(self, *, since: float = -math.inf, until: float = math.inf, zone: int = 0) -> Totals:
        """Return the sums of a period, by days of a zone."""
        return self._read().totals(since=since, until=until, zone=zone)

    def unsummarized(self) -> int:
        """Return 0: what is in memory was written by this version."""
        return 0

    def count(self) -> int:
        """Return how many decisions can be read."""
        return self._read().count()

    def close(self) -> None:
        """Write what waits and release the file; what cannot be written is counted as lost."""
        if self._writer.close():
            self._lines.close()

    def _read(self) -> MemoryLedger:
        self.flush()
        return self._recent

    def _outcomes_written(self, decision: str, caller: str) -> int | None:
        if self._recent.get(decision, caller=caller) is None:
            return None
        return len(self._recent.outcomes(decision))

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
            self._recent.append(entry)
        return refused

    def _upkeep(self) -> bool:
        return self._lines.upkeep()
