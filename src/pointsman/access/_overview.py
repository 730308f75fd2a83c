"""Keys and teams as a person reads them: what each may do, and what is left of its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from pointsman.access._limits import UNIT, Limit, limits_of
from pointsman.config import Config, KeySpec, Role, TeamSpec

__all__ = ["KeyRow", "LimitRow", "Uses", "overview"]

#: Returns how many units of each limit are used; None where that is not known.
Uses = Callable[[Sequence[Limit]], Mapping[Limit, int]]


class LimitRow(msgspec.Struct, frozen=True):
    """One limit, in the currency, in tokens or in requests."""

    kind: str  # "money", "tokens", "requests"
    per: str  # "minute", "hour", "day", "week", "month"
    most: float
    used: float | None  # what is reserved included; None: not known here
    left: float | None
    ends_at: float  # end of the window, in seconds since the epoch
    text: str  # what is left, in words


class KeyRow(msgspec.Struct, frozen=True):
    """One key or team."""

    name: str
    what: Literal["key", "team"]
    team: str
    role: Role | None
    state: Literal["valid", "expired", "revoked"]  # with its team's
    expires: str  # last day, in UTC; empty: none
    keys: int  # how many are valid under this name; of a team, its keys
    models: tuple[str, ...]  # patterns; empty: all
    tiers: str  # the highest; empty: all
    limits: tuple[LimitRow, ...]


def overview(config: Config, uses: Uses, now: float) -> list[KeyRow]:
    """Return every key of [keys], then every team, in the order of the file.

    Args:
        config: The configuration.
        uses: How much of limits is used.
        now: Seconds since the epoch.
    """
    of: dict[tuple[str, str], tuple[Limit, ...]] = {
        **{("key", name): limits_of("key", key) for name, key in config.keys.items()},
        **{("team", name): limits_of("team", team) for name, team in config.teams.items()},
    }
    used = uses([limit for limits in of.values() for limit in limits])
    found = [
        _row(key, "key", of["key", name], used, now, config.teams.get(key.team))
        for name, key in config.keys.items()
    ]
    for name, team in config.teams.items():
        row = _row(team, "team", of["team", name], used, now, None)
        count = sum(key.team == name for key in config.keys.values())
        found.append(msgspec.structs.replace(row, keys=count))
    return found


def _row(
    spec: KeySpec | TeamSpec,
    what: Literal["key", "team"],
    limits: Sequence[Limit],
    used: Mapping[Limit, int],
    now: float,
    team: TeamSpec | None,
) -> KeyRow:
    key = spec if isinstance(spec, KeySpec) else None
    return KeyRow(
        name=spec.name,
        what=what,
        team=key.team if key else "",
        role=spec.role or (team.role if team else None) or ("caller" if key else None),
        state=_state([spec, *([team] if team else [])], now),
        expires=spec.expires.isoformat() if spec.expires else "",
        keys=1 + len(key.more_sha256) if key else 0,
        models=spec.models,
        tiers=spec.tiers or "",
        limits=tuple(_limit(limit, used.get(limit), now) for limit in limits),
    )


def _state(specs: Sequence[KeySpec | TeamSpec], now: float) -> Literal["valid", "expired", "revoked"]:
    if any(spec.revoked for spec in specs):
        return "revoked"
    today = datetime.fromtimestamp(now, UTC).date()
    return "expired" if any(spec.expires and spec.expires < today for spec in specs) else "valid"


def _limit(limit: Limit, used: int | None, now: float) -> LimitRow:
    unit = UNIT if limit.kind == "money" else 1
    left = None if used is None else max(limit.most - used, 0)
    return LimitRow(
        kind=limit.kind,
        per=limit.every,
        most=limit.most / unit,
        used=None if used is None else used / unit,
        left=None if left is None else left / unit,
        ends_at=limit.window(now).end,
        text=f"{limit.amount(limit.most)} per {limit.every}" if used is None else f"{limit.left(used)} left",
    )
