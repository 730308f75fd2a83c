"""What writing down costs, beside one transaction a row: what a ledger on the request path would cost.

.venv/bin/python benchmarks/stores.py

CPU times; medians of interleaved rounds, so that other work on the machine meets all rows alike.
"""

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from pointsman.stores.ledger import PromptText, SqliteLedger
from pointsman.stores.ledger.redact import redact
from pointsman.stores.sessions import MemorySessions, SqliteSessions
from pointsman.testing import a_decision

ROUNDS, ENTRIES = 7, 2_000
PROSE = "Please look at the failing test in the parser and tell me what is wrong. " * 27  # 2 kB


def ledger(directory: Path) -> tuple[float, float]:
    """Seconds of CPU an entry: on the caller's thread, and in all."""
    store = SqliteLedger(directory / "ledger.sqlite", queue=ENTRIES)
    entries = [a_decision(f"d{number}", at=time.time()) for number in range(ENTRIES)]
    began, own = time.process_time(), time.thread_time()
    for entry in entries:
        store.append(entry)
    own = time.thread_time() - own
    while store.waiting:
        store.flush()
    everything = time.process_time() - began
    store.close()
    return own / ENTRIES, everything / ENTRIES


def one_transaction_a_row(directory: Path) -> float:
    connection = sqlite3.connect(directory / "plain.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE decisions (id TEXT PRIMARY KEY, session TEXT, at REAL, body BLOB)")
    entries = [a_decision(f"d{number}") for number in range(ENTRIES)]
    began = time.process_time()
    for entry in entries:
        row = (entry.id, entry.input.session, entry.input.arrived_at, msgspec.json.encode(entry))
        connection.execute("INSERT INTO decisions VALUES (?, ?, ?, ?)", row)
    spent = time.process_time() - began
    connection.close()
    return spent / ENTRIES


def words_dropped(directory: Path) -> float:
    store = SqliteLedger(directory / "unused.sqlite")
    entry = PromptText(decision="d", text=PROSE)
    return each(lambda: store.append(entry))


def sessions(store: MemorySessions) -> float:
    memory = b"x" * 2_000
    names = [f"s{number}" for number in range(ENTRIES)]
    began = time.thread_time()
    for name in names:
        store.get(name)
        store.put(name, memory)
    spent = time.thread_time() - began
    store.close()
    return spent / ENTRIES


def each(work: Callable[[], object]) -> float:
    began = time.thread_time()
    for _ in range(ENTRIES):
        work()
    return (time.thread_time() - began) / ENTRIES


def once() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        plain = one_transaction_a_row(directory)
        own, everything = ledger(directory)
        return {
            "one transaction a row (baseline)": plain,
            "ledger: append, on the request's thread": own,
            "ledger: append and write, all threads": everything,
            "ledger: words in text mode off": words_dropped(directory),
            "ledger: redacting 2 kB of prose": each(lambda: redact(PROSE)),
            "sessions: get and put, memory": sessions(MemorySessions()),
            "sessions: get and put, sqlite": sessions(SqliteSessions(directory / "sessions.sqlite")),
        }


def main() -> None:
    rounds = [once() for _ in range(ROUNDS)]
    names = list(rounds[0])
    medians = {name: statistics.median(each[name] for each in rounds) for name in names}
    baseline = medians[names[0]]
    for name, seconds in medians.items():
        print(f"{name:<42} {seconds * 1e6:8.2f} µs  {seconds / baseline:7.3f} x")


if __name__ == "__main__":
    main()
