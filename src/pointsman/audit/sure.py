"""Sure savings, without another model doing the user's work. Parts do not overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from pointsman.audit.caches import Call, paid, reads
from pointsman.audit.figures import SUB_AGENT, Part, SessionFigures, Spent
from pointsman.audit.money import Pricing, total_money
from pointsman.audit.session import HOUSEKEEPING
from pointsman.prices import Prices
from pointsman.vocabulary import Purpose

__all__ = [
    "HOUSEKEEPING_CHANGE",
    "MOVES_CHANGE",
    "STUCK_CHANGE",
    "TOOLS_CHANGE",
    "Sure",
    "is_work",
    "sure",
    "without",
]

STUCK_CHANGE: Final = "stop when stuck"
HOUSEKEEPING_CHANGE: Final = "cheapest model for titles, topics, summaries and probes"
MOVES_CHANGE: Final = "stay with one model where moves cost more than they saved"
TOOLS_CHANGE: Final = "do not offer tools that no session called"

_WORK: Final = frozenset(
    {Purpose.MESSAGE, Purpose.TOOL_ITERATION, Purpose.PLAN, Purpose.EDIT, Purpose.COMPACTION, SUB_AGENT}
)


class Sure(NamedTuple):
    """One saving."""

    what: str
    dollars: float
    requests: int
    because: str  # how it is computed, and what is assumed
    worth: float = 0.0  # of the dollars: paid by a subscription, so that no money is saved


def is_work(role: str) -> bool:
    """Whether requests of a role do the person's work."""
    return role in _WORK


def without(parts: Sequence[Part], less: Sequence[Part]) -> Iterator[Part]:
    """Yield parts without the requests of others that are among them."""
    taken = {part.split: part.spent for part in less}
    for part in parts:
        other = taken.get(part.split)
        if other is None:
            yield part
        elif other.requests < part.spent.requests:
            names = Spent.__struct_fields__
            yield Part(
                part.split, Spent(*(getattr(part.spent, name) - getattr(other, name) for name in names))
            )


def sure(sessions: Sequence[SessionFigures], pricing: Pricing) -> tuple[Sure, ...]:
    """Sure savings, the largest first, without zeros."""
    found = [
        _after_stuck(sessions, pricing),
        _housekeeping(sessions, pricing),
        _moves(sessions, pricing),
        _tools(sessions, pricing),
    ]
    return tuple(sorted((each for each in found if each.dollars > 0), key=lambda each: -each.dollars))


def _after_stuck(sessions: Sequence[SessionFigures], pricing: Pricing) -> Sure:
    money = total_money(pricing.money(of.after_stuck, of.client) for of in sessions)
    count = sum(part.spent.requests for of in sessions for part in of.after_stuck)
    return Sure(
        STUCK_CHANGE,
        money.total,
        count,
        "requests after a sign of being stuck that lasted, in sessions that ended stuck and are not proven "
        "solved; assumed: stopping there would have cost nothing else",
        money.worth,
    )


def _housekeeping(sessions: Sequence[SessionFigures], pricing: Pricing) -> Sure:
    dollars, worth, count = 0.0, 0.0, 0
    models = {(part.split.provider, part.split.model) for of in sessions for part in of.parts}
    for of in sessions:
        for part in without(of.parts, of.after_stuck):
            if part.split.role not in HOUSEKEEPING:
                continue
            least = min(
                (
                    found
                    for provider, model in models
                    if provider == part.split.provider
                    and (prices := pricing.prices(provider, model))
                    and (found := prices.cost(part.spent.input_tokens, 0, part.spent.output_at_most))
                    is not None
                ),
                default=None,
            )
            money = pricing.money([part], of.client)
            saved = money.total - least if least is not None else 0.0
            if saved > 0:
                dollars += saved
                worth += saved * money.subscribed
                count += part.spent.requests
    return Sure(
        HOUSEKEEPING_CHANGE,
        dollars,
        count,
        "at the prices of the cheapest model of the same provider in these logs, nothing read from its cache",
        worth,
    )


def _moves(sessions: Sequence[SessionFigures], pricing: Pricing) -> Sure:
    dollars, worth, count = 0.0, 0.0, 0
    for of in sessions:
        saved = 0.0 if of.stuck or not of.moved else _staying(of.moved, pricing)
        if saved > 0:
            dollars += saved
            worth += saved * pricing.session(of).subscribed
            count += len(of.moved)
    return Sure(
        MOVES_CHANGE,
        dollars,
        count,
        "sessions whose requests, all answered by the dearest of the session's models, would have cost less "
        "because nothing is read anew; assumed: the dearest does no worse",
        worth,
    )


def _staying(moved: Sequence[Call], pricing: Pricing) -> float:
    """Cost of a session relative to its dearest model; 0 where a price is unknown."""
    prices: list[Prices] = []
    for call in moved:
        found = pricing.prices(call.provider, call.model)
        if found is None or found.input_per_million is None or found.output_per_million is None:
            return 0.0
        prices.append(found)
    stays, best = max(
        zip(moved, prices, strict=True),
        key=lambda each: (each[1].input_per_million or 0.0, each[1].output_per_million or 0.0),
    )
    stayed = [
        msgspec.structs.replace(
            call, provider=stays.provider, model=stays.model, cached_tokens=0, written_1h_tokens=0
        )
        for call in moved
    ]
    read = reads(moved, stayed, pricing.lifetimes(moved))
    now = sum(paid(call, best, cached) or 0.0 for call, cached in zip(stayed, read, strict=True))
    return sum(paid(call, price) or 0.0 for call, price in zip(moved, prices, strict=True)) - now


def _tools(sessions: Sequence[SessionFigures], pricing: Pricing) -> Sure:
    called: dict[str, Counter[str]] = {}
    for of in sessions:
        called.setdefault(of.client, Counter()).update(of.calls_by_tool.keys())
    dollars, worth, count = 0.0, 0.0, 0
    for of in sessions:
        tokens = sum(size for name, size in of.unused_tools.items() if name not in called[of.client])
        total = of.total().requests
        kept = total - sum(part.spent.requests for part in of.after_stuck)
        main = max(of.parts, key=lambda part: part.spent.requests, default=None)
        prices = pricing.prices(main.split.provider, main.split.model) if main else None
        if tokens and prices and total:
            saved = (prices.cost(tokens, tokens, 0) or 0.0) * kept / total
            dollars += saved
            worth += saved * pricing.session(of).subscribed
            count += kept
    return Sure(
        TOOLS_CHANGE,
        dollars,
        count,
        "tokens of their descriptions (four characters each), all at the price of cached input; "
        "assumed: later sessions do not need them either",
        worth,
    )
