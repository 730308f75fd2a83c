"""Savings per day over ten million decisions in SQLite, from their summaries.

.venv/bin/python benchmarks/sqlite_savings.py [ROWS] [FOLDER]

The sibling of ``postgres_savings.py``: the same rows, made in the file by SQL, and added up by the ledger's
own upkeep, hour by hour; the newest hour is left as it is in service: not added up yet. CPU of this process,
and times of the wall, which say how busy the machine is too.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pointsman.reports.savings import SavingsCalculator
from pointsman.stores._sqlite_file import SqliteFile
from pointsman.stores.ledger import DecisionFilter, Retention, SqliteLedger
from pointsman.stores.ledger._schema import ledger_file
from pointsman.stores.ledger._summaries import COLUMNS
from pointsman.stores.ledger._sums import seal_some
from pointsman.vocabulary import DAY, ModelSpec

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
DAYS = 30
READS = 5
BEGAN = 1_794_960_000.0  # midnight UTC
END = BEGAN + DAYS * DAY
MODELS = {
    name: ModelSpec(name, "main", name, input_per_million=price, output_per_million=price * 4)
    for name, price in (("small", 0.2), ("middle", 1.0), ("large", 5.0))
}
AT = f"{BEGAN} + n * {DAYS * DAY / ROWS!r}"
#: Every value of a row, from `n`, its number, and three pseudo-random numbers below 100.
VALUES = {
    "id": "printf('%012x', n)", "session": "'session-' || (n / 400) || '-' || (a % 20)", "tier": "tier",
    "at": AT, "hour": f"CAST(({AT}) / 3600 AS INT)", "model": "model", "result": "2", "status": "200",
    "attempts": "1", "stuck": "a = 7", "downgraded": "b < 3", "abstained": "a = 9", "score": "NULL",
    "signals": "char(10) || 'a/b/c' || char(10) || 'a/b/d' || char(10)",
    "input": "200 + a * 500", "cached": "a * 300", "output": "10 + b * 20", "reused": "a * 400",
    "gap": "CASE WHEN c < 60 THEN 0 WHEN c < 75 THEN 1 WHEN c < 90 THEN c % 4 + 2 ELSE c % 13 - 1 END",
    "own": "CASE WHEN b < 5 THEN '' ELSE model END", "switched": "b < 2", "asked": "c = 5", "parts": "'[]'",
    "tried": "model",
    **dict.fromkeys(("labelled", "trials", "added", "judging"), "0"),
}  # fmt: skip
FILL = f"""INSERT INTO summaries ({", ".join(COLUMNS)})
    WITH numbers(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :end),
    drawn AS (SELECT n, n * 7919 % 104729 % 100 AS a, n * 6007 % 15485863 % 100 AS b,
        n * 3571 % 1299709 % 100 AS c FROM numbers),
    named AS (SELECT *, CASE a % 4 WHEN 0 THEN 'SIMPLE' WHEN 1 THEN 'MEDIUM' WHEN 2 THEN 'COMPLEX'
        ELSE 'REASONING' END AS tier, CASE WHEN b < 3 THEN 'middle' WHEN a % 4 = 0 THEN 'small'
        WHEN a % 4 = 1 THEN 'middle' ELSE 'large' END AS model FROM drawn)
    SELECT {", ".join(VALUES.get(name, "''") for name in COLUMNS)} FROM named"""
STEP = 100_000


def timed(name: str, work: Callable[[], object], times: int = 1) -> None:
    """Print the CPU and the time of the wall of some work; medians."""
    cpu, wall = [], []
    for _ in range(times):
        spent, began = time.process_time(), time.perf_counter()
        work()
        cpu.append(time.process_time() - spent)
        wall.append(time.perf_counter() - began)
    print(
        f"{name:<40} {statistics.median(cpu):9.3f} s of CPU {statistics.median(wall):9.3f} of the wall",
        flush=True,
    )


def fill(file: SqliteFile) -> None:
    connection = file.writer()
    for first in range(0, ROWS, STEP):
        connection.execute(FILL, {"first": first, "end": min(first + STEP, ROWS)})
    connection.execute("INSERT INTO dirty SELECT DISTINCT hour FROM summaries")


def add_up(file: SqliteFile) -> None:
    connection = file.writer()
    while seal_some(connection, int((END - 1) // 3600)):
        pass


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as folder:
        path = Path(folder) / "ledger.sqlite"
        file = ledger_file(path)
        timed(f"fill {ROWS:,} rows", lambda: fill(file))
        timed("add all hours up", lambda: add_up(file))
        file.close()
        print(f"{path.stat().st_size / 1e6:,.0f} MB")
        ledger = SqliteLedger(path, retention=Retention(None, None))
        savings = SavingsCalculator(MODELS, "large")
        for name, read in (
            (f"totals of {DAYS} days", ledger.totals),
            (f"totals of {DAYS} days, zone +2", lambda: ledger.totals(zone=2)),
            ("savings per day", lambda: savings.by(ledger.totals(), "day")),
            ("totals of the last day", lambda: ledger.totals(since=END - DAY)),
            ("newest 100", lambda: ledger.search(DecisionFilter())),
            (
                "100 of a tier and a model",
                lambda: ledger.search(DecisionFilter(tier="COMPLEX", model="large")),
            ),
            ("a signal that no row has", lambda: ledger.search(DecisionFilter(signal="none"))),
            ("a session", lambda: ledger.search(DecisionFilter(session=f"session-{ROWS // 800}-7"))),
        ):
            timed(name, read, READS)
        ledger.close()


if __name__ == "__main__":
    main()
