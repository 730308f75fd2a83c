"""Every session store passes the same checks."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pointsman.errors import StoreUnavailable
from pointsman.stores.sessions import (
    MemorySessions,
    SessionStore,
    SharedSessions,
    SqliteSessions,
    ValkeySessions,
)
from pointsman.testing import session_store_checks
from support.engines import Valkey
from support.waiting import until


def _valkey(request: pytest.FixtureRequest) -> ValkeySessions:
    server: Valkey = request.getfixturevalue("valkey")
    store = ValkeySessions(server.url, password=server.password)
    store._client.redis.flushdb()
    return store


STORES: dict[str, Callable[[pytest.FixtureRequest], SessionStore]] = {
    "memory": lambda _: MemorySessions(size=100),
    "sqlite": lambda request: SqliteSessions(request.getfixturevalue("tmp_path") / "s.sqlite", size=100),
    "shared": lambda request: SharedSessions(request.getfixturevalue("tmp_path") / "s.sqlite", size=100),
    "valkey": _valkey,
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[SessionStore]:
    opened = STORES[request.param](request)
    yield opened
    opened.close()


@pytest.mark.parametrize("check", list(session_store_checks()), ids=lambda check: check.__name__.strip("_"))
def test_contract(check: Callable[[SessionStore], None], store: SessionStore) -> None:
    check(store)


def test_valkey_forgets_after_the_time_to_live(valkey: Valkey) -> None:
    store = ValkeySessions(valkey.url, password=valkey.password, ttl=0.02)
    store.put("s", b"memory")
    until(lambda: store.get("s") is None)
    store.close()


def test_two_gateways_share_one_valkey(valkey: Valkey) -> None:
    stores = [ValkeySessions(valkey.url, password=valkey.password) for _ in range(2)]
    stores[0].put("shared", b"memory")
    assert stores[1].get("shared") == b"memory"
    for store in stores:
        store.close()


def test_a_wrong_password_is_unavailable_and_not_told(valkey: Valkey) -> None:
    store = ValkeySessions(valkey.url, password="not-the-one")
    with pytest.raises(StoreUnavailable) as refused:
        store.get("s")
    assert "not-the-one" not in str(refused.value)
    store.close()


def test_a_valkey_that_is_not_there_is_asked_once_and_then_not_touched(tmp_path: Path) -> None:
    now = 100.0
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        store = ValkeySessions(f"redis://127.0.0.1:{nobody.getsockname()[1]}/0", clock=lambda: now)
        for use in (lambda: store.get("s"), lambda: store.put("s", b""), lambda: list(store.sessions())):
            with pytest.raises(StoreUnavailable, match="session store"):
                use()
        with pytest.raises(StoreUnavailable, match="failed within the last second"):
            store.forget("s")
        now -= 3_600  # a clock set back is no reason to leave it alone for an hour
        with pytest.raises(StoreUnavailable, match="cannot reach"):
            store.get("s")
        now += 1.5
        with pytest.raises(StoreUnavailable, match="cannot reach the session store: ConnectionError"):
            store.get("s")
        store.close()
