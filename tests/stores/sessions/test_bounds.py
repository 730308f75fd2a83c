"""How many sessions are kept, for how long, and what survives a restart."""

import sqlite3
import threading
from collections import OrderedDict
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.stores.sessions import MemorySessions, SqliteSessions
from pointsman.stores.sessions._memory import MOST_OWNERS


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_the_least_recently_used_goes_first() -> None:
    store = MemorySessions(size=2)
    store.put("a", b"")
    store.put("b", b"")
    store.get("a")
    store.put("c", b"")
    assert [store.get(name) for name in "abc"] == [b"", None, b""]
    assert len(store) == 2


@pytest.fixture(params=["memory", "sqlite"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> MemorySessions:
    return MemorySessions(size=10) if request.param == "memory" else SqliteSessions(tmp_path / "s", size=10)


def test_one_caller_pushes_out_its_own_sessions_and_no_others(small: MemorySessions) -> None:
    """Once, 6,200 requests of one caller made the sessions of all others forgotten."""
    for number in range(3):
        small.put(f"alice/{number}", b"")
    for number in range(100):
        small.put(f"bob/{number}", b"")
        if isinstance(small, SqliteSessions) and number % 4 == 0:
            small.flush()  # its queue is as short as its size
    names = {name for name, _ in small.sessions()}
    assert names == {f"alice/{n}" for n in range(3)} | {f"bob/{n}" for n in range(93, 100)}
    small.close()
    if isinstance(small, SqliteSessions):
        again = SqliteSessions(small._file.path, size=10)
        assert {name for name, _ in again.sessions()} == names
        again.close()


def test_a_new_caller_finds_room_where_one_holds_all() -> None:
    store = MemorySessions(size=10)
    for number in range(20):
        store.put(f"bob/{number}", b"")
    for number in range(5):
        store.put(f"alice/{number}", b"")
    assert [store.get(f"alice/{number}") for number in range(5)] == [b""] * 5
    store.put("alice/5", b"")
    assert len(store) == 10
    assert store.get("bob/19") == b""


def test_among_ever_new_owners_the_least_recently_used_goes_first() -> None:
    """Without keys a slash in a name is the caller's own."""
    store = MemorySessions(size=MOST_OWNERS + 10)
    store.put("a/1", b"")
    store.put("a/2", b"")
    for number in range(MOST_OWNERS + 9):
        store.put(f"{number}/x", b"")
    assert (store.get("a/1"), store.get("a/2")) == (None, b"")
    assert store.get("0/x") == b""


def test_beyond_that_number_one_caller_still_pushes_out_its_own_sessions() -> None:
    names = [f"{number}/x" for number in range(MOST_OWNERS + 10)]
    store = MemorySessions(size=len(names) + 5)
    for name in (*names, *(f"bob/{number}" for number in range(1_000))):
        store.put(name, b"")
    assert [store.get(name) for name in names] == [b""] * len(names)
    assert store.get("bob/999") == b""


def test_a_session_is_forgotten_after_its_time_and_not_before() -> None:
    clock = Clock()
    store = MemorySessions(ttl=10, clock=clock)
    store.put("s", b"memory")
    clock.now += 10
    assert store.get("s") == b"memory"
    assert [name for name, _ in store.sessions()] == ["s"]
    clock.now += 0.5
    assert list(store.sessions()) == []
    assert store.get("s") is None
    assert len(store) == 0


def test_sessions_are_listed_the_last_put_first() -> None:
    clock = Clock()
    store = MemorySessions(clock=clock)
    for name in "abc":
        clock.now += 1
        store.put(name, b"")
    store.get("a")
    assert list(store.sessions()) == [("c", 1_003.0), ("b", 1_002.0), ("a", 1_001.0)]


@given(st.lists(st.tuples(st.sampled_from(["get", "put", "forget"]), st.sampled_from("abcdef"))))
def test_memory_agrees_with_an_obvious_model(steps: list[tuple[str, str]]) -> None:
    store = MemorySessions(size=3)
    model: OrderedDict[str, bytes] = OrderedDict()
    for number, (step, name) in enumerate(steps):
        if step == "put":
            store.put(name, str(number).encode())
            model[name] = str(number).encode()
            model.move_to_end(name)
            while len(model) > 3:
                model.popitem(last=False)
        elif step == "get":
            assert store.get(name) == model.get(name)
            if name in model:
                model.move_to_end(name)
        else:
            assert store.forget(name) == (model.pop(name, None) is not None)
    assert {name for name, _ in store.sessions()} == set(model)


def test_threads_may_share_a_store() -> None:
    store = MemorySessions(size=5)
    finished: list[bool] = []

    def work() -> None:
        for number in range(2_000):
            store.put(str(number % 11), b"")
            store.get(str(number % 7))
            store.forget(str(number % 5))
        finished.append(True)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(finished) == 4
    assert len(store) <= 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.sqlite"


def test_sessions_survive_a_restart(path: Path) -> None:
    first = SqliteSessions(path)
    first.put("s", b"old")
    first.put("s", b"new")
    first.put("t", b"gone")
    first.forget("t")
    first.close()
    second = SqliteSessions(path)
    assert (second.get("s"), second.get("t")) == (b"new", None)
    assert (second.fault, second.lost) == ("", 0)
    second.close()


def test_only_reading_makes_no_file(path: Path) -> None:
    store = SqliteSessions(path)
    assert store.get("s") is None
    store.close()
    assert not path.exists()


def test_several_processes_write_one_file(path: Path) -> None:
    """What one removes for want of room stays if another has put it since."""
    now = 1_000.0
    with closing(SqliteSessions(path, clock=lambda: now)) as store:
        store.put("s", b"first")
        now += 1
        store.put("u", b"first")
    with (
        closing(SqliteSessions(path, size=2, clock=lambda: now)) as one,
        closing(SqliteSessions(path, clock=lambda: now)) as other,
    ):
        now += 1
        other.put("s", b"second")
        other.flush()
        one.put("t", b"third")  # "s" makes room, as it was at the start
        one.flush()
    with closing(SqliteSessions(path, clock=lambda: now)) as store:
        assert store.get("s") == b"second"
        assert store.get("t") == b"third"


def test_a_restart_keeps_the_bounds(path: Path) -> None:
    clock = Clock()
    first = SqliteSessions(path, size=10, ttl=100, clock=clock)
    for number in range(10):
        clock.now += 10
        first.put(f"s{number}", b"")
    first.close()
    second = SqliteSessions(path, size=3, ttl=100, clock=clock)
    assert {name for name, _ in second.sessions()} == {"s7", "s8", "s9"}
    clock.now += 85
    second.put("new", b"")
    second.close()
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id FROM sessions ORDER BY put_at").fetchall()
    assert rows == [("s8",), ("s9",), ("new",)]


@pytest.mark.parametrize("content", [b"not a database, " * 100, b""])
def test_a_file_that_cannot_be_used_costs_memory_and_nothing_else(path: Path, content: bytes) -> None:
    if content:
        path.write_bytes(content)
    else:
        path.mkdir()
    store = SqliteSessions(path)
    assert "cannot read the session store" in store.fault
    store.put("s", b"memory")
    assert store.get("s") == b"memory"
    store.close()
    assert store.lost == 1


def test_a_file_of_another_program_is_not_touched(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE sessions (id, put_at, memory)")
    store = SqliteSessions(path)
    store.put("s", b"memory")
    store.close()
    assert store.lost == 1
    assert "another program" in store.fault
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM sessions").fetchone() == (0,)


def test_a_disk_that_fails_is_told_and_blocks_nobody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteSessions(path)

    def fail(connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(store, "_sweep", fail)
    store.put("s", b"memory")
    store.close()
    assert store.lost == 1
    assert "disk I/O error" in store.fault
    assert SqliteSessions(path).get("s") is None


def test_a_name_without_utf8_is_counted_and_harms_no_other(path: Path) -> None:
    store = SqliteSessions(path)
    store.put("\ud800", b"memory")
    store.put("s", b"memory")
    assert store.get("\ud800") == b"memory"
    store.close()
    assert store.lost == 1
    again = SqliteSessions(path)
    assert again.get("s") == b"memory"
    again.close()
