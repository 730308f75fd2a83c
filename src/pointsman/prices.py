"""What tokens cost at a model's prices: the only place where prices are multiplied, and money is written.

Prices are US dollars, as in the model catalogue.

A price that is not known is None, and so is everything computed from it. A model that costs nothing has
prices of 0.0.
"""

from __future__ import annotations

from datetime import date
from math import floor, log10
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

__all__ = ["PRICES", "Price", "Prices", "dollars"]

#: Prices are per so many tokens.
_PER: Final = 1_000_000
#: Dollars below which an amount is written as $0: less than one token of the cheapest model.
_SMALLEST: Final = 1e-8

Price: TypeAlias = Annotated[float, Meta(ge=0)]


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Prices in US dollars per million tokens; None where a price is unknown."""

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

    def cost(
        self, tokens_in: float, cached: float, tokens_out: float, written: float = 0, written_1h: float = 0
    ) -> float | None:
        """Return the cost of an answer, in US dollars; None if a price is unknown.

        Args:
            tokens_in: Input tokens, those read from the cache or written to it included.
            cached: Of these, the tokens read from the cache.
            tokens_out: Output tokens.
            written: Of the input, the tokens written to the cache.
            written_1h: Of these, the tokens with a lifetime of an hour.
        """
        into, out = self.input_per_million, self.output_per_million
        if into is None or out is None:
            return None
        spent = (tokens_in - cached) * into + tokens_out * out
        if cached:
            spent += cached * self._cached(into)
        if written:
            spent += self._writing(written, written_1h, into)
        return spent / _PER

    @property
    def per_token(self) -> tuple[float, ...]:
        """Dollars a token of each kind adds, in the order of the arguments of ``cost``; empty: unknown."""
        into, out = self.input_per_million, self.output_per_million
        if into is None or out is None:
            return ()
        write, hour = self._writing(1, 0, into), self._writing(1, 1, into)
        return tuple(each / _PER for each in (into, self._cached(into) - into, out, write, hour - write))

    def rebuild(self, tokens: int) -> float | None:
        """Return what writing so many tokens to the cache costs over reading them from it; None if unknown.

        It is never negative: a cache that costs more than it saves is no reason to change the model.
        """
        into = self.input_per_million
        if into is None:
            return None
        write = into if self.cache_write_per_million is None else self.cache_write_per_million
        return max(tokens * (write - self._cached(into)) / _PER, 0.0)

    def missing(self, tokens: int) -> float | None:
        """Return the extra cost of tokens not read from the cache; None if unknown."""
        into = self.input_per_million
        return None if into is None else max(tokens * (into - self._cached(into)) / _PER, 0.0)

    def _writing(self, written: float, written_1h: float, into: float) -> float:
        """Return the surcharge of writing to the cache over plain input, times ``_PER``; never negative.

        A price below that of input, such as one of the storage alone, makes no request cheaper.
        Source: Anthropic's prices of prompt caching: with a lifetime of an hour tokens cost twice the input.
        """
        write = self.cache_write_per_million
        return 0.0 if write is None else (written - written_1h) * max(write - into, 0.0) + written_1h * into

    def _cached(self, into: float) -> float:
        return into if self.cached_input_per_million is None else self.cached_input_per_million


#: The fields of ``Prices`` that are prices, in order.
PRICES: Final = tuple(field for field in Prices.__struct_fields__ if field.endswith("_per_million"))


def dollars(amount: float | None, *, unknown: str = "-") -> str:
    """Write an amount of money: whole cents from one dollar on, below that two significant digits."""
    if amount is None:
        return unknown
    size, sign = abs(amount), "-" if amount < 0 else ""
    if size == 0 or size < _SMALLEST:
        return "$0"
    if size >= 1:
        return f"{sign}${size:,.2f}"
    places = max(2, 1 - floor(log10(size)))
    return f"{sign}${size:.{places}f}"
