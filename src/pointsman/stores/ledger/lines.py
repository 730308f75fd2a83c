"""A ledger as JSON lines: a file that is rotated and packed, or standard output for a collector.

A line is a row of one entry: ``{"version": 3, "row": "attempt", …}`` with the entry's fields
(docs/reference/ledger.md). Lines are written and never read back: a gateway reads a ledger in memory with
the newest decisions since its start. ``pointsman ledger copy`` makes a ledger of the files.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pointsman.decision.decision import TextMode
from pointsman.errors import StoreUnavailable
from pointsman.stores.batch_writer import BatchWriter
from pointsman.stores.ledger._bodies import entry_in, line_of, lines_of, row_of
from pointsman.stores.ledger._retention import NONE_REMOVED, Retention
from pointsman.stores.ledger._spill import lock_file, unlock_file, write_all
from pointsman.stores.ledger._sqlite import MemoryLedger
from pointsman.stores.ledger.port import Entry
from pointsman.stores.ledger.reading import Reason
from pointsman.vocabulary import DAY

__all__ = ["JsonLinesLedger", "LineFile", "entry_in", "line_of", "put_aside", "row_of"]

log = logging.getLogger(__name__)

#: Decisions that can be read, some 5 kB each.
RECENT: Final = 2_000


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
        self._lines: Final = (
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
        kept, lines, refused = lines_of(batch, self._mode)
        try:
            self._lines.write(lines)
        except OSError as error:
            raise StoreUnavailable(f"cannot write the ledger: {error}") from error
        for entry in kept:
            self._held.put(entry)
        return refused

    def _upkeep(self) -> bool:
        return self._lines.upkeep()


#: Bytes packed in one piece, between which lines are written: some ten milliseconds.
_PIECE: Final = 1 << 20

#: Seconds between two looks at the files put aside.
_SWEEP: Final = 600.0

#: Bytes that a pipe takes at once (PIPE_BUF of Linux): lines of several processes do not mix up to it.
_AT_ONCE: Final = 4_096


class StandardOutput:
    """Standard output, for a collector. When that does not read, rows wait, and are lost beyond the queue."""

    def write(self, lines: Sequence[bytes]) -> None:
        """Write lines."""
        piece = b""
        for line in lines:
            if piece and len(piece) + len(line) >= _AT_ONCE:
                write_all(1, piece)
                piece = b""
            piece += line + b"\n"
        write_all(1, piece)

    def upkeep(self) -> bool:
        """Nothing is left to do."""
        return False

    def close(self) -> None:
        """Leave it open: it belongs to the process."""


class LineFile:
    """A file of lines.

    Args:
        path: The file; its directory is made with the first line.
        rotate: Bytes after which it is put aside, as ``NAME-20261122T211500.123456.jsonl``.
        gzip: Whether files put aside are packed.
        retention: Limits on their age, and on their size in all.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        path: Path,
        *,
        rotate: int,
        gzip: bool,
        retention: Retention,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path: Final = path
        self._rotate: Final = rotate
        self._gzip: Final = gzip
        self._retention: Final = retention
        self._clock: Final = clock
        self._fd: int | None = None
        self._packing: Iterator[None] | None = None
        self._swept_at = -_SWEEP

    def write(self, lines: Sequence[bytes]) -> None:
        """Append lines, all of them or none.

        Raises:
            OSError: they cannot be written.
        """
        if not lines:
            return None
        fd = self._locked()
        try:
            size = os.fstat(fd).st_size
            if size >= self._rotate:
                self._put_aside()
                return self.write(lines)
            try:
                write_all(fd, b"\n".join(lines) + b"\n")
            except OSError:
                with suppress(OSError):
                    os.ftruncate(fd, size)  # they are written again, whole
                raise
        finally:
            self._unlock()

    def upkeep(self) -> bool:
        """Pack a piece of a file put aside, remove files over the bounds; whether more is left."""
        try:
            if self._packing is not None:
                for _ in self._packing:
                    return True
                self._packing = None
            if not 0 <= self._clock() - self._swept_at < _SWEEP:
                self._swept_at = self._clock()
                self._remove_some()
                self._packing = self._pack_all() if self._gzip else None
                return self._packing is not None
        except (OSError, zlib.error) as error:
            self._packing = None
            log.warning("earlier files of the ledger %s cannot be packed or removed: %s", self._path, error)
        return False

    def close(self) -> None:
        """Release the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _locked(self) -> int:
        """The file at the path, locked."""
        while True:
            if self._fd is None:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
                self._fd = os.open(self._path, flags, 0o600)  # it may hold people's words
            lock_file(self._fd)
            own = os.fstat(self._fd)
            with suppress(OSError):
                now = self._path.stat()
                if (own.st_dev, own.st_ino) == (now.st_dev, now.st_ino):
                    return self._fd
            self.close()  # it was put aside or moved away, which releases the lock too

    def _unlock(self) -> None:
        if self._fd is not None:
            unlock_file(self._fd)

    def _put_aside(self) -> None:
        stamp = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y%m%dT%H%M%S.%f")
        if sys.platform == "win32":  # an open file is not renamed there
            self.close()
        self._path.rename(self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}"))
        self.close()
        self._swept_at = -_SWEEP  # it is packed in the next pause

    def _pack_all(self) -> Iterator[None]:
        for file in put_aside(self._path):
            if file.suffix != ".gz":
                yield from _pack(file)

    def _remove_some(self) -> None:
        days, bound = self._retention.keep_days, self._retention.max_mb
        files = [(each, each.stat()) for each in put_aside(self._path)]
        left = sum(found.st_size for _, found in files)
        for file, found in files:
            is_old = days is not None and found.st_mtime < self._clock() - days * DAY
            if is_old or (bound is not None and left > bound * 1024 * 1024):
                file.unlink(missing_ok=True)
                why = self._retention.why("age" if is_old else "size")
                log.warning("removed %s, %.1f MiB: %s", file, found.st_size / 1024 / 1024, why)
                left -= found.st_size


def put_aside(path: Path) -> list[Path]:
    """Return the files that were put aside of the one at a path, the oldest first."""
    name = re.escape(path.stem) + r"-\d{8}T\d{6}\.\d{6}" + re.escape(path.suffix) + r"(\.gz)?"
    found = {each.name.removesuffix(".gz"): each for each in sorted(path.parent.glob("*"))
             if re.fullmatch(name, each.name)}  # fmt: skip
    return [found[each] for each in sorted(found)]


def _pack(file: Path) -> Iterator[None]:
    """Pack a file piece by piece, and remove it; one that another process packs is left to it."""
    packed = file.with_name(file.name + ".gz")
    partial = file.with_name(file.name + ".partial")
    with suppress(FileNotFoundError), file.open("rb") as source:
        if not lock_file(source.fileno(), wait=False) or not file.exists():
            return
        packer = zlib.compressobj(wbits=31)  # with the header of gzip
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target:
            while piece := source.read(_PIECE):
                target.write(packer.compress(piece))
                yield
            target.write(packer.flush())
        found = file.stat()
        os.utime(partial, (found.st_atime, found.st_mtime))
        partial.rename(packed)
        file.unlink()
