"""Entries as rows of JSON lines, and back (docs/reference/ledger.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from pointsman.decision.decision import Decision, TextMode
from pointsman.stores.ledger._earlier import SHAPE, decision_in
from pointsman.stores.ledger.port import (
    Attempt,
    ComparedAnswers,
    Entry,
    Outcome,
    Owner,
    PassedRequest,
    PolicyText,
    PromptText,
    RunEntry,
    Shadow,
    ShadowAnswer,
    ShadowDecision,
)
from pointsman.stores.ledger.redact import kept_decision, kept_step, kept_text

__all__ = ["entry_in", "kept_entry", "line_of", "row_of"]

#: What a row is, by the type of its entry.
_ROWS: Final[dict[type, str]] = {
    Decision: "decision",
    Attempt: "attempt",
    Outcome: "outcome",
    PromptText: "text",
    ShadowDecision: "shadow",
    ShadowAnswer: "shadow",
    ComparedAnswers: "shadow",
    PassedRequest: "passed",
    RunEntry: "run",
    Owner: "owner",
    PolicyText: "policy",
}
_BEGINNINGS: Final = {kind: f'{{"version":{SHAPE},"row":"{name}",'.encode() for kind, name in _ROWS.items()}

_encode: Final = msgspec.json.Encoder().encode


class _PolicyRow(msgspec.Struct):
    """A policy; its version has another name, because a row begins with the version of the row's shape."""

    policy: str
    text: str


class _Head(msgspec.Struct):
    version: int
    row: str


_policy_row: Final = msgspec.json.Decoder(_PolicyRow).decode


def _policy_in(line: bytes) -> PolicyText:
    found = _policy_row(line)
    return PolicyText(version=found.policy, text=found.text)


_head: Final = msgspec.json.Decoder(_Head).decode
_READERS: Final[dict[str, Callable[[bytes], Entry]]] = {
    "attempt": msgspec.json.Decoder(Attempt).decode,
    "outcome": msgspec.json.Decoder(Outcome).decode,
    "text": msgspec.json.Decoder(PromptText).decode,
    "shadow": msgspec.json.Decoder(Shadow).decode,
    "passed": msgspec.json.Decoder(PassedRequest).decode,
    "run": msgspec.json.Decoder(RunEntry).decode,
    "owner": msgspec.json.Decoder(Owner).decode,
    "policy": _policy_in,
}


def row_of(entry: Entry) -> str:
    """Return what kind of a row an entry is."""
    return _ROWS[type(entry)]


def line_of(entry: Entry) -> bytes:
    """Return the row of an entry, without the end of the line.

    Raises:
        TypeError, ValueError, RecursionError: the entry cannot be written as JSON.
    """
    said = _PolicyRow(entry.version, entry.text) if isinstance(entry, PolicyText) else entry
    return _BEGINNINGS[type(entry)] + _encode(said)[1:]


def entry_in(line: bytes) -> Entry:
    """Return the entry in a row, also of an earlier version.

    Raises:
        msgspec.DecodeError: it is none, or of a newer version.
    """
    head = _head(line)
    if head.version > SHAPE:
        raise msgspec.ValidationError(f"version {head.version}; this program reads versions up to {SHAPE}")
    if head.row == "decision":
        return decision_in(line, head.version)
    if head.row not in _READERS:
        raise msgspec.ValidationError(f'unknown row "{head.row}"')
    return _READERS[head.row](line)


def kept_entry(entry: Entry, mode: TextMode) -> Entry | None:
    """Return the stored form of an entry; None for nothing."""
    match entry:
        case Decision():
            return kept_decision(entry, mode)
        case RunEntry():
            return kept_step(entry, mode)
        case PromptText():
            text = kept_text(entry.text, mode)
            return None if text is None else PromptText(decision=entry.decision, text=text)
    return entry
