"""Figures of logs that were read before, stored in the user's cache directory on request.

Stored are numbers, names and paths of ``SessionFigures``, and hashes of the ids of requests; never a text.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from pointsman.audit.figures import SessionFigures
from pointsman.audit.sources import Log
from pointsman.decoding import UNREADABLE
from pointsman.errors import PointsmanError

__all__ = ["Kept", "KeptFigures"]

#: Raised with every change of what is computed, so that no figures of an earlier version are shown.
_VERSION: Final = 5
#: Bytes at the end of a file that tell whether it was changed without growing.
_END: Final = 4_096


class Kept(msgspec.Struct, frozen=True):
    """Figures of one log."""

    fingerprint: bytes
    sessions: list[SessionFigures]
    copies: tuple[int, ...]  # hashes of requests that another log had before


class _File(msgspec.Struct):
    version: int
    logs: dict[str, Kept]


class KeptFigures:
    """A file of figures by log. One that is damaged, or of another version, is as good as none."""

    def __init__(self, file: Path) -> None:
        self._file: Final = file
        self._before = _read(file)
        self._now: dict[str, Kept] = {}

    def get(self, log: Log) -> Kept | None:
        """Stored figures of a log, if no file of it has changed since."""
        kept = self._before.get(_name(log))
        return kept if kept is not None and kept.fingerprint == _fingerprint(log) else None

    def put(self, log: Log, sessions: list[SessionFigures], copies: Sequence[int]) -> None:
        """Store the figures of a log."""
        self._now[_name(log)] = Kept(_fingerprint(log), sessions, tuple(copies))

    def keep(self, log: Log, kept: Kept) -> None:
        """Retain earlier figures."""
        self._now[_name(log)] = kept

    def save(self) -> None:
        """Write the file, for the user's eyes alone. Logs that are no longer there are left out.

        Raises:
            PointsmanError: it cannot be written.
        """
        earlier = {
            name: kept for name, kept in self._before.items() if Path(name.partition("\0")[2]).exists()
        }
        whole = msgspec.msgpack.encode(_File(_VERSION, earlier | self._now))
        beside = self._file.with_suffix(f".{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            beside.touch(mode=0o600)
            beside.write_bytes(whole)
            beside.replace(self._file)
        except OSError as error:
            raise PointsmanError(f"cannot write {self._file}: {error.strerror or error}") from error


def _read(file: Path) -> dict[str, Kept]:
    try:
        found = msgspec.msgpack.decode(file.read_bytes(), type=_File)
    except (OSError, *UNREADABLE):
        return {}
    return found.logs if found.version == _VERSION else {}


def _name(log: Log) -> str:
    return f"{log.source}\0{log.files[0]}"


def _fingerprint(log: Log) -> bytes:
    """Path, size and end of every file; of a database also of its write-ahead log."""
    found = blake2b(digest_size=16)
    for file in log.files:
        for each in (file, file.with_name(f"{file.name}-wal")):
            try:
                with each.open("rb") as opened:
                    size = opened.seek(0, os.SEEK_END)
                    opened.seek(max(0, size - _END))
                    found.update(f"{each}\0{size}\0".encode(errors="surrogateescape") + opened.read())
            except OSError:
                continue  # no such file: reading says what is wrong
    return found.digest()
