"""How well memory preserves the domain of a conversation: four strategies on the same readings.

Stickiness is paid for in missed switches, so both are reported, and *carry-on-null* (keep the last domain
when a message has none) is the baseline that any momentum must beat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from pointsman.domains import DomainMemory, DomainSet, DomainTracker
from pointsman.domains.data import Compound, Part, format_signature, parse_signature, restore_from_signature
from pointsman.evidence import Scanner
from pointsman.remembering import grouped
from pointsman.vocabulary import Evidence

__all__ = ["STRATEGIES", "DomainReport", "LabelledTurn", "Spread", "evaluate"]


class LabelledTurn(msgspec.Struct, frozen=True):
    """One line of an evaluation file. Unknown fields are ignored; lines of other speakers are skipped."""

    dialogue_id: str
    turn: int
    text: str
    domain: str  # the right primary domain
    switch: bool = False  # the domain changes with this turn
    speaker: str = "user"


class DomainReport(msgspec.Struct, frozen=True):
    """Results of one strategy. Shares are 0 to 1; None where there was nothing to measure."""

    strategy: str
    turns: int
    accuracy: float | None  # share of turns with the right primary domain
    switch_accuracy: float | None  # the same, over the turns on which the domain changes
    changes: float | None  # share of turns inside a stretch of one domain on which the label changes
    delay: float | None  # turns until a switch is followed, mean over the switches that are followed
    missed: float | None  # share of switches never followed before the next one
    coverage: float | None  # share of turns with a domain that is not small talk
    intervals: dict[str, tuple[float, float]] = {}  # 95 %, by field, over dialogues, where asked for


#: Decides one dialogue: evidence of its turns in, a primary domain per turn out.
Strategy = Callable[[DomainTracker, Sequence[Evidence]], list[str]]

#: Sum and count of one field in every dialogue; their ratio over all dialogues is the figure reported.
Parts = Sequence[tuple[float, int]]

#: Bounds of such a ratio.
Spread = Callable[[Parts], tuple[float, float]]


def evaluate(
    turns: Iterable[LabelledTurn], tracker: DomainTracker, scanner: Scanner, *, spread: Spread | None = None
) -> list[DomainReport]:
    """Run every strategy over the dialogues of a file.

    Args:
        turns: in order within each dialogue.
        tracker: decides; its domain set must use the file's domain names.
        scanner: over a table that holds the tracker's signals.
        spread: gives the interval of a figure; without it the reports have none.
    """
    dialogues = list(grouped((turn.dialogue_id, turn) for turn in turns if turn.speaker == "user").values())
    evidence = [[scanner.scan(turn.text) for turn in dialogue] for dialogue in dialogues]
    return [
        _report(name, dialogues, [strategy(tracker, scans) for scans in evidence], tracker.domains, spread)
        for name, strategy in STRATEGIES.items()
    ]


def _no_memory(tracker: DomainTracker, scans: Sequence[Evidence]) -> list[str]:
    return [raw.primary.domain for raw in _readings(tracker, scans)]


def _carry_on_null(tracker: DomainTracker, scans: Sequence[Evidence]) -> list[str]:
    last, labels = tracker.domains.null, []
    for raw in _readings(tracker, scans):
        if raw.primary.domain != tracker.domains.null:
            last = raw.primary.domain
        labels.append(last)
    return labels


def _default(tracker: DomainTracker, scans: Sequence[Evidence]) -> list[str]:
    memory, labels = DomainMemory(), []
    for number, scan in enumerate(scans):
        decision, memory = tracker.decide(scan, memory, str(number))
        labels.append(decision.effective.primary.domain)
    return labels


def _seed_as_given(tracker: DomainTracker, scans: Sequence[Evidence]) -> list[str]:
    """The momentum function exactly as its specification prints it, defects and all."""
    signature, momentum, labels = "", 0, []
    for raw in _readings(tracker, scans):
        primary = _as_dict(raw.primary)
        secondary = _as_dict(raw.secondary) if raw.secondary else None
        new_signature = format_signature(primary, secondary)
        if new_signature == signature:
            momentum += 1
        elif momentum >= _SEED_THRESHOLD and primary["domain"] in parse_signature(signature):
            primary, secondary = restore_from_signature(signature, primary, secondary)
            momentum += 1
        else:
            signature, momentum = new_signature, 1
        labels.append(str(primary["domain"]))
    return labels


_SEED_THRESHOLD: Final = 3

#: Name -> strategy, in the order of the printed table.
STRATEGIES: Final[dict[str, Strategy]] = {
    "no memory": _no_memory,
    "seed momentum as given": _seed_as_given,
    "carry-on-null": _carry_on_null,
    "default": _default,
}


def _readings(tracker: DomainTracker, scans: Sequence[Evidence]) -> Iterator[Compound]:
    for scan in scans:
        yield tracker.decide(scan, DomainMemory(), "")[0].raw


def _as_dict(part: Part) -> dict[str, Any]:
    return {"domain": part.domain, "confidence": part.confidence, "matched_signals": list(part.signals)}


def _report(
    name: str,
    dialogues: Sequence[Sequence[LabelledTurn]],
    labels: Sequence[Sequence[str]],
    domains: DomainSet,
    spread: Spread | None,
) -> DomainReport:
    found = [
        _tallies(list(zip(turns, given, strict=True)), domains.null)
        for turns, given in zip(dialogues, labels, strict=True)
    ]
    parts = {field: [tallies[field] for tallies in found] for field in _FIELDS}
    counted = {field: _ratio(part) for field, part in parts.items()}
    return DomainReport(
        strategy=name,
        turns=sum(map(len, dialogues)),
        **counted,
        intervals={
            field: spread(part) for field, part in parts.items() if spread and counted[field] is not None
        },
    )


_FIELDS: Final = ("accuracy", "switch_accuracy", "changes", "delay", "missed", "coverage")


def _tallies(dialogue: Sequence[tuple[LabelledTurn, str]], null: str) -> dict[str, tuple[float, int]]:
    """Sum and count of every field in one dialogue."""
    delays = list(_delays(dialogue))
    followed = [delay for delay in delays if delay is not None]
    return {
        "accuracy": _tally(label == turn.domain for turn, label in dialogue),
        "switch_accuracy": _tally(label == turn.domain for turn, label in dialogue if turn.switch),
        "changes": _tally(_changes(dialogue)),
        "delay": (sum(followed), len(followed)),
        "missed": _tally(delay is None for delay in delays),
        "coverage": _tally(label != null for _, label in dialogue),
    }


def _tally(flags: Iterable[bool]) -> tuple[float, int]:
    values = list(flags)
    return sum(values), len(values)


def _ratio(parts: Parts) -> float | None:
    count = sum(count for _, count in parts)
    return sum(total for total, _ in parts) / count if count else None


def _changes(dialogue: Sequence[tuple[LabelledTurn, str]]) -> Iterator[bool]:
    """For each turn whose right domain is that of the turn before: did the label change?"""
    for (before, was), (now, label) in pairwise(dialogue):
        if before.domain == now.domain:
            yield label != was


def _delays(dialogue: Sequence[tuple[LabelledTurn, str]]) -> Iterator[int | None]:
    """For each switch: turns until the label is right, or None when the next switch comes first."""
    for start, (switch, _) in enumerate(dialogue):
        if switch.switch:
            stretch = [label for turn, label in _until_next_switch(dialogue[start:])]
            yield stretch.index(switch.domain) if switch.domain in stretch else None


def _until_next_switch(
    rest: Sequence[tuple[LabelledTurn, str]],
) -> Iterator[tuple[LabelledTurn, str]]:
    yield rest[0]
    for turn, label in rest[1:]:
        if turn.switch:
            return
        yield turn, label
