"""What a SQLite ledger keeps when it is written fast: bytes over all tables, and the share of outcomes."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from pointsman.stores.ledger import Outcome, Owner, PassedRequest, PromptText, Retention, SqliteLedger
from pointsman.stores.ledger import _schema as schema
from pointsman.stores.ledger._retention import OWNER_BYTES, OWNERS, SWEEP
from pointsman.testing import a_decision, a_run_entry, an_attempt
from pointsman.vocabulary import DAY
from support.waiting import until

MIB = 1024 * 1024
FOREVER = Retention(keep_days=None, max_mb=None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def pragma(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def size(path: Path) -> int:
    return pragma(path, "page_count") * pragma(path, "page_size")


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.mark.parametrize(
    ("ahead", "sweeps", "removed"),
    [(0, 3, 0), (40, 1, 0), (40, 2, 2), (40, 3, 4), (4_000, 2, 2)],  # in days; two decisions are a day apart
)
def test_a_clock_that_is_ahead_removes_a_day_in_ten_minutes(
    path: Path, caplog: pytest.LogCaptureFixture, ahead: int, sweeps: int, removed: int
) -> None:
    """The first sweep removes nothing: no decision is as new as the clock. Each later one logs a line."""
    now = 100 * DAY
    with closing(SqliteLedger(path, retention=FOREVER)) as ledger:
        for day in range(20):
            ledger.append(a_decision(f"d{day}", at=now - day * DAY))
    clock = now + ahead * DAY
    with closing(SqliteLedger(path, retention=Retention(keep_days=30), clock=lambda: clock)) as ledger:
        for number in range(sweeps):
            ledger.append(a_decision(f"new{number}", at=clock))
            ledger.flush()
            clock += SWEEP
        assert (ledger.count(), dict(ledger.removed)) == (20 + sweeps - removed, {"age": removed, "size": 0})
    lines = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert sum("older than keep_days = 30" in line for line in lines) == removed // 2
    assert sum("older than keep_sums_days = 1825" in line for line in lines) == (ahead == 4_000)
    assert len(lines) == removed // 2 + (ahead == 4_000)


def test_what_is_removed_by_size_is_counted_and_logged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(SqliteLedger(path, retention=Retention(None, 1), clock=lambda: 0.0)) as ledger:
        for number in range(3_000):
            ledger.append(a_decision(f"d{number}", at=float(number)))
            if number % 100 == 99:
                ledger.flush()
        assert ledger.removed["size"] == 3_000 - ledger.count() > 1_000
    assert "larger than max_mb = 1" in caplog.text


def outcomes_of(names: list[str], *, count: int, comment: int) -> list[Outcome]:
    return [
        Outcome(decision=name, score=1.0, comment="x" * comment, at=float(number))
        for name in names
        for number in range(count)
    ]


def test_a_fast_writer_does_not_exceed_the_bound_between_sweeps(path: Path) -> None:
    ledger = SqliteLedger(path, retention=Retention(keep_days=None, max_mb=1), clock=lambda: 0.0)
    sizes = []
    for batch in range(30):
        for number in range(batch * 100, batch * 100 + 100):
            ledger.append(a_decision(f"d{number}", at=float(number)))
        ledger.flush()
        for number in range(batch * 100, batch * 100 + 100):
            ledger.append(an_attempt(f"d{number}"))
            ledger.append(Outcome(decision=f"d{number}", score=1.0, at=float(number)))
        ledger.flush()
        sizes.append(size(path))
    assert max(sizes) < 1.25 * MIB
    assert [d.id for d in ledger.decisions(limit=2)] == ["d2999", "d2998"]
    assert 300 < ledger.count() < 2_000
    assert ledger.lost == 0
    ledger.close()
    assert rows(path, "outcomes") <= rows(path, "decisions") == rows(path, "attempts")


def test_entries_that_become_larger_do_not_exceed_the_bound(path: Path) -> None:
    ledger = SqliteLedger(path, text="full", retention=Retention(keep_days=None, max_mb=4), clock=lambda: 1e6)
    for number in range(2_000):
        ledger.append(a_decision(f"small{number}", at=float(number)))
    ledger.flush()
    sizes = []
    for number in range(600):
        ledger.append(a_decision(f"large{number}", at=1e5 + number))
        ledger.append(PromptText(decision=f"large{number}", text="x" * 30_000))
        if number % 20 == 19:
            ledger.flush()
            sizes.append(size(path))
    ledger.close()
    assert max(sizes) < 5.2 * MIB  # the bound, a twentieth, and a batch of 600 kB
    assert ledger.lost == 0


def passed(number: int, path: str = "/v1/files") -> PassedRequest:
    return PassedRequest(id=f"p{number}", at=float(number), upstream="main", method="GET", path=path)


def test_requests_that_were_passed_on_go_by_age(path: Path) -> None:
    ledger = SqliteLedger(path, retention=FOREVER)
    for number in range(3_000):
        ledger.append(passed(number))
    ledger.close()
    late = SqliteLedger(path, retention=Retention(keep_days=1, max_mb=None), clock=lambda: 86_400 + 2_499.0)
    late.append(passed(3_000))
    until(lambda: rows(path, "passed") == 501)  # it goes on in the pauses of writing
    late.close()


@pytest.mark.parametrize("decisions", [0, 200])
def test_requests_that_were_passed_on_are_within_the_bound_of_size(path: Path, decisions: int) -> None:
    """Beside decisions, and where there is no decision that could go."""
    ledger = SqliteLedger(path, retention=Retention(keep_days=None, max_mb=2), clock=lambda: 1e6)
    for number in range(decisions):
        ledger.append(a_decision(f"d{number}", at=1e5 + number))
    for number in range(15_000):
        ledger.append(passed(number, "/v1/" + "x" * 190))
        if number % 500 == 499:
            ledger.flush()
    newest = next(ledger.passed(), None)
    ledger.close()
    assert size(path) < 2.6 * MIB
    if newest:
        assert newest.id == "p14999"
    # All of them are older than any decision, so a decision that goes takes along what there is.
    assert decisions or rows(path, "passed") > 1_000


def test_runs_of_agents_go_by_age(path: Path) -> None:
    ledger = SqliteLedger(path, retention=FOREVER)
    for number in range(3_000):
        ledger.append(a_run_entry(f"r{number}", at=float(number)))
    ledger.close()
    late = SqliteLedger(path, retention=Retention(keep_days=1, max_mb=None), clock=lambda: 86_400 + 2_499.0)
    late.append(a_run_entry("new", at=3_000.0))
    until(lambda: rows(path, "runs") == 501)  # it goes on in the pauses of writing
    late.close()


def test_runs_of_agents_are_within_the_bound_of_size(path: Path) -> None:
    ledger = SqliteLedger(path, retention=Retention(keep_days=None, max_mb=2), clock=lambda: 1e6)
    for number in range(10_000):
        ledger.append(a_run_entry(f"r{number}", at=1e5 + number, session="s" * 200))
        if number % 500 == 499:
            ledger.flush()
    [newest] = next(ledger.runs())
    ledger.close()
    assert newest.run == "r9999"
    assert size(path) < 2.6 * MIB
    assert rows(path, "runs") > 1_000


def test_outcomes_push_no_decision_out(path: Path) -> None:
    names = [f"d{number}" for number in range(200)]
    ledger = SqliteLedger(path, retention=Retention(keep_days=None, max_mb=4), clock=lambda: 0.0)
    for number, name in enumerate(names):
        ledger.append(a_decision(name, at=float(number)))
        for outcome in outcomes_of([name], count=20, comment=4_000):  # 16 MB in all
            ledger.append(outcome)
        ledger.flush()
    assert ledger.count() == len(names)
    assert ledger.outcomes("d0") == ()
    assert len(ledger.outcomes("d199")) == 20
    ledger.close()
    assert size(path) < 2 * MIB


def test_outcomes_of_no_decision_push_no_decision_out(path: Path) -> None:
    ledger = SqliteLedger(path, retention=FOREVER)  # as a gateway without bounds would have left it
    for number in range(500):
        ledger.append(a_decision(f"d{number}", at=float(number)))
    for outcome in outcomes_of([f"none{number}" for number in range(500)], count=1, comment=10_000):
        ledger.append(msgspec.structs.replace(outcome, at=1e9))
    ledger.close()
    late = SqliteLedger(path, retention=Retention(keep_days=None, max_mb=3), clock=lambda: 1e9)
    late.append(a_decision("new", at=1e9))
    late.close()
    assert rows(path, "decisions") == 501
    assert size(path) < 3 * MIB


def test_outcomes_go_with_their_decision_and_are_counted_no_more(path: Path) -> None:
    ledger = SqliteLedger(path, retention=FOREVER)
    ledger.append(a_decision("d"))
    for outcome in outcomes_of(["d"], count=5, comment=100):
        ledger.append(outcome)
    ledger.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        [before] = connection.execute("SELECT bytes FROM totals WHERE name = 'outcomes'").fetchone()
        connection.execute("DELETE FROM decisions")
        [after] = connection.execute("SELECT bytes FROM totals WHERE name = 'outcomes'").fetchone()
    assert before > 500
    assert (after, rows(path, "outcomes")) == (0, 0)


def test_outcomes_of_an_older_file_are_counted(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as older:
        for statement in (statement for migration in schema.MIGRATIONS[:3] for statement in migration):
            older.execute(statement)
        older.execute(f"PRAGMA application_id = {schema.APPLICATION}")
        older.execute("PRAGMA user_version = 3")
        older.execute("INSERT INTO outcomes VALUES ('none', 0, ?)", (b"x" * 1_000,))
    ledger = SqliteLedger(path, retention=FOREVER)
    ledger.append(a_decision("d"))
    ledger.close()
    with closing(sqlite3.connect(path)) as connection:
        [counted] = connection.execute("SELECT bytes FROM totals WHERE name = 'outcomes'").fetchone()
    assert 1_000 <= counted < 1_100


def test_owners_are_as_many_as_their_share_the_newest(path: Path) -> None:
    ledger = SqliteLedger(path, retention=Retention(keep_days=None, max_mb=1), clock=lambda: 1e9)
    most = int(MIB * OWNERS / OWNER_BYTES)
    for number in range(most + 50):
        ledger.append(Owner(object=f"{number:032x}", caller="alice", at=0.0))
    ledger.close()
    later = SqliteLedger(path, retention=Retention(keep_days=30, max_mb=1), clock=lambda: 2e9)
    later.append(a_decision("d", at=2e9))
    later.close()
    assert rows(path, "owners") == most
    assert (later.owner(f"{49:032x}"), later.owner(f"{50:032x}")) == (None, "alice")
