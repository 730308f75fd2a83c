"""Cache misses as the provider counted them: what the next prompt could have read and had to pay again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from pointsman.audit.session import Request

__all__ = ["Miss", "misses"]

#: Tokens below which a difference is the size of a cache block, not a miss.
_BLOCK: Final = 1_024
#: Seconds after which a cache of five minutes is surely over, and one of an hour.
_SHORT: Final = 300.0
_LONG: Final = 3_600.0


class Miss(msgspec.Struct, frozen=True, gc=False):
    """Cache misses of one session that have a cause and a model in common."""

    cause: str
    model: str
    provider: str
    day: str
    count: int
    tokens: int  # that the request before had in its prompt, and this one did not read from the cache


def misses(requests: Sequence[Request]) -> tuple[Miss, ...]:
    """Compare every request with the one before of the same agent."""
    sums: dict[tuple[str, str, str, str], list[int]] = {}
    for cause, request, tokens in _missed(requests):
        day = datetime.fromtimestamp(request.at, UTC).date().isoformat() if request.at else ""
        found = sums.setdefault((cause, request.model, request.provider, day), [0, 0])
        found[0] += 1
        found[1] += tokens
    return tuple(Miss(*key, count, tokens) for key, (count, tokens) in sums.items())


def _missed(requests: Sequence[Request]) -> Iterator[tuple[str, Request, int]]:
    before: dict[str, Request] = {}
    seen: dict[tuple[str, str], Request] = {}
    for request in requests:
        earlier = before.get(request.agent)
        same = seen.get((request.agent, request.model))
        if earlier is not None:
            expected = min(earlier.usage.input_tokens, request.usage.input_tokens)
            lost = expected - request.usage.cached_tokens
            if lost > _BLOCK and _caches(earlier, request):
                yield _cause(request, earlier, same), request, lost
        before[request.agent] = request
        seen[request.agent, request.model] = request


def _caches(earlier: Request, request: Request) -> bool:
    """Whether anything says that a cache was in use at all."""
    return any(each.usage.cached_tokens or each.usage.written_tokens for each in (earlier, request))


def _cause(request: Request, earlier: Request, same: Request | None) -> str:
    if request.new_context:
        return "compaction"
    if request.model != earlier.model:
        return "model changed"
    pause = request.at - (same or earlier).at if request.at and earlier.at else 0.0
    if pause > (_LONG if (same or earlier).usage.written_1h_tokens else _SHORT):
        return "pause longer than the cache lives"
    if request.usage.input_tokens < earlier.usage.input_tokens:
        return "conversation shortened or begun anew"
    return "beginning of the prompt changed"
