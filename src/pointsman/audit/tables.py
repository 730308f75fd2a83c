"""Tables of an audit: cost, its parts, and episodes of trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from pointsman.audit.figures import Part, SessionFigures, Spent
from pointsman.audit.money import Money, Pricing, total_money
from pointsman.printable import Block, Column, TextTable

__all__ = [
    "DIVISIONS",
    "Group",
    "by",
    "cost",
    "counted",
    "dearest",
    "ending",
    "tokens",
    "what_was_blocks",
]

#: Rows of a table; the rest are one row.
_ROWS: Final = 10
#: By what a report is divided.
DIVISIONS: Final = ("project", "client", "model", "role", "day")


class Group(NamedTuple):
    """What requests with one name in common used and cost."""

    name: str
    sessions: int
    spent: Spent
    money: Money


def by(sessions: Iterable[SessionFigures], pricing: Pricing, what: str) -> list[Group]:
    """Divide requests by project, client, model, role or day; the dearest first, days in order."""
    sessions = list(sessions)
    projects = project_names(of.project for of in sessions)
    parts: dict[str, list[tuple[str, Part]]] = {}
    members: dict[str, set[tuple[str, str]]] = {}
    for of in sessions:
        for part in of.parts:
            name = projects[of.project] if what == "project" else _name(what, of, part)
            parts.setdefault(name, []).append((of.client, part))
            members.setdefault(name, set()).add((of.client, of.id))
    groups = [
        Group(
            name,
            len(members[name]),
            _sum(part.spent for _, part in own),
            total_money(pricing.money([part], client) for client, part in own),
        )
        for name, own in parts.items()
    ]
    groups.sort(key=lambda group: group.name if what == "day" else "")
    if what != "day":
        groups.sort(key=lambda group: (-group.money.total, -group.spent.input_tokens))
    return groups


def project_names(projects: Iterable[str]) -> dict[str, str]:
    """Return a name for each project's path: its last part, with as many before it as tell it from others."""
    paths = {each: tuple(each.replace("\\", "/").strip("/").split("/")) for each in projects}
    shared = Counter(path[-length:] for path in set(paths.values()) for length in range(1, len(path) + 1))
    names = {}
    for project, path in paths.items():
        ends = (path[-length:] for length in range(1, len(path) + 1))
        names[project] = "/".join(next((end for end in ends if shared[end] == 1), path)) or "(none)"
    return names


def _name(what: str, of: SessionFigures, part: Part) -> str:
    match what:
        case "client":
            return of.client
        case "model":
            return part.split.model or "(not named)"
        case "role":
            return part.split.role
        case _:
            return part.split.day or "(unknown)"


def dearest(sessions: Iterable[SessionFigures], pricing: Pricing) -> list[tuple[SessionFigures, Money]]:
    """The ten sessions that cost most."""
    priced = [(of, pricing.session(of)) for of in sessions]
    priced.sort(key=lambda each: (-each[1].total, -each[0].total().input_tokens))
    return priced[:_ROWS]


def what_was_blocks(sessions: Sequence[SessionFigures], pricing: Pricing) -> Iterator[Block]:
    """Cost by each dimension."""
    for what in DIVISIONS:
        groups = by(sessions, pricing, what)
        if what == "day":
            groups = groups[-31:]
        yield ""
        shown = _shortened(groups, what)
        if what == "role":
            shown = [group._replace(name=group.name.replace("_", " ")) for group in shown]
        yield TextTable(_columns(what), [_row(group) for group in shown])
    yield ""
    yield "The sessions that cost most:"
    yield TextTable(
        [
            *(Column(name) for name in ("session", "began", "client", "project")),
            *(Column(name, right=True) for name in ("requests", "input", "output", "cost")),
            Column("end"),
        ],
        [_session_row(of, money) for of, money in dearest(sessions, pricing)],
    )
    yield ""
    yield from _where_blocks(sessions)


