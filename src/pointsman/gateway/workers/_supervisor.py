"""Starts the workers, replaces those that end by themselves, and passes signals on to them.

Each worker is a separate process with a separate listening socket; the kernel spreads connections over them
(``SO_REUSEPORT``). The supervisor leaves the sockets open, so that connections wait for the successor of a
worker that is gone (docs/decisions/0176).
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final

from pointsman.errors import ConfigError, PointsmanError
from pointsman.gateway._live_state import Family, Published
from pointsman.gateway.listening import bound
from pointsman.gateway.metric_table import METRICS
from pointsman.gateway.workers._figures import SUPERVISOR, lasting, publish, read
from pointsman.stores.workers import Worker

__all__ = ["Supervisor", "WorkerLink"]

log = logging.getLogger(__name__)

#: Seconds between two looks at signals.
_TICK: Final = 0.1
#: Seconds that a worker has to live for its successor to start at once, and that the others wait.
_SETTLED: Final = 10.0
_PAUSE: Final = 1.0
#: Seconds between attempts to start a successor while none starts: as long as the file is wrong.
_AGAIN: Final = 10.0
#: Seconds beyond those for draining after which a worker is ended.
_PATIENCE: Final = 15.0
_SPAWN: Final = multiprocessing.get_context("spawn")
_PASSED_ON: Final = ("SIGTERM", "SIGINT", "SIGHUP")


class WorkerLink:
    """A worker's way to its supervisor. When the supervisor is gone, the worker drains and ends."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection

    def begin(self) -> None:
        """Leave the terminal to the supervisor, and watch over it."""
        with suppress(OSError):
            os.setsid()  # Ctrl-C reaches the supervisor alone, which passes it on
        threading.Thread(target=self._watch, name="supervisor", daemon=True).start()

    def serving(self) -> None:
        """Report that requests are served."""
        self._tell("serving", None)

    def closing(self) -> None:
        """Tell that no more connections are accepted."""
        self._tell("closing", None)

    def failed(self, error: PointsmanError) -> None:
        """Tell why the worker cannot start."""
        self._tell("failed", (error.message, error.hint))

    def ended(self, totals: object) -> None:
        """Hand over the totals that the command prints at its end."""
        self._tell("ended", totals)

    def _tell(self, what: str, value: object) -> None:
        with suppress(OSError):  # the supervisor is gone
            self._connection.send((what, value))

    def _watch(self) -> None:
        with suppress(OSError, EOFError):
            self._connection.recv()  # nothing is ever sent: it returns when the other end is closed
        os.kill(os.getpid(), signal.SIGTERM)


class _Process:
    """One worker as its supervisor sees it."""

    def __init__(self, worker: Worker, run: Callable[..., None], arguments: Sequence[Any]) -> None:
        self.worker: Final = worker
        self.started_at: Final = time.monotonic()
        self.is_serving = False
        self._is_outdated = False  # it got no SIGHUP, which ends a process that takes none yet
        self.error: tuple[str, str] | None = None
        self.link, beyond = _SPAWN.Pipe()
        self.process: Final[SpawnProcess] = _SPAWN.Process(
            target=run, args=(worker, WorkerLink(beyond), *arguments), name=f"worker-{worker.number}"
        )
        self.process.start()
        beyond.close()

    def read(self) -> list[tuple[str, Any]]:
        """Return the messages of the worker."""
        told: list[tuple[str, Any]] = []
        with suppress(OSError, EOFError):
            while self.link.poll():
                told.append(self.link.recv())
        return told

    def serves(self) -> None:
        """It takes every signal from now on."""
        self.is_serving = True
        if self._is_outdated:
            self.signal(signal.SIGHUP)

    def signal(self, number: int) -> None:
        """Pass a signal on; SIGHUP when it serves."""
        if number == getattr(signal, "SIGHUP", None) and not self.is_serving:
            self._is_outdated = True
        elif self.process.exitcode is None and self.process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def close(self) -> None:
        """Release the resources of a process that has ended."""
        self.process.join()
        self.link.close()
        self.process.close()


