"""Replay of a period under another policy as a job, and one decision decided again."""

from __future__ import annotations

import heapq
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice, takewhile
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from pointsman.decision.engine import Engine
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import PointsmanError, UnknownDecision
from pointsman.reports.labels import ScoredAnswers
from pointsman.reports.replay import Replay, Replayed, SessionState, Summary
from pointsman.stores.ledger import Record, Search
from pointsman.stores.ledger.export import record
from pointsman.stores.replacing import SHARED, replaced

__all__ = ["Progress", "ReplayDiff", "ReplayFile", "decide_again", "replay_period"]


# A replay's output as JSON lines that survive an interruption: the file, and a checkpoint beside it.

#: Turns between checkpoints: a checkpoint holds all sessions' memories, and takes as long as some thousand
#: turns.
EVERY: Final = 20_000

_encode: Final = msgspec.json.Encoder().encode
_line: Final = msgspec.json.Decoder(Replayed).decode


class Checkpoint(msgspec.Struct, frozen=True):
    """Progress of a replay."""

    policy: str  # version; another policy cannot go on with it
    turns: int  # lines written
    size: int  # bytes of those lines
    last: str  # id of the last decision among them
    sessions: dict[str, SessionState]


_checkpoint: Final = msgspec.json.Decoder(Checkpoint).decode


