"""What the page Quality shows of projects: the file in force, and how often it had a say."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pointsman.reports.projects import CONDITION, clients_of, uses
from pointsman.stores.ledger import Record
from pointsman.tiers.projects import ANY, ProjectPolicy, named_cell

__all__ = ["ProjectRow", "ProjectsSeen", "projects_seen"]

#: Projects that are listed, those with the most outcomes first.
_SHOWN = 50


class ProjectRow(msgspec.Struct, frozen=True):
    """One project of the file."""

    project: str  # its key
    clients: str  # programs seen in it
    outcomes: int
    expected: dict[str, float]  # success by model
    tier: str  # that is good enough; empty: none is known to be


class ProjectsSeen(msgspec.Struct, frozen=True):
    """The file of projects, and its use among the newest decisions."""

    mode: str
    goal: str
    condition: str
    rows: tuple[ProjectRow, ...]
    uses: dict[str, int]  # decisions by reason


def projects_seen(policy: ProjectPolicy | None, newest: Sequence[Record]) -> ProjectsSeen | None:
    """Read the projects of a policy; None where no file of projects is configured."""
    if policy is None:
        return None
    file, clients = policy.projects, clients_of(newest)
    rows = [
        ProjectRow(
            project=name.project,
            clients=clients.get(name.project, ""),
            outcomes=cell.outcomes,
            expected={model: mean for model, (_, _, mean) in cell.models.items()},
            tier=cell.tier,
        )
        for name, cell in ((named_cell(key), cell) for key, cell in file.cells.items())
        if name.project != ANY and name.kind == name.role == ANY
    ]
    rows.sort(key=lambda row: -row.outcomes)
    of = " of the last tier's" if file.keep else ""
    goal = f"success {file.target:g}{of}, with probability {file.certainty:g}"
    return ProjectsSeen(str(policy.mode), goal, CONDITION, tuple(rows[:_SHOWN]), uses(newest))
