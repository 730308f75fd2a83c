"""Limits of keys and teams with their counters, and what each key may do: every level has to allow it."""

from __future__ import annotations

import calendar
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import inf
from typing import Final, Literal, NamedTuple, TypeAlias

from pointsman.config import KeySpec, Role, TeamSpec
from pointsman.config.serving import Period
from pointsman.errors import KeyExpired, KeyRevoked, RoleForbids
from pointsman.stores.budgets import Claim
from pointsman.vocabulary import DAY, Permission, Tier

# Windows of the calendar, in UTC: minutes, hours, days, weeks from Monday, months.

Every: TypeAlias = Period | Literal["minute"]

_SECONDS: Final = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
#: Seconds from a Monday to the epoch, which began on a Thursday.
_THURSDAY: Final = 3 * 86_400


class Window(NamedTuple):
    """From its first second to the one after its last, since the epoch."""

    start: int
    end: int


def window(every: Every, at: float) -> Window:
    """Return the window that a moment is in, in seconds since the epoch."""
    if every == "month":
        year, month = time.gmtime(at)[:2]
        after = (year + 1, 1) if month == 12 else (year, month + 1)
        return Window(_first_of(year, month), _first_of(*after))
    length = _SECONDS[every]
    shift = _THURSDAY if every == "week" else 0
    start = int((at + shift) // length) * length - shift
    return Window(start, start + length)


def _first_of(year: int, month: int) -> int:
    return calendar.timegm((year, month, 1, 0, 0, 0))


#: Counted parts of one unit of the currency.
UNIT: Final = 1_000_000_000
#: Seconds for which a counter is kept after its window at least: a clock that is set back finds it.
_KEPT: Final = 60


#: What is limited, and whose limit it is.
Kind: TypeAlias = Literal["money", "tokens", "requests"]
Level: TypeAlias = Literal["key", "team"]


class Limit:
    """A limit in windows of the calendar."""

    __slots__ = ("_now", "every", "kind", "level", "most", "name")

    def __init__(self, kind: Kind, level: Level, name: str, most: int, every: Every) -> None:
        """Take a limit of ``most`` units per window."""
        self.kind = kind
        self.level = level
        self.name = name  # of the key or the team
        self.most = most
        self.every = every
        self._now: tuple[Window, str] = (Window(0, 0), "")  # the latest window, and its counter

    def window(self, at: float) -> Window:
        """Return the window of a moment."""
        return self._at(at)[0]

    def counter(self, at: float) -> str:
        """Return the name of the counter of a moment's window."""
        return self._at(at)[1]

    def claim(self, amount: int, at: float) -> Claim:
        """Return the claim to an amount, in whole units."""
        found, counter = self._at(at)
        kept = found.end - at + max(found.end - found.start, _KEPT)
        return Claim(counter, amount, self.most, kept, lasting=self.kind == "money")

    def _at(self, at: float) -> tuple[Window, str]:
        if not self._now[0].start <= at < self._now[0].end:
            found = window(self.every, at)
            counter = f"{self.kind}/{self.level}/{self.name}/{self.every}/{found.start}"
            self._now = (found, counter)
        return self._now

    def left(self, total: int) -> str:
        """Describe the rest after ``total`` units: "0.25 of 20.00 per day"."""
        left = max(self.most - total, 0)
        if self.kind == "money":
            return f"{money_text(left)} of {money_text(self.most)} per {self.every}"
        return f"{left} of {self.most} {self.kind} per {self.every}"

    def amount(self, units: int) -> str:
        """Say an amount: "0.48", "1200 tokens"."""
        return money_text(units) if self.kind == "money" else f"{units} {self.kind}"

    def __str__(self) -> str:
        """Name it: ``the budget of team "research"``."""
        what = "budget" if self.kind == "money" else f"{self.kind}_per_minute"
        return f'the {what} of {self.level} "{self.name}"'


def limits_of(level: Level, spec: KeySpec | TeamSpec) -> tuple[Limit, ...]:
    """Return the limits of a key or a team; none by default."""
    found = []
    if spec.requests_per_minute is not None:
        found.append(Limit("requests", level, spec.name, spec.requests_per_minute, "minute"))
    if spec.tokens_per_minute is not None:
        found.append(Limit("tokens", level, spec.name, spec.tokens_per_minute, "minute"))
    if spec.budget is not None:
        most = round(spec.budget.money * UNIT)
        found.append(Limit("money", level, spec.name, most, spec.budget.per))
    return tuple(found)


def money_text(units: int) -> str:
    """Write an amount of money, counted in billionths: two digits after the point, more for small amounts."""
    money = units / UNIT
    return f"{money:.2f}" if money >= 1 or not units else f"{money:.6f}".rstrip("0").ljust(4, "0")


def time_text(at: float) -> str:
    """Write a moment as RFC 3339 does, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