class ReplayFile:
    """Writes a replay to a file. An interrupted one continues with ``resume`` without a difference."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        self.checkpoint: Final = path.with_name(f"{path.name}.checkpoint")

    def write(self, replay: Replay, records: Iterable[Record], *, resume: bool = False) -> Iterator[Replayed]:
        """Yield every turn, those of an earlier run included, each when it is written.

        Raises:
            PointsmanError: there is nothing to resume, or it belongs to another policy or ledger, or the
                file cannot be written.
        """
        found = self._found(replay) if resume else None
        waiting = iter(records)
        try:
            if found is None:
                self.checkpoint.unlink(missing_ok=True)  # of an earlier run, whose lines go now
            with self.path.open("r+b" if found else "wb") as out:
                if found:
                    yield from self._again(found, out, waiting)
                    replay.sessions.update(found.sessions)
                yield from self._on(replay, waiting, out, found.turns if found else 0)
        except OSError as error:
            raise PointsmanError(f"cannot write {self.path}: {error.strerror or error}") from error
        self.checkpoint.unlink(missing_ok=True)

    def _found(self, replay: Replay) -> Checkpoint:
        try:
            found = _checkpoint(self.checkpoint.read_bytes())
        except FileNotFoundError:
            raise PointsmanError(
                f"nothing to resume: {self.checkpoint} does not exist", hint="start again without --resume"
            ) from None
        except UNREADABLE as error:
            raise PointsmanError(f"{self.checkpoint} is not a checkpoint: {why_unreadable(error)}") from None
        if found.policy != replay.engine.version:
            raise PointsmanError(
                f"{self.checkpoint} belongs to policy {found.policy}, not {replay.engine.version}",
                hint="start again without --resume",
            )
        return found

    def _again(self, found: Checkpoint, out: BinaryIO, records: Iterator[Record]) -> Iterator[Replayed]:
        """Yield the turns already written, and leave file and records behind them."""
        if out.seek(0, os.SEEK_END) < found.size:
            raise PointsmanError(
                f"{self.path} is shorter than recorded in {self.checkpoint}",
                hint="start again without --resume",
            )
        out.truncate(found.size)
        out.seek(0)
        last = next(islice(records, found.turns - 1, found.turns), None)
        if last is None or last.decision.id != found.last:
            raise PointsmanError(
                "this replay started with another ledger", hint="start again without --resume"
            )
        for line in out:
            yield _line(line)

    def _on(self, replay: Replay, records: Iterator[Record], out: BinaryIO, turns: int) -> Iterator[Replayed]:
        line = None
        since = 0
        try:
            for line in replay.turns(records):
                out.write(_encode(line) + b"\n")
                since += 1
                if since % EVERY == 0:
                    self._keep(replay, out, turns + since, line.id)
                yield line
        except (KeyboardInterrupt, GeneratorExit):
            if line is not None:
                self._keep(replay, out, turns + since, line.id)
            raise

    def _keep(self, replay: Replay, out: BinaryIO, turns: int, last: str) -> None:
        out.flush()
        kept = Checkpoint(replay.engine.version, turns, out.tell(), last, replay.sessions)
        with replaced(self.checkpoint, SHARED) as draft:
            draft.write_bytes(_encode(kept))


#: Changes that are shown each by itself.
BIGGEST: Final = 50

#: Turns of its session that a decision is decided again after: its memory begins there.
BEFORE: Final = 500

#: Turns between two calls of ``progress``.
STEP: Final = 100

#: Is told the turns done and about how many there are; False ends the job.
Progress = Callable[[int, int], bool]


class ReplayDiff(msgspec.Struct, frozen=True):
    """What another policy would have done in a period."""

    policy: str  # version
    since: float  # seconds since the epoch
    until: float
    is_complete: bool  # False: the job was ended
    summary: dict[str, object]  # ``Summary.to_json``: counts and money
    lines: tuple[str, ...]  # the same for a person
    biggest: tuple[Replayed, ...]  # changed turns, the greatest difference of money first


def replay_period(
    ledger: Search,
    engine: Engine,
    *,
    since: float,
    until: float,
    progress: Progress = lambda _done, _of: True,
) -> ReplayDiff:
    """Decide the requests of a period again under another policy, oldest first. No model is asked.

    Args:
        ledger: The ledger that has them.
        engine: The other policy.
        since: Arrival of the first, seconds since the epoch.
        until: Arrival that is too late.
        progress: Is called now and then.

    Raises:
        PointsmanError: there is no decision in the period.
        StoreUnavailable: the ledger cannot be read.
    """
    about = sum(turn.turns for turn in ledger.totals(since=since, until=until).turns)
    answers = ScoredAnswers(engine.policy.models)
    records = answers.noted(_records(ledger, since, until))
    summary = Summary(engine.version, answers)
    is_complete = True

    def changed() -> Iterator[Replayed]:
        nonlocal is_complete
        for line in Replay(engine).turns(records):
            if summary.add(line).changed:
                yield line
            if summary.turns % STEP == 0 and not progress(summary.turns, max(about, summary.turns)):
                is_complete = False
                return

    biggest = heapq.nlargest(BIGGEST, changed(), key=_size)  # of equals the earlier first
    if not summary.turns:
        raise PointsmanError(
            f"there is no decision from {_when(since)} to {_when(until)}", hint="choose another period"
        )
    if is_complete:
        progress(summary.turns, summary.turns)
    return ReplayDiff(
        policy=engine.version,
        since=since,
        until=until,
        is_complete=is_complete,
        summary=summary.to_json(),
        lines=tuple(summary.lines()),
        biggest=tuple(biggest),
    )


def decide_again(ledger: Search, decision_id: str, engine: Engine) -> Replayed:
    """Decide one recorded request again, after the turns of its session before it. No model is asked.

    Raises:
        UnknownDecision: the ledger does not hold it, or no longer.
        StoreUnavailable: the ledger cannot be read.
    """
    decision = ledger.get(decision_id)
    if decision is None:
        raise UnknownDecision(
            f'there is no decision "{decision_id[:200]}"', hint="it may be older than the ledger's retention"
        )
    replay, session = Replay(engine), decision.input.session
    if session:
        earlier = takewhile(lambda each: each.decision.id != decision_id, ledger.records(session=session))
        for each in deque((each for each in earlier if each.decision.input.session == session), BEFORE):
            replay.turn(each)
    return replay.turn(record(ledger, decision))


def _records(ledger: Search, since: float, until: float) -> Iterator[Record]:
    for each in ledger.records(since=since):
        if each.decision.input.arrived_at >= until:
            return
        yield each


def _when(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g}"


def _size(line: Replayed) -> tuple[float, int]:
    """Difference of money, then of tiers."""
    then, now = line.then, line.now
    money = 0.0 if then.cost is None or now.cost is None else abs(now.cost - then.cost)
    tiers = abs(now.tier.rank - then.tier.rank) if then.tier and now.tier else 0
    return money, tiers
