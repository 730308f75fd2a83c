"""The pages Decisions and Sessions: search and filters, each view an address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from pointsman.console._filters import FILTERS, PERIODS, filter_of, page_after, page_of, search
from pointsman.console._names import names_of
from pointsman.console._view import GatewayView, Page, Unusable, Visit
from pointsman.printable import TextTable
from pointsman.reports.savings import SavingsCalculator, usual_baseline
from pointsman.reports.usage import root_session
from pointsman.stores.ledger.reading import FIRED, SELECTED, DecisionFilter, DecisionRow, totals_of
from pointsman.vocabulary import AgentRole, Tier

_ROWS: Final = 100
_MOST_ROWS: Final = 1_000

#: Columns of the table, which are fields of a row.
_COLUMNS: Final = (
    "id", "at", "session", "caller", "role", "tier", "model", "status", "attempts", "input", "cached",
    "written", "written_1h", "output", "cost", "domains", "stuck", "classifiers", "capabilities",
    "downgraded", "abstained", "label", "score",
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
    context = {
        "rows": rows,
        "names": names_of(visit.view.ledger, (row.session for row in rows)),
        "asked": dict(visit.query),
        "here": visit.here,
        "following": following,
        "is_first": not visit.asked("before"),
        "error": error,
        "periods": list(PERIODS),
        "tiers": list(Tier),
        "roles": list(AgentRole),
        "models": list(visit.view.config.models),
        "filters": len(msgspec.to_builtins(wanted)),  # fields that are set
        "unsummarized": visit.view.ledger.unsummarized(),
    }
    data = {"decisions": [_plain(row) for row in rows], "next": following}
    table = TextTable.of(_COLUMNS, [[_cell(getattr(row, name)) for name in _COLUMNS] for row in rows])
    return Page("decisions.html", context, data, table, 400 if error else 200)


def _limit(visit: Visit) -> int:
    asked = visit.asked("limit")
    if asked and not (asked.isdecimal() and 1 <= int(asked[:6]) <= _MOST_ROWS):
        raise Unusable(f'"limit" must be a number from 1 to {_MOST_ROWS}')
    return int(asked) if asked else _ROWS


def _plain(row: DecisionRow) -> dict[str, object]:
    signals = [each for each in row.signals if not each.startswith((FIRED, SELECTED))]
    return {**{name: getattr(row, name) for name in _COLUMNS}, "signals": signals}


#: Requests of which a page lists the sessions, and sessions at most.
_READ: Final = 500
_SHOWN: Final = 25
#: Requests of one session that are added up.
_MOST: Final = 500
#: Query parameters: those that tell sessions apart, and the page.
SESSION_FILTERS: Final = (*(each for each in FILTERS if each in {
    "caller", "project", "client", "model", "tier", "stuck", "labelled", "text", "last", "since", "until",
}), "before")  # fmt: skip


#: Columns of the table, which are fields of a row.
_SESSION_COLUMNS: Final = (
    "session", "began", "ended", "requests", "is_cut", "project", "client", "person", "models", "tiers",
    "stuck", "downgraded", "cost",
)  # fmt: skip


def sessions(visit: Visit) -> Page:
    """List the sessions of the newest requests that match, the latest first.

    Raises:
        Unusable: a value of the address is not of its field's kind.
    """
    view = visit.view
    found = search(view, filter_of(visit), page_of(visit), _READ)
    wanted: dict[str, None] = {}
    last: DecisionRow | None = None
    is_more = False
    for row in found.rows:
        name = root_session(row.session, row.role)
        if name and name not in wanted and len(wanted) == _SHOWN:
            is_more = True
            break
        wanted.update({name: None} if name else {})
        last = row
    money = SavingsCalculator.of(view.engine.policy) if usual_baseline(view.config.models) else None
    rows = [_row(view, session, money) for session in wanted]
    place = (last.at, last.id) if last and (is_more or found.next) else None
    context = {
        "rows": rows,
        "names": names_of(view.ledger, wanted),
        "following": page_after(visit.query, place) if place else None,
        "is_first": not visit.asked("before"),
        "asked": dict(visit.query),
        "here": visit.here,
        "periods": list(PERIODS),
        "is_filtered": any(name != "before" for name in visit.here),
    }
    data = {"sessions": rows, "next": context["following"]}
    cells = [[_cell(row[name]) for name in _SESSION_COLUMNS] for row in rows]
    return Page("sessions.html", context, data, TextTable.of(_SESSION_COLUMNS, cells))


def _row(view: GatewayView, session: str, money: SavingsCalculator | None) -> dict[str, object]:
    """One session with its sub-agents; it ``is_cut`` where only the first requests were added up."""
    found: Sequence[DecisionRow] = view.ledger.session(session)
    rows = found[:_MOST]
    first, spent = rows[0], money.total(totals_of(rows)) if money else None
    tiers = Counter(row.tier for row in rows)
    return {
        "session": session,
        "began": first.at,  # seconds since the epoch
        "ended": found[-1].at,
        "requests": len(found),
        "is_cut": len(found) > _MOST,
        # The name of its folder, else of the program whose project it is; empty: there is none.
        "project": first.project_name or (first.client if first.project else ""),
        "client": first.client,
        "person": first.caller,
        "models": tuple(dict.fromkeys(row.model for row in rows if row.model)),
        "tiers": {str(tier): tiers[tier] for tier in Tier if tiers[tier]},  # requests
        "stuck": sum(row.stuck for row in rows),
        "downgraded": sum(row.downgraded for row in rows),
        "cost": None if spent is None or spent.is_unknown else spent.paid,  # US dollars
    }


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return " ".join(value)
    if isinstance(value, dict):
        return " ".join(f"{name}:{count}" for name, count in value.items())
    return int(value) if isinstance(value, bool) else value
