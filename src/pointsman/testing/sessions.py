"""Contract checks of every session store."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pointsman.stores.sessions import SessionStore

__all__ = ["session_store_checks"]


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
