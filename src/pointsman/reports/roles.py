"""Cost of each role of an agent's requests, and savings by the tiers of roles alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from pointsman.prices import dollars
from pointsman.printable import Block, Column, TextTable, counted
from pointsman.remembering import grouped
from pointsman.reports.usage import PRICED, Usage, answered, cost, usage
from pointsman.stores.ledger import Record
from pointsman.tiers.kinds import KindShift
from pointsman.tiers.projects import name_of
from pointsman.vocabulary import AgentRole, ModelSpec, Purpose, Stage

__all__ = ["KindRow", "Kinds", "RoleCost", "Roles", "kinds_of", "roles"]

#: Requests of which nothing tells the role: those of programs that are no agents.
_OTHERS: Final = "(none)"


@dataclass(slots=True)
class RoleCost:
    """One role. Amounts are in US dollars."""

    requests: int = 0
    bytes: int = 0  # of the requests
    input: int = 0  # tokens, those read from a cache included
    cached: int = 0
    output: int = 0
    counted: int = 0  # requests with usage and a price
    cost: float = 0.0  # of these
    compared: int = 0  # requests served by another model than their session's, because of their role
    saved: float = 0.0  # by these: the same tokens at the prices of the session's model, less their cost
    models: Counter[str] = field(default_factory=Counter)


class _Served(NamedTuple):
    """One request as far as the report needs it."""

    role: str
    session: str
    size: int
    model: str
    used: Usage | None
    is_main: bool
    by_role: bool


@dataclass(slots=True)
class Roles:
    """All roles by name, the most requests first."""

    found: dict[str, RoleCost]

    @property
    def requests(self) -> int:
        """All requests."""
        return sum(each.requests for each in self.found.values())

    @property
    def cost(self) -> float:
        """What all that was counted cost."""
        return sum(each.cost for each in self.found.values())

    @property
    def saved(self) -> float:
        """Savings by the tiers of roles alone."""
        return sum(each.saved for each in self.found.values())

    @property
    def share(self) -> float:
        """The saving as a share of the cost without it; 0 without cost."""
        would = self.cost + self.saved
        return self.saved / would if would else 0.0

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        return {
            "requests": self.requests,
            "cost": round(self.cost, PRICED),
            "saved": round(self.saved, PRICED),
            "saved_share": round(self.share, PRICED),
            "roles": {name: _row(each) for name, each in self.found.items()},
        }

    def blocks(self) -> Iterator[Block]:
        """The report for a person."""
        rows = [
            (name, each.requests, each.requests / self.requests, each.bytes / each.requests / 1_000,
             each.input, each.cached, each.output, each.cost, each.saved, ", ".join(sorted(each.models)))
            for name, each in self.found.items()
        ]  # fmt: skip
        yield TextTable(_COLUMNS, rows)
        lacking = self.requests - sum(each.counted for each in self.found.values())
        if lacking:
            yield f"without usage or price, and in no amount: {lacking:,} requests"
        said = f"save {dollars(self.saved)}" if self.saved >= 0 else f"cost {dollars(-self.saved)} more"
        yield f"the tiers of roles alone {said} ({abs(self.share):.2%} of the cost without them)"


_COLUMNS: Final = (
    Column("role", whole=True),
    Column("requests", right=True, show="{:,}".format),
    Column("share", right=True, show="{:.1%}".format),
    Column("kB each", right=True, show="{:.1f}".format),
    *(Column(name, right=True, show="{:,}".format) for name in ("input", "cached", "output")),
    *(Column(name, right=True, show=dollars) for name in ("cost", "saved")),
    Column("models"),
)


def _row(each: RoleCost) -> dict[str, object]:
    return {
        "requests": each.requests,
        "bytes": each.bytes,
        "tokens": {"input": each.input, "cached": each.cached, "output": each.output},
        "counted": each.counted,
        "cost": round(each.cost, PRICED),
        "compared": each.compared,
        "saved": round(each.saved, PRICED),
        "models": dict(sorted(each.models.items())),
    }


def roles(records: Iterable[Record], models: Mapping[str, ModelSpec]) -> Roles:
    """Add up requests, tokens and costs by role.

    A helper call that got its tier by its role is compared with the model that served most requests of the
    main conversation of its session. Without one, nothing is claimed.

    Args:
        records: In any order.
        models: With their prices, by configured name.
    """
    served = [_served(record) for record in records]
    mains = grouped((each.session, each.model) for each in served if each.is_main and each.model)
    sessions = {session: Counter(used) for session, used in mains.items()}
    found: dict[str, RoleCost] = {}
    for each in served:
        main = sessions.get(each.session, Counter()).most_common(1) if each.by_role else []
        _add(found.setdefault(each.role, RoleCost()), each, main[0][0] if main else "", models)
    return Roles(dict(sorted(found.items(), key=lambda item: (-item[1].requests, item[0]))))


def _served(record: Record) -> _Served:
    asked, tier = record.decision.input, record.decision.tier
    answer = answered(record.attempts)
    return _Served(
        name_of(asked.role, asked.purpose) or _OTHERS,
        asked.session,
        asked.size,
        answer.model if answer else "",
        usage(answer),
        is_main=asked.role is AgentRole.MAIN,
        by_role=asked.role is AgentRole.HELPER
        and tier is not None
        and _is_by_role(tier.stage, asked.purpose),
    )


def _is_by_role(stage: Stage, purpose: Purpose | None) -> bool:
    """Whether a helper call gets its tier because it is one.

    An alias gives its tier to one without a known purpose alone. Else it is the tier of the name asked for,
    as of "claude-haiku-4-5" for a title: the agent chose it.
    """
    return stage is Stage.ROLE or (stage is Stage.ALIAS and purpose is None)


def _add(role: RoleCost, served: _Served, main: str, models: Mapping[str, ModelSpec]) -> None:
    role.requests += 1
    role.bytes += served.size
    if served.model:
        role.models[served.model] += 1
    used = served.used
    if used is None:
        return
    role.input += used.input
    role.cached += used.cached
    role.output += used.output
    paid = cost(models.get(served.model), used)
    if paid is None:
        return
    role.counted += 1
    role.cost += paid
    would = cost(models.get(main), used) if main and main != served.model else None
    if would is not None:
        role.compared += 1
        role.saved += would - paid


# ``pointsman report kinds``: the kinds of prompts that recorded decisions were near.


class KindRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kind in the record."""

    sentence: str
    messages: int  # user messages whose nearest kind it was
    likeness: float  # mean, 0..1
    shift: float  # mean of what it added, in units of ln(characters)
    tiers: dict[str, int]  # tier -> messages