class Supervisor:
    """Runs the workers of one gateway.

    Args:
        run: Runs one worker: called in its process with the worker, its ``WorkerLink``, its socket and
            ``options``. A function of a module.
        options: What every worker is given; it is pickled.
        first: The first worker; the others follow.
        sockets: One for each worker, listening.
        draining: Seconds that a worker may take to end.
        ended: Takes what each worker hands over at its end.
    """

    def __init__(
        self,
        run: Callable[..., None],
        options: object,
        first: Worker,
        sockets: Sequence[socket.socket],
        *,
        draining: float,
        ended: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self._run: Final = run
        self._options: Final = options
        self._first: Final = first
        self._sockets: Final = list(sockets)
        self._addresses: Final = [each.getsockname()[:2] for each in sockets]
        self._draining: Final = draining
        self._ended: Final = ended
        self._processes: Final[dict[int, _Process]] = {}
        self._due: Final[dict[int, float]] = {}  # when the successor of a worker is started
        self._has_served = False  # all of them
        self._signals: Final[list[int]] = []
        self._ends_at: float | None = None  # when those that are left are ended; None: nobody asked to end
        self._error: PointsmanError | None = None
        self.restarts = 0

    def serve(self, serving: Callable[[], None] = lambda: None) -> None:
        """Serve until a signal ends it, and drain.

        Args:
            serving: Is called when all workers have begun to serve.

        Raises:
            PointsmanError: a worker did not start.
            KeyboardInterrupt: SIGINT has ended it.
        """
        numbers = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
        before = [(each, signal.signal(each, self._note_signal)) for each in numbers]
        try:
            self._publish()
            for number in range(1, self._first.of + 1):
                self._start(number)
            self._watch(serving)
        finally:
            self._kill()
            for each, handler in before:
                signal.signal(each, handler)
        if self._error is not None:
            raise self._error
        if signal.SIGINT in self._signals:
            raise KeyboardInterrupt

    def _note_signal(self, number: int, _: object) -> None:
        self._signals.append(number)

    def _start(self, number: int) -> None:
        worker, listening = self._first._replace(number=number), self._sockets[number - 1]
        if listening.fileno() < 0:  # the worker listens once it serves: until then callers reach the others
            address = self._addresses[number - 1]
            listening = self._sockets[number - 1] = bound(*address, is_spread=True, listens=False)
        arguments = (listening, self._options)
        self._processes[number] = _Process(worker, self._run, arguments)

    def _start_again(self, number: int) -> None:
        try:
            self._start(number)
        except (ConfigError, OSError) as error:  # the address is another's, or there is no room for a process
            self._try_later(number, str(error))

    def _try_later(self, number: int, why: str) -> None:
        log.error("worker %d does not start and is tried again; the others serve: %s", number, why)
        self._due[number] = time.monotonic() + _AGAIN
        self._close_socket(number)

    def _watch(self, serving: Callable[[], None]) -> None:
        passed = 0
        while self._processes or (self._due and self._ends_at is None):
            self._await_news()
            for number in [each for each, at in self._due.items() if at <= time.monotonic()]:
                del self._due[number]
                if self._ends_at is None:
                    self._start_again(number)
            for number in self._signals[passed:]:
                passed += 1
                self._pass_on(number)
            for process in list(self._processes.values()):
                self._hear(process)
            are_serving = [process.is_serving for process in self._processes.values()]
            if not self._has_served and are_serving == [True] * self._first.of:
                self._has_served = True
                serving()
            if self._ends_at is not None and time.monotonic() > self._ends_at:
                log.warning("workers that did not end in time are killed")
                return

    def _await_news(self) -> None:
        waiting: list[Any] = [process.process.sentinel for process in self._processes.values()]
        wait(waiting + [process.link for process in self._processes.values()], _TICK)

    def _pass_on(self, number: int) -> None:
        if number != getattr(signal, "SIGHUP", None):
            self._end()
        for process in self._processes.values():
            process.signal(number)

    def _end(self) -> None:
        if self._ends_at is None:
            self._ends_at = time.monotonic() + self._draining + _PATIENCE

    def _hear(self, process: _Process) -> None:
        has_ended = process.process.exitcode is not None  # before it is heard: it may tell something yet
        for what, value in process.read():
            match what:
                case "serving":
                    process.serves()
                case "closing":
                    self._close_socket(process.worker.number)
                case "failed":
                    process.error = value
                case "ended":
                    self._ended(value)
        if has_ended:
            self._bury(process)

    def _close_socket(self, number: int) -> None:
        """Close a socket that no worker accepts connections from any more: callers then reach the others."""
        if self._first.of == len(set(self._sockets)) or self._ends_at is not None:
            self._sockets[number - 1].close()

    def _bury(self, process: _Process) -> None:
        number, code = process.worker.number, process.process.exitcode
        del self._processes[number]
        process.close()
        self._forget_gauges(number)
        if self._ends_at is not None:
            return
        now = time.monotonic()
        if process.is_serving:
            self.restarts += 1
            self._publish()
            log.error("worker %d has ended by itself (%s) and is replaced", number, _ending(code))
            self._due[number] = now + (_PAUSE if now - process.started_at < _SETTLED else 0.0)
        elif self._has_served:
            self._try_later(number, process.error[0] if process.error else _ending(code))
        else:
            self._refuse(number, code, process.error)

    def _refuse(self, number: int, code: int | None, error: tuple[str, str] | None) -> None:
        """End all workers: the error that prevents one from starting prevents every other one."""
        message, hint = error or (_ending(code), "the log says more")
        self._error = ConfigError(f"worker {number} does not start: {message}", hint=hint)
        self._pass_on(signal.SIGTERM)

    def _forget_gauges(self, number: int) -> None:
        """Remove the gauges of a worker that is gone; its counters remain."""
        told = read(self._first.folder, number)
        if told is not None:
            publish(self._first.folder, number, Published(metrics=lasting(told.metrics)))

    def _publish(self) -> None:
        spec = METRICS["worker_restarts"]
        name = "pointsman_worker_restarts"
        counted: Family = (name, spec.help, spec.kind, [(f"{name}_total", {}, float(self.restarts))])
        publish(self._first.folder, SUPERVISOR, Published(metrics=[counted]))

    def _kill(self) -> None:
        for process in self._processes.values():
            process.signal(signal.SIGKILL)
            process.close()


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
