"""Spent money is a fact: no restart, eviction or outage of Valkey gives any of it back.

Two gateways over real servers, the durable record in PostgreSQL or in a file. A budget pays for twenty
requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pointsman.access import open_budgets
from pointsman.stores.budgets import BudgetStore
from support import engines
from support.engines import Postgres, Valkey
from support.limited import NOON, Trial, config_of, flushed
from support.waiting import until

pytestmark = pytest.mark.integration
PATIENCE = 60.0
#: A request costs 0.05.
KEYS = """
[keys.alice]
budget = { money = 1, per = "month" }
[keys.bob]
"""
UNIT = 1_000_000_000


class Fleet:
    """Gateways that share one Valkey and one durable record."""

    def __init__(self, valkey: Valkey, record: str, count: int = 2) -> None:
        self._config = (
            f'[sessions]\nstore = "valkey"\nurl = "{valkey.url}"\npassword = "${{PASSWORD}}"\n' + record
        )
        self.gateways = [self.open() for _ in range(count)]

    def open(self) -> Trial:
        """Start one more gateway."""
        trial = Trial(KEYS, store=self._store())
        trial.budgets.start()
        return trial

    def _store(self) -> BudgetStore:
        return open_budgets(config_of(self._config, PASSWORD=engines.PASSWORD), timeout=PATIENCE).store

    def chat(self, count: int) -> int:
        """Send requests to the gateways in turn; return how many were served."""

        async def work() -> int:
            found = 0
            for number in range(count):
                trial = self.gateways[number % len(self.gateways)]
                found += (await trial.chat()).status == 200
                await asyncio.to_thread(trial.budgets._writer.flush, PATIENCE)
            return found

        return _run(work())

    def flush(self) -> None:
        for trial in self.gateways:
            flushed(trial.budgets)

    def restart(self) -> None:
        """Replace every gateway by one that knows nothing."""
        self.close()
        self.gateways = [self.open() for _ in self.gateways]

    def close(self) -> None:
        for trial in self.gateways:
            trial.budgets.close()


def _run(work: Awaitable[int]) -> int:
    async def limited() -> int:
        return await asyncio.wait_for(work, PATIENCE)

    return asyncio.run(limited())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Valkey]:
    """A Valkey that a test may stop. It is called again as soon as it is back."""
    pytest.importorskip("redis")
    monkeypatch.setattr("pointsman.stores.valkey_client.PAUSE", 0.0)
    program = engines.find_valkey()
    if program is None:
        pytest.skip("there is no valkey-server or redis-server here: make services installs one")
    with engines.valkey(program) as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, server: Valkey, tmp_path: Path) -> Iterator[Fleet]:
    if request.param == "sqlite":
        record = f'[access]\npath = "{tmp_path}/budgets.sqlite"\n'
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.database().replace(f":{engines.PASSWORD}@", "@")
        record = f'[ledger]\nurl = "{url}"\npassword = "${{PASSWORD}}"\n'
    found = Fleet(server, record)
    yield found
    found.close()


def _client(server: Valkey) -> Any:
    import redis

    return redis.Redis.from_url(server.url, password=server.password)


def test_a_restart_of_valkey_gives_nothing_back(fleet: Fleet, server: Valkey) -> None:
    assert fleet.chat(24) == 20
    fleet.flush()
    server.restart()
    assert fleet.chat(20) == 0
    server.restart()
    fleet.restart()
    assert fleet.chat(20) == 0


def test_an_eviction_gives_nothing_back(fleet: Fleet, server: Valkey) -> None:
    """Sessions of a key without limits fill the memory: the counters are what was used longest ago."""
    assert fleet.chat(24) == 20
    fleet.flush()
    client = _client(server)
    client.config_set("maxmemory", client.info("memory")["used_memory"] + (1 << 20))
    client.config_set("maxmemory-policy", "volatile-lru")
    for start in range(0, 200_000, 1_000):
        if not client.keys("{pointsman:budget}:money/*"):
            break
        with client.pipeline(transaction=False) as calls:
            for number in range(start, start + 1_000):
                calls.set(f"session:{number}", b"x" * 500, ex=3_600)
            calls.execute()
    assert not client.keys("{pointsman:budget}:money/*")
    assert fleet.chat(20) == 0


def test_an_outage_at_the_start_of_a_window_gives_a_tenth_and_counts_it(fleet: Fleet, server: Valkey) -> None:
    """Two of twenty requests, of both gateways together; before, each served all twenty."""
    assert fleet.chat(2) == 2
    for trial in (*fleet.gateways, *fleet.gateways):
        trial.budgets._renew()  # each has its half of the tenth
        trial.now = NOON + 31 * 86_400
    server.stop()
    assert _unflushed(fleet, 40) == 2
    server.start()
    for trial in fleet.gateways:
        writer = trial.budgets._writer
        until(lambda writer=writer: not writer.waiting)  # type: ignore[misc]
    assert fleet.chat(40) == 18
    fleet.flush()
    client = _client(server)
    totals = [int(client.hget(each, "S") or 0) for each in client.keys("{pointsman:budget}:money/*")]
    assert totals == [UNIT]
    assert all(trial.budgets.lost == 0 for trial in fleet.gateways)


def _unflushed(fleet: Fleet, count: int) -> int:
    async def work() -> int:
        return sum([(await fleet.gateways[n % 2].chat()).status == 200 for n in range(count)])

    return _run(work())


def test_no_valkey_and_no_record_is_a_refusal_of_budgets_alone(server: Valkey, tmp_path: Path) -> None:
    """A gateway that starts while nothing answers has no share: no store can vouch for the budget."""
    server.stop()
    (tmp_path / "budgets.sqlite").write_bytes(b"no database" * 100)
    with ExitStack() as stack:
        fleet = Fleet(server, f'[access]\npath = "{tmp_path}/budgets.sqlite"\n', count=1)
        stack.callback(fleet.close)
        [trial] = fleet.gateways

        async def work() -> list[int]:
            return [(await trial.chat(key)).status for key in ("alice", "bob")]

        assert asyncio.run(work()) == [503, 200]
