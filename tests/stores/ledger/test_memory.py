"""The ledger in memory keeps the newest decisions, whatever else is appended, and writes when it is read."""

import gc
import sqlite3
import threading

import pytest

from pointsman.stores._sqlite_file import SqliteFile
from pointsman.stores.ledger import DecisionFilter, MemoryLedger, Outcome, PromptText
from pointsman.stores.ledger._schema import ledger_in_memory
from pointsman.testing import a_decision, an_attempt


def test_entries_without_a_decision_push_no_decision_out() -> None:
    ledger = MemoryLedger(size=10)
    for number in range(10):
        ledger.append(a_decision(f"d{number}"))
    assert ledger.count() == 10
    for number in range(100):
        ledger.append(Outcome(decision=f"none{number}", score=1.0))
        ledger.flush()
    assert ledger.count() == 10
    assert [bool(ledger.outcomes(f"none{number}")) for number in (0, 59, 60, 99)] == [
        False,
        False,
        True,
        True,
    ]


def test_the_oldest_decision_goes_with_all_that_belongs_to_it() -> None:
    ledger = MemoryLedger(size=2)
    for name in ("a", "b", "c"):
        ledger.append(a_decision(name))
        ledger.add_outcome(Outcome(decision=name, score=1.0))
    assert ledger.count() == 2
    assert ledger.outcomes("a") == ()
    assert len(ledger.outcomes("b")) == 1
    assert [row.id for row in ledger.search(DecisionFilter()).rows] == ["c", "b"]
    assert sum(each.turns for each in ledger.totals().turns) == 2
    assert ledger.removed == {"age": 0, "size": 1}


def test_a_ledger_that_nobody_reads_keeps_the_newest_and_starts_no_thread() -> None:
    before = threading.active_count()
    ledger = MemoryLedger(size=3, text="full")
    for number in range(100):
        ledger.append(a_decision(f"d{number}", at=float(number)))
        ledger.append(PromptText(decision=f"d{number}", text="words"))
        ledger.append(an_attempt(f"d{number}"))
    assert (ledger.waiting, ledger.removed["size"]) == (12, 96)
    assert [each.id for each in ledger.decisions()] == ["d99", "d98", "d97"]
    assert ledger.text("d99") == "words"
    assert (ledger.waiting, ledger.lost, threading.active_count()) == (0, 0, before)


def test_it_is_read_after_it_was_closed() -> None:
    ledger = MemoryLedger()
    ledger.append(a_decision("d"))
    ledger.close()
    ledger.append(a_decision("late"))
    assert [each.id for each in ledger.decisions()] == ["d"]
    assert ledger.lost == 1


def test_several_threads_append_and_read() -> None:
    ledger = MemoryLedger(size=5_000)

    def work(name: int) -> None:
        for number in range(200):
            ledger.append(a_decision(f"{name}-{number}", at=float(number), session=f"s{name}"))
            ledger.append(an_attempt(f"{name}-{number}"))
            if number % 50 == 0:
                assert len(ledger.session(f"s{name}")) == number + 1

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ledger.count(), ledger.lost) == (800, 0)
    assert len(ledger.attempts("0-199")) == 1


def test_its_database_is_closed_before_the_connection_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cycle the connection may be finalized first: from Python 3.13 on sqlite3 warns, an error here."""
    monkeypatch.delattr(SqliteFile, "__del__")
    file = ledger_in_memory()
    connection = file.writer()
    del file
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
