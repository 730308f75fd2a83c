"""The tables of keys and teams: permitted models, limits, expiry and roles."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, field

from pointsman.config.files import state_file

__all__ = ["KEY_NAME", "MOST_KEYS", "MOST_MONEY", "AccessSpec", "BudgetSpec", "KeySpec", "Period", "Role",
           "TeamSpec"]  # fmt: skip

#: Keys and teams of one configuration, at most: each has a few counters in memory.
MOST_KEYS: Final = 10_000
#: Names of callers and teams. Without a slash, which ends one in the name of a session.
KEY_NAME: Final = r"[A-Za-z0-9._-]{1,64}"
#: Money of one budget, at most: counted in billionths, as 64-bit integers.
MOST_MONEY: Final = 1_000_000_000

Period: TypeAlias = Literal["hour", "day", "week", "month"]
Role: TypeAlias = Literal["caller", "viewer", "admin"]
_Count = Annotated[int, Meta(ge=1, le=1_000_000_000_000)]


class BudgetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Money that may be spent in each window, whose beginning is that of the calendar, in UTC."""

    money: Annotated[
        float,
        Meta(ge=0, le=MOST_MONEY, description="Most money per window, in US dollars."),
    ]
    per: Annotated[
        Period, Meta(description="Window: a clock hour, a day, a week from Monday, or a month; in UTC.")
    ] = "day"


class _Limited(msgspec.Struct, frozen=True, kw_only=True):
    """What a key or a team may do."""

    name: str
    models: Annotated[
        tuple[str, ...],
        Meta(description="Configured models that may serve; `*` stands for any characters. Default: all."),
    ] = ()
    tiers: Annotated[
        Literal["simple", "medium", "complex", "reasoning"] | None,
        Meta(description="Highest tier. Models of higher tiers alone, and of none, are refused."),
    ] = None
    budget: Annotated[BudgetSpec | None, Meta(description="Most money per window. Default: no bound.")] = None
    when_low: Annotated[
        Literal["refuse", "lower_tier"],
        Meta(description="`lower_tier`: a budget nearly spent lowers the tier of requests before it ends."),
    ] = "refuse"
    low_share: Annotated[
        float,
        Meta(ge=0, le=1, description="Share of the budget left when it is nearly spent."),
    ] = 0.1
    low_tier: Annotated[
        Literal["simple", "medium", "complex"],
        Meta(description="Highest tier while the budget is nearly spent."),
    ] = "simple"
    requests_per_minute: Annotated[
        _Count | None, Meta(description="Rate limit: requests per clock minute.")
    ] = None
    tokens_per_minute: Annotated[
        _Count | None, Meta(description="Rate limit: tokens, input and output, per clock minute.")
    ] = None
    expires: Annotated[date | None, Meta(description="Last day on which it is valid, in UTC.")] = None
    revoked: Annotated[bool, Meta(description="Whether it is refused with 403 from now on.")] = False


class KeySpec(_Limited, frozen=True, kw_only=True):
    """A key that a caller may present, under the caller's name, and what it may do."""

    sha256: Annotated[
        str,
        Meta(
            description="SHA-256 hash of the key, 64 hexadecimals: `printf %s KEY | sha256sum`, or "
            "`pointsman keys new NAME`.",
            extra={"words": "64 hexadecimals"},
        ),
    ]
    more_sha256: Annotated[
        tuple[str, ...],
        Meta(description="Hashes of further keys of the same name, such as the next one."),
    ] = ()
    team: Annotated[str, Meta(description="The team whose limits hold too; see [teams.NAME].")] = ""
    role: Annotated[
        Role | None,
        Meta(
            description="`caller` uses models; `viewer` reads the console, and uses none; `admin` does both, "
            "and changes what the console lets change. Default: the team's, else `caller`."
        ),
    ] = None


class TeamSpec(_Limited, frozen=True, kw_only=True):
    """What the keys of a team may do together, beside what each of them may."""

    role: Annotated[Role | None, Meta(description="Role of keys that name none.")] = None


class AccessSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where what keys and teams have used is counted."""

    store: Annotated[
        Literal["memory", "sqlite", "valkey"] | None,
        Meta(
            description="`sqlite` is a file, which outlives a restart and is shared by the processes of a "
            "machine; `valkey` is shared by replicas, at the `url` of [sessions], in front of a durable "
            "record: PostgreSQL where the ledger is, else the file; `memory` counts rate limits in one "
            "process, from 0 at its start. Default: `valkey` where [sessions] is, else `sqlite`."
        ),
    ] = None
    path: Annotated[
        Path,
        Meta(
            description="File of store `sqlite`, and of the record of `valkey` without PostgreSQL; default: "
            "`pointsman/budgets.sqlite` in the user's state directory. Gateways with the same file count "
            "keys and teams of the same name together."
        ),
    ] = field(default_factory=lambda: state_file("budgets.sqlite"))
    on_outage: Annotated[
        Literal["open", "closed"],
        Meta(
            description="While the store fails, `open` lets all processes together spend a tenth of each "
            "budget; `closed` refuses requests of keys with limits (503)."
        ),
    ] = "open"
    output_tokens: Annotated[
        _Count,
        Meta(
            description="Output tokens reserved for a request that states no limit, unless the model's "
            "`max_output_tokens` is lower."
        ),
    ] = 4_096  # an agent's answer has 500 in the middle; what is used beyond is settled all the same
