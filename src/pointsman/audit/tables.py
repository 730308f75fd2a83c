"""Tables of an audit: cost, its parts, and episodes of trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pointsman.audit.figures import Miss, Part, SessionFigures, Spent
from pointsman.audit.money import Money, Pricing
from pointsman.audit.outcomes import STUCK
from pointsman.audit.session import local
from pointsman.printable import Block, Column, TextTable, counted
from pointsman.remembering import grouped, summed

__all__ = [
    "DIVISIONS",
    "Group",
    "by",
    "cost",
    "dearest",
    "ending",
    "tokens",
    "trouble_blocks",
    "what_was_blocks",
]

#: Rows of a table; the rest are one row.
_ROWS: Final = 10
#: By what a report is divided, and the name of a part.
DIVISIONS: Final[Mapping[str, Callable[[SessionFigures, Part], str]]] = {
    "project": lambda of, _: of.project,
    "client": lambda of, _: of.client,
    "model": lambda _, part: part.split.model or "(not named)",
    "role": lambda _, part: part.split.role,
    "day": lambda _, part: part.split.day or "(unknown)",
}
#: Columns of each of them.
_SPENT: Final = ("sessions", "requests", "input", "cached", "output", "cost")


class Group(NamedTuple):
    """What requests with one name in common used and cost."""

    name: str
    sessions: int
    spent: Spent
    money: Money


def by(sessions: Iterable[SessionFigures], pricing: Pricing, what: str) -> list[Group]:
    """Divide requests by project, client, model, role or day; the dearest first, days in order."""
    sessions = list(sessions)
    names = project_names(of.project for of in sessions) if what == "project" else {}
    parts = grouped(
        (names.get(name := DIVISIONS[what](of, part), name), (of, part))
        for of in sessions
        for part in of.parts
    )
    groups = [
        Group(
            name,
            len({(of.client, of.id) for of, _ in own}),
            sum((part.spent for _, part in own), Spent()),
            sum((pricing.money([part], of.client) for of, part in own), Money()),
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
    shared = Counter(end for path in set(paths.values()) for end in _ends(path))
    return {
        project: "/".join(next((end for end in _ends(path) if shared[end] == 1), path)) or "(none)"
        for project, path in paths.items()
    }


def _ends(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return (path[-length:] for length in range(1, len(path) + 1))


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
        yield TextTable(_columns(what, *_SPENT), [_row(group) for group in shown])
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
        sum((group.spent for group in rest), Spent()),
        sum((group.money for group in rest), Money()),
    )
    return [*groups[:_ROWS], more]


def _columns(first: str, *right: str) -> list[Column]:
    return [Column(first), *(Column(name, right=True) for name in right)]


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
    began = local(of.started).strftime("%Y-%m-%d %H:%M") if of.started else "-"
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
    total = sum((of.total() for of in sessions), Spent())
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
    yield TextTable(_columns("tokens", "count", "of the input"), rows)
    parts = Counter(summed((each for of in sessions for each in of.where.items()), 0))
    yield ""
    yield "What the prompts consisted of (estimated from the lengths of texts):"
    shown = [[name, tokens(count), _share(count, total)] for name, count in parts.most_common() if count]
    yield TextTable(_columns("part", "count", "of the input"), shown)


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


def trouble_blocks(sessions: Sequence[SessionFigures], pricing: Pricing) -> Iterator[Block]:
    """Where sessions went wrong."""
    yield from _stuck_blocks(sessions, pricing)
    yield from _error_blocks(sessions)
    yield from _test_blocks(sessions)
    yield from _unused_blocks(sessions)
    yield from _miss_blocks(sessions, pricing)


def _stuck_blocks(sessions: Sequence[SessionFigures], pricing: Pricing) -> Iterator[Block]:
    stuck = [of for of in sessions if of.stuck]
    after, others = (
        sum((pricing.money(of.after_sign, of.client) for of in sessions if of.stuck is ended), Money())
        for ended in (True, False)
    )
    said = [f"{counted(len(stuck), 'session')} ended stuck." if stuck else "No session ended stuck."]
    if stuck:
        said.append(f"Requests after a first sign cost {cost(after)}.")
    if others.total:
        said.append(f"In sessions that did not end stuck, requests after a first sign cost {cost(others)}.")
    yield ""
    yield " ".join(said)
    found = grouped((sign.detector, (of, sign)) for of in sessions for sign in of.signs)
    rows = [
        [
            name.replace("_", " ") if name in STUCK else f"{name.replace('_', ' ')} (a sign, not stuck)",
            str(len(own)),
            str(sum(sign.episodes for _, sign in own)),
            f"{sum(part.spent.requests for _, sign in own for part in sign.after):,}",
            cost(sum((pricing.money(sign.after, of.client) for of, sign in own), Money())),
        ]
        for name, own in sorted(found.items(), key=lambda each: -len(each[1]))
    ]
    yield TextTable(_columns("detector", "sessions", "episodes", "requests after it", "cost after it"), rows)


def _error_blocks(sessions: Iterable[SessionFigures]) -> Iterator[Block]:
    found = grouped(each for of in sessions for each in of.calls_by_tool.items())
    sums = [
        (name, sum(made for made, _ in counts), sum(failed for _, failed in counts))
        for name, counts in found.items()
    ]
    rows = [
        [name, f"{made:,}", f"{failed:,}", f"{failed / made:.0%}"]
        for name, made, failed in sorted(sums, key=lambda each: -each[2])[:_ROWS]
        if failed
    ]
    if rows:
        yield ""
        yield TextTable(_columns("tool", "calls", "failed", "share"), rows)


def _test_blocks(sessions: Iterable[SessionFigures]) -> Iterator[Block]:
    outcomes = [outcome for of in sessions for outcome in of.outcomes]
    failing = sum(outcome.tests_failing for outcome in outcomes)
    after_green = [outcome.edits_after_green for outcome in outcomes if outcome.edits_after_green]
    corrected = sum(outcome.by == "correction" for outcome in outcomes)
    yield ""
    edits = counted(sum(after_green), "edit")
    yield (
        f"{counted(len(outcomes), 'turn')} in all. Ended with failing tests: {failing:,}. Ended with edits "
        f"after the last passing test run: {len(after_green):,} ({edits}). "
        f"Corrected by the person: {corrected:,}."
    )


def _unused_blocks(sessions: Iterable[SessionFigures]) -> Iterator[Block]:
    unused = grouped(each for of in sessions for each in of.unused_tools.items())
    if unused:
        yield ""
        yield "Tools offered and never called, in sessions whose log lists them:"
        ranked = sorted(unused.items(), key=lambda each: -sum(each[1]))
        rows = [[name, str(len(sizes)), tokens(sum(sizes))] for name, sizes in ranked[:_ROWS]]
        yield TextTable(_columns("tool", "sessions", "tokens, about"), rows)


def _miss_blocks(sessions: Iterable[SessionFigures], pricing: Pricing) -> Iterator[Block]:
    found = grouped((miss.cause, miss) for of in sessions for miss in of.misses)
    if found:
        yield ""
        ranked = sorted(found.items(), key=lambda each: -sum(miss.tokens for miss in each[1]))
        rows = [
            [
                cause,
                f"{sum(miss.count for miss in own):,}",
                tokens(sum(miss.tokens for miss in own)),
                f"${sum(_least_cost(miss, pricing) for miss in own):,.2f}",
            ]
            for cause, own in ranked
        ]
        yield TextTable(_columns("cause of cache misses", "misses", "tokens", "cost, at least"), rows)


def _least_cost(miss: Miss, pricing: Pricing) -> float:
    prices = pricing.prices(miss.provider, miss.model)
    return (prices.missing(miss.tokens) if prices else None) or 0.0
