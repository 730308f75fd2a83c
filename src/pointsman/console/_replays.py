"""Replays that the page Policy began: one at a time, in a thread that lets requests go first."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Literal

from pointsman.console._view import Unusable
from pointsman.decision.engine import Engine
from pointsman.errors import Overloaded, PointsmanError
from pointsman.reports.replay_period import ReplayDiff, replay_period
from pointsman.stores.ledger.port import Search
from pointsman.stores.ledger.reading import DecisionFilter

__all__ = ["Job", "Replays"]

log = logging.getLogger(__name__)

#: Replays that are kept.
_KEPT: Final = 8
#: Seconds of a pause after ``replay_period.STEP`` decisions: requests are decided in the same process.
_PAUSE: Final = 0.02

State = Literal["running", "done", "cancelled", "failed"]


class Job:
    """One replay, while it runs and after."""

    def __init__(self, number: str, engine: Engine, since: float, until: float) -> None:
        self.id: Final = number
        self.engine: Final = engine
        self.since: Final = since
        self.until: Final = until
        self.begun_at: Final = time.time()
        self.state: State = "running"
        self.error = ""
        self.total = 0
        self.done = 0
        self.is_asked_to_end = False
        self.found: ReplayDiff | None = None  # set before the state is "done" or "cancelled"

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0


class Replays:
    """The replays of one gateway."""

    def __init__(self, pause: Callable[[float], None] = time.sleep) -> None:
        self._jobs: Final[OrderedDict[str, Job]] = OrderedDict()
        self._pause: Final = pause

    def all(self) -> list[Job]:
        """The stored ones, the latest first."""
        return list(reversed(self._jobs.values()))

    def get(self, number: str) -> Job | None:
        """Return one of them."""
        return self._jobs.get(number)

    def begin(self, ledger: Search, engine: Engine, since: float | None, until: float | None) -> str:
        """Begin a replay of the decisions of a period, and return its id.

        Raises:
            Overloaded: another one runs.
            Unusable: the period has no decisions.
        """
        if any(job.state == "running" for job in self._jobs.values()):
            raise Overloaded("a replay runs already", hint="wait for it, or cancel it")
        begins, ends = since or 0.0, until or time.time()
        if not ledger.search(DecisionFilter(since=begins, until=ends), limit=1).rows:
            raise Unusable("there is no decision in this period", hint="choose a longer one")
        job = Job(secrets.token_hex(8), engine, begins, ends)
        self._jobs[job.id] = job
        while len(self._jobs) > _KEPT:
            self._jobs.popitem(last=False)
        threading.Thread(target=self._run, args=(ledger, job), name="console-replay", daemon=True).start()
        return job.id

    def cancel(self, number: str) -> None:
        """End a replay at its next pause."""
        job = self._jobs.get(number)
        if job is not None and job.state == "running":
            job.is_asked_to_end = True

    def close(self) -> None:
        """End all."""
        for number in list(self._jobs):
            self.cancel(number)

    def _run(self, ledger: Search, job: Job) -> None:
        def progress(done: int, about: int) -> bool:
            job.done, job.total = done, about
            self._pause(_PAUSE)
            return not job.is_asked_to_end

        try:
            job.found = replay_period(ledger, job.engine, since=job.since, until=job.until, progress=progress)
            job.state = "done" if job.found.is_complete else "cancelled"
        except PointsmanError as error:
            job.state, job.error = "failed", error.message
        except Exception:
            log.exception("a replay failed")
            job.state, job.error = "failed", "it failed inside the console; the log says why"
