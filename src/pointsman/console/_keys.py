"""The page Keys: keys and teams, their permissions, and the rest of their limits. For admins."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pointsman.access import KeyRow, Limit, overview, store_kind
from pointsman.config.edit import NewKey, new_key, write_key
from pointsman.console._login import console_role
from pointsman.console._view import GatewayView, Page, Visit
from pointsman.errors import PointsmanError, RoleForbids
from pointsman.printable import TextTable

log = logging.getLogger(__name__)

_COLUMNS: Final = ("what", "name", "team", "role", "state", "expires", "models", "tiers",
                   "limit", "per", "most", "used", "left", "ends_at")  # fmt: skip


def make_key(visit: Visit) -> Page:
    """Make a key, write its hash into the configuration, and show it this once.

    Raises:
        RoleForbids: a viewer asks.
    """
    _check_admin(visit)
    name, team = (visit.form.get(field, "").strip() for field in ("name", "team"))
    try:
        file, made = visit.config_file("key"), new_key(name, team)
        write_key(file, made)
    except PointsmanError as error:
        return keys_page(visit, error=error)
    log.info("the console made a key for %s, as %s asked", name, visit.session.caller or "this machine")
    return keys_page(visit, made=made)


def _check_admin(visit: Visit) -> None:
    if console_role(visit.view.config, visit.session.caller) != "admin":
        raise RoleForbids("the page Keys is for admins", hint='role = "admin" in [keys.NAME]')


def keys_page(visit: Visit, *, made: NewKey | None = None, error: PointsmanError | None = None) -> Page:
    """Show keys and teams, a key that was made just now, and the error of a form.

    Raises:
        RoleForbids: a viewer asks.
    """
    view = visit.view
    _check_admin(visit)
    access = view.access
    now = time.time() if access is None else access.clock()
    rows = overview(view.config, lambda limits: _uses(view, limits), now)
    unnamed = len(view.config.server.keys) - sum(row.keys for row in rows if row.what == "key")
    context = {
        "rows": rows,
        "unnamed": unnamed,
        "store": store_kind(view.config),
        "fault": access.budgets.fault if access is not None else "",
        "made": made,
        "error": error,
        "entered": {} if made else visit.form,
        "team_names": list(view.config.teams),
        "is_first": not view.config.server.keys,
        "source": view.config.source,
    }
    data, table = {"keys": rows, "unnamed": unnamed}, TextTable.of(_COLUMNS, list(_cells(rows)))
    return Page("keys.html", context, data, table, 400 if error else 200)


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
