"""Whatever happens to processes and stores, at any step: no budget is overspent by more than is stated.

Spent of one window, with what is in flight, is at most the budget and a tenth of it, for all processes
together; beyond that, what was in flight or not yet recorded when its process was killed or its server
lost it.
The stores are real; the threads that write behind are steps of the test.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pointsman.access import Budgets
from pointsman.errors import PointsmanError, StoreUnavailable
from pointsman.stores.budgets import BudgetStore, Claim, SqliteBook, SqliteBudgets, ValkeyBudgets
from support.engines import Valkey

LIMIT: Final = 1_000
TENTH: Final = LIMIT // 10
WINDOWS: Final = ("money/key/alice/day/0", "money/key/alice/day/86400")
PROCESSES: Final = 3
VALKEY_FAULTS: Final = (
    "kill",
    "restart",
    "empty",
    "evict",
    "cut",
    "late",
    "silent",
    "record",
    "behind",
    "clock",
)
FILE_FAULTS: Final = ("kill", "restart", "cut", "behind", "clock")
#: The largest excess over the budget that was seen, by kind of fault, in parts of the budget.
LARGEST: Final[dict[str, float]] = {}


class Steps:
    """A batch writer without a thread: it writes when the test says so."""

    def __init__(self, write: Callable[[Sequence[Any]], int], **_: object) -> None:
        self._write = write
        self._queue: list[Any] = []
        self.lost = 0
        self.fault = ""

    def __class_getitem__(cls, _: object) -> type[Steps]:
        return cls

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def put(self, entry: Any) -> bool:
        self._queue.append(entry)
        return True

    def flush(self, timeout: float = 0.0) -> bool:
        if self._queue:
            try:
                self._write(tuple(self._queue))
            except (PointsmanError, OSError):
                return False
            self._queue.clear()
        return True

    def close(self) -> None:
        self.flush()
        self.lost += len(self._queue)


class Process:
    """One gateway's counters, and the ways in which its stores fail it."""

    def __init__(self, store: BudgetStore, clock: Callable[[], float]) -> None:
        self.store = store
        self.budgets = Budgets(store, clock=clock)
        self.in_flight: dict[str, tuple[str, int]] = {}
        self.mode = ""  # of the next calls: "cut", "late", "silent"
        self.is_behind = False  # its threads have not run yet
        self.record_fails = False
        self.delayed: list[Callable[[], object]] = []

    def write(self) -> None:
        """Run the threads that write what waits."""
        self.budgets._writer.flush()
        if isinstance(self.store, ValkeyBudgets):
            self.store._writer.flush()

    def unrecorded(self, window: str) -> int:
        """What this process has settled and nothing durable knows."""
        queue: list[Any] = list(self.budgets._writer._queue)
        found = sum(int(each.used.get(window, 0)) for each in queue)
        if isinstance(self.store, ValkeyBudgets) and window in self.store._unrecorded:
            found += self.store._parts[window].spent
        return found


