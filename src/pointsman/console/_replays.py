"""Replays that the page Policy began: one at a time, in a thread that lets requests go first."""

from __future__ import annotations

import heapq
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
from pointsman.reports.replay import Replay, Replayed
from pointsman.reports.replay_summary import Summary
from pointsman.stores.ledger.port import Ledger
from pointsman.stores.ledger.reading import DecisionFilter

__all__ = ["Job", "Replays"]

log = logging.getLogger(__name__)

#: Replays that are kept, and changes that are shown of each.
_KEPT: Final = 8
_SHOWN: Final = 100
#: Decisions between two pauses, and seconds of a pause: requests are decided in the same process.
_PIECE: Final = 10
_PAUSE: Final = 0.005

State = Literal["running", "done", "cancelled", "failed"]


class Job:
    """One replay, while it runs and after."""

    def __init__(self, number: str, engine: Engine, since: float | None, until: float | None) -> None:
        self.id: Final = number
        self.engine: Final = engine
        self.since: Final = since
        self.until: Final = until
        self.begun_at: Final = time.time()
        self.state: State = "running"
        self.error = ""
        self.total = 0
        self.done = 0
        self.summary = Summary(engine.version)
        self._largest: list[tuple[float, int, Replayed]] = []
        self._lock = threading.Lock()

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0

    def add(self, line: Replayed) -> None:
        """Count one turn, and keep it where it is among the biggest changes."""
        with self._lock:
            self.summary.add(line)
            if not line.changed:
                return
            item = (_weight(line), self.summary.turns, line)
            if len(self._largest) < _SHOWN:
                heapq.heappush(self._largest, item)
            else:
                heapq.heappushpop(self._largest, item)

    def changes(self) -> list[Replayed]:
        """The biggest changes, the biggest first."""
        with self._lock:
            return [line for _, _, line in sorted(self._largest, reverse=True)]


def _weight(line: Replayed) -> float:
    """How much a change matters: the difference in money, then in tiers."""
    then, now = line.then, line.now
    money = (
        abs((now.cost or 0.0) - (then.cost or 0.0)) if now.cost is not None and then.cost is not None else 0.0
    )
    tiers = abs(now.tier.rank - then.tier.rank) if now.tier and then.tier else 0
    return money + tiers * 1e-9


class Replays:
    """The replays of one gateway."""

    def __init__(self, pause: Callable[[float], None] = time.sleep) -> None:
        self._jobs: Final[OrderedDict[str, Job]] = OrderedDict()
        self._pause: Final = pause

    def all(self) -> list[Job]:
        """Those that are kept, the latest first."""
        return list(reversed(self._jobs.values()))

    def get(self, number: str) -> Job | None:
        """Return one of them."""
        return self._jobs.get(number)

    def begin(self, ledger: Ledger, engine: Engine, since: float | None, until: float | None) -> str:
        """Begin a replay of the decisions of a period, and return its id.

        Raises:
            Overloaded: another one runs.
            Unusable: the period has no decisions.
        """
        if any(job.state == "running" for job in self._jobs.values()):
            raise Overloaded("a replay runs already", hint="wait for it, or cancel it")
        if not ledger.search(DecisionFilter(since=since, until=until), limit=1).rows:
            raise Unusable("there is no decision in this period", hint="choose a longer one")
        job = Job(secrets.token_hex(8), engine, since, until)
        self._jobs[job.id] = job
        while len(self._jobs) > _KEPT:
            self._jobs.popitem(last=False)
        threading.Thread(target=self._run, args=(ledger, job), name="console-replay", daemon=True).start()
        return job.id

    def cancel(self, number: str) -> None:
        """End a replay at its next pause."""
        job = self._jobs.get(number)
        if job is not None and job.state == "running":
            job.state = "cancelled"

    def close(self) -> None:
        """End all."""
        for number in list(self._jobs):
            self.cancel(number)

    def _run(self, ledger: Ledger, job: Job) -> None:
        try:
            job.total = ledger.count()
            replay = Replay(job.engine)
            for record in ledger.records():
                job.done += 1
                at = record.decision.input.arrived_at
                if (job.since is None or at >= job.since) and (job.until is None or at < job.until):
                    job.add(replay.turn(record))
                if job.done % _PIECE == 0:
                    self._pause(_PAUSE)
                if job.state != "running":
                    return
            job.state = "done"
        except PointsmanError as error:
            job.state, job.error = "failed", error.message
        except Exception:
            log.exception("a replay failed")
            job.state, job.error = "failed", "it failed inside the console; the log says why"
