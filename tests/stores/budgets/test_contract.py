"""Every budget store passes the same checks; what is Valkey's alone."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pointsman.errors import StoreUnavailable
from pointsman.stores.budgets import (
    Book,
    BudgetStore,
    Claim,
    MemoryBudgets,
    PostgresBook,
    Reserved,
    Settlement,
    Spent,
    SqliteBook,
    SqliteBudgets,
    ValkeyBudgets,
)
from pointsman.stores.budgets._sqlite import APPLICATION, MIGRATIONS
from support.engines import Postgres, Valkey

#: Seconds that a call may take on a machine that does other things.
PATIENCE = 60.0


def opened(server: Valkey, book: Book | None = None) -> ValkeyBudgets:
    return ValkeyBudgets(server.url, password=server.password, book=book, timeout=PATIENCE)


def _valkey(request: pytest.FixtureRequest) -> ValkeyBudgets:
    store = opened(request.getfixturevalue("valkey"))
    store._client.redis.flushdb()
    return store


STORES: dict[str, Callable[[pytest.FixtureRequest], BudgetStore]] = {
    "memory": lambda _: MemoryBudgets(),
    "sqlite": lambda request: SqliteBudgets(request.getfixturevalue("tmp_path") / "budgets.sqlite"),
    "valkey": _valkey,
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[BudgetStore]:
    found = STORES[request.param](request)
    yield found
    found.close()


def _claim(counter: str, amount: int, limit: int = 100) -> Claim:
    return Claim(counter, amount, limit, 600.0)


def test_nothing_is_used_at_first(store: BudgetStore) -> None:
    assert store.totals(["a", "b"]) == (0, 0)
    assert store.totals([]) == ()


def test_what_has_room_is_reserved(store: BudgetStore) -> None:
    first = store.reserve("r1", [_claim("a", 60), _claim("b", 1)])
    assert first.ok
    assert first.totals == (60, 1)
    assert store.reserve("r2", [_claim("a", 40)]).totals == (100,)  # exactly full
    assert store.totals(["b", "a"]) == (1, 100)


def test_one_claim_without_room_reserves_nothing(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("b", 95)])
    refused = store.reserve("r2", [_claim("a", 10), _claim("b", 6), _claim("c", 1_000)])
    assert not refused.ok
    assert refused.refused == 1
    assert refused.totals == (0, 95, 0)
    assert store.totals(["a", "b", "c"]) == (0, 95, 0)


def test_a_refusal_tells_what_requests_in_progress_hold(store: BudgetStore) -> None:
    store.join("p")
    store.reserve("p-1", [_claim("a", 60), _claim("b", 10)])
    store.reserve("p-2", [_claim("b", 30)])
    store.settle([Settlement("p-1", {"a": 5, "b": 15})])
    assert store.reserve("p-3", [_claim("a", 1), _claim("b", 60)]) == Reserved((5, 45), refused=1, held=30)
    assert store.reserve("p-4", [_claim("b", 1, limit=45), _claim("a", 1)]).held == 30
    store.settle([Settlement("p-2", {"b": 40})])
    assert store.reserve("p-5", [_claim("b", 60)]) == Reserved((55,), refused=0)


def test_settling_replaces_what_was_reserved(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 80), _claim("b", 1)])
    store.settle([Settlement("r1", {"a": 30, "b": 1})])
    assert store.totals(["a", "b"]) == (30, 1)
    assert store.reserve("r2", [_claim("a", 70)]).ok


def test_settling_nothing_gives_all_back(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 80)])
    store.settle([Settlement("r1", {"a": 0})])
    assert store.totals(["a"]) == (0,)


def test_a_settlement_may_exceed_the_limit(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 80)])
    store.settle([Settlement("r1", {"a": 130})])
    assert store.totals(["a"]) == (130,)
    assert not store.reserve("r2", [_claim("a", 1)]).ok


def test_an_unknown_reservation_held_nothing(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 10)])
    store.settle([Settlement("elsewhere", {"a": 5, "unknown": 7})])
    assert store.totals(["a", "unknown"]) == (15, 0)


def test_several_are_settled_at_once(store: BudgetStore) -> None:
    for number in range(3):
        store.reserve(f"r{number}", [_claim("a", 30), _claim(f"b{number}", 1)])
    store.settle([Settlement(f"r{number}", {"a": number, f"b{number}": 1}) for number in range(3)])
    assert store.totals(["a", "b0", "b1", "b2"]) == (3, 1, 1, 1)


def test_large_numbers_are_exact(store: BudgetStore) -> None:
    most = 10**18  # a thousand million of a currency, in billionths
    store.reserve("r1", [_claim("a", most - 1, most)])
    store.settle([Settlement("r1", {"a": most - 3})])
    assert store.totals(["a"]) == (most - 3,)


def test_of_many_at_once_as_many_get_a_place_as_there_is_room(store: BudgetStore) -> None:
    start = threading.Barrier(8)

    def reserve(worker: int) -> int:
        start.wait(PATIENCE)
        claims = [Claim("a", 5, 100, 600.0), Claim("b", 1, 1_000, 600.0)]
        return sum(store.reserve(f"{worker}/{number}", claims).ok for number in range(25))

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(reserve, range(8))) == 20
    assert store.totals(["a", "b"]) == (100, 20)


def test_memory_forgets_a_counter_after_its_time() -> None:
    now = 0.0
    store = MemoryBudgets(clock=lambda: now)
    store.reserve("r1", [Claim("a", 5, 10, 60.0), Claim("b", 5, 10, 120.0)])
    now = 60.0
    assert store.reserve("r2", [Claim("c", 1, 1, 1.0)]).ok
    assert store.totals(["a", "b"]) == (0, 5)
    store.settle([Settlement("r1", {"a": 7, "b": 7})])
    assert store.totals(["a", "b"]) == (0, 7)
    assert len(store._totals) == 2


def test_processes_share_one_file_which_outlives_them(tmp_path: Path) -> None:
    file = tmp_path / "new" / "budgets.sqlite"
    first, second = (SqliteBudgets(file) for _ in range(2))
    assert first.reserve("r1", [Claim("a", 60, 100, 600.0), Claim("b", 1, 9, 1.0)]).ok
    refused = second.reserve("r2", [Claim("a", 50, 100, 600.0)])
    assert (refused.ok, refused.totals) == (False, (60,))
    first.close()  # killed: what it had reserved stays used
    assert second.reserve("r3", [Claim("a", 40, 100, 600.0)]).totals == (100,)
    second.settle([Settlement("r3", {"a": 20}), Settlement("r1", {"a": 30, "b": 1})])  # it lived on
    second.close()
    third = SqliteBudgets(file)
    assert third.totals(["a", "b"]) == (50, 1)
    third.close()


@pytest.mark.parametrize(("every", "kept"), [("day", 100), ("minute", 5)])
def test_a_file_keeps_windows_by_their_number(every: str, kept: int, tmp_path: Path) -> None:
    """No change of a clock forgets one; a hundred later windows of the same limit do."""
    store = SqliteBudgets(tmp_path / "budgets.sqlite")
    names = [f"money/key/alice/{every}/{start}" for start in range(kept + 1)]
    other = f"money/key/bob/{every}/0"
    store.reserve("other", [Claim(other, 7, 9, 600.0)])
    for name in names[:-1]:
        store.reserve(name, [Claim(name, 1, 9, 600.0)])
    assert store.totals(names) == (*[1] * kept, 0)
    store.reserve("last", [Claim(names[-1], 1, 9, 600.0)])
    assert store.totals(names) == (0, *[1] * kept)
    assert store.totals([other]) == (7,)
    store.close()


def test_a_file_of_the_first_version_keeps_its_counters(tmp_path: Path) -> None:
    file, day = tmp_path / "budgets.sqlite", "money/key/alice/day/1767225600"
    old = sqlite3.connect(file)
    for statement in MIGRATIONS[0]:
        old.execute(statement)
    old.execute("INSERT INTO counters VALUES (?, 70, 1e12)", (day,))
    old.execute("INSERT INTO held VALUES ('r1', ?, 20, 1e12)", (day,))
    old.execute(f"PRAGMA application_id = {APPLICATION}")
    old.execute("PRAGMA user_version = 1")
    old.commit()
    old.close()
    store = SqliteBudgets(file)
    store.settle([Settlement("r1", {day: 5})])
    assert store.totals([day]) == (55,)
    store.close()


def test_a_file_that_is_emptied_gives_no_budget_back(tmp_path: Path) -> None:
    file = tmp_path / "budgets.sqlite"
    store = SqliteBudgets(file)
    store.reserve("r1", [Claim("a", 60, 100, 600.0, lasting=True), Claim("b", 1, 9, 600.0)])
    file.unlink()
    assert store.totals(["a", "b"]) == (60, 0)
    assert not store.reserve("r2", [Claim("a", 50, 100, 600.0, lasting=True)]).ok
    assert store.reserve("r3", [Claim("a", 40, 100, 600.0, lasting=True)]).totals == (100,)
    store.close()


def test_a_file_that_cannot_be_used_is_unavailable(tmp_path: Path) -> None:
    file = tmp_path / "budgets.sqlite"
    file.write_bytes(b"no database" * 100)
    store = SqliteBudgets(file)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="cannot use the budget store"):
            store.reserve("r1", [Claim("a", 1, 1, 1.0)])
    file.unlink()
    assert store.reserve("r1", [Claim("a", 1, 1, 1.0)]).ok
    store.close()


def test_two_gateways_share_one_valkey(valkey: Valkey) -> None:
    first, second = opened(valkey), opened(valkey)
    first._client.redis.flushdb()
    assert first.reserve("r1", [Claim("shared", 60, 100, 600.0)]).ok
    refused = second.reserve("r2", [Claim("shared", 50, 100, 600.0)])
    assert (refused.ok, refused.totals) == (False, (60,))
    first.settle([Settlement("r1", {"shared": 10})])
    assert second.reserve("r3", [Claim("shared", 50, 100, 600.0)]).totals == (60,)


def test_what_a_killed_gateway_had_reserved_stays_used(valkey: Valkey) -> None:
    killed, other = opened(valkey), opened(valkey)
    killed._client.redis.flushdb()
    killed.reserve("r1", [Claim("a", 90, 100, 600.0)])
    refused = other.reserve("r2", [Claim("a", 50, 100, 600.0)])
    assert (refused.ok, refused.totals) == (False, (90,))
    killed.settle([Settlement("r1", {"a": 30})])  # it lived on
    assert other.reserve("r2", [Claim("a", 50, 100, 600.0)]).totals == (80,)


def test_a_counter_that_valkey_has_lost_is_counted_all_the_same(valkey: Valkey) -> None:
    """Without any record, what the processes themselves know comes back with their next calls."""
    first, second = opened(valkey), opened(valkey)
    client: Any = first._client.redis
    client.flushdb()
    first.reserve("r1", [Claim("a", 40, 100, 600.0)])
    second.reserve("r2", [Claim("a", 30, 100, 600.0)])
    first.settle([Settlement("r1", {"a": 35})])
    client.flushdb()
    second.settle([Settlement("r2", {"a": 25})])
    assert second.totals(["a"]) == (25,)  # first's 35 it has not heard of
    assert first.reserve("r3", [Claim("a", 10, 100, 600.0)]).totals == (70,)
    assert second.reserve("r4", [Claim("a", 1, 100, 600.0)]).totals == (71,)
    client.delete("{pointsman:budget}:a")
    assert second.reserve("r5", [Claim("a", 1, 100, 600.0)]).totals == (62,)  # without what first holds


BOOKS: dict[str, Callable[[pytest.FixtureRequest], Book]] = {
    "sqlite": lambda request: SqliteBook(request.getfixturevalue("tmp_path") / "budgets.sqlite"),
    "postgres": lambda request: PostgresBook(request.getfixturevalue("postgres").database()),
}


@pytest.fixture(params=BOOKS)
def book(request: pytest.FixtureRequest) -> Iterator[Book]:
    found = BOOKS[request.param](request)
    yield found
    found.close()


def test_a_book_keeps_the_highest_total_of_each_process(book: Book) -> None:
    assert book.spent(["a", "b"]) == {"a": {}, "b": {}}
    book.record([Spent("a", "p1", 5), Spent("a", "p2", 10**18), Spent("b", "p1", 1)])
    book.record([Spent("a", "p1", 3)])  # late
    book.record([Spent("b", "p1", 2)])
    assert book.spent(["a", "b"]) == {"a": {"p1": 5, "p2": 10**18}, "b": {"p1": 2}}


def test_a_book_keeps_windows_by_their_number(book: Book) -> None:
    names = [f"money/key/alice/day/{start}" for start in range(101)]
    for name in names:
        book.record([Spent(name, "p1", 1), Spent(name, "p2", 1)])
    book.join("p1")
    found = book.spent(names)
    assert [bool(found[name]) for name in names] == [False, *[True] * 100]


def test_a_book_gives_away_no_more_than_the_whole(book: Book) -> None:
    assert book.join("p1") == 1.0
    assert book.join("p2") == 0.0  # p1 has it all, for an hour or until it asks again
    assert book.join("p1") == 0.5
    assert book.join("p2") == 0.5
    assert book.join("p3") == 0.0
    book.leave("p2")
    assert book.join("p3") == 0.5


def test_a_share_in_a_file_ends_after_an_hour_or_with_the_machine(tmp_path: Path) -> None:
    now = 10_000.0
    book = SqliteBook(tmp_path / "budgets.sqlite", clock=lambda: now)
    assert [book.join("p1"), book.join("p2")] == [1.0, 0.0]
    now += 3_600
    assert book.join("p2") == 1.0
    now = 5.0  # the machine has started anew
    assert book.join("p3") == 1.0
    book.close()


def test_valkey_makes_a_counter_again_from_the_record(valkey: Valkey, book: Book) -> None:
    first = opened(valkey, book)
    client: Any = first._client.redis
    client.flushdb()
    claim = Claim("money/key/alice/day/0", 40, 100, 600.0, lasting=True)
    first.reserve("r1", [claim])
    first.settle([Settlement("r1", {claim.counter: 38})])
    first._writer.flush(PATIENCE)
    client.flushdb()
    later = opened(valkey, book)  # knows nothing of it
    assert later.totals([claim.counter]) == (38,)
    assert later.reserve("r2", [claim]).totals == (78,)
    assert not first.reserve("r3", [claim]).ok
    later.close()


def test_what_was_spent_without_the_store_is_counted_when_it_is_back(valkey: Valkey, book: Book) -> None:
    """An outage at the start of a window: the store has never heard of the counter."""
    store = opened(valkey, book)
    client: Any = store._client.redis
    client.flushdb()
    claim = Claim("money/key/alice/day/0", 40, 100, 600.0, lasting=True)
    store.settle([Settlement("r1", {claim.counter: 30}, [claim])])
    assert store.totals([claim.counter]) == (30,)
    store._writer.flush(PATIENCE)
    assert sum(book.spent([claim.counter])[claim.counter].values()) == 30


def test_a_settlement_that_is_sent_again_counts_once(valkey: Valkey) -> None:
    store = opened(valkey)
    store._client.redis.flushdb()
    store.reserve("r1", [Claim("a", 50, 100, 600.0)])
    call = store._call

    def without_reply(*arguments: Any) -> Any:
        call(*arguments)
        raise StoreUnavailable("the reply is lost")

    store._call = without_reply  # type: ignore[method-assign, assignment]
    with pytest.raises(StoreUnavailable):
        store.settle([Settlement("r1", {"a": 20})])
    store._call = call  # type: ignore[method-assign]
    store.settle([Settlement("r1", {"a": 20})])
    assert store.totals(["a"]) == (20,)


def test_counters_and_reservations_end_by_themselves(valkey: Valkey) -> None:
    store = opened(valkey)
    client: Any = store._client.redis
    client.flushdb()
    store.reserve("r1", [Claim("a", 50, 100, 600.0)])
    store.settle([Settlement("r1", {"a": 20})])
    left = {key: client.ttl(key) for key in client.keys("*")}
    assert {key.decode().rpartition(":")[2] for key in left} == {"a"}
    assert all(0 < seconds <= 601 for seconds in left.values())


def test_a_wrong_password_is_unavailable_and_not_told(valkey: Valkey) -> None:
    store = ValkeyBudgets(valkey.url, password="not-the-one", timeout=PATIENCE, clock=lambda: 0.0)
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="cannot reach the budget store") as caught:
            store.reserve("r1", [Claim("a", 1, 1, 1.0)])
        assert "not-the-one" not in str(caught.value)
    with pytest.raises(StoreUnavailable, match="failed within the last second"):
        store.totals(["a"])


def test_a_schema_that_is_there_takes_no_right_to_make_one(postgres: Postgres) -> None:
    import psycopg

    url = postgres.database()
    with psycopg.connect(url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute("DROP ROLE IF EXISTS least")
        connection.execute("CREATE ROLE least LOGIN PASSWORD 'least'")
        connection.execute("CREATE SCHEMA pointsman_budgets AUTHORIZATION least")
    book = PostgresBook(f"postgresql://least:least@/{name}?host={postgres.directory}")
    for _ in range(2):
        book.record([Spent("a", "p1", 5)])
        book.close()
    assert book.spent(["a"]) == {"a": {"p1": 5}}
    book.close()
