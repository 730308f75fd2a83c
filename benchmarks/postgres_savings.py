"""Savings per day over ten million decisions in PostgreSQL, from their summaries.

PYTHONPATH=tests .venv/bin/python benchmarks/postgres_savings.py [ROWS]

The summaries are made in the server by generate_series, thirty partitions of a day each, and added up by the
ledger's own upkeep (`seal_one`), hour by hour; the newest hour is left as it is in service: not added up yet.
The indexes for searching are left out of the filling; the sums do not read them. Each turn knows the one
before, as its writer notes it: else adding an hour up would write all of its rows again. Tiers have a model
each, with some fallbacks; turns have gaps, caches and models as sessions have. CPU of the client and of its
backend together, and times of the wall, which say how busy the machine is too.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from sqlite_savings import BEGAN, DAYS, END, MODELS, ROWS

from pointsman.prices import Prices
from pointsman.reports.savings import SavingsCalculator
from pointsman.stores.ledger.postgres import PostgresLedger
from pointsman.stores.ledger.postgres._connection import Database
from pointsman.stores.ledger.postgres._schema import Partitions
from pointsman.stores.ledger.postgres._summaries import COLUMNS, seal_one
from pointsman.vocabulary import DAY, ModelSpec
from support import engines

READS = 20
#: Every value of a row, from `n`, its number, and three pseudo-random numbers below 100.
VALUES = {
    "id": "lpad(to_hex(n), 12, '0')", "at": "at", "session": "'session-' || n / 400 || '-' || a % 20",
    "caller": "''", "role": "''", "project": "''", "project_name": "''", "client": "''",
    "tier": "tier", "model": "model", "result": "2", "status": "200",
    "attempts": "1", "domains": "'{}'::text[]", "signals": "'{a/b/c,a/b/d}'::text[]", "stuck": "a = 7",
    "downgraded": "b < 3", "abstained": "a = 9", "label": "''", "score": "NULL::float8", "labelled": "false",
    "input": "200 + a * 500", "cached": "a * 300", "output": "10 + b * 20",
    "gap": "CASE WHEN c < 60 THEN 0 WHEN c < 75 THEN 1 WHEN c < 90 THEN c % 4 + 2 ELSE c % 13 - 1 END",
    "reused": "a * 400", "own": "CASE WHEN b < 5 THEN '' ELSE model END", "switched": "b < 2",
    "asked": "c = 5", "trials": "0", "added": "0", "judging": "0", "parts": "'[]'",
    "hour": "floor(at / 3600)::bigint", "beside": "''", "before": "'[\"\",null,' || at || ',null]'",
    "last_model": "model",
    "tried": "model",
}  # fmt: skip
TIER = "(ARRAY['SIMPLE','MEDIUM','COMPLEX','REASONING'])[1 + a % 4]"
USUAL = "(ARRAY['small','middle','large','large'])[1 + a % 4]"


def fill(url: str) -> float:
    """Make the rows and their sums; return the seconds of CPU of the backend."""
    connection = Database(url).writer()
    Partitions().ensure(connection, range(int(BEGAN // DAY), int(END // DAY)))
    for index in ("by_session", "stuck", "downgraded", "abstained", "labelled"):
        connection.execute(f"DROP INDEX summaries_{index}")
    connection.execute("SET statement_timeout = 0")
    per_day = ROWS // DAYS
    for day in range(DAYS):
        drawn = (
            "abs(hashint8(n)) % 100 AS a, abs(hashint8(n + 1)) % 100 AS b, abs(hashint8(n + 2)) % 100 AS c"
        )
        connection.execute(
            f"INSERT INTO summaries ({', '.join(COLUMNS)}) "
            f"SELECT {', '.join(VALUES[name] for name in COLUMNS)} FROM (SELECT *, {TIER} AS tier, "
            f"CASE WHEN b < 3 THEN 'middle' ELSE {USUAL} END AS model FROM (SELECT n, {drawn}, "
            f"{BEGAN + day * DAY} + (n - {day * per_day}) * {DAY / per_day}::float8 AS at "
            f"FROM generate_series({day * per_day}::bigint, {(day + 1) * per_day - 1}) AS n) AS numbers) "
            "AS drawn"
        )
        print(f"\rday {day + 1} of {DAYS}", end="", file=sys.stderr)
    hours = range(int(BEGAN // 3600), int(END // 3600))
    connection.execute("INSERT INTO dirty SELECT unnest(%s::bigint[])", (list(hours),))
    while seal_one(connection, END - 1):
        pass
    for table in ("summaries", "hours", "days", "groups", "dirty"):  # as autovacuum does in service
        connection.execute(f"ANALYZE {table}")
    spent = ticks(Path(f"/proc/{connection.info.backend_pid}/stat"))
    connection.close()
    return spent


def measured(name: str, ledger: PostgresLedger, read: Callable[[], object]) -> None:
    """Times of the wall, and of the CPU of this process and of the backend together."""
    read()
    connection = ledger._summaries._connection
    assert connection is not None
    stat = Path(f"/proc/{connection.info.backend_pid}/stat")
    wall, own, there = [], time.process_time(), ticks(stat)
    for _ in range(READS):
        began = time.perf_counter()
        read()
        wall.append((time.perf_counter() - began) * 1e3)
    spent = (time.process_time() - own + ticks(stat) - there) / READS * 1e3
    print(
        f"{name:<36} {spent:7.1f} ms of CPU; "
        f"wall {statistics.median(wall):7.1f} ms median {min(wall):7.1f} least"
    )


def ticks(stat: Path) -> float:
    """Seconds of CPU that a process has used."""
    used = stat.read_text().rpartition(")")[2].split()
    return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    programs = engines.find_postgres()
    assert programs is not None, "there is no PostgreSQL here: make services"
    priced: dict[str, ModelSpec] = MODELS
    assert all(isinstance(each, Prices) for each in priced.values())
    with engines.postgres(programs) as server:
        url = server.database()
        began = time.perf_counter()
        spent = fill(url)
        with psycopg.connect(url) as connection:
            [rows] = connection.execute("SELECT count(*) FROM pointsman.summaries").fetchone() or (0,)
            [sums] = connection.execute("SELECT count(*) FROM pointsman.hours").fetchone() or (0,)
        print(
            f"\r{rows:,} summaries and {sums:,} sums of hours made in {spent:.0f} s of the server's CPU, "
            f"{time.perf_counter() - began:.0f} of the wall"
        )
        ledger = PostgresLedger(url)
        measured(f"totals of {DAYS} days", ledger, ledger.totals)
        measured(f"totals of {DAYS} days, zone +2", ledger, lambda: ledger.totals(zone=2))
        measured(
            "savings per day", ledger, lambda: SavingsCalculator(MODELS, "large").by(ledger.totals(), "day")
        )
        measured("totals of the last day", ledger, lambda: ledger.totals(since=END - DAY))
        ledger.close()


if __name__ == "__main__":
    main()
