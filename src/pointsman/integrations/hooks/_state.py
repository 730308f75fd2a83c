"""Sessions between two runs of the hook, and the results of its hints."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from pointsman.errors import StoreUnavailable
from pointsman.guidance import Arm, GuidanceDecision, GuidanceMemory
from pointsman.guidance.memory import Followed
from pointsman.vocabulary import DAY

#: Seconds a session is remembered after its last event. Sessions are resumed for days, seldom for weeks.
KEPT: Final = 14 * DAY
#: Seconds to wait for another hook of the same session: parallel calls end together.
BUSY: Final = 5.0
#: Memories of guidance alone, memories where every part is decided, and what all runs share.
_TABLES: Final = ("runs", "decided", "shared")

Kind = TypeVar("Kind")
Common = TypeVar("Common")


class Kept(Generic[Kind]):
    """State of one run, changed while its session is locked."""

    def __init__(self, memory: Kind) -> None:
        self.memory = memory
        self.followed: Followed | None = None  # what came of an intervention, for the report

    def saw(self, run: str, decision: GuidanceDecision) -> None:
        """Note for the report the agent's next step after an intervention."""
        if seen := decision.follow_up:
            self.followed = Followed(run, decision.arm, seen.classifier, seen.continued)


class HookState:
    """Sessions between two runs of the hook: one SQLite file, since hooks of parallel calls overlap.

    Every method raises ``StoreUnavailable`` when the file cannot be used.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path: Final = path
        self._clock: Final = clock

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock()

    @contextmanager
    def session(self, run: str) -> Iterator[Kept[GuidanceMemory]]:
        """Hold a run's memory of guidance alone; its value at the end of the block is stored."""
        with self._held() as db, self._kept(db, "runs", run, GuidanceMemory()) as kept:
            yield kept
            kept.memory = kept.memory.without_content()

    @contextmanager
    def decided(self, run: str, start: Kind, shared: Common) -> Iterator[tuple[Kept[Kind], Kept[Common]]]:
        """Hold a run's memory where every part is decided, and what all runs share.

        Args:
            run: Key of the run.
            start: The memory of a new run. The stored part has no content: see
                ``pointsman.decision.memory.without_content``.
            shared: Initial state shared by all runs.
        """
        with (
            self._held() as db,
            self._kept(db, "decided", run, start) as kept,
            self._kept(db, "shared", "spending", shared) as common,
        ):
            yield kept, common

    @contextmanager
    def _held(self) -> Iterator[sqlite3.Connection]:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _kept(self, db: sqlite3.Connection, table: str, run: str, start: Kind) -> Iterator[Kept[Kind]]:
        row = db.execute(f"SELECT memory FROM {table} WHERE id = ?", (run,)).fetchone()  # noqa: S608 - our own names
        kept = Kept(_decoded(row[0], start) if row else start)
        yield kept
        now, encoded = self._clock(), msgspec.json.encode(kept.memory)
        db.execute(f"INSERT OR REPLACE INTO {table} (id, at, memory) VALUES (?, ?, ?)", (run, now, encoded))  # noqa: S608
        db.execute(f"DELETE FROM {table} WHERE at < ?", (now - KEPT,))  # noqa: S608
        if kept.followed:
            values = (run, kept.followed.arm, kept.followed.classifier, kept.followed.continued)
            db.execute("INSERT INTO followed VALUES (?, ?, ?, ?)", values)

    def followed(self) -> list[Followed]:
        """Result of every intervention, oldest first."""
        with self._connected("?mode=ro") as db:  # who asks after a file leaves it as it is
            rows = db.execute(
                "SELECT run, arm, classifier, continued FROM followed ORDER BY rowid"
            ).fetchall()
        return [Followed(run, Arm(arm), name, bool(continued)) for run, arm, name, continued in rows]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path.touch(mode=0o600)  # as every file of sessions; SQLite's side files take its mode
        except OSError as error:
            raise StoreUnavailable(f"cannot use {self._path}: {error}") from error
        with self._connected() as db:
            for table in _TABLES:
                db.execute(f"CREATE TABLE IF NOT EXISTS {table} (id PRIMARY KEY, at REAL, memory BLOB)")
            db.execute("CREATE TABLE IF NOT EXISTS followed (run, arm, classifier, continued)")
            yield db

    @contextmanager
    def _connected(self, how: str = "") -> Iterator[sqlite3.Connection]:
        uri = self._path.absolute().as_uri() + how
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=BUSY, isolation_level=None)) as db:
                yield db
        except sqlite3.Error as error:
            raise StoreUnavailable(f"cannot use {self._path}: {error}") from error


def _decoded(encoded: bytes, start: Kind) -> Kind:
    """Stored state; an unreadable state of another version is reset."""
    try:
        return msgspec.json.decode(encoded, type=type(start))
    except msgspec.MsgspecError:
        return start
