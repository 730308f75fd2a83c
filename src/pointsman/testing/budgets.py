"""Contract checks of every budget store."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pointsman.stores.budgets import BudgetStore, Claim, Settlement
from pointsman.stores.sessions import SessionStore

__all__ = ["budget_store_checks", "session_store_checks"]


def budget_store_checks() -> Iterator[Callable[[BudgetStore], None]]:
    """Yield checks; each wants a new, empty store."""
    yield _nothing_is_used_at_first
    yield _what_has_room_is_reserved
    yield _one_claim_without_room_reserves_nothing
    yield _settling_replaces_what_was_reserved
    yield _settling_nothing_gives_all_back
    yield _a_settlement_may_exceed_the_limit
    yield _an_unknown_reservation_held_nothing
    yield _several_are_settled_at_once
    yield _large_numbers_are_exact


def _claim(counter: str, amount: int, limit: int = 100) -> Claim:
    return Claim(counter, amount, limit, 600.0)


def _nothing_is_used_at_first(store: BudgetStore) -> None:
    assert store.totals(["a", "b"]) == (0, 0)
    assert store.totals([]) == ()


def _what_has_room_is_reserved(store: BudgetStore) -> None:
    first = store.reserve("r1", [_claim("a", 60), _claim("b", 1)])
    assert first.ok
    assert first.totals == (60, 1)
    assert store.reserve("r2", [_claim("a", 40)]).totals == (100,)  # exactly full
    assert store.totals(["b", "a"]) == (1, 100)


def _one_claim_without_room_reserves_nothing(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("b", 95)])
    refused = store.reserve("r2", [_claim("a", 10), _claim("b", 6), _claim("c", 1_000)])
    assert not refused.ok
    assert refused.refused == 1
    assert refused.totals == (0, 95, 0)
    assert store.totals(["a", "b", "c"]) == (0, 95, 0)


def _settling_replaces_what_was_reserved(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 80), _claim("b", 1)])
    store.settle([Settlement("r1", {"a": 30, "b": 1})])
    assert store.totals(["a", "b"]) == (30, 1)
    assert store.reserve("r2", [_claim("a", 70)]).ok


def _settling_nothing_gives_all_back(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 80)])
    store.settle([Settlement("r1", {"a": 0})])
    assert store.totals(["a"]) == (0,)


def _a_settlement_may_exceed_the_limit(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 80)])
    store.settle([Settlement("r1", {"a": 130})])
    assert store.totals(["a"]) == (130,)
    assert not store.reserve("r2", [_claim("a", 1)]).ok


def _an_unknown_reservation_held_nothing(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 10)])
    store.settle([Settlement("elsewhere", {"a": 5, "unknown": 7})])
    assert store.totals(["a", "unknown"]) == (15, 0)


def _several_are_settled_at_once(store: BudgetStore) -> None:
    for number in range(3):
        store.reserve(f"r{number}", [_claim("a", 30), _claim(f"b{number}", 1)])
    store.settle([Settlement(f"r{number}", {"a": number, f"b{number}": 1}) for number in range(3)])
    assert store.totals(["a", "b0", "b1", "b2"]) == (3, 1, 1, 1)


def _large_numbers_are_exact(store: BudgetStore) -> None:
    most = 10**18  # a thousand million of a currency, in billionths
    store.reserve("r1", [_claim("a", most - 1, most)])
    store.settle([Settlement("r1", {"a": most - 3})])
    assert store.totals(["a"]) == (most - 3,)


# Contract checks of every session store.


def session_store_checks() -> Iterator[Callable[[SessionStore], None]]:
    """Yield checks; each wants a new, empty store with room for a hundred sessions."""
    yield _nothing_is_known_at_first
    yield _what_was_put_last_comes_back
    yield _any_bytes_and_any_name_will_do
    yield _sessions_are_apart
    yield _what_is_forgotten_is_unknown
    yield _every_session_is_listed


def _nothing_is_known_at_first(store: SessionStore) -> None:
    assert store.get("s") is None
    assert not store.forget("s")
    assert list(store.sessions()) == []


def _what_was_put_last_comes_back(store: SessionStore) -> None:
    store.put("s", b"first")
    assert store.get("s") == b"first"
    store.put("s", b"second")
    assert store.get("s") == b"second"
    assert store.get("s") == b"second"


def _any_bytes_and_any_name_will_do(store: SessionStore) -> None:
    for name in ("a b", "ü/日本語", "x" * 512, "*", "pointsman:session:", "'; --", "nul\0"):
        memory = b"\x00\xff" + name.encode()
        store.put(name, memory)
        assert store.get(name) == memory
    store.put("empty", b"")
    assert store.get("empty") == b""


def _sessions_are_apart(store: SessionStore) -> None:
    for number in range(100):
        store.put(f"s{number}", str(number).encode())
    assert [store.get(f"s{number}") for number in range(100)] == [str(n).encode() for n in range(100)]


def _what_is_forgotten_is_unknown(store: SessionStore) -> None:
    store.put("s", b"memory")
    store.put("t", b"other")
    assert store.forget("s")
    assert store.get("s") is None
    assert not store.forget("s")
    assert store.get("t") == b"other"
    store.put("s", b"again")
    assert store.get("s") == b"again"


def _every_session_is_listed(store: SessionStore) -> None:
    for name in ("s", "t", "u"):
        store.put(name, b"memory")
    store.forget("t")
    listed = dict(store.sessions())
    assert set(listed) == {"s", "u"}
    assert all(isinstance(put_at, float) for put_at in listed.values())
