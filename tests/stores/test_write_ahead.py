"""Several processes open one new file at the same moment."""

import sqlite3
from typing import cast

import pytest

from pointsman.stores import _sqlite_file


class Busy:
    """A connection that SQLite refuses the log for some times, without waiting."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.asked = 0

    def execute(self, statement: str) -> None:
        self.asked += 1
        if self.asked <= self.refusals:
            error = sqlite3.OperationalError(f"database is locked: {statement}")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error


def test_the_log_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("pointsman.stores._sqlite_file.time.sleep", waited.append)
    busy = Busy(3)
    _sqlite_file._use_log(cast("sqlite3.Connection", busy))
    assert (busy.asked, len(waited)) == (4, 3)


def test_it_ends_when_nobody_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sqlite_file, "BUSY", -1.0)
    with pytest.raises(sqlite3.OperationalError):
        _sqlite_file._use_log(cast("sqlite3.Connection", Busy(3)))
