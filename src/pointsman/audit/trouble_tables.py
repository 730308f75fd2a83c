"""Tables of an audit: where sessions went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pointsman.audit.figures import SessionFigures, SignFigures
from pointsman.audit.money import Pricing, total_money
from pointsman.audit.tables import cost, counted, tokens
from pointsman.audit.trouble import STUCK
from pointsman.printable import Block, Column, TextTable

__all__ = ["trouble_blocks"]

#: Rows of a table.
_ROWS: Final = 10


def trouble_blocks(sessions: Sequence[SessionFigures], pricing: Pricing) -> Iterator[Block]:
    """Where sessions went wrong."""
    yield from _stuck_blocks(sessions, pricing)
    yield from _error_blocks(sessions)
    yield from _test_blocks(sessions)
    yield from _unused_blocks(sessions)
    yield from _miss_blocks(sessions, pricing)


def _stuck_blocks(sessions: Sequence[SessionFigures], pricing: Pricing) -> Iterator[Block]:
    stuck = [of for of in sessions if of.stuck]
    after = total_money(pricing.money(of.after_sign, of.client) for of in sessions)
    yield ""
    ended = f"{counted(len(stuck), 'session')} ended stuck." if stuck else "No session ended stuck."
    yield f"{ended} Requests after a first sign cost {cost(after)}." if after.total or stuck else ended
    found: dict[str, list[tuple[SessionFigures, SignFigures]]] = {}
    for of in sessions:
        for sign in of.signs:
            found.setdefault(sign.detector, []).append((of, sign))
    rows = [
        [
            name.replace("_", " ") if name in STUCK else f"{name.replace('_', ' ')} (a sign, not stuck)",
            str(len(own)),
            str(sum(sign.episodes for _, sign in own)),
            f"{sum(part.spent.requests for _, sign in own for part in sign.after):,}",
            cost(total_money(pricing.money(sign.after, of.client) for of, sign in own)),
        ]
        for name, own in sorted(found.items(), key=lambda each: -len(each[1]))
    ]
    right = ("sessions", "episodes", "requests after it", "cost after it")
    yield TextTable([Column("detector"), *(Column(name, right=True) for name in right)], rows)


def _error_blocks(sessions: Iterable[SessionFigures]) -> Iterator[Block]:
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for of in sessions:
        for name, (made, errors) in of.calls_by_tool.items():
            calls[name] += made
            failed[name] += errors
    rows = [
        [name, f"{calls[name]:,}", f"{errors:,}", f"{errors / calls[name]:.0%}"]
        for name, errors in failed.most_common(_ROWS)
        if errors
    ]
    if rows:
        yield ""
        right = ("calls", "failed", "share")
        yield TextTable([Column("tool"), *(Column(name, right=True) for name in right)], rows)


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
    unused: Counter[str] = Counter()
    offered: Counter[str] = Counter()
    for of in sessions:
        unused.update(of.unused_tools)
        offered.update(of.unused_tools.keys())
    if unused:
        yield ""
        yield "Tools offered and never called, in sessions whose log lists them:"
        rows = [[name, str(offered[name]), tokens(count)] for name, count in unused.most_common(_ROWS)]
        yield TextTable(
            [Column("tool"), Column("sessions", right=True), Column("tokens, about", right=True)], rows
        )


def _miss_blocks(sessions: Iterable[SessionFigures], pricing: Pricing) -> Iterator[Block]:
    sums: dict[str, list[float]] = {}
    for of in sessions:
        for miss in of.misses:
            found = sums.setdefault(miss.cause, [0, 0, 0.0])
            prices = pricing.prices(miss.provider, miss.model)
            found[0] += miss.count
            found[1] += miss.tokens
            found[2] += (prices.missing(miss.tokens) if prices else None) or 0.0
    if sums:
        yield ""
        ranked = sorted(sums.items(), key=lambda each: -each[1][1])
        rows = [
            [cause, f"{count:,.0f}", tokens(int(missed)), f"${price:,.2f}"]
            for cause, (count, missed, price) in ranked
        ]
        right = ("misses", "tokens", "cost, at least")
        yield TextTable(
            [Column("cause of cache misses"), *(Column(name, right=True) for name in right)], rows
        )
