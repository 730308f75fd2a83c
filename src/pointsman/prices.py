"""What tokens cost at a model's prices: the only place where prices are multiplied.

A price that is not known is None, and so is everything computed from it. A model that costs nothing has
prices of 0.0.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

__all__ = ["Price", "Prices"]

#: Prices are per so many tokens.
_PER: Final = 1_000_000

Price: TypeAlias = Annotated[float, Meta(ge=0)]


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Prices per million tokens, in a currency of your choice; None where a price is unknown."""

    input_per_million: Annotated[
        Price | None,
        Meta(
            description="Price of input; 0 for a model that is free. If no price is given: the catalogue's."
        ),
    ] = None
    output_per_million: Annotated[
        Price | None,
        Meta(
            description="Price of output; 0 for a model that is free. If no price is given: the catalogue's."
        ),
    ] = None
    cached_input_per_million: Annotated[
        Price | None,
        Meta(description="Price of input read from the provider's prompt cache; default: that of input."),
    ] = None
    cache_write_per_million: Annotated[
        Price | None,
        Meta(description="Price of input written to the provider's prompt cache; default: that of input."),
    ] = None

    prices_as_of: Annotated[date | None, Meta(description="Date of the prices, for reports.")] = None

    @property
    def is_priced(self) -> bool:
        """Whether input and output have a price, so that costs are known."""
        return self.input_per_million is not None and self.output_per_million is not None

    def cost(self, tokens_in: float, cached: float, tokens_out: float) -> float | None:
        """Return what an answer costs, in the currency of the prices; None where a price is unknown.

        Args:
            tokens_in: Input tokens, those read from the cache included.
            cached: Of these, the tokens read from the cache.
            tokens_out: Output tokens.
        """
        into, out = self.input_per_million, self.output_per_million
        if into is None or out is None:
            return None
        return ((tokens_in - cached) * into + cached * self._cached(into) + tokens_out * out) / _PER

    def rebuild(self, tokens: int) -> float | None:
        """Return what writing so many tokens to the cache costs over reading them from it; None if unknown.

        It is never negative: a cache that costs more than it saves is no reason to change the model.
        """
        into = self.input_per_million
        if into is None:
            return None
        write = into if self.cache_write_per_million is None else self.cache_write_per_million
        return max(tokens * (write - self._cached(into)) / _PER, 0.0)

    def writing(self, tokens: int) -> float:
        """Return what writing so many tokens to the cache adds to ``cost``, which takes all as plain input.

        No ledger record has the tokens written, so this is a bound: of all input that was not read from it.
        """
        into, write = self.input_per_million, self.cache_write_per_million
        return 0.0 if into is None or write is None else max(tokens * (write - into) / _PER, 0.0)

    def _cached(self, into: float) -> float:
        return into if self.cached_input_per_million is None else self.cached_input_per_million
