"""Replay of recorded decisions in Parquet files, session by session."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from pointsman.batch.classify import engine_of
from pointsman.batch.columns import BINARY, find
from pointsman.decision.policy import Policy
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.reports.replay import Replay, Replayed
from pointsman.stores.ledger import Record
from pointsman.stores.ledger.export import SHAPE, record_in

__all__ = ["RECORD", "REPLAYED", "BatchReplayer", "part_of"]

#: The column that is read: a line of ``pointsman decisions export --format jsonl``.
RECORD: Final = "record"

#: Columns of the output (docs/reference/batch.md). A row that could not be read has ``error`` and
#: both versions alone.
REPLAYED: Final = pa.schema(
    [
        ("id", pa.string()),
        ("session", pa.string()),
        ("arrived_at", pa.float64()),
        ("tier_then", pa.string()),
        ("tier_now", pa.string()),
        ("model_then", pa.string()),
        ("model_now", pa.string()),
        ("cost_then", pa.float64()),
        ("cost_now", pa.float64()),
        ("changed", pa.list_(pa.string())),
        ("refused", pa.string()),
        ("replayed", pa.string()),
        ("explanation_version", pa.int16()),
        ("policy_version", pa.string()),
        ("error", pa.string()),
    ]
)

_encode: Final = msgspec.json.Encoder().encode


class _Asked(msgspec.Struct, frozen=True):
    session: str = ""


class _Decision(msgspec.Struct, frozen=True):
    id: str = ""
    session: str = ""  # of versions before 2
    input: _Asked = _Asked()


class _Line(msgspec.Struct, frozen=True):
    decision: _Decision


_session: Final = msgspec.json.Decoder(_Line).decode


def part_of(line: bytes | str, parts: int) -> int:
    """Return the part that a record belongs to: all of one session to the same, from 0.

    Records without a session are spread by their id; what cannot be read goes to the first part.
    """
    try:
        found = _session(line).decision
    except UNREADABLE:
        return 0
    return zlib.crc32((found.input.session or found.session or found.id).encode("utf-8", "replace")) % parts


class BatchReplayer:
    """Decides the records of whole sessions again. Picklable: the engine is built at first use."""

    name: Final = "replay"
    schema: Final = REPLAYED

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.version = policy.version()

    def describe(self) -> dict[str, object]:
        """Inputs of the output other than the rows."""
        return {"policy_version": self.version, "explanation_version": SHAPE}

    def columns(self, schema: pa.Schema, file: str = "") -> list[str]:
        """Return the columns that are read.

        Raises:
            ConfigError: one is missing or of another type; names file, column and expected.
        """
        return [find(schema, RECORD, BINARY, file)]

    def __call__(self, records: pa.ChunkedArray) -> pa.Table:
        """Decide the records of some sessions again, all that there are of each, in any order.

        Returns:
            A row for each, by session and time; then those that cannot be read.
        """
        read, errors = _read(records.to_pylist())
        versions = {"explanation_version": SHAPE, "policy_version": self.version}
        rows = list(map(_row, self._replayed(read)))
        rows += [{"error": why} for why in sorted(errors)]
        return pa.Table.from_pylist([row | versions for row in rows], REPLAYED)

    def _replayed(self, read: list[Record]) -> Iterator[Replayed]:
        replay, session = Replay(engine_of(self.policy, self.version)), ""
        for record in sorted(read, key=_order):
            asked = record.decision.input
            if asked.session != session:
                replay.sessions.clear()
                session = asked.session
            yield replay.turn(record)


def _row(line: Replayed) -> dict[str, object]:
    then, now = line.then, line.now
    return {
        "id": line.id,
        "session": line.session,
        "arrived_at": line.arrived_at,
        "tier_then": str(then.tier) if then.tier else None,
        "tier_now": str(now.tier) if now.tier else None,
        "model_then": then.model or None,
        "model_now": now.model or None,
        "cost_then": then.cost,
        "cost_now": now.cost,
        "changed": list(line.changed),
        "refused": line.refused or None,
        "replayed": _encode(line).decode(),
    }


def _read(values: list[Any]) -> tuple[list[Record], list[str]]:
    read, errors = [], []
    for value in values:
        try:
            read.append(record_in(b"" if value is None else value))
        except UNREADABLE as error:
            errors.append("the record is null" if value is None else why_unreadable(error))
    return read, errors


def _order(record: Record) -> tuple[str, float, str]:
    asked = record.decision.input
    return asked.session, asked.arrived_at, record.decision.id
