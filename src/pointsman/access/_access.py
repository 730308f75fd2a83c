"""Keys and teams of one configuration, over counters that outlive it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from pointsman.access._budgets import Budgets
from pointsman.access._grants import Grant, grants
from pointsman.access._limits import Limit
from pointsman.access._spending import Spending
from pointsman.config import Config
from pointsman.stores.budgets import (
    Book,
    BudgetStore,
    MemoryBudgets,
    PostgresBook,
    SqliteBook,
    SqliteBudgets,
    ValkeyBudgets,
)
from pointsman.stores.valkey_client import TIMEOUT
from pointsman.vocabulary import Permission, Tier

__all__ = ["Access", "Use", "build_access", "open_budgets", "store_kind", "vouching"]


class Use(NamedTuple):
    """How much of a limit is used now."""

    limit: Limit
    total: int  # units, those reserved included
    ends: float  # of its window, in seconds since the epoch


class Access:
    """Who may do what. A key without a grant may do everything, and costs nothing here."""

    def __init__(
        self,
        granted: Mapping[str, Grant],
        budgets: Budgets,
        output_tokens: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Put together what keys may do, and what counts their use."""
        self.grants: Final = granted
        self.budgets: Final = budgets
        self.clock: Final = clock
        self._output_tokens: Final = output_tokens
        #: Whether keys have roles: then figures about all callers are for viewers and admins.
        self.has_roles: Final = any(grant.role != "caller" for grant in granted.values())

    def admit(self, caller: str) -> Grant | None:
        """Return the grant of a key that is valid now; None where it may do everything.

        Raises:
            Forbidden: it, or its team, has expired or is revoked.
        """
        grant = self.grants.get(caller)
        if grant is not None:
            grant.admit(self.clock())
        return grant

    def begin(self, grant: Grant) -> Spending:
        """Begin a request of a key."""
        return Spending(grant, self.budgets, self._output_tokens, self.clock)

    def permission(self, grant: Grant) -> Permission | None:
        """Return which models a key may use now: a budget nearly spent may lower the tier."""
        if not grant.low:
            return grant.permission
        now, lowest = self.clock(), None
        for low in grant.low:
            total = self.budgets.known(low.limit.counter(now))
            is_low = total >= low.limit.most * (1 - low.share)
            if is_low and (lowest is None or low.tier.rank < lowest[0].rank):
                lowest = low.tier, f"{low.limit} has {low.limit.left(total)} left"
        if lowest is None:
            return grant.permission
        return _lowered(grant.permission or Permission(), *lowest)

    def use(self, limits: tuple[Limit, ...]) -> list[Use]:
        """Return how much of limits is used; waits for the store, so not for an event loop."""
        now = self.clock()
        totals = self.budgets.read([limit.counter(now) for limit in limits])
        return [Use(each, total, each.window(now).end) for each, total in zip(limits, totals, strict=True)]


def _lowered(permission: Permission, tier: Tier, why: str) -> Permission:
    return Permission(
        models=permission.models,
        highest=permission.highest,
        priced=permission.priced,
        low=tier,
        why_low=why,
    )


def open_budgets(config: Config, *, timeout: float = TIMEOUT) -> Budgets:
    """Return the counters that a configuration names; connects with the first use.

    Args:
        config: Names the store.
        timeout: Seconds that a call of Valkey takes at most.

    Raises:
        MissingExtra: the store's client is not installed.
    """
    return Budgets(_store(config, timeout), fails_open=config.access.on_outage == "open")


def build_access(config: Config, budgets: Budgets) -> Access | None:
    """Return what keys may do; None where every key may do everything."""
    granted = grants(config.keys, config.teams)
    return Access(granted, budgets, config.access.output_tokens) if granted else None


def store_kind(config: Config) -> Literal["memory", "sqlite", "valkey"]:
    """Return where a configuration counts: where it says so, else in Valkey if sessions are there."""
    return config.access.store or ("valkey" if config.sessions.store == "valkey" else "sqlite")


def _store(config: Config, timeout: float) -> BudgetStore:
    sessions = config.sessions
    kind = store_kind(config)
    if kind == "memory":
        return MemoryBudgets()
    if kind == "sqlite" or sessions.url is None:
        return SqliteBudgets(config.access.path)
    password = sessions.password.reveal() if sessions.password else None
    return ValkeyBudgets(sessions.url, password=password, book=_book(config), timeout=timeout)


def _book(config: Config) -> Book:
    """Return what records spent money durably: PostgreSQL where the ledger is there, else a file."""
    ledger = config.ledger
    if ledger.url is None:
        return SqliteBook(config.access.path)
    return PostgresBook(ledger.url, password=ledger.password.reveal() if ledger.password else None)


def vouching(config: Config) -> str:
    """Say what keeps spent money over a restart; empty where no key or team has a budget."""
    if all(each.budget is None for each in (*config.keys.values(), *config.teams.values())):
        return ""
    if store_kind(config) == "valkey" and config.ledger.url is not None:
        return "PostgreSQL, beside the ledger"
    shared = ", which only the processes of this machine share: replicas elsewhere need [ledger] url"
    return f"the file {config.access.path}" + (shared if store_kind(config) == "valkey" else "")
