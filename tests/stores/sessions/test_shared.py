"""The session store that the workers of one gateway share."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pointsman.decision.memory import Memory
from pointsman.errors import StoreUnavailable
from pointsman.guidance import GuidanceMemory
from pointsman.guidance.memory import Thread
from pointsman.runtime import decode_memory, encode_memory
from pointsman.stores.sessions import SharedSessions, SqliteSessions
from pointsman.trajectory import CallOutcome, Step, TrajectoryMemory, TrajectoryState

WRITES = """
import sys
from pathlib import Path
from pointsman.stores.sessions import SharedSessions
store = SharedSessions(Path(sys.argv[1]))
for number in range(500):
    store.put(f"{sys.argv[2]}/{number % 50}", str(number).encode())
store.close()
"""


SECRET = "cannot open /etc/secret"
FAILED = Step("bash", "0a", "0b", 9, CallOutcome.ERROR, signature=SECRET, message=SECRET)
STUCK = Memory(
    guidance=GuidanceMemory(threads={"opening": Thread(1, TrajectoryMemory(TrajectoryState((FAILED,))))})
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


@pytest.fixture
def two(file: Path) -> Iterator[tuple[SharedSessions, SharedSessions]]:
    with closing(SharedSessions(file)) as one, closing(SharedSessions(file, lasting=False)) as other:
        yield one, other


def test_what_one_worker_puts_the_other_gets_at_once(two: tuple[SharedSessions, SharedSessions]) -> None:
    one, other = two
    for turn in range(10):
        one.put("s", b"one %d" % turn)
        assert other.get("s") == b"one %d" % turn
        other.put("s", b"other %d" % turn)
        assert one.get("s") == b"other %d" % turn
    assert other.forget("s")
    assert one.get("s") is None


def test_processes_that_write_at_the_same_time_lose_nothing(file: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITES, str(file), name]) for name in ("a", "b")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    with closing(SharedSessions(file)) as store:
        assert {name: store.get(name) for name, _ in store.sessions()} == {
            f"{name}/{number}": str(450 + number).encode() for name in ("a", "b") for number in range(50)
        }


def test_it_goes_on_from_the_store_of_a_single_process(file: Path) -> None:
    with closing(SqliteSessions(file)) as before:
        before.put("s", b"memory")
    with closing(SharedSessions(file)) as store:
        assert store.get("s") == b"memory"


@pytest.mark.parametrize(
    ("owners", "kept"),
    [
        ({"alice": 3, "bob": 40}, {"alice": 3, "bob": 7}),
        ({"alice": 30, "bob": 31}, {"alice": 5, "bob": 5}),
        ({"": 30}, {"": 10}),
        ({f"c{number}": 1 for number in range(300)}, 10),
    ],
    ids=["one of two", "both", "without keys", "more than are compared"],
)
def test_the_caller_with_the_most_makes_room(
    file: Path, owners: dict[str, int], kept: dict[str, int] | int
) -> None:
    with closing(SharedSessions(file, size=10)) as store:
        for owner, count in owners.items():
            for number in range(count):
                store.put(f"{owner}/{number}" if owner else f"s{number}", b"")
        store.flush()
        names = [name for name, _ in store.sessions()]
    if isinstance(kept, int):
        assert len(names) == kept
        return
    held = [name.partition("/")[0] if "/" in name else "" for name in names]
    assert len(names) == 10
    assert {owner: held.count(owner) for owner in owners} == pytest.approx(kept, abs=2)


def test_what_is_older_than_the_time_to_live_is_unknown(file: Path) -> None:
    now = 1_000.0
    with closing(SharedSessions(file, ttl=10, clock=lambda: now)) as store:
        store.put("s", b"memory")
        now += 11
        assert store.get("s") is None
        assert list(store.sessions()) == []


def test_words_stay_in_the_process(file: Path, two: tuple[SharedSessions, SharedSessions]) -> None:
    one, other = two
    memory = encode_memory(STUCK)
    one.put("s", memory)
    assert one.get("s") == memory
    found = other.get("s")
    assert found is not None
    assert SECRET.encode() not in found
    assert decode_memory(found) != decode_memory(memory)
    assert all(SECRET.encode() not in each.read_bytes() for each in file.parent.iterdir())


def test_a_name_that_is_no_text_is_not_kept(two: tuple[SharedSessions, SharedSessions]) -> None:
    for store in two:
        store.put("\ud800", b"memory")
        assert store.get("\ud800") is None
        assert not store.forget("\ud800")


def test_a_file_of_another_program_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"not a database, and long enough to be read as one" * 10)
    with closing(SharedSessions(tmp_path / "s")) as store:
        with pytest.raises(StoreUnavailable, match="cannot use the session store"):
            store.put("s", b"")
        with pytest.raises(StoreUnavailable):
            store.get("s")
