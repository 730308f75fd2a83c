"""What a row of the ledger costs in SQLite, in PostgreSQL and as JSON lines, in one run.

PYTHONPATH=tests .venv/bin/python benchmarks/ledgers.py [ENTRIES]

CPU times of this process, all threads: appending, encoding, summaries and writing. An entry is a decision or
its attempt, by halves. Medians of interleaved rounds, so that other work on the machine meets all alike. What
the server of PostgreSQL spends is told apart: it runs elsewhere. Starts an engine of its own (tests/support).
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from pointsman.stores.ledger import Entry, SqliteLedger
from pointsman.stores.ledger.lines import JsonLinesLedger
from pointsman.stores.ledger.postgres import PostgresLedger
from pointsman.testing import a_decision, an_attempt
from support import engines

ENTRIES = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
ROUNDS = 5
_TICK = os.sysconf("SC_CLK_TCK")


def entries(name: str) -> list[Entry]:
    found: list[Entry] = []
    for number in range(ENTRIES // 2):
        session = f"{name}-{number % 500}"
        found.append(a_decision(f"{name}-{number}", at=time.time(), session=session))
        found.append(an_attempt(f"{name}-{number}"))
    return found


def spent(ledger: SqliteLedger | PostgresLedger | JsonLinesLedger, name: str) -> float:
    """Seconds of CPU an entry."""
    given = entries(name)
    ledger.append(a_decision(f"{name}-first", at=time.time()))  # the tables and the thread
    ledger.flush()
    began = time.process_time()
    for entry in given:
        ledger.append(entry)
    while ledger.waiting:
        ledger.flush()
    found = (time.process_time() - began) / ENTRIES
    assert not ledger.lost
    ledger.close()
    return found


def server_seconds(url: str) -> float:
    """CPU of the backends that serve a database."""
    with psycopg.connect(url) as connection:
        query = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
        )
        pids = [pid for (pid,) in connection.execute(query)]
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in stats) / _TICK


def in_postgres(url: str, name: str) -> tuple[float, float]:
    ledger = PostgresLedger(url, queue=2 * ENTRIES)
    close, seconds = ledger.close, 0.0

    def told() -> None:
        nonlocal seconds
        seconds = server_seconds(url)
        close()

    ledger.close = told  # type: ignore[method-assign]
    return spent(ledger, name), seconds / ENTRIES


def main() -> None:
    programs = engines.find_postgres()
    assert programs is not None, "there is no PostgreSQL here: make services"
    times: dict[str, list[float]] = {}
    with engines.postgres(programs) as server, tempfile.TemporaryDirectory() as name:
        folder, url = Path(name), server.database()
        for number in range(ROUNDS):
            ways: dict[str, Callable[[str], float]] = {
                "SQLite (baseline)": lambda each: spent(
                    SqliteLedger(folder / f"{each}.sqlite", queue=2 * ENTRIES), each
                ),
                "JSON lines": lambda each: spent(
                    JsonLinesLedger(folder / f"{each}.jsonl", queue=2 * ENTRIES), each
                ),
            }
            for way, run in ways.items():
                times.setdefault(way, []).append(run(f"{number}-{way[:2]}"))
            own, there = in_postgres(url, f"{number}-pg")
            times.setdefault("PostgreSQL", []).append(own)
            times.setdefault("PostgreSQL: its server, beside", []).append(there)
    medians = {way: statistics.median(found) for way, found in times.items()}
    print(f"{ENTRIES:,} entries, half of them decisions, {ROUNDS} rounds; CPU an entry")
    for way, median in medians.items():
        ratio = median / medians["SQLite (baseline)"]
        print(f"{way:<32} {median * 1e6:7.1f} µs  {ratio:5.2f} x  (least {min(times[way]) * 1e6:.1f})")


if __name__ == "__main__":
    main()
