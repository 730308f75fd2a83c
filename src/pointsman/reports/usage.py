"""Tokens and costs of ledger records, for the reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pointsman.stores.ledger import Attempt, ShadowAnswer
from pointsman.vocabulary import ModelSpec

__all__ = ["HASHED", "PRICED", "Usage", "answered", "cost", "usage", "writing"]

#: Decimal places an amount is printed with: a ten-thousandth of a cent.
PRICED: Final = 6

#: What the ledger keeps of words in text mode "hash" begins like this; people's words do not.
HASHED: Final = "sha256:"


class Usage(NamedTuple):
    """Tokens of one attempt."""

    input: int
    cached: int  # of the input, read from the provider's cache
    output: int


def answered(attempts: Iterable[Attempt]) -> Attempt | None:
    """Return the attempt that answered, if one did."""
    good = [attempt for attempt in attempts if attempt.status // 100 == 2 and not attempt.error]
    return good[-1] if good else None


def usage(attempt: Attempt | ShadowAnswer | None) -> Usage | None:
    """Return what an answer used; None where the upstream did not say."""
    if attempt is None or attempt.input_tokens is None or attempt.output_tokens is None:
        return None
    cached = min(attempt.cached_tokens or 0, attempt.input_tokens)
    return Usage(attempt.input_tokens, cached, attempt.output_tokens)


def cost(model: ModelSpec | None, used: Usage) -> float | None:
    """What the tokens cost at a model's prices, in their currency; None where a price is unknown."""
    return model.cost(used.input, used.cached, used.output) if model else None


def writing(model: ModelSpec | None, used: Usage) -> float:
    """What writing to the prompt cache adds at most: as if all was written that was not read from it."""
    return model.writing(used.input - used.cached) if model else 0.0
