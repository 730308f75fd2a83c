"""Keys and teams for display: permissions, and the rest of their limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from pointsman.access._limits import UNIT, Limit, limits_of
from pointsman.access._spending import Hold, Spending
from pointsman.config import Config, KeySpec, Role, TeamSpec
from pointsman.decision.permission import is_permitted
from pointsman.errors import LimitReached, StoreUnavailable
from pointsman.model_calls import Ask
from pointsman.model_choice.choice import BYTES_PER_TOKEN
from pointsman.vocabulary import ModelQuery, ModelReply, ModelSpec, Permission
from pointsman.wire.conversation import Usage

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
    """Reserves for each question at the key of the request, before the model is asked (``runtime.Payer``)."""

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
