"""What each key may do, with what its team may: every level has to allow it."""

from __future__ import annotations

import calendar
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from math import inf

from pointsman.access._limits import Level, Limit, limits_of
from pointsman.config import KeySpec, Role, TeamSpec
from pointsman.errors import KeyExpired, KeyRevoked, RoleForbids
from pointsman.vocabulary import DAY, Permission, Tier


@dataclass(frozen=True, slots=True)
class LowBudget:
    """When a budget is nearly spent, and the highest tier then."""

    limit: Limit
    share: float  # of the budget, left
    tier: Tier


@dataclass(frozen=True, slots=True)
class Grant:
    """Permissions of one key."""

    name: str
    team: str
    role: Role
    permission: Permission | None  # without a low budget; None: all models
    limits: tuple[Limit, ...]
    low: tuple[LowBudget, ...]
    expires: tuple[tuple[float, str], ...]  # seconds since the epoch, and whose end that is
    revoked: str  # whose key or team is revoked; empty: neither

    def admit(self, now: float) -> None:
        """Refuse a key that is no longer valid.

        Raises:
            KeyExpired: its last day, or its team's, is over.
            KeyRevoked: it or its team is revoked.
        """
        if self.revoked:
            raise KeyRevoked(f"{self.revoked} is revoked", hint="ask the operator for a new key")
        for end, whose in self.expires:
            if now >= end:
                raise KeyExpired(f"{whose} has expired", hint="ask the operator for a new key")

    def check_role(self) -> None:
        """Refuse a key that is for the console alone.

        Raises:
            RoleForbids: it is a viewer's.
        """
        if self.role == "viewer":
            hint = 'role = "caller" or "admin" lets a key use models'
            raise RoleForbids(f'key "{self.name}" is for the console: its role is "viewer"', hint=hint)

    @property
    def bounds_cost(self) -> bool:
        """Whether the cost or the models of a request are limited."""
        return self.permission is not None or any(each.kind != "requests" for each in self.limits)


def grants(keys: Mapping[str, KeySpec], teams: Mapping[str, TeamSpec]) -> dict[str, Grant]:
    """Return what keys may do, by name; a key that may do everything is left out."""
    of_teams = {name: limits_of("team", team) for name, team in teams.items()}
    found = {}
    for name, key in keys.items():
        team = teams.get(key.team)
        grant = _grant(key, team, limits_of("key", key), of_teams.get(key.team, ()))
        if grant is not None:
            found[name] = grant
    return found


def _grant(
    key: KeySpec, team: TeamSpec | None, own: tuple[Limit, ...], shared: tuple[Limit, ...]
) -> Grant | None:
    levels: list[tuple[Level, KeySpec | TeamSpec]] = [("key", key)]
    if team is not None:
        levels.append(("team", team))
    specs = [spec for _, spec in levels]
    limits = own + shared
    grant = Grant(
        name=key.name,
        team=key.team,
        role=key.role or (team.role if team else None) or "caller",
        permission=_permission(specs, limits),
        limits=limits,
        low=tuple(each for spec in specs for each in _low(spec, limits)),
        expires=tuple(
            (_end(spec.expires), f'{level} "{spec.name}"') for level, spec in levels if spec.expires
        ),
        revoked=next((f'{level} "{spec.name}"' for level, spec in levels if spec.revoked), ""),
    )
    says = (grant.team, grant.permission, grant.limits, grant.expires, grant.revoked)
    return grant if any(says) or grant.role != "caller" else None


def _permission(specs: Sequence[KeySpec | TeamSpec], limits: Sequence[Limit]) -> Permission | None:
    tiers = [Tier(spec.tiers.upper()) for spec in specs if spec.tiers]
    permission = Permission(
        models=tuple(spec.models for spec in specs if spec.models),
        highest=min(tiers, key=lambda tier: tier.rank, default=None),
        priced=any(limit.kind == "money" for limit in limits),
    )
    return None if permission == Permission() else permission


def _low(spec: KeySpec | TeamSpec, limits: Sequence[Limit]) -> list[LowBudget]:
    if spec.when_low != "lower_tier":
        return []
    level = "key" if isinstance(spec, KeySpec) else "team"
    tier = Tier(spec.low_tier.upper())
    budgets = [each for each in limits if each.kind == "money" and each.level == level]
    return [LowBudget(limit, spec.low_share, tier) for limit in budgets]


def _end(last: date | None) -> float:
    """The second after the last day."""
    return inf if last is None else calendar.timegm(last.timetuple()) + DAY
