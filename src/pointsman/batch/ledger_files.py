"""The entries of a ledger as a Parquet file, out and in: a row each, in row groups, in constant memory.

The column ``body`` holds the row of JSON lines (docs/reference/ledger.md), from which it is read again. The
other columns repeat the fields queried most, for queries of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from pointsman.batch.columns import BINARY, TEXT, Expected, find
from pointsman.batch.files import read_part, sources, write_part
from pointsman.decision.decision import Decision
from pointsman.errors import ConfigError
from pointsman.stores.ledger.lines import entry_in, line_of, row_of
from pointsman.stores.ledger.port import (
    Attempt,
    Entry,
    Outcome,
    Owner,
    PassedRequest,
    PolicyText,
    RunEntry,
    ShadowAnswer,
)

__all__ = ["SCHEMA", "read_entries", "write_entries"]

#: Entries of one record batch.
_STEP: Final = 1_024
#: Entries of a row group: some 15 MB, which are in memory at once.
_ROW_GROUP: Final = 8_192

SCHEMA: Final = pa.schema(
    [
        pa.field("row", pa.string(), nullable=False),
        pa.field(
            "id", pa.string(), nullable=False
        ),  # of the decision; of the run; of the request; the object
        pa.field("at", pa.float64()),  # seconds since the epoch
        pa.field("session", pa.string()),
        pa.field("caller", pa.string()),
        pa.field("tier", pa.string()),
        pa.field("model", pa.string()),
        pa.field("status", pa.int32()),
        pa.field("input_tokens", pa.int64()),
        pa.field("cached_tokens", pa.int64()),
        pa.field("output_tokens", pa.int64()),
        pa.field("written_tokens", pa.int64()),
        pa.field("written_1h_tokens", pa.int64()),
        pa.field("score", pa.float64()),
        pa.field("label", pa.string()),
        pa.field("body", pa.string(), nullable=False),
    ]
)
_NUMBER: Final = Expected(
    "a number", lambda found: bool(pa.types.is_floating(found) or pa.types.is_integer(found))
)
#: Columns that must be there to read a file.
_NEEDED: Final = {"row": TEXT, "id": TEXT, "at": _NUMBER, "body": BINARY}
_SAME: Final = ("model", "status", *(name for name in SCHEMA.names if name.endswith("_tokens")))


def write_entries(path: Path, entries: Iterable[Entry]) -> int:
    """Write entries into a file, which has its name when it is whole; return how many.

    Raises:
        PointsmanError: it cannot be written.
    """
    written = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal written
        source = iter(entries)
        while step := list(islice(source, _STEP)):
            written += len(step)
            yield pa.RecordBatch.from_pylist([_values(entry) for entry in step], schema=SCHEMA)

    write_part(path, SCHEMA, batches(), row_group=_ROW_GROUP)
    return written


def read_entries(path: Path) -> Iterator[Entry]:
    """Yield the entries of a file, in their order.

    Raises:
        ConfigError: it is not a Parquet file, a column is missing or of another type, or a row is no entry;
            names the file, the column or the row, and the expected value.
    """
    for number, source in enumerate(sources(str(path))):
        for name, expected in _NEEDED.items():
            find(source.schema, name, expected, source.file)
        place = 0
        for part in source.parts(number):
            for batch in read_part(part, lambda *_: ["body"]):
                for body in batch.column("body").to_pylist():
                    place += 1
                    yield _entry(body, f"{source.file}: row {place:,}")


def _entry(body: str | bytes | None, place: str) -> Entry:
    if body is None:
        raise ConfigError('column "body" is null; expected is the row of JSON lines', place=place)
    try:
        return entry_in(body.encode() if isinstance(body, str) else body)
    except msgspec.DecodeError as error:
        raise ConfigError(f'column "body" is no entry of a ledger: {error}', place=place) from error


def _values(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = {"row": row_of(entry), "body": line_of(entry).decode("utf-8", "replace")}
    match entry:
        case Decision():
            asked = entry.input
            tier = entry.tier.tier.value if entry.tier else None
            own = {"at": asked.arrived_at, "session": asked.session, "caller": asked.caller, "tier": tier}
            return found | own | {"id": entry.id, "model": next(iter(entry.chain), None)}
        case Attempt() | ShadowAnswer():
            at = entry.started_at if isinstance(entry, Attempt) else entry.at
            return found | {name: getattr(entry, name) for name in _SAME} | {"id": entry.decision, "at": at}
        case Outcome():
            said = {"score": entry.score, "label": entry.label, "model": entry.model or None}
            return found | said | {"id": entry.decision, "at": entry.at}
        case RunEntry():
            return found | {"id": entry.run, "at": entry.at, "session": entry.session}
        case PassedRequest():
            return found | {"id": entry.id, "at": entry.at, "caller": entry.caller, "status": entry.status}
        case PolicyText():
            return found | {"id": entry.version}
        case Owner():
            return found | {"id": entry.object, "at": entry.at, "caller": entry.caller}
    return found | {"id": entry.decision, "at": getattr(entry, "at", None)}
