"""The file behind a ledger's queue: nothing is lost while the store is away, each entry is written once."""

from __future__ import annotations

import logging
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pointsman.decision.decision import TextMode
from pointsman.errors import StoreUnavailable
from pointsman.stores.batch_writer import BATCH, BatchWriter
from pointsman.stores.ledger import Entry, PromptText, SpillFile, SqliteLedger
from pointsman.testing import a_decision, an_attempt
from support.waiting import until

if TYPE_CHECKING:
    from support.engines import Postgres

NOW = 1_800_000_000.0


def spill(path: Path, *, max_mb: float = 64, text: TextMode = "off") -> SpillFile:
    return SpillFile(path / "spill", max_mb=max_mb, text=text)


class Store:
    """Takes batches; can be away, or stall."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.away = True
        self.running = threading.Event()
        self.running.set()

    def write(self, batch: Sequence[Entry]) -> int:
        self.running.wait(60)
        if self.away:
            raise OSError("away")
        self.kept.extend(entry.decision for entry in batch if isinstance(entry, PromptText))
        return 0


def writer(store: Store, file: SpillFile, *, size: int = 20) -> BatchWriter[Entry]:
    return BatchWriter(store.write, size=size, name="test", linger=0.0, retry=0.001, spill=file)


def words(number: int) -> PromptText:
    return PromptText(decision=str(number), text="words")


def put_all(queue: BatchWriter[Entry], numbers: Sequence[int]) -> None:
    """Put entries as a gateway does that has less to do than the disk."""
    for number in numbers:
        until(lambda: len(queue._queue) < queue._limits.size)
        assert queue.put(words(number))


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_what_comes_while_a_store_is_away_is_written_in_order_each_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, file = Store(), spill(tmp_path, text="full")
    queue = writer(store, file)
    with caplog.at_level(logging.WARNING):
        put_all(queue, range(3_000))
        until(lambda: queue.waiting == 3_000)
        assert (queue.lost, file.spilled > 2_900) == (0, True)
        store.away = False
        until(lambda: not queue.waiting)
        put_all(queue, range(3_000, 3_010))
    assert queue.close()
    assert store.kept == numbers(3_010)
    assert (queue.written, queue.lost) == (3_010, 0)
    assert "the queue is half full" in caplog.text
    assert "the store has all that waited" in caplog.text


def test_a_store_that_stalls_makes_nobody_wait(tmp_path: Path) -> None:
    store, file = Store(), spill(tmp_path, text="full")
    store.away = False
    store.running.clear()
    queue = writer(store, file)
    put_all(queue, range(500))  # the writer's thread is inside of ``write`` all the time
    until(lambda: file.spilled > 400)
    store.running.set()
    until(lambda: not queue.waiting)
    queue.close()
    assert store.kept == numbers(500)


def test_what_cannot_be_written_at_the_end_waits_for_the_next_start(tmp_path: Path) -> None:
    store, file = Store(), spill(tmp_path, text="full")
    queue = writer(store, file)
    queue.put(words(0))
    until(lambda: queue.fault)  # this one is in the batch that is tried again: older than all in the file
    put_all(queue, range(1, 200))
    assert queue.close(60)
    assert (queue.lost, queue.written) == (0, 0)
    (left,) = tmp_path.glob("spill.*")
    assert stat.S_IMODE(left.stat().st_mode) == 0o600

    store.away, again = False, spill(tmp_path, text="full")
    assert again.has_leftover()
    second = writer(store, again)
    second.resume()
    until(lambda: store.kept == numbers(200))
    put_all(second, range(200, 210))
    second.close()
    assert store.kept == numbers(210)
    assert not spill(tmp_path).has_leftover()


def test_beyond_the_bound_entries_are_lost_and_counted(tmp_path: Path) -> None:
    store, file = Store(), spill(tmp_path, max_mb=0.01, text="full")
    queue = writer(store, file)
    taken = 0
    for number in range(5_000):
        taken += queue.put(words(number))
        if number < 100:
            until(lambda: len(queue._queue) < queue._limits.size)
    assert queue.lost == 5_000 - taken > 0
    assert (tmp_path / "spill.0").stat().st_size <= 0.01 * 1024 * 1024
    store.away = False
    until(lambda: not queue.waiting)
    queue.close()
    assert len(store.kept) == taken == len(set(store.kept))
    assert store.kept == sorted(store.kept, key=int)


def test_a_folder_that_cannot_be_written_costs_what_it_cost_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    store, file = Store(), SpillFile(tmp_path / "file" / "spill", max_mb=1, text="full")
    queue = writer(store, file)
    put: list[bool] = []

    def is_refused() -> bool:  # the writer may empty a full queue into its batch before the file is tried
        put.extend(queue.put(words(len(put))) for _ in range(100))
        return queue.lost > 0 and "cannot be used" in caplog.text

    until(is_refused)
    taken = sum(put)
    assert queue.lost == len(put) - taken > 0
    store.away = False
    until(lambda: not queue.waiting)
    queue.close()
    assert len(store.kept) == taken


def test_two_processes_have_a_file_each_and_the_next_takes_over_both(tmp_path: Path) -> None:
    first, second = spill(tmp_path, text="full"), spill(tmp_path, text="full")
    first.append([words(1)])
    second.append([words(2)])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["spill.0", "spill.1"]
    third = spill(tmp_path, text="full")
    third.open_leftover()
    assert third.waiting == 0  # both are in use
    first.close()
    second.close()
    store = Store()
    store.away = False
    queue = writer(store, third)
    queue.resume()
    until(lambda: len(store.kept) == 2)
    queue.close()
    assert store.kept == ["1", "2"]


def test_half_a_line_and_a_damaged_one_cost_themselves(tmp_path: Path) -> None:
    first = spill(tmp_path, text="full")
    first.append([words(1), words(2), words(3)])
    first.close()
    (left,) = tmp_path.iterdir()
    content = left.read_bytes().replace(b'"decision":"2"', b'"decision":"2')
    left.write_bytes(content + b'{"version":3,"row":"te')
    again = spill(tmp_path)
    again.open_leftover()
    assert again.waiting == 3
    entries, damaged = again.take(BATCH)
    assert ([entry.decision for entry in entries if isinstance(entry, PromptText)], damaged) == (
        ["1", "3"],
        1,
    )
    again.close()


@pytest.mark.parametrize(("mode", "kept"), [("hash", "sha256:"), ("redacted", "[e-mail]"), ("full", "a@b")])
def test_the_file_holds_what_the_ledger_keeps_of_a_text(tmp_path: Path, mode: TextMode, kept: str) -> None:
    secret = "write to a@b.example"
    direct, through = SqliteLedger(tmp_path / "a", text=mode), SqliteLedger(tmp_path / "b", text=mode)
    file = spill(tmp_path, text=mode)
    file.append([PromptText(decision="d", text=secret)])
    (left,) = tmp_path.glob("spill.*")
    assert (b"a@b" in left.read_bytes()) == (mode == "full")
    entries, _ = file.take(1)
    file.close()
    with closing(direct), closing(through):
        direct.append(PromptText(decision="d", text=secret))
        through.append(entries[0])
        assert direct.text("d") == through.text("d")
        assert kept in (through.text("d") or "")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


_CHILD = """
import sys, time
from pathlib import Path
from pointsman.stores.ledger import SpillFile, SqliteLedger
from pointsman.testing import a_decision, an_attempt
place = Path(sys.argv[1])
file = SpillFile(place / "spill", max_mb=64, text="off")
ledger = SqliteLedger(place / "ledger.sqlite", queue=20, spill=file)
for number in range(300):
    while len(ledger._writer._queue) > 15:
        time.sleep(0.001)
    ledger.append(a_decision(f"d{number}"))
    ledger.append(an_attempt(f"d{number}"))
