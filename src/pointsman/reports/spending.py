"""Cost and savings by project, program, person and role."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, get_args

import msgspec

from pointsman.prices import dollars
from pointsman.printable import Block, Column, TextTable
from pointsman.reports.savings import Savings
from pointsman.stores.ledger import Spender

__all__ = ["DIVISIONS", "Division", "SavingsReport", "SpendingRow", "merged", "spending_by"]

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


@dataclass(frozen=True, slots=True)
class SavingsReport:
    """Savings of a ledger, with the dates of the prices, and divided on request."""

    money: Savings
    dates: Mapping[str, date | None]  # of the prices, by model
    source: str  # file of the prices; empty: the demo
    by: Division | None
    rows: Sequence[SpendingRow]

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        divided = {"by": {self.by: [row.to_json() for row in self.rows]}} if self.by else {}
        return {"prices_as_of": self._oldest(), "prices": self.dates, **self.money.to_json(), **divided}

    def blocks(self) -> Iterator[Block]:
        """The report for a person: amounts that add up to the savings, then a row for each spender."""
        yield from self.money.blocks()
        if self.by:
            rows = [(row.name, row.money.turns, row.money.paid, row.money.net, row.key) for row in self.rows]
            yield ""
            yield TextTable((Column(self.by), *_SPENT), rows)
        if self.source:
            yield self._dated()

    def _oldest(self) -> date | None:
        """The date of the oldest price; None where one is unknown."""
        known = [day for day in self.dates.values() if day is not None]
        return min(known) if known and len(known) == len(self.dates) else None

    def _dated(self) -> str:
        if len(set(self.dates.values())) == 1 and (day := self._oldest()):
            return f"prices as of {day}, from {self.source}"
        each = ", ".join(f"{name} {day or 'unknown'}" for name, day in self.dates.items())
        return f"prices as of: {each}; from {self.source}, where prices_as_of dates them"


_SPENT: Final = (
    Column("requests", right=True, show="{:,}".format),
    *(Column(name, right=True, show=dollars) for name in ("spent", "saved")),
    Column("key"),
)
