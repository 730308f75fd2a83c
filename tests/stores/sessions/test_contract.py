"""Every session store passes the same checks."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pointsman.errors import StoreUnavailable
from pointsman.stores.sessions import (
    MemorySessions,
    SessionStore,
    SqliteSessions,
    ValkeySessions,
)
from pointsman.stores.sessions import _valkey as stored
from pointsman.testing import session_store_checks
from pointsman.vocabulary import DAY
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
        for use in (lambda: store.get("s"), lambda: store.forget("s"), lambda: list(store.sessions())):
            with pytest.raises(StoreUnavailable, match="cannot reach the session store"):
                use()
        with pytest.raises(StoreUnavailable, match="failed within the last second"):
            store.forget("s")
        now -= 3_600  # a clock set back is no reason to leave it alone for an hour
        with pytest.raises(StoreUnavailable, match="cannot reach"):
            store.get("s")
        now += 1.5
        with pytest.raises(StoreUnavailable, match="cannot reach the session store: ConnectionError"):
            store.get("s")
        store.put("s", b"{}")  # it is kept here until the server answers, and told
        assert store.get("s") == b"{}"
        assert store.fault == "the session store is late or away: 1 sessions wait for it"
        now += DAY + 1.0
        with pytest.raises(StoreUnavailable):
            store.get("s")
        store.close()


def test_one_late_answer_of_valkey_costs_one_call(valkey: Valkey) -> None:
    """Once, one answer that came late took the memory of every session for a second: 976 failures."""
    now = 100.0
    with closing(ValkeySessions(valkey.url, password=valkey.password, clock=lambda: now)) as store:
        store.put("known", b"1")
        with valkey.frozen():
            with pytest.raises(StoreUnavailable, match="TimeoutError"):
                store.get("unknown")
            assert store.get("known") == b"1"
        found = store._client.redis.get("unknown")  # waits until it answers again
        assert found is None
        assert store.get("unknown") is None, "the clock stands still: there was no pause"
        assert (store.fault, store.lost) == ("", 0)


def test_a_valkey_that_answers_again_is_called_again_at_once(valkey: Valkey) -> None:
    """Once, it was not called for a second after each failure."""
    now = 100.0
    with closing(ValkeySessions(valkey.url, password=valkey.password, clock=lambda: now)) as store:
        store.put("s", b"1")
        with valkey.frozen():
            for _ in range(3):
                with pytest.raises(StoreUnavailable, match="TimeoutError"):
                    store.get("unknown")
            with pytest.raises(StoreUnavailable, match="within the last second"):
                store.get("unknown")
        until(lambda: store._client.redis.ping())
        with pytest.raises(StoreUnavailable, match="within the last second"):
            store.get("unknown")
        now += 0.03
        assert store.get("unknown") is None
        assert store.get("unknown") is None


def test_what_valkey_does_not_take_is_read_here_and_written_later(valkey: Valkey) -> None:
    now = 100.0

    def clock() -> float:
        return now

    with (
        closing(ValkeySessions(valkey.url, password=valkey.password, clock=clock)) as here,
        closing(ValkeySessions(valkey.url, password=valkey.password, clock=clock)) as there,
    ):
        here._client.redis.flushdb()
        for name in ("a", "b", "c"):
            here.put(name, b"1")
        there.put("read", b"of there")
        assert here.get("read") == b"of there"
        with valkey.frozen():
            for name in ("a", "b", "new", "new there", "read"):
                here.put(name, b"2")
                assert here.get(name) == b"2"
            assert here.get("c") == b"1"  # it was not put meanwhile
            assert "5 sessions wait" in here.fault
        there.put("b", b"of there")
        there.put("new there", b"of there")
        now += 2.0
        assert here.get("a") == b"2"  # the server has an older one
        assert here.get("b") == b"of there"  # and here a newer one
        for number in range(3):
            here.put(f"more {number}", b"3")
        assert here.fault == ""
        names = ("a", "b", "new", "new there", "read")
        assert [there.get(name) for name in names] == [b"2", b"of there", b"2", b"of there", b"2"]


def test_copies_of_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MOST_BYTES", 100_000)
    copies = stored.Copies()
    for number in range(1_000):
        base = b"x" if number % 2 else None
        copies.put(stored.Copy(f"s{number % 700}", b"x" * 500, base and b"x" * 500, 0.0))
    assert len(copies._kept) == 100
    assert (copies.waiting, copies.lost > 0) == (50, True)
