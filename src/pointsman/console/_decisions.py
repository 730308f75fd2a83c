"""The page Decisions: search and filters, each view an address."""

from __future__ import annotations

from typing import Final

import msgspec

from pointsman.console._filters import PERIODS, filter_of, page_after, page_of
from pointsman.console._names import names_of
from pointsman.console._reading import search
from pointsman.console._view import Page, Unusable, Visit
from pointsman.printable import TextTable
from pointsman.stores.ledger.reading import FIRED, SELECTED, DecisionFilter, DecisionRow
from pointsman.vocabulary import AgentRole, Tier

__all__ = ["decisions"]

_ROWS: Final = 100
_MOST_ROWS: Final = 1_000

#: Columns of the table, which are fields of a row.
_COLUMNS: Final = (
    "id", "at", "session", "caller", "role", "tier", "model", "status", "attempts", "input", "cached",
    "output", "cost", "domains", "stuck", "classifiers", "capabilities", "downgraded", "abstained", "label",
    "score",
)  # fmt: skip


def decisions(visit: Visit) -> Page:
    """List decisions that match, the newest first."""
    error, wanted, found = None, DecisionFilter(), None
    try:
        wanted = filter_of(visit)
        found = search(visit.view, wanted, page_of(visit), _limit(visit))
    except Unusable as mistake:
        if not visit.path.endswith("/decisions"):
            raise
        error = mistake
    rows = found.rows if found else ()
    following = page_after(visit.query, found.next) if found and found.next else None
    here = {key: value for key, value in visit.query if value}
    context = {
        "rows": rows,
        "names": names_of(visit.view.ledger, (row.session for row in rows)),
        "asked": dict(visit.query),
        "here": here,
        "following": following,
        "is_first": not visit.asked("before"),
        "error": error,
        "periods": list(PERIODS),
        "tiers": list(Tier),
        "roles": list(AgentRole),
        "models": list(visit.view.config.models),
        "filters": _count(wanted),
        "unsummarized": visit.view.ledger.unsummarized(),
    }
    data = {"decisions": [_plain(row) for row in rows], "next": following}
    table = TextTable.of(_COLUMNS, [[_cell(row, name) for name in _COLUMNS] for row in rows])
    return Page("decisions.html", context, data, table, 400 if error else 200)


def _limit(visit: Visit) -> int:
    asked = visit.asked("limit")
    if asked and not (asked.isdecimal() and 1 <= int(asked[:6]) <= _MOST_ROWS):
        raise Unusable(f'"limit" must be a number from 1 to {_MOST_ROWS}')
    return int(asked) if asked else _ROWS


def _count(wanted: DecisionFilter) -> int:
    """How many fields are set."""
    return len(msgspec.to_builtins(wanted))


def _plain(row: DecisionRow) -> dict[str, object]:
    signals = [each for each in row.signals if not each.startswith((FIRED, SELECTED))]
    return {**{name: getattr(row, name) for name in _COLUMNS}, "signals": signals}


def _cell(row: DecisionRow, name: str) -> object:
    value = getattr(row, name)
    if isinstance(value, tuple):
        return " ".join(value)
    return int(value) if isinstance(value, bool) else value
