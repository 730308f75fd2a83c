"""A ledger's decisions with all that belongs to them, as JSON lines, one JSON array, or a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from pointsman.decision.decision import run_of
from pointsman.printable import printable_json, table_cell
from pointsman.stores.ledger._bodies import SHAPE, decision_in
from pointsman.stores.ledger.port import Record, RunEntry
from pointsman.stores.ledger.runs import RunRecord, RunUsage, record, usage_by_run
from pointsman.stores.ledger.turns import answered

__all__ = ["SHAPE", "Format", "export", "record", "record_in"]


class Format(StrEnum):
    """How an export is written."""

    JSONL = "jsonl"  # one record a line
    JSON = "json"  # one array
    CSV = "csv"  # one flat row a decision


_encode: Final = msgspec.json.Encoder().encode
#: How a line begins: with the version of its shape (docs/reference/ledger.md).
_VERSION: Final = f'{{"version":{SHAPE},'

COLUMNS: Final = (
    "id", "arrived_at", "session", "format", "model_asked", "policy", "tier", "score", "confidence", "stage",
    "chain", "model", "status", "attempts", "total_ms", "input_tokens", "cached_tokens", "output_tokens",
    "written_tokens", "written_1h_tokens", "domains", "rule", "guidance", "arm", "abstained", "elapsed_us",
    "outcome_score", "outcome_label", "capabilities", "tools_kept", "role", "run", "node", "caller",
)  # fmt: skip


class _Line(Record, frozen=True, kw_only=True):
    """One line of an export that holds a decision."""

    version: int
    decision: msgspec.Raw  # type: ignore[assignment]  # in the shape of the version


_read: Final = msgspec.json.Decoder(_Line).decode


def record_in(line: bytes | str) -> Record:
    """Return the decision in a line of an export as JSON lines, also of an earlier version.

    Raises:
        msgspec.DecodeError: it holds none, or is of a newer version.
    """
    found = _read(line)
    if found.version > SHAPE:
        raise msgspec.ValidationError(f"version {found.version}; this program reads versions up to {SHAPE}")
    decision = decision_in(bytes(found.decision), found.version)
    return Record(decision, found.attempts, found.outcomes, found.text, found.shadows)


def export(
    found: Iterable[Record],
    format: Format,  # noqa: A002 - what it is
    runs: Iterable[Sequence[RunEntry]] = (),
) -> Iterator[str]:
    """Yield an export piece by piece, line ends included.

    Args:
        found: the decisions.
        format: how to write them.
        runs: runs of agents, which follow the decisions, with what those of them took that are questions of
            the run. A table has decisions alone, with the run's id.
    """
    match format:
        case Format.JSONL:
            yield from (_line_of(each) + "\n" for each in _with_runs(found, runs))
        case Format.JSON:
            separator = "[\n"
            for each in _with_runs(found, runs):
                yield separator + _line_of(each)
                separator = ",\n"
            yield "[]\n" if separator == "[\n" else "\n]\n"
        case Format.CSV:
            yield _line(COLUMNS)
            yield from (_line([table_cell(value) for value in _row(each)]) for each in found)


def _with_runs(found: Iterable[Record], runs: Iterable[Sequence[RunEntry]]) -> Iterator[Record | RunRecord]:
    usage: dict[str, RunUsage] = {}
    for each in found:
        yield each
        for run, used in usage_by_run((each,)).items():
            usage[run] = usage.get(run, RunUsage()) + used
    for entries in runs:
        run = entries[0].run
        yield RunRecord(run, entries[0].session, tuple(entries), usage.get(run, RunUsage()))


def _line_of(found: Record | RunRecord) -> str:
    return printable_json(_VERSION + _encode(found)[1:].decode())


def _row(found: Record) -> tuple[object, ...]:
    decision, tier, guidance = found.decision, found.decision.tier, found.decision.guidance
    selected = decision.capabilities
    last = answered(found.attempts) or (found.attempts[-1] if found.attempts else None)
    said = found.outcomes[-1] if found.outcomes else None
    return (
        decision.id,
        datetime.fromtimestamp(decision.input.arrived_at, UTC).isoformat(timespec="milliseconds"),
        decision.input.session,
        decision.input.format,
        decision.input.model_asked,
        decision.policy,
        *((tier.tier, tier.score, tier.confidence, tier.stage) if tier else (None,) * 4),
        " ".join(decision.chain),
        *((last.model, last.status) if last else (None, None)),
        len(found.attempts),
        sum(attempt.total_ms for attempt in found.attempts) if last else None,
        *([getattr(last, name, None) for name in COLUMNS if name.endswith("_tokens")]),
        *((decision.domains.signature, decision.domains.rule) if decision.domains else (None, None)),
        "+".join(firing.classifier for firing in guidance.firings) or None if guidance else None,
        guidance.arm if guidance else None,
        " ".join(reason.code for reason in decision.abstained),
        round(decision.elapsed_us, 1),
        *((said.score, said.label) if said else (None, None)),
        " ".join(selected.selected) if selected else None,
        len(selected.tools.kept) if selected and selected.tools else None,
        decision.input.role,
        *(part or None for part in run_of(decision)),
        decision.input.caller,
    )


def _line(cells: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()
