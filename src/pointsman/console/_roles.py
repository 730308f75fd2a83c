"""Permissions of a key in the console."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeAlias

from pointsman.access import grants
from pointsman.config import Config
from pointsman.errors import Forbidden, RoleForbids

__all__ = ["ConsoleRole", "check_change", "console_role"]

ConsoleRole: TypeAlias = Literal["viewer", "admin", ""]

#: Posted forms that change nothing for others: what a viewer may send.
_OF_VIEWERS = ("/console/logout", "/console/try", "/console/try.json", "/console/try.csv")


def console_role(config: Config, caller: str, clock: Callable[[], float] = time.time) -> ConsoleRole:
    """Return the console role of a caller; empty if it may not open the console.

    Without keys everybody on this machine is an admin; so are the keys that [console] ``callers`` names, and
    the only caller there is. Others are what their role says. A key that is no longer valid is nothing.
    """
    if not config.server.keys:
        return "admin"
    grant = grants({caller: config.keys[caller]}, config.teams).get(caller) if caller in config.keys else None
    if grant is not None:
        try:
            grant.admit(clock())
        except Forbidden:
            return ""
        if grant.role == "admin":
            return "admin"
    if caller in config.console.callers:
        return "admin"
    if grant is not None and grant.role == "viewer":
        return "viewer"
    callers = {config.server.caller(number) for number in range(len(config.server.keys))}
    return "admin" if callers == {caller} and not config.console.callers else ""


def check_change(role: ConsoleRole, path: str) -> None:
    """Refuse a change by a viewer.

    Raises:
        RoleForbids: it is one.
    """
    if role == "viewer" and path not in _OF_VIEWERS and not path.endswith("/again"):
        raise RoleForbids(
            "a viewer changes nothing here", hint='role = "admin" in [keys.NAME] lets a key do that'
        )
