"""Keys and teams of one configuration, over counters that outlive it, and their rows for display."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

import msgspec

from pointsman.access._budgets import Budgets
from pointsman.access._limits import UNIT, Grant, Limit, grants, limits_of
from pointsman.access._spending import Hold, Spending
from pointsman.config import Config, KeySpec, Role, TeamSpec
from pointsman.decision.permission import is_permitted
from pointsman.errors import LimitReached, StoreUnavailable
from pointsman.model_calls import Ask
from pointsman.model_choice.choice import BYTES_PER_TOKEN
from pointsman.stores.budgets import (
    Book,
    BudgetStore,
    MemoryBudgets,
    PostgresBook,
    SqliteBook,
    SqliteBudgets,
    ValkeyBudgets,
)
from pointsman.stores.ledger.port import Ledger, Owner, Search
from pointsman.stores.ledger.turns import cost, usage
from pointsman.stores.valkey_client import TIMEOUT
from pointsman.vocabulary import ModelQuery, ModelReply, ModelSpec, Permission, Tier
from pointsman.wire.conversation import Usage


class Use(NamedTuple):
    """How much of a limit is used now."""

    limit: Limit
    total: int  # units, those reserved included
    ends: float  # of its window, in seconds since the epoch


class Access:
    """Access control. A key without a grant may do everything, and costs nothing here."""

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
        """Return the grant of a key that is valid now; None if it may do everything.

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
    """Return the store of counters: the configured one, else Valkey if sessions are there."""
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
    """Return the durable store of spent money; empty without any budget."""
    if all(each.budget is None for each in (*config.keys.values(), *config.teams.values())):
        return ""
    if store_kind(config) == "valkey" and config.ledger.url is not None:
        return "PostgreSQL, beside the ledger"
    shared = ", which only the processes of this machine share: replicas elsewhere need [ledger] url"
    return f"the file {config.access.path}" + (shared if store_kind(config) == "valkey" else "")


# Which caller made what an upstream keeps: stored answers, conversations, files, batches.

#: Characters of an id that are looked at; those of providers have 30 to 70.
_LONGEST: Final = 1_000


class Ownership:
    """Claims and looks up objects by their ids, in the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def claim(self, caller: str, name: str, at: float) -> None:
        """Note that a caller made an object; the first caller owns it. ``at``: seconds since the epoch."""
        self._ledger.append(Owner(object=_digest(name), caller=caller, at=at))

    async def belongs(self, caller: str, name: str) -> bool:
        """Whether a caller made an object.

        Raises:
            StoreUnavailable: that cannot be read.
        """
        return await asyncio.to_thread(self._ledger.owner, _digest(name)) == caller

    async def is_anothers(self, caller: str, names: Iterable[str]) -> bool:
        """Whether another caller made one of these objects.

        Raises:
            StoreUnavailable: that cannot be read.
        """
        return await asyncio.to_thread(self._any_of_others, caller, tuple(names))

    def _any_of_others(self, caller: str, names: Iterable[str]) -> bool:
        return any(self._ledger.owner(_digest(name)) not in {None, caller} for name in names)


def _digest(name: str) -> str:
    encoded = name[:_LONGEST].encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


# What keys and teams have spent by the ledger, where no store that can be asked counts it.


def recorded_spending(
    ledger: Search, limits: Sequence[Limit], models: Mapping[str, ModelSpec], now: float
) -> dict[Limit, int]:
    """Return the spent part of each budget in its window, by reported usage; nothing of rates.

    Reads every decision since the beginning of the longest window, so it is for commands.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    spent = {limit: 0.0 for limit in limits if limit.kind == "money"}
    if not spent:
        return {}
    for record in ledger.records(since=min(limit.window(now).start for limit in spent)):
        asked = record.decision.input
        names = {"key": asked.caller, "team": asked.team}
        due = [
            limit
            for limit in spent
            if limit.name == names[limit.level] and asked.arrived_at >= limit.window(now).start
        ]
        costs = [cost(models.get(each.model), usage(each)) for each in record.attempts if due]
        for limit in due:
            spent[limit] += sum(filter(None, costs))
    return {limit: round(money * UNIT) for limit, money in spent.items()}


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


# Questions to models that a request causes: its key pays for them, and has to be allowed to.


class PaidQuestions:
    """Reserves for each question at the key of the request, before the model is asked."""

    def __init__(
        self,
        spending: Spending,
        permission: Permission | None,
        asked_model: Callable[[ModelQuery], ModelSpec | None],
        spent: Callable[[float], None],
    ) -> None:
        """Create the payer of a question.

        Args:
            spending: The limits of the key.
            permission: Which models it may use.
            asked_model: Returns the model that a question goes to; None if there is none.
            spent: Called with the cost of each question.
        """
        self._spending: Final = spending
        self._permission: Final = permission
        self._asked_model: Final = asked_model
        self._spent: Final = spent

    def refuses(self, query: ModelQuery) -> ModelReply | None:
        """Return why a question is not asked, if that is known at once; None if it may be."""
        model, permission = self._asked_model(query), self._permission
        if model is None:
            return None  # nobody will be asked
        if permission is not None and not is_permitted(model.name, permission):
            return _refused("not-permitted")
        if permission is not None and permission.priced and not model.is_priced:
            return _refused("no-price")
        is_free = not model.cost(1, 0, 1)
        return _refused("budget") if self._spending.is_spent and not is_free else None

    async def ask(self, ask: Ask, query: ModelQuery) -> ModelReply:
        """Reserve for a question, ask it, and settle."""
        model = self._asked_model(query)
        if model is None:
            return await ask(query)
        read = (len(query.system.encode()) + len(query.text.encode())) // BYTES_PER_TOKEN + 1
        try:
            hold = await self._spending.reserve(model, read, query.max_tokens)
        except (LimitReached, StoreUnavailable):
            return _refused("budget")
        try:
            reply = await ask(query)
        except BaseException:
            self._settle(hold, "disconnect", Usage())
            raise
        error = "" if reply.ok else "timeout" if reply.was_asked else "connect"
        self._settle(hold, error, Usage(reply.input_tokens, None, reply.output_tokens))
        return reply

    def _settle(self, hold: Hold, error: str, usage: Usage) -> None:
        if cost := hold.finish(error, usage):
            self._spent(cost)


def _refused(why: str) -> ModelReply:
    return ModelReply(error=why, was_asked=False)
