"""Every budget store passes the same checks; what is Valkey's alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pointsman.errors import StoreUnavailable
from pointsman.stores.budgets import (
    BudgetStore,
    Claim,
    MemoryBudgets,
    Settlement,
    SqliteBudgets,
    ValkeyBudgets,
)
from pointsman.testing import budget_store_checks
from support.engines import Valkey

#: Seconds that a call may take on a machine that does other things.
PATIENCE = 60.0


def opened(server: Valkey, lease: int = 3_600) -> ValkeyBudgets:
    return ValkeyBudgets(server.url, password=server.password, timeout=PATIENCE, lease=lease)


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


@pytest.mark.parametrize("check", list(budget_store_checks()), ids=lambda check: check.__name__.strip("_"))
def test_contract(check: Callable[[BudgetStore], None], store: BudgetStore) -> None:
    check(store)


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
    now, file = 1_000.0, tmp_path / "new" / "budgets.sqlite"
    first, second = (SqliteBudgets(file, lease=60, clock=lambda: now) for _ in range(2))
    assert first.reserve("r1", [Claim("a", 60, 100, 600.0), Claim("b", 1, 9, 1.0)]).ok
    refused = second.reserve("r2", [Claim("a", 50, 100, 600.0)])
    assert (refused.ok, refused.totals) == (False, (60,))
    first.close()  # killed: it settles nothing
    now += 61
    assert second.reserve("r3", [Claim("a", 50, 100, 600.0)]).totals == (50,)
    assert second.totals(["a", "b"]) == (50, 0)
    second.settle([Settlement("r3", {"a": 20}), Settlement("r1", {"a": 30})])
    second.close()
    third = SqliteBudgets(file, clock=lambda: now)
    assert third.totals(["a"]) == (50,)
    now += 6_001  # ten times the time of the counter
    third.reserve("r4", [Claim("c", 1, 1, 1.0)])
    assert third.totals(["a", "c"]) == (0, 1)
    third.close()


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


def test_what_a_killed_gateway_had_reserved_is_free_after_its_lease(valkey: Valkey) -> None:
    killed, other = opened(valkey, lease=0), opened(valkey)
    killed._client.redis.flushdb()
    killed.reserve("r1", [Claim("a", 90, 100, 600.0), Claim("gone", 1, 9, 600.0)])
    killed._client.redis.delete("{pointsman:budget}:gone")  # its window is over
    assert other.reserve("r2", [Claim("a", 50, 100, 600.0)]).totals == (50,)
    assert other.totals(["gone"]) == (0,)
    killed.settle([Settlement("r1", {"a": 30, "gone": 1})])  # it lived on: all that was used is added
    assert other.totals(["a", "gone"]) == (80, 0)


def test_a_settlement_that_is_sent_again_counts_once(valkey: Valkey) -> None:
    store = opened(valkey)
    store._client.redis.flushdb()
    store.reserve("r1", [Claim("a", 50, 100, 600.0)])
    for _ in range(2):
        store.settle([Settlement("r1", {"a": 20})])
    assert store.totals(["a"]) == (20,)


def test_counters_and_reservations_end_by_themselves(valkey: Valkey) -> None:
    store = opened(valkey)
    client: Any = store._client.redis
    client.flushdb()
    store.reserve("r1", [Claim("a", 50, 100, 600.0)])
    store.settle([Settlement("r1", {"a": 20})])
    left = {key: client.ttl(key) for key in client.keys("*")}
    assert {key.decode().rpartition(":")[2] for key in left} == {"a", "held/r1/settled"}
    assert all(0 < seconds <= 601 for seconds in left.values())


def test_a_wrong_password_is_unavailable_and_not_told(valkey: Valkey) -> None:
    store = ValkeyBudgets(valkey.url, password="not-the-one", timeout=PATIENCE, clock=lambda: 0.0)
    with pytest.raises(StoreUnavailable, match="cannot reach the budget store") as caught:
        store.reserve("r1", [Claim("a", 1, 1, 1.0)])
    assert "not-the-one" not in str(caught.value)
    with pytest.raises(StoreUnavailable, match="failed within the last second"):
        store.totals(["a"])
