"""The local file behind a ledger's queue: entries beyond the queue wait there until the store takes them."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from pointsman.decision.decision import TextMode
from pointsman.stores.ledger._bodies import entry_in, lines_of
from pointsman.stores.ledger.port import Entry

if sys.platform == "win32":

    def lock_file(fd: int, *, wait: bool = True) -> bool:  # noqa: ARG001 - one process writes there
        """Return True: nothing is locked there."""
        return True

    def unlock_file(fd: int) -> None:
        """Do nothing: nothing is locked there."""

else:
    import fcntl

    def lock_file(fd: int, *, wait: bool = True) -> bool:
        """Lock a file until it is closed or unlocked; False if another has it and ``wait`` is False."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def unlock_file(fd: int) -> None:
        """Let others lock a file that stays open."""
        fcntl.flock(fd, fcntl.LOCK_UN)


log = logging.getLogger(__name__)

#: Bytes before the first entry: how much of the file the store has.
_HEADER: Final = 20

#: Processes of one machine that may spill at once, each into a file of its own.
_FILES: Final = 64


class SpillFile:
    """Entries as JSON lines, appended at the end and taken from the beginning. Not safe for threads.

    A process locks one of the files ``PATH.0`` … ``PATH.63``: the first that an ended process left with
    entries, else the first that is free. A file is emptied when the store has all of it. Written without
    ``fsync``: it outlives the process, and may not outlive a power cut.

    Args:
        path: The beginning of the files' names; their directory is made with the first entry.
        max_mb: MiB that a file may have.
        text: The stored form of prompts. Nothing more gets into the file.
    """

    def __init__(self, path: Path, *, max_mb: float, text: TextMode) -> None:
        self._path: Final = path
        self._most: Final = int(max_mb * 1024 * 1024)
        self._mode: Final[TextMode] = text
        self._file: Path | None = None
        self._fd = -1
        self._written = _HEADER  # the store has all bytes before
        self._taken = _HEADER  # the bytes before are being written
        self._end = _HEADER
        self.waiting = 0  # entries that are not taken
        self.spilled = 0  # entries that went into the file since the start

    @property
    def where(self) -> str:
        """The file in use, or the beginning of its name."""
        return str(self._in_use)

    @property
    def _in_use(self) -> Path:
        return self._file or self._path

    def has_leftover(self) -> bool:
        """Whether a file holds entries of this or another process."""
        try:
            return any(file.stat().st_size > _HEADER for file in self._files() if file.exists())
        except OSError:
            return False

    def open_leftover(self) -> None:
        """Open a file that an ended process left, if there is one and none is in use.

        Raises:
            OSError: it cannot be read.
        """
        if self._file is not None:
            return
        for file in self._files():
            if file.exists() and file.stat().st_size > _HEADER and self._open(file):
                if self.waiting:
                    log.warning("ledger: %d entries of an earlier run wait in %s", self.waiting, file)
                    return
                self._empty()

    def append(self, entries: Sequence[Entry]) -> int:
        """Append entries, all of them or none; return how many cannot be encoded.

        Raises:
            OSError: the file is full, or cannot be written.
        """
        _, lines, refused = lines_of(entries, self._mode)
        if not lines:
            return refused
        self._open_any()
        data = b"\n".join((*lines, b""))
        if self._end + len(data) > self._most and self._written - _HEADER > self._most // 2:
            self._rewrite(b"")
        if self._end + len(data) > self._most:
            raise OSError(errno.EFBIG, f"it has the {self._most / 1024 / 1024:g} MiB it may have", self.where)
        os.lseek(self._fd, self._end, os.SEEK_SET)
        try:
            write_all(self._fd, data)
        except OSError:
            os.ftruncate(self._fd, self._end)
            raise
        self._end += len(data)
        self.waiting += len(lines)
        self.spilled += len(lines)
        return refused

    def take(self, most: int) -> tuple[list[Entry], int]:
        """Return the first entries, which stay until ``confirm``, and how many before them are damaged.

        Raises:
            OSError: the file cannot be read.
        """
        entries: list[Entry] = []
        damaged = 0
        with self._in_use.open("rb") as file:
            file.seek(self._taken)
            lines = list(islice(file, min(most, self.waiting)))
        for line in lines:
            try:
                entries.append(entry_in(line))
            except (msgspec.DecodeError, UnicodeError) as error:
                log.warning("a line of %s is damaged: %s", self.where, error)
                damaged += 1
        self._taken += sum(map(len, lines))
        self.waiting -= len(lines)
        return entries, damaged

    def confirm(self) -> None:
        """Remove the taken entries: the store has them."""
        if self._file is None or self._taken == self._written:
            return
        self._written = self._taken
        if self._written < self._end:
            _note(self._fd, self._written)
            return
        self._empty()

    def put_first(self, entries: Sequence[Entry]) -> int:
        """Insert entries before those in the file; return how many cannot be encoded.

        Raises:
            OSError: the file cannot be written: no entry is stored.
        """
        if not self.waiting:
            return self.append(entries)
        _, lines, refused = lines_of(entries, self._mode)
        if lines:
            self._rewrite(b"\n".join((*lines, b"")))
            self.waiting += len(lines)
            self.spilled += len(lines)
        return refused

    def close(self) -> None:
        """Release the file with its entries."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._file = -1, None
        self._written = self._taken = self._end = _HEADER
        self.waiting = 0

    def _files(self) -> list[Path]:
        return [self._path.with_name(f"{self._path.name}.{number}") for number in range(_FILES)]

    def _open_any(self) -> None:
        if self._file is not None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for file in self._files():
            if self._open(file):
                return
        raise OSError(errno.EBUSY, "other processes use all files of this name", self.where)

    def _open(self, file: Path) -> bool:
        """Lock a file and count its entries; False if another process has it."""
        fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)  # it may hold people's words
        try:
            if not lock_file(fd, wait=False):
                os.close(fd)
                return False
            self._fd, self._file = fd, file
            self._look()
        except (OSError, ValueError) as error:
            self.close()
            raise OSError(errno.EIO, f"not a file of waiting entries: {error}", str(file)) from error
        return True

    def _look(self) -> None:
        """Read how far the store is, and count the whole lines behind; half a line is cut off."""
        self._written = self._taken = self._end = _HEADER
        self.waiting = 0
        if os.fstat(self._fd).st_size < _HEADER:
            _note(self._fd, _HEADER)
            return
        with self._in_use.open("rb") as file:
            self._written = self._taken = self._end = int(file.read(_HEADER))
            file.seek(self._written)
            for line in file:
                if line.endswith(b"\n"):
                    self._end += len(line)
                    self.waiting += 1
        os.ftruncate(self._fd, self._end)

    def _rewrite(self, first: bytes) -> None:
        """Write a new file: lines, then the entries that the store does not have."""
        anew = self._in_use.with_name(self._in_use.name + ".new")
        fd = os.open(anew, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            lock_file(fd)
            write_all(fd, b"%019d\n" % _HEADER + first)
            with self._in_use.open("rb") as old, open(fd, "wb", buffering=0, closefd=False) as new:
                old.seek(self._written)
                shutil.copyfileobj(old, new, 1 << 20)
            anew.replace(self._in_use)
        except OSError:
            os.close(fd)
            anew.unlink(missing_ok=True)
            raise
        os.close(self._fd)
        self._fd = fd
        moved = _HEADER + len(first) - self._written
        self._taken, self._end, self._written = self._taken + moved, self._end + moved, _HEADER

    def _empty(self) -> None:
        """Empty and release the file."""
        _note(self._fd, _HEADER)
        os.ftruncate(self._fd, _HEADER)
        self.close()


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, in as many pieces as the system takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _note(fd: int, written: int) -> None:
    os.lseek(fd, 0, os.SEEK_SET)
    write_all(fd, b"%019d\n" % written)
