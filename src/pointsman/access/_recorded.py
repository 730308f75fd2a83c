"""What keys and teams have spent by the ledger, where no store that can be asked counts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pointsman.access._limits import UNIT, Limit
from pointsman.stores.ledger import Attempt, Ledger
from pointsman.vocabulary import ModelSpec

__all__ = ["recorded_spending"]


def recorded_spending(
    ledger: Ledger, limits: Sequence[Limit], models: Mapping[str, ModelSpec], now: float
) -> dict[Limit, int]:
    """Return what was spent of each budget in its window, as far as usage was reported; of rates nothing.

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
        cost = sum(_cost(attempt, models) for attempt in record.attempts) if due else 0.0
        for limit in due:
            spent[limit] += cost
    return {limit: round(money * UNIT) for limit, money in spent.items()}


def _cost(attempt: Attempt, models: Mapping[str, ModelSpec]) -> float:
    model, read, written = models.get(attempt.model), attempt.input_tokens, attempt.output_tokens
    if model is None or read is None or written is None:
        return 0.0
    return model.cost(read, min(attempt.cached_tokens or 0, read), written) or 0.0
