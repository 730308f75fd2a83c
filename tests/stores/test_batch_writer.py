"""The queue behind every store: nothing is counted twice, nothing disappears uncounted, nobody waits."""

import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import PointsmanError
from pointsman.stores.batch_writer import BATCH, BatchWriter
from support.waiting import until


class Disk:
    """Takes batches; can be made to fail, to refuse entries, or to stall."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self.error: Exception | None = None
        self.attempts = 0
        self.attempted = threading.Event()
        self.running = threading.Event()
        self.running.set()

    def write(self, batch: Sequence[int]) -> int:
        self.attempts += 1
        self.attempted.set()
        self.running.wait(60)
        if self.error is not None:
            raise self.error
        kept = [entry for entry in batch if entry >= 0]
        self.kept.extend(kept)
        return len(batch) - len(kept)


def writer(disk: Disk, size: int = 10_000) -> BatchWriter[int]:
    return BatchWriter(disk.write, size=size, name="test", linger=0.0, retry=0.001)


def test_entries_arrive_in_order_and_in_batches() -> None:
    disk = Disk()
    queue = writer(disk)
    disk.running.clear()
    queue.put(0)
    assert disk.attempted.wait(60)
    for entry in range(1, BATCH + 2):
        queue.put(entry)
    disk.running.set()
    assert queue.flush()
    assert disk.kept == list(range(BATCH + 2))
    assert disk.attempts == 3  # the first entry, a full batch, the rest
    assert (queue.written, queue.lost, queue.waiting) == (BATCH + 2, 0, 0)
    queue.close()


def test_what_comes_during_a_write_gathers_into_the_next_batch() -> None:
    again = threading.Event()

    def write(batch: Sequence[int]) -> int:
        if list(batch) == [0]:
            queue.put(1)  # as a busy gateway does
        else:
            again.set()
        return 0

    queue = BatchWriter(write, size=10, name="test", linger=60.0)
    queue.put(0)
    assert queue.flush()
    assert not again.wait(0.05)
    assert (queue.written, queue.waiting) == (1, 1)
    queue.close()
    assert queue.written == 2


def test_beyond_its_size_entries_are_lost_and_counted() -> None:
    disk = Disk()
    queue = writer(disk, size=3)
    disk.running.clear()
    queue.put(0)
    assert disk.attempted.wait(60)  # 0 is in the writer's hands
    for entry in range(1, 6):
        queue.put(entry)
    assert (queue.lost, queue.waiting) == (2, 4)
    disk.running.set()
    queue.close()
    assert disk.kept == [0, 1, 2, 3]
    assert (queue.written, queue.lost, queue.waiting) == (4, 2, 0)


@pytest.mark.parametrize("error", [OSError("disk full"), PointsmanError("locked")])
def test_a_batch_is_kept_while_the_disk_fails(error: Exception) -> None:
    disk = Disk()
    disk.error = error
    queue = writer(disk)
    queue.put(1)
    until(lambda: queue.fault == str(error))
    assert not queue.flush(timeout=60.0)  # at once: a store that fails keeps no reader waiting
    assert (queue.written, queue.lost, queue.waiting) == (0, 0, 1)
    disk.error = None
    until(lambda: queue.fault == "")
    assert queue.flush()
    assert disk.kept == [1]
    queue.close()


def test_a_batch_that_breaks_the_writer_is_lost_and_the_next_is_not() -> None:
    disk = Disk()
    disk.error = KeyError("bug")
    queue = writer(disk)
    queue.put(1)
    assert queue.flush()
    assert (queue.lost, queue.fault) == (1, "KeyError: 'bug'")
    disk.error = None
    queue.put(2)
    queue.close()
    assert disk.kept == [2]


def test_close_counts_what_it_could_not_write() -> None:
    disk = Disk()
    disk.error = OSError("gone")
    queue = writer(disk)
    for entry in range(BATCH + 5):
        queue.put(entry)
    queue.close()
    assert (queue.written, queue.lost, queue.waiting) == (0, BATCH + 5, 0)
    queue.put(1)
    assert queue.lost == BATCH + 6
    queue.close()


def test_no_thread_until_the_first_entry() -> None:
    before = threading.active_count()
    queue = writer(Disk())
    assert queue.flush()
    assert threading.active_count() == before
    queue.close()


def test_several_threads_may_put() -> None:
    disk = Disk()
    queue = writer(disk)
    threads = [threading.Thread(target=lambda: [queue.put(n) for n in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.close()
    assert queue.written + queue.lost == 2_000 == len(disk.kept)


_ACTIONS = st.one_of(
    st.integers(-2, 5),  # put; a negative entry is refused
    st.sampled_from(["flush", "fail", "break", "recover", "stall", "run"]),
)


@given(st.lists(_ACTIONS, max_size=30), st.integers(1, 5))
def test_every_entry_is_written_lost_or_waiting(actions: list[int | str], size: int) -> None:
    disk = Disk()
    queue = writer(disk, size=size)
    put: list[int] = []
    for action in actions:
        match action:
            case int():
                queue.put(action)
                put.append(action)
            case "flush":
                queue.flush(timeout=0.002)
            case "fail":
                disk.error = OSError()
            case "break":
                disk.error = KeyError()
            case "recover":
                disk.error = None
            case "stall":
                disk.running.clear()
            case "run":
                disk.running.set()
    disk.running.set()
    queue.close()
    assert queue.waiting == 0
    assert queue.written == len(disk.kept)
    assert queue.written + queue.lost == len(put)
    remaining = iter(put)
    assert all(entry in remaining for entry in disk.kept)  # in the order they were put


def test_the_log_tells_when_writing_fails_and_when_it_succeeds_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Disk()
    disk.error = OSError("disk full")
    queue = writer(disk, size=2)
    queue.put(0)
    until(lambda: disk.attempts >= 3)
    disk.running.clear()
    stalled = disk.attempts
    until(lambda: disk.attempts > stalled)  # 0 is in the writer's hands, and stays there
    for entry in range(1, 5):
        queue.put(entry)
    disk.error = None
    disk.running.set()
    assert queue.close()
    assert disk.kept == [0, 1, 2]
    assert caplog.messages == [
        "test: disk full; new entries wait, 2 entries at most",
        "test: recovered; lost meanwhile: 2",
    ]


def test_the_log_tells_what_the_end_cost(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    disk.error = OSError("gone")
    queue = writer(disk)
    queue.put(1)
    until(lambda: queue.fault)
    assert queue.close()
    assert caplog.messages[-1] == "test: lost at shutdown: 1"


def test_a_system_without_threads_is_a_fault_and_blocks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    queue = writer(disk := Disk())
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        queue.put(1)
    assert (queue.fault, queue.waiting) == ("can't start new thread", 1)
    queue.put(2)
    queue.close()
    assert disk.kept == [1, 2]


def test_close_tells_whether_the_writer_has_ended() -> None:
    disk = Disk()
    queue = writer(disk)
    disk.running.clear()
    queue.put(1)
    assert disk.attempted.wait(60)
    assert not queue.close(timeout=0.001)
    disk.running.set()
    until(lambda: queue.written == 1)


def test_upkeep_gives_way_to_entries_and_goes_on_when_none_wait() -> None:
    done: list[str] = []
    pieces = iter(range(4))

    def write(batch: Sequence[int]) -> int:
        done.extend(map(str, batch))
        return 0

    def upkeep() -> bool:
        left = next(pieces, None) is not None
        done.append("piece" if left else "end")
        if len(done) == 2:
            queue.put(2)
        return left

    queue = BatchWriter(write, size=10, name="test", linger=0.0, upkeep=upkeep)
    queue.put(1)
    until(lambda: done[-1:] == ["end"])
    queue.close()
    assert done == ["1", "piece", "2", "piece", "piece", "piece", "end"]