class Machine(RuleBasedStateMachine):
    """Processes that share one budget."""

    kinds: ClassVar[frozenset[str]] = frozenset()
    name: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.now = 0.0
        self.window = WINDOWS[0]
        self.number = 0
        self.spent = dict.fromkeys(WINDOWS, 0)
        self.lost = dict.fromkeys(WINDOWS, 0)  # in flight or unrecorded where a process was killed
        self.peak = dict.fromkeys(WINDOWS, 0)  # the most that was in flight or unrecorded
        self.processes = [self.begin() for _ in range(PROCESSES)]

    def open(self, process: Callable[[], Process]) -> BudgetStore:
        raise NotImplementedError

    def begin(self) -> Process:
        made: list[Process] = []
        process = Process(self.open(lambda: made[0]), lambda: self.now)
        made.append(process)
        process.budgets._renew()
        return process

    def fault(self, kind: str) -> bool:
        return kind in self.kinds

    @rule(place=st.integers(0, PROCESSES - 1), amount=st.integers(1, 60))
    def reserve(self, place: int, amount: int) -> None:
        process = self.processes[place]
        self.number += 1
        name = f"r{self.number}"
        claim = Claim(self.window, amount, LIMIT, 600.0, lasting=True)
        try:
            found = process.budgets._reserve_shared(name, [claim])
        except StoreUnavailable:
            return
        if found.ok:
            process.in_flight[name] = (self.window, amount)

    @rule(place=st.integers(0, PROCESSES - 1), many=st.integers(1, 30))
    def work(self, place: int, many: int) -> None:
        """Requests one after another."""
        for _ in range(many):
            self.reserve(place, 50)
            self.settle(place, 1.0)

    @rule(place=st.integers(0, PROCESSES - 1), part=st.sampled_from([0.0, 0.5, 1.0]))
    def settle(self, place: int, part: float) -> None:
        process = self.processes[place]
        if not process.in_flight:
            return
        name, (window, amount) = process.in_flight.popitem()
        used = int(amount * part)
        self.spent[window] += used
        process.budgets.settle(name, {window: used})
        if not process.is_behind:
            process.write()

    @rule(place=st.integers(0, PROCESSES - 1))
    def write(self, place: int) -> None:
        """The threads behind try again."""
        self.processes[place].write()

    @precondition(lambda self: self.fault("behind"))
    @rule(place=st.integers(0, PROCESSES - 1), behind=st.booleans())
    def fall_behind(self, place: int, behind: bool) -> None:
        self.processes[place].is_behind = behind

    @rule()
    def later(self) -> None:
        self.now += 60.0
        for process in self.processes:
            process.budgets._renew()

    @precondition(lambda self: self.fault("clock"))
    @rule(window=st.sampled_from(WINDOWS))
    def set_clock(self, window: str) -> None:
        self.window = window

    @precondition(lambda self: self.fault("kill"))
    @rule(place=st.integers(0, PROCESSES - 1))
    def kill(self, place: int) -> None:
        process = self.processes[place]
        for window in WINDOWS:
            self.lost[window] += process.unrecorded(window)
        for window, amount in process.in_flight.values():
            self.spent[window] += amount  # its upstream may have answered
            self.lost[window] += amount
        self.processes[place] = self.begin()

    @precondition(lambda self: self.fault("restart"))
    @rule(place=st.integers(0, PROCESSES - 1))
    def restart(self, place: int) -> None:
        process = self.processes[place]
        while process.in_flight:
            self.settle(place, 1.0)
        before = {window: process.unrecorded(window) for window in WINDOWS}
        process.budgets.close()
        if process.budgets.lost:
            for window in WINDOWS:
                self.lost[window] += before[window]
        self.processes[place] = self.begin()

    @precondition(lambda self: self.fault("cut"))
    @rule(place=st.integers(0, PROCESSES - 1), cut=st.booleans())
    def cut(self, place: int, cut: bool) -> None:
        """A partition: one process cannot reach the store."""
        self.processes[place].mode = "cut" if cut else ""

    @precondition(lambda self: self.fault("cut"))
    @rule(cut=st.booleans())
    def cut_all(self, cut: bool) -> None:
        for process in self.processes:
            process.mode = "cut" if cut else ""

    @invariant()
    def nothing_is_overspent(self) -> None:
        for window in WINDOWS:
            flying = sum(
                amount
                for process in self.processes
                for each, amount in process.in_flight.values()
                if each == window
            )
            unknown = flying + sum(process.unrecorded(window) for process in self.processes)
            self.peak[window] = max(self.peak[window], unknown)
            excess = self.spent[window] + flying - LIMIT - self.lost[window]
            LARGEST[self.name] = max(LARGEST.get(self.name, -1.0), (excess - self.peak[window]) / LIMIT)
            LARGEST[self.name + " with in flight"] = max(
                LARGEST.get(self.name + " with in flight", -1.0), excess / LIMIT
            )
            assert excess <= TENTH + self.peak[window]

    def teardown(self) -> None:
        for process in self.processes:
            process.mode, process.record_fails = "", False
            process.budgets.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class FileMachine(Machine):
    """All processes of one machine, over one file."""

    def open(self, process: Callable[[], Process]) -> BudgetStore:
        store = SqliteBudgets(self.folder / "budgets.sqlite", clock=lambda: self.now)
        transaction = store._transaction

        def failing() -> Any:
            if process().mode == "cut":
                raise StoreUnavailable("cut")
            return transaction()

        store._transaction = failing  # type: ignore[method-assign]
        return store


