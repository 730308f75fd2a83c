"""Tokens and costs of ledger records, for the reports."""

from __future__ import annotations

from typing import Final

from pointsman.stores.ledger.turns import Usage, answered, usage
from pointsman.vocabulary import ModelSpec

__all__ = ["HASHED", "PRICED", "Usage", "answered", "cost", "usage", "writing"]

#: Decimal places an amount is printed with: a ten-thousandth of a cent.
PRICED: Final = 6

#: What the ledger keeps of words in text mode "hash" begins like this; people's words do not.
HASHED: Final = "sha256:"


def cost(model: ModelSpec | None, used: Usage) -> float | None:
    """Cost of tokens at a model's prices, in US dollars; None if a price is unknown."""
    return model.cost(used.input, used.cached, used.output) if model else None


def writing(model: ModelSpec | None, used: Usage) -> float:
    """What writing to the prompt cache adds at most: as if all was written that was not read from it."""
    return model.writing(used.input - used.cached) if model else 0.0
