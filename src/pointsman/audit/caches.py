"""Simulates the prompt caches of all models of one session: what each request reads from its model's cache.

A cache belongs to one model and one conversation, holds the prompt of the last request, is kept for
``cache_seconds`` of the catalogue after its last use, and is read in whole blocks from a least length on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from pointsman.audit.session import HOUSEKEEPING, Request
from pointsman.prices import Prices

__all__ = ["CacheRules", "Call", "calls", "paid", "predicted"]


class Call(msgspec.Struct, frozen=True, gc=False):
    """One request as a cache sees it, without texts."""

    at: float  # seconds since the epoch; 0 unknown
    model: str
    provider: str
    agent: str  # whose conversation
    input_tokens: int
    cached_tokens: int
    written_tokens: int
    written_1h_tokens: int
    output_tokens: int
    new_context: bool = False


class CacheRules(NamedTuple):
    """When a provider's cache is read."""

    seconds: float = 300.0  # kept after its last use
    least: int = 1_024  # tokens; a shorter prefix is not read
    block: int = 128  # tokens; what is read is a multiple of it


#: An hour of Anthropic's cache; it is written where the client asks for it.
_HOUR: Final = 3_600.0
#: Least lengths and blocks: OpenAI, Anthropic and Google, documentation of prompt caching.
_BLOCKS: Final = {"anthropic": CacheRules(block=1), "google": CacheRules(block=1)}


def calls(requests: Sequence[Request]) -> tuple[Call, ...]:
    """Reduce requests to what caches depend on. Titles and the like have prompts of their own."""
    return tuple(
        Call(
            each.at,
            each.model,
            each.provider,
            f"{each.agent}#{each.purpose}" if each.purpose in HOUSEKEEPING else each.agent,
            each.usage.input_tokens,
            each.usage.cached_tokens,
            each.usage.written_tokens,
            each.usage.written_1h_tokens,
            each.usage.output_tokens,
            each.new_context,
        )
        for each in requests
    )


def rules(provider: str, model: str, cache_seconds: float | None) -> CacheRules:
    """How the cache of a model is read; a lifetime that is not known is five minutes, the shortest."""
    maker = "anthropic" if "claude" in model.lower() else provider
    found = _BLOCKS.get(maker, CacheRules())
    return found if cache_seconds is None else found._replace(seconds=cache_seconds)


def predicted(made: Sequence[Call], lifetimes: Mapping[tuple[str, str], float | None]) -> Iterator[int]:
    """Yield the tokens that each request reads from the cache.

    What a conversation's first request reads was written by another session: it is taken from the log.

    Args:
        made: The requests of a session, in order.
        lifetimes: Seconds by provider and model; None where they are not known.
    """
    held: dict[tuple[str, str], Call] = {}
    begun: set[str] = set()
    for call in made:
        model = call.model
        before = held.get((call.agent, model))
        if call.agent not in begun:
            yield call.cached_tokens
        elif before is None:
            yield 0
        else:
            yield _read(call, before, rules(call.provider, model, lifetimes.get((call.provider, model))))
        begun.add(call.agent)
        if call.new_context:
            held = {key: value for key, value in held.items() if key[0] != call.agent}
        held[call.agent, model] = call


def _read(call: Call, before: Call, by: CacheRules) -> int:
    lifetime = max(by.seconds, _HOUR) if before.written_1h_tokens else by.seconds
    if call.new_context or (call.at and before.at and call.at - before.at > lifetime):
        return 0
    prefix = min(before.input_tokens, call.input_tokens)
    return prefix // by.block * by.block if prefix >= by.least else 0


def paid(call: Call, prices: Prices, read: int | None = None) -> float | None:
    """Return what a request costs, in dollars; None where a price is unknown.

    Args:
        call: The request.
        prices: Of the model that answers.
        read: Tokens that it reads from the cache, where these are others than the log has; the rest is
            written to it.
    """
    cached, written, hour = call.cached_tokens, call.written_tokens, call.written_1h_tokens
    if read is not None:
        new = call.input_tokens - read
        hour = round(new * hour / written) if written else 0
        cached, written = read, new
    plain = prices.cost(call.input_tokens, cached, call.output_tokens)
    return (
        None if plain is None else plain + prices.writing(written - hour) + prices.writing_for_an_hour(hour)
    )