class ValkeyMachine(Machine):
    """Processes that share a server, and the file that records what they have spent."""

    server: ClassVar[Valkey]

    def __init__(self) -> None:
        with closing(self.client()) as client:
            client.flushdb()
        super().__init__()

    def client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.server.url, password=self.server.password)

    def open(self, process: Callable[[], Process]) -> BudgetStore:
        book = SqliteBook(self.folder / "budgets.sqlite", clock=lambda: self.now)
        store = ValkeyBudgets(
            self.server.url, password=self.server.password, book=book, timeout=60.0, clock=lambda: 0.0
        )
        call, transaction = store._call, book._transaction

        def failing(script: str, counters: Iterable[str], arguments: Sequence[object]) -> Any:
            mode, names = process().mode, list(counters)
            if mode == "late":
                process().delayed.append(lambda: call(script, names, arguments))
            if mode == "silent":
                call(script, names, arguments)
            if mode:
                raise StoreUnavailable(mode)
            return call(script, names, arguments)

        def recording() -> Any:
            if process().record_fails:
                raise StoreUnavailable("record")
            return transaction()

        store._call = failing  # type: ignore[method-assign]
        book._transaction = recording  # type: ignore[method-assign]
        return store

    @precondition(lambda self: self.fault("empty"))
    @rule()
    def empty(self) -> None:
        """A restart, or FLUSHDB."""
        with closing(self.client()) as client:
            client.flushdb()

    @precondition(lambda self: self.fault("evict"))
    @rule(window=st.sampled_from(WINDOWS))
    def evict(self, window: str) -> None:
        with closing(self.client()) as client:
            client.delete("{pointsman:budget}:" + window)

    @precondition(lambda self: self.fault("late"))
    @rule(place=st.integers(0, PROCESSES - 1), late=st.booleans())
    def delay(self, place: int, late: bool) -> None:
        """Calls arrive after their caller has given up: at once, or behind later ones."""
        process = self.processes[place]
        process.mode = "late" if late else ""

    @precondition(lambda self: self.fault("late"))
    @rule(place=st.integers(0, PROCESSES - 1))
    def arrive(self, place: int) -> None:
        process = self.processes[place]
        while process.delayed:
            process.delayed.pop()()

    @precondition(lambda self: self.fault("silent"))
    @rule(place=st.integers(0, PROCESSES - 1), silent=st.booleans())
    def silence(self, place: int, silent: bool) -> None:
        """Calls arrive, and their replies are lost."""
        self.processes[place].mode = "silent" if silent else ""

    @precondition(lambda self: self.fault("record"))
    @rule(fails=st.booleans())
    def fail_record(self, fails: bool) -> None:
        for process in self.processes:
            process.record_fails = fails


@pytest.fixture(autouse=True)
def _steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointsman.access._budgets.BatchWriter", Steps)
    monkeypatch.setattr("pointsman.stores.budgets._valkey.BatchWriter", Steps)


def _search(machine: type[Machine], faults: Iterable[str], name: str, **more: Any) -> None:
    kinds = frozenset(faults)
    made = type("Searched", (machine,), {"kinds": kinds, "name": name, **more})
    run_state_machine_as_test(made, settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS))


EXAMPLES = max(settings().max_examples // 12, 2)
STEPS = 50


@pytest.mark.parametrize("fault", ["all", *FILE_FAULTS])
def test_a_file_is_not_overspent(fault: str) -> None:
    _search(FileMachine, FILE_FAULTS if fault == "all" else [fault], f"file: {fault}")


@pytest.mark.parametrize("fault", ["all", *VALKEY_FAULTS])
def test_valkey_is_not_overspent(fault: str, valkey: Valkey) -> None:
    faults = VALKEY_FAULTS if fault == "all" else [fault]
    _search(ValkeyMachine, faults, f"valkey: {fault}", server=valkey)
