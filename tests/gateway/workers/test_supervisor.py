"""The supervisor of workers: starts them, replaces them, passes signals on, and ends."""

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pointsman.errors import ConfigError
from pointsman.gateway.workers import Supervisor
from pointsman.gateway.workers import _supervisor as module
from pointsman.gateway.workers._figures import SUPERVISOR, read
from pointsman.stores.workers import Worker
from support import worker_runs
from support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


class Run:
    """A supervisor of two workers, and a thread that does something to them once they serve."""

    def __init__(self, run: Callable[..., None], folder: Path, draining: float = 60.0) -> None:
        self.folder = folder
        self.sockets = [socket.socket() for _ in range(2)]
        for each in self.sockets:
            each.bind(("127.0.0.1", 0))
            each.listen()
        self.totals: list[Any] = []
        (folder / "run").mkdir()
        first = Worker(1, 2, folder / "run")
        self.supervisor = Supervisor(
            run, folder, first, self.sockets, draining=draining, ended=self.totals.append
        )

    def serve(self, then: Callable[["Run"], None] = lambda _: None) -> None:
        meanwhile: list[threading.Thread] = []

        def serving() -> None:
            meanwhile.append(threading.Thread(target=then, args=(self,)))
            meanwhile[0].start()

        try:
            self.supervisor.serve(serving)
        finally:
            for thread in meanwhile:
                thread.join()
            for each in self.sockets:
                each.close()

    def begun(self) -> list[str]:
        """The workers that have begun, each once for each of its processes."""
        return sorted(path.name.partition("-")[0] for path in self.folder.glob("[0-9]*-*"))

    def process(self, number: int) -> int:
        """The process of a worker that has begun once."""
        [path] = self.folder.glob(f"{number}-*")
        return int(path.name.partition("-")[2])


def end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_signals_reach_all_and_sums_come_back(tmp_path: Path) -> None:
    def then(run: Run) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        files = list(tmp_path.glob("[0-9]*-*"))
        until(lambda: [file.read_text() for file in files] == ["reloaded"] * 2)
        end()

    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    run = Run(worker_runs.serves, tmp_path)
    run.serve(then)
    assert sorted(run.totals) == [1, 2]
    assert run.begun() == ["1", "2"]
    assert all(each.fileno() == -1 for each in run.sockets)
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == before


def test_a_reload_waits_for_a_worker_that_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended the worker, and with it the gateway."""
    passed_on = Supervisor._pass_on

    def then_go(supervisor: Supervisor, number: int) -> None:
        passed_on(supervisor, number)
        (tmp_path / "go").touch()

    def reload() -> None:
        until(lambda: run.begun() == ["1", "2"])
        os.kill(os.getpid(), signal.SIGHUP)

    def then(run: Run) -> None:
        until(lambda: [file.read_text() for file in tmp_path.glob("[0-9]*-*")] == ["reloaded"] * 2)
        end()

    monkeypatch.setattr(Supervisor, "_pass_on", then_go)
    run = Run(worker_runs.begins_late, tmp_path)
    early = threading.Thread(target=reload)
    early.start()
    run.serve(then)
    early.join()
    assert sorted(run.totals) == [1, 2]


def test_a_worker_that_is_killed_is_replaced_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.0)

    def then(run: Run) -> None:
        os.kill(run.process(1), signal.SIGKILL)
        until(lambda: run.begun() == ["1", "1", "2"])
        end()

    run = Run(worker_runs.serves, tmp_path)
    run.serve(then)
    assert run.supervisor.restarts == 1
    told = read(tmp_path / "run", SUPERVISOR)
    assert told is not None
    assert told.metrics[0][3] == [("pointsman_worker_restarts_total", {}, 1.0)]


@pytest.mark.parametrize(
    ("run", "why"),
    [(worker_runs.exits, "worker [12] does not start: exit code 3"),
     (worker_runs.refuses, "worker 2 does not start: no such file")],
    ids=["exits", "refuses"],
)  # fmt: skip
def test_a_worker_that_does_not_start_ends_all(tmp_path: Path, run: Callable[..., None], why: str) -> None:
    running = Run(run, tmp_path)
    with pytest.raises(ConfigError, match=why):
        running.serve()
    assert running.begun() in (["1"], ["2"], ["1", "2"]), "nobody began again"


def test_the_others_serve_while_a_successor_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    monkeypatch.setattr(module, "_AGAIN", 0.0)

    def then(run: Run) -> None:
        (tmp_path / "wrong").touch()
        os.kill(run.process(2), signal.SIGKILL)
        until(lambda: run.begun() >= ["1", "2", "2", "2"])
        (tmp_path / "wrong").unlink()
        until(lambda: [each.is_serving for each in [*run.supervisor._processes.values()]] == [True, True])
        end()

    run = Run(worker_runs.needs_a_file, tmp_path)
    run.serve(then)
    assert sorted(run.totals) == [1, 2]
    assert run.begun().count("1") == 1
    accepted = sorted(path.read_text() for path in tmp_path.glob("accepts-*"))
    assert accepted.count("1") == 1, "only the first successor had a caller's connection to lose"
    assert "worker 2 does not start and is tried again; the others serve: no such file" in caplog.text


@pytest.mark.parametrize("error", [OSError("no room for a process"), ConfigError("cannot listen")])
def test_the_others_serve_while_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    monkeypatch.setattr(module, "_AGAIN", 0.0)
    start = module._Process
    failed: list[int] = []

    def scarce(worker: Worker, *given: Any) -> Any:
        if run.begun() == ["1", "2"] and len(failed) < 2:
            failed.append(worker.number)
            raise error
        return start(worker, *given)

    def then(run: Run) -> None:
        monkeypatch.setattr(module, "_Process", scarce)
        os.kill(run.process(2), signal.SIGKILL)
        until(lambda: run.begun() == ["1", "2", "2"])
        end()

    run = Run(worker_runs.serves, tmp_path)
    run.serve(then)
    assert failed == [2, 2]
    assert sorted(run.totals) == [1, 2]
    assert f"worker 2 does not start and is tried again; the others serve: {error}" in caplog.text


def test_a_worker_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    run = Run(worker_runs.stays, tmp_path, draining=0.0)
    processes: list[int] = []

    def then(run: Run) -> None:
        processes.extend(run.process(number) for number in (1, 2))
        end()

    run.serve(then)
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