def _shortened(groups: list[Group], what: str) -> list[Group]:
    if what == "day" or len(groups) <= _ROWS + 1:
        return groups
    rest = groups[_ROWS:]
    more = Group(
        f"({len(rest)} more)",
        sum(group.sessions for group in rest),
        _sum(group.spent for group in rest),
        total_money(group.money for group in rest),
    )
    return [*groups[:_ROWS], more]


def _columns(what: str) -> list[Column]:
    right = ("sessions", "requests", "input", "cached", "output", "cost")
    return [Column(what), *(Column(name, right=True) for name in right)]


def _row(group: Group) -> list[str]:
    spent = group.spent
    cached = f"{spent.cached_tokens / spent.input_tokens:.0%}" if spent.input_tokens else "-"
    return [
        group.name,
        str(group.sessions),
        f"{spent.requests:,}",
        tokens(spent.input_tokens),
        cached,
        _output(spent),
        cost(group.money),
    ]


def _session_row(of: SessionFigures, money: Money) -> list[str]:
    total = of.total()
    began = datetime.fromtimestamp(of.started, UTC).strftime("%Y-%m-%d %H:%M") if of.started else "-"
    return [
        of.id,
        began,
        of.client,
        of.project_name,
        f"{total.requests:,}",
        tokens(total.input_tokens),
        _output(total),
        cost(money),
        ending(of),
    ]


def ending(of: SessionFigures) -> str:
    """How a session ended, as far as its log proves it."""
    if of.stuck:
        return "stuck"
    return {True: "solved", False: "not solved", None: "unknown"}[of.solved]


def _where_blocks(sessions: Sequence[SessionFigures]) -> Iterator[Block]:
    total = _sum(of.total() for of in sessions)
    plain = total.input_tokens - total.cached_tokens - total.written_tokens
    missed = sum(miss.tokens for of in sessions for miss in of.misses)
    rows = [
        ["input, read from the cache", tokens(total.cached_tokens), _share(total.cached_tokens, total)],
        ["input, written to the cache", tokens(total.written_tokens), _share(total.written_tokens, total)],
        ["input, neither", tokens(plain), _share(plain, total)],
        ["of the input: missed in the cache", tokens(missed), _share(missed, total)],
        ["output", _output(total), ""],
    ]
    yield "Where the tokens went:"
    columns = [Column("tokens"), Column("count", right=True), Column("of the input", right=True)]
    yield TextTable(columns, rows)
    parts: Counter[str] = Counter()
    for of in sessions:
        parts.update(of.where)
    yield ""
    yield "What the prompts consisted of (estimated from the lengths of texts):"
    shown = [[name, tokens(count), _share(count, total)] for name, count in parts.most_common() if count]
    yield TextTable([Column("part"), *columns[1:]], shown)


def counted(count: int, noun: str) -> str:
    """A number and its noun, "1 session", "2 sessions"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def tokens(count: int) -> str:
    """A count of tokens, short."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= 10 * size:
            return f"{count / size:,.0f} {unit}"
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return str(count)


def cost(money: Money) -> str:
    """An amount. A subscription's share is a value; unpriced requests are named."""
    parts = []
    if money.spent or not (money.worth or money.unpriced):
        parts.append(f"${money.spent:,.2f}")
    if money.worth:
        parts.append(f"worth ${money.worth:,.2f}")
    if money.more_at_most >= 0.005:
        parts.append(f"up to ${money.more_at_most:,.2f} more")
    if money.unpriced:
        parts.append(f"{money.unpriced:,} without a price")
    return ", ".join(parts)


def _output(spent: Spent) -> str:
    if spent.output_at_most > spent.output_tokens:
        return f"{tokens(spent.output_tokens)} to {tokens(spent.output_at_most)}"
    return tokens(spent.output_tokens)


def _share(count: int, of: Spent) -> str:
    return f"{count / of.input_tokens:.0%}" if of.input_tokens else "-"


def _sum(spent: Iterable[Spent]) -> Spent:
    total = Spent()
    for each in spent:
        total = total.plus(each)
    return total
