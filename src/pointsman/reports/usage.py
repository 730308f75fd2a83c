"""Tokens and costs of ledger records, and figures from the summaries of a ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pointsman.decision.decision import Decision
from pointsman.remembering import grouped
from pointsman.stores.ledger import DecisionFilter, DecisionRow, Search, Totals
from pointsman.stores.ledger.reading import Part, TurnTotals, Usage, tokens_of, totals_of
from pointsman.stores.ledger.turns import answered, cost, rows_of, usage
from pointsman.vocabulary import OF_SUBAGENT, AgentRole, ModelSpec

__all__ = [
    "PRICED",
    "USAGE_ASKED",
    "Minute",
    "Now",
    "Usage",
    "UsageRow",
    "all_totals",
    "answer_costs",
    "answered",
    "cost",
    "kept_words",
    "now",
    "priced",
    "root_session",
    "session_of",
    "usage",
    "usage_by_model",
]

#: Why an answer has no usage, in most cases: OpenRouter, Ollama and vLLM stream none unasked.
USAGE_ASKED: Final = (
    "a chat stream reports it where the request has stream_options.include_usage, or [server] "
    "report_usage = true"
)

#: Decimal places an amount is printed with: a ten-thousandth of a cent.
PRICED: Final = 6

#: What the ledger keeps of words in text mode "hash" begins like this; people's words do not.
_HASHED: Final = "sha256:"


def root_session(session: str, role: str | None) -> str:
    """Return the session that a request belongs to: a sub-agent's is named after the one that began it."""
    return session.partition(OF_SUBAGENT)[0] if role == AgentRole.SUBAGENT else session


def session_of(decision: Decision) -> str:
    """Return the unit of comparisons: a caller's session with its sub-agents; without one, the decision."""
    asked = decision.input
    session = root_session(asked.session, asked.role)
    return f"{asked.caller}\0{session}" if session else decision.id


def kept_words(text: str | None) -> str | None:
    """Return the stored words of a prompt or an answer; None without them, or with their hash alone."""
    return text if text and not text.startswith(_HASHED) else None


def answer_costs(models: Mapping[str, ModelSpec]) -> dict[str, float]:
    """Cost of an answer of each model with a price, to compare them: 1,000 tokens in, and as many out."""
    return {name: each.cost(1_000, 0, 1_000) or 0.0 for name, each in models.items() if each.is_priced}


#: Seconds of the period that ``now`` looks at, and rows at most.
PERIOD = 3_600.0
MOST = 5_000


class Minute(msgspec.Struct, frozen=True):
    """What happened in one minute."""

    at: float  # where it begins, seconds since the epoch
    requests: int
    input: int  # tokens
    output: int
    cost: float  # of what has a price
    unpriced: int  # answers whose tokens are known and whose cost is not


class Now(msgspec.Struct, frozen=True):
    """What happened lately."""

    since: float  # seconds since the epoch
    requests: int
    is_all: bool  # False: there were more requests than are looked at, so ``since`` is later than asked
    stuck: int
    failed: int  # requests whose last attempt did not answer
    waiting: int  # requests without an attempt that ended
    minutes: tuple[Minute, ...]  # the oldest first; one without a request is not among them


def now(
    ledger: Search,
    models: Mapping[str, ModelSpec],
    at: float,
    *,
    period: float = PERIOD,
    most: int = MOST,
) -> Now:
    """Look at the last requests of a ledger.

    Args:
        ledger: That is looked at.
        models: With their prices.
        at: The moment, seconds since the epoch.
        period: Seconds before it.
        most: Requests that are looked at.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    found = ledger.search(DecisionFilter(since=at - period), limit=most)
    rows = priced(found.rows, models)
    since = at - period if found.next is None else rows[-1].at
    return Now(
        since=since,
        requests=len(rows),
        is_all=found.next is None,
        stuck=sum(row.stuck for row in rows),
        failed=sum(row.attempts > 0 and row.result == "no_answer" for row in rows),
        waiting=sum(row.attempts == 0 for row in rows),
        minutes=tuple(_minutes(rows)),
    )


def _minutes(rows: Iterable[DecisionRow]) -> Iterator[Minute]:
    for minute, of in sorted(grouped((int(row.at // 60), row) for row in rows).items()):
        yield Minute(
            at=minute * 60.0,
            requests=len(of),
            input=sum(row.input for row in of),
            output=sum(row.output for row in of),
            cost=sum(row.cost or 0.0 for row in of),
            unpriced=sum(row.cost is None and row.result == "counted" for row in of),
        )


def priced(rows: Iterable[DecisionRow], models: Mapping[str, ModelSpec]) -> tuple[DecisionRow, ...]:
    """Fill in the cost of each row with all its extra calls; None where usage or a price is unknown."""
    return tuple(_priced(row, models) for row in rows)


def _priced(row: DecisionRow, models: Mapping[str, ModelSpec]) -> DecisionRow:
    if row.result != "counted":
        return row
    used: tuple[DecisionRow | Part, ...] = (row, *row.parts)
    spent = [cost(models.get(each.model), tokens_of(each)) for each in used]
    known = [amount for amount in spent if amount is not None]
    return msgspec.structs.replace(row, cost=sum(known) if len(known) == len(spent) else None)


class UsageRow(msgspec.Struct, frozen=True):
    """Usage of one model."""

    model: str  # empty: no model answered
    turns: int
    no_usage: int  # of them, answers whose upstream reported no tokens
    input: int
    cached: int
    written: int
    written_1h: int
    output: int
    cost: float | None  # None where the price is unknown
    stuck: int
    downgraded: int


def usage_by_model(found: Totals, models: Mapping[str, ModelSpec]) -> tuple[UsageRow, ...]:
    """Add up the answers of each model, in the order of their names; retries and shadows excepted."""
    by = grouped((turn.model, turn) for turn in found.turns)
    return tuple(_usage_row(model, of, models.get(model)) for model, of in sorted(by.items()))


def _usage_row(name: str, of: Sequence[TurnTotals], model: ModelSpec | None) -> UsageRow:
    used = Usage(*map(sum, zip(*map(tokens_of, of), strict=True)))
    return UsageRow(
        model=name,
        turns=sum(each.turns for each in of),
        no_usage=sum(each.turns for each in of if each.result == "no_usage"),
        input=used.input,
        cached=used.cached,
        written=used.written,
        written_1h=used.written_1h,
        output=used.output,
        cost=cost(model, used),
        stuck=sum(each.stuck for each in of),
        downgraded=sum(each.downgraded for each in of),
    )


def all_totals(ledger: Search) -> Totals:
    """The sums of all decisions, from their records where a ledger of an earlier version has no sums yet."""
    return totals_of(rows_of(ledger.records())) if ledger.unsummarized() else ledger.totals()