class Kinds(msgspec.Struct, frozen=True):
    """The kinds of all user messages, the most frequent first."""

    kinds: tuple[KindRow, ...]
    near_none: int  # messages near no kind

    def to_json(self) -> Kinds:
        """Plain values."""
        return self

    def blocks(self) -> Iterator[Block]:
        """The report for a person."""
        rows = [(row.messages, row.shift, row.likeness, row.sentence, row.tiers) for row in self.kinds]
        yield TextTable(_KIND_COLUMNS, rows)
        yield f"{counted(self.near_none, 'user message')} near no kind"
        if not rows:
            yield 'kinds under [tiers] finds them: "default", or a file of pointsman fit kinds'


_KIND_COLUMNS: Final = (
    Column("messages", right=True, show="{:,}".format),
    Column("shift", right=True, show="{:+.2f}".format),
    Column("likeness", right=True, show="{:.2f}".format),
    Column("kind"),
    Column("tiers", show=lambda tiers: ", ".join(f"{tier} {count}" for tier, count in tiers.items())),
)


def kinds_of(records: Iterable[Record]) -> Kinds:
    """Add up the kinds of all user messages.

    A tool iteration repeats the words of its user message and is not counted again.
    """
    near: dict[str, list[tuple[KindShift, str]]] = {}
    none, seen = 0, set()
    for record in records:
        decision = record.decision
        message = (decision.input.session, decision.input.user_message)
        if decision.tier is None or (all(message) and message in seen):
            continue
        seen.add(message)
        if decision.tier.kind:
            near.setdefault(decision.tier.kind.sentence, []).append((decision.tier.kind, decision.tier.tier))
        else:
            none += 1
    rows = sorted((_kind_row(*item) for item in near.items()), key=lambda row: -row.messages)
    return Kinds(tuple(rows), none)


def _kind_row(sentence: str, found: list[tuple[KindShift, str]]) -> KindRow:
    count = len(found)
    return KindRow(
        sentence=sentence,
        messages=count,
        likeness=sum(kind.likeness for kind, _ in found) / count,
        shift=sum(kind.shift for kind, _ in found) / count,
        tiers=dict(Counter(str(tier) for _, tier in found).most_common()),
    )
