"""Outcomes that a person gives to sessions whose logs do not prove them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from pointsman.audit.figures import SessionFigures
from pointsman.errors import PointsmanError
from pointsman.jsonl import numbered_lines

__all__ = ["Label", "labelled", "read_labels"]

_EXPECTED = 'one JSON object per line is expected, such as {"session": "139b477c", "solved": true}'


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person says of one session."""

    session: str
    solved: bool


def read_labels(file: Path) -> dict[str, bool]:
    """Read outcomes by session; of two of one session the later holds.

    Raises:
        PointsmanError: the file cannot be read, or a line is no label.
    """
    found: dict[str, bool] = {}
    for number, line in numbered_lines(file):
        try:
            label = msgspec.json.decode(line, type=Label)
        except msgspec.DecodeError as error:
            raise PointsmanError(f"{file}, line {number}: {error}", hint=_EXPECTED) from error
        found[label.session] = label.solved
    return found


def labelled(
    sessions: Iterable[SessionFigures], labels: dict[str, bool]
) -> tuple[Sequence[SessionFigures], Sequence[str]]:
    """Give sessions their labels, which hold over what the log proves, and name labels without a session."""
    given = [
        of
        if of.id not in labels
        else msgspec.structs.replace(
            of,
            solved=labels[of.id],
            solved_by="label",
            stuck=of.stuck and not labels[of.id],
            after_stuck=() if labels[of.id] else of.after_stuck,
        )
        for of in sessions
    ]
    return given, sorted(labels.keys() - {of.id for of in given})
