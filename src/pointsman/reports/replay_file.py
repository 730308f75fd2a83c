"""A replay's output as JSON lines that survive an interruption: the file, and a checkpoint beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import PointsmanError
from pointsman.reports.replay import Replay, Replayed, SessionState
from pointsman.stores.ledger import Record

__all__ = ["ReplayFile"]

#: Turns between checkpoints: a checkpoint holds all sessions' memories, and takes as long as some thousand
#: turns.
EVERY: Final = 20_000

_encode: Final = msgspec.json.Encoder().encode
_line: Final = msgspec.json.Decoder(Replayed).decode


class Checkpoint(msgspec.Struct, frozen=True):
    """Where a replay stands."""

    policy: str  # version; another policy cannot go on with it
    turns: int  # lines written
    size: int  # bytes of those lines
    last: str  # id of the last decision among them
    sessions: dict[str, SessionState]


_checkpoint: Final = msgspec.json.Decoder(Checkpoint).decode


class ReplayFile:
    """Writes a replay to a file. An interrupted one goes on with ``resume`` as if nothing had happened."""

    def __init__(self, path: Path, *, every: int = EVERY) -> None:
        self.path: Final = path
        self.checkpoint: Final = path.with_name(f"{path.name}.checkpoint")
        self._every: Final = every

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
                if since % self._every == 0:
                    self._keep(replay, out, turns + since, line.id)
                yield line
        except (KeyboardInterrupt, GeneratorExit):
            if line is not None:
                self._keep(replay, out, turns + since, line.id)
            raise

    def _keep(self, replay: Replay, out: BinaryIO, turns: int, last: str) -> None:
        out.flush()
        kept = Checkpoint(replay.engine.version, turns, out.tell(), last, replay.sessions)
        draft = self.checkpoint.with_name(f"{self.checkpoint.name}.new")
        draft.write_bytes(_encode(kept))
        draft.replace(self.checkpoint)
