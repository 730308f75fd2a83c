"""Simulates the prompt caches of all models of one session: what each request reads from its model's cache.

A cache belongs to one model and one conversation, holds the prompt of the last request, is kept for
``cache_seconds`` of the catalogue after its last use, and is read in whole blocks from a least length on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from pointsman.audit.session import Request
from pointsman.prices import Prices

__all__ = ["CacheRules", "Call", "calls", "cost", "predicted"]


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
    """Reduce requests to what caches depend on."""
    return tuple(
        Call(
            each.at,
            each.model,
            each.provider,
            each.agent,
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


def predicted(
    made: Sequence[Call], lifetimes: dict[tuple[str, str], float | None], *, instead: str | None = None
) -> Iterator[int]:
    """Yield the tokens that each request reads from the cache.

    What a conversation's first request reads was written by another session. This is taken from the log
    where the model is the logged one, and is 0 where another model answers instead.

    Args:
        made: The requests of a session, in order.
        lifetimes: Seconds by provider and model; None where they are not known.
        instead: A model that answers all of them.
    """
    held: dict[tuple[str, str], Call] = {}
    begun: set[str] = set()
    for call in made:
        model = call.model if instead is None else instead
        before = held.get((call.agent, model))
        if call.agent not in begun:
            yield call.cached_tokens if instead is None else 0
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


def cost(made: Sequence[Call], reads: Sequence[int], prices: Sequence[Prices]) -> float | None:
    """Return what requests cost if they read so much from the cache and write the rest; None if unknown."""
    total = 0.0
    for call, read, price in zip(made, reads, prices, strict=True):
        plain = price.cost(call.input_tokens, read, call.output_tokens)
        if plain is None:
            return None
        total += plain + price.writing(call.input_tokens - read)
    return total