print(file.spilled, ledger.lost, flush=True)
time.sleep(600)
"""


def test_a_killed_process_leaves_its_file_and_the_next_writes_it_once(tmp_path: Path) -> None:
    place = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(place)) as ledger:
        ledger.append(a_decision("before"))
    with locked(place):
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        spilled, lost = map(int, child.stdout.readline().split())
        child.send_signal(signal.SIGKILL)
        child.wait(60)
        child.stdout.close()
    assert (lost, spilled > 500) == (0, True)
    with closing(SqliteLedger(place, spill=spill(tmp_path))) as ledger:
        ledger.start()
        until(lambda: not ledger.waiting and not spill(tmp_path).has_leftover())
        found = [decision.id for decision in ledger.decisions(limit=None, newest_first=False)]
        every = [f"d{number}" for number in range(300)]
        counts = [len(ledger.attempts(each)) for each in every]
    rows = len(set(found) - {"before"}) + sum(counts)
    assert spilled <= rows <= 600
    assert len(set(found)) == len(found)
    assert max(counts) == 1


def test_postgresql_stops_and_starts_and_has_everything_once(postgres: Postgres, tmp_path: Path) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed: the extra `postgres`")
    from pointsman.stores.ledger.postgres import PostgresLedger

    file = spill(tmp_path)
    with closing(PostgresLedger(postgres.database(), queue=100, spill=file, clock=lambda: NOW)) as ledger:
        ledger.append(a_decision("before", at=NOW))
        ledger.flush()
        postgres.stop()
        try:
            for number in range(2_000):
                until(lambda: len(ledger._writer._queue) < 90)
                ledger.append(a_decision(f"d{number}", at=NOW))
                ledger.append(an_attempt(f"d{number}"))
            assert ledger.spilled > 3_000
            with pytest.raises(StoreUnavailable):
                ledger.get("before")
        finally:
            postgres.start()
        until(lambda: not ledger.waiting)
        kept = [decision.id for decision in ledger.decisions(limit=None)]
        assert (ledger.lost, len(kept), len(set(kept))) == (0, 2_001, 2_001)
        assert all(len(ledger.attempts(f"d{number}")) == 1 for number in range(0, 2_000, 100))
    assert not spill(tmp_path).has_leftover()
    assert (tmp_path / "spill.0").stat().st_size == 20
