"""Cost and savings by project, program, person and role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

import msgspec

from pointsman.reports.savings import Savings
from pointsman.stores.ledger import Spender

__all__ = ["DIVISIONS", "Division", "SpendingRow", "merged", "spending_by"]

#: By what spending is divided.
Division = Literal["project", "client", "person", "role"]
DIVISIONS: Final[tuple[Division, ...]] = get_args(Division)

#: The field of a spender by which each divides.
_FIELDS: Final[Mapping[Division, str]] = {
    "project": "project", "client": "client", "person": "caller", "role": "role",
}  # fmt: skip
#: What is shown where nothing tells.
_UNKNOWN: Final[Mapping[Division, str]] = {
    "project": "no project", "client": "unknown program", "person": "no key", "role": "no agent",
}  # fmt: skip


class SpendingRow(msgspec.Struct, frozen=True):
    """One project, program, person or role."""

    key: str  # as the ledger has it; empty: nothing tells
    name: str  # for a person
    money: Savings

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {"key": self.key, "name": self.name, **self.money.to_json()}


def merged(parts: Iterable[Mapping[Spender, Savings]]) -> dict[Spender, Savings]:
    """Add up the parts of a period, such as its days."""
    sums: dict[Spender, Savings] = {}
    for part in parts:
        for spender, money in part.items():
            if spender not in sums:
                sums[spender] = Savings(money.baseline, money.baseline_caches)
            sums[spender].add(money)
    return sums


def spending_by(by: Division, found: Mapping[Spender, Savings]) -> tuple[SpendingRow, ...]:
    """Add up what each spent, the one that spent most first.

    A project without a folder's name is one of a program: it is named after that.
    """
    field = _FIELDS[by]
    sums: dict[str, Savings] = {}
    names: dict[str, str] = {}
    for spender, money in found.items():
        key: str = getattr(spender, field)
        name = spender.project_name or spender.client if by == "project" and key else key
        names[key] = name or names.get(key, "") or key or _UNKNOWN[by]
        if key not in sums:
            sums[key] = Savings(money.baseline, money.baseline_caches)
        sums[key].add(money)
    rows = (SpendingRow(key, names[key], money) for key, money in sums.items())
    return tuple(sorted(rows, key=lambda row: (-row.money.paid, -row.money.turns, row.name, row.key)))
