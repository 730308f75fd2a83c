"""The page Keys: keys and teams, what each may do, and what is left of its limits. For admins."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pointsman.access import KeyRow, Limit, overview, store_kind
from pointsman.console._roles import console_role
from pointsman.console._view import GatewayView, Page, Table, Visit
from pointsman.errors import RoleForbids

__all__ = ["keys_page"]

_COLUMNS: Final = ("what", "name", "team", "role", "state", "expires", "models", "tiers",
                   "limit", "per", "most", "used", "left", "ends_at")  # fmt: skip


def keys_page(visit: Visit) -> Page:
    """Show keys and teams.

    Raises:
        RoleForbids: a viewer asks.
    """
    view = visit.view
    if console_role(view.config, visit.session.caller) != "admin":
        raise RoleForbids("the page Keys is for admins", hint='role = "admin" in [keys.NAME]')
    access = view.access
    now = time.time() if access is None else access.clock()
    rows = overview(view.config, lambda limits: _uses(view, limits), now)
    unnamed = len(view.config.server.keys) - sum(row.keys for row in rows if row.what == "key")
    context = {
        "rows": rows,
        "unnamed": unnamed,
        "store": store_kind(view.config),
        "fault": access.budgets.fault if access is not None else "",
    }
    return Page("keys.html", context, {"keys": rows, "unnamed": unnamed}, Table(_COLUMNS, list(_cells(rows))))


def _uses(view: GatewayView, limits: Sequence[Limit]) -> Mapping[Limit, int]:
    if view.access is None or not limits:
        return {}
    return {use.limit: use.total for use in view.access.use(tuple(limits))}


def _cells(rows: Sequence[KeyRow]) -> Iterator[tuple[object, ...]]:
    """Yield a line for each limit; one for a key without any."""
    for row in rows:
        models = " ".join(row.models)
        first = (row.what, row.name, row.team, row.role or "", row.state, row.expires, models, row.tiers)
        for each in row.limits:
            yield (*first, each.kind, each.per, each.most, each.used, each.left, each.ends_at)
        if not row.limits:
            yield (*first, *[""] * (len(_COLUMNS) - len(first)))
