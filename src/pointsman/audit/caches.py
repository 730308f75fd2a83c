"""Simulates the prompt caches of all models of one session: what each request reads from its model's cache.

A cache belongs to one model and one conversation, holds the prompt of the last request, lives for
``cache_seconds`` of the catalogue after its last use, and is read in whole blocks from a least length on.
Where a client has written the beginning of its prompt anew, the log shows how much of it stayed: no model's
cache holds more of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from pointsman.audit.session import HOUSEKEEPING, Request, Tokens
from pointsman.prices import Prices

__all__ = ["HOUR", "REWRITTEN", "SHORT", "CacheRules", "Call", "calls", "paid", "predicted", "reads"]


class Call(Tokens, frozen=True, gc=False):
    """One request as a cache sees it, without texts."""

    at: float  # seconds since the epoch; 0 unknown
    model: str
    provider: str
    agent: str  # whose conversation
    #: Tokens that it has in common with the request before it; None: as much as the shorter of them.
    shared: int | None = None


class CacheRules(NamedTuple):
    """When a provider's cache is read."""

    seconds: float = 300.0  # kept after its last use
    least: int = 1_024  # tokens; a shorter prefix is not read
    block: int = 128  # tokens; what is read is a multiple of it


#: An hour of Anthropic's cache; it is written where the client asks for it.
HOUR: Final = 3_600.0
#: Least lengths and blocks: OpenAI, Anthropic and Google, documentation of prompt caching.
_BLOCKS: Final = {"anthropic": CacheRules(block=1), "google": CacheRules(block=1)}


#: Tokens that a prompt reads less than the one before it had, from which on they begin differently.
REWRITTEN: Final = 1_024
#: Seconds after which a cache may be gone for another reason.
SHORT: Final = 300.0


def calls(requests: Sequence[Request]) -> tuple[Call, ...]:
    """Reduce requests to the fields that caches depend on. Titles and the like have separate prompts."""
    made = []
    latest: dict[str, Call] = {}
    for each in requests:
        call = Call(
            each.at,
            each.model,
            each.provider,
            f"{each.agent}#{each.purpose}" if each.purpose in HOUSEKEEPING else each.agent,
            **each.usage.counts(),
        )
        before = latest.get(call.agent)
        if each.new_context:
            call = msgspec.structs.replace(call, shared=0)
        elif before is not None and _is_rewritten(before, call):
            call = msgspec.structs.replace(call, shared=call.cached_tokens)
        latest[call.agent] = call
        made.append(call)
    return tuple(made)


def _is_rewritten(before: Call, call: Call) -> bool:
    """Whether a prompt begins differently: its model's cache was warm, and much less of it was read."""
    warm = before.cached_tokens or before.written_tokens
    soon = before.at and call.at and call.at - before.at <= SHORT
    lost = min(before.input_tokens, call.input_tokens) - call.cached_tokens
    return bool(warm and soon and before.model == call.model and lost > REWRITTEN)


def rules(provider: str, model: str, cache_seconds: float | None) -> CacheRules:
    """How the cache of a model is read; a lifetime that is not known is five minutes, the shortest."""
    maker = "anthropic" if "claude" in model.lower() else provider
    found = _BLOCKS.get(maker, CacheRules())
    return found if cache_seconds is None else found._replace(seconds=cache_seconds)


def predicted(made: Sequence[Call], lifetimes: Mapping[tuple[str, str], float | None]) -> Iterator[int]:
    """Yield the tokens that each request reads from the cache.

    The tokens that a conversation's first request reads were written by another session: they are those of
    the log.

    Args:
        made: The requests of a session, in order.
        lifetimes: Seconds by provider and model; None if unknown.
    """
    held: dict[str, dict[str, _Held]] = {}
    for call in made:
        caches = held.setdefault(call.agent, {})
        if call.shared is not None:
            for model, cache in caches.items():
                caches[model] = cache._replace(prefix=min(cache.prefix, call.shared))
        if not caches:
            yield call.cached_tokens
        elif call.model in caches:
            by = rules(call.provider, call.model, lifetimes.get((call.provider, call.model)))
            yield _read(call, caches[call.model], by)
        else:
            yield 0
        caches[call.model] = _Held(call.input_tokens, call.at, call.written_1h_tokens > 0)


class _Held(NamedTuple):
    """The part of a conversation in a model's cache."""

    prefix: int  # tokens that the next prompt may have in common with it
    at: float  # when it was used last
    for_an_hour: bool


def _read(call: Call, cache: _Held, by: CacheRules) -> int:
    lifetime = max(by.seconds, HOUR) if cache.for_an_hour else by.seconds
    if call.at and cache.at and call.at - cache.at > lifetime:
        return 0
    prefix = min(cache.prefix, call.input_tokens)
    return prefix // by.block * by.block if prefix >= by.least else 0


def reads(
    made: Sequence[Call], now: Sequence[Call], lifetimes: Mapping[tuple[str, str], float | None]
) -> Iterator[int]:
    """Yield the tokens that each request would read if other models answered.

    It is the logged figure, moved by the difference that the simulation makes: where the simulation is wrong
    about both in the same way, this is not.

    Args:
        made: The requests as they were.
        now: The same ones, to the models that would answer.
        lifetimes: Seconds by provider and model of both.
    """
    for call, then, instead in zip(made, predicted(made, lifetimes), predicted(now, lifetimes), strict=True):
        yield min(max(call.cached_tokens + instead - then, 0), call.input_tokens)


def paid(call: Tokens, prices: Prices, read: int | None = None) -> float | None:
    """Return the cost of a request, or of the sum of several, in dollars; None where a price is unknown.

    Args:
        call: Its tokens.
        prices: Of the model that answers.
        read: Tokens that it reads from the cache, where these are others than the log has; the rest is
            written to it.
    """
    cached, written, hour = call.cached_tokens, call.written_tokens, call.written_1h_tokens
    if read is not None:
        new = call.input_tokens - read
        hour = round(new * hour / written) if written else 0
        cached, written = read, new
    return prices.cost(call.input_tokens, cached, call.output_tokens, written, hour)
