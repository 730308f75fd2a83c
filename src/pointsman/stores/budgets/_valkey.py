"""Budgets shared by several gateways: Valkey, or Redis, over redis-py (an extra). Two Lua scripts.

A reservation is a hash of what it holds of each counter, with a deadline in a sorted set: what a gateway that
was killed had reserved is free again after ``LEASE`` seconds. All names have one hash tag, so that a cluster
keeps them in one slot, where a script may change them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import time
from typing import Any, Final

from pointsman.stores.budgets.port import LEASE, Claim, Reserved, Settlement
from pointsman.stores.valkey_client import TIMEOUT, ValkeyClient

__all__ = ["ValkeyBudgets"]

PREFIX: Final = "{pointsman:budget}:"
#: KEYS: the leases, this reservation, the counters. ARGV: seconds of a lease; then amount, limit and
#: milliseconds of each counter. Returns the place of the counter without room, or 0, and all totals.
_RESERVE: Final = """
local now = tonumber(redis.call('TIME')[1])
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 10)) do
  local held = redis.call('HGETALL', gone)
  for i = 1, #held, 2 do
    if redis.call('EXISTS', held[i]) == 1 then redis.call('DECRBY', held[i], held[i + 1]) end
  end
  redis.call('DEL', gone)
  redis.call('ZREM', KEYS[1], gone)
end
local found = {0}
for i = 3, #KEYS do
  local total = redis.call('GET', KEYS[i]) or '0'
  local at = (i - 3) * 3 + 2
  if found[1] == 0 and tonumber(total) + tonumber(ARGV[at]) > tonumber(ARGV[at + 1]) then found[1] = i - 2 end
  found[#found + 1] = total
end
if found[1] > 0 then return found end
for i = 3, #KEYS do
  local at = (i - 3) * 3 + 2
  local is_new = redis.call('EXISTS', KEYS[i]) == 0
  redis.call('INCRBY', KEYS[i], ARGV[at])
  found[i - 1] = redis.call('GET', KEYS[i])
  if is_new then redis.call('PEXPIRE', KEYS[i], ARGV[at + 2]) end
  redis.call('HSET', KEYS[2], KEYS[i], ARGV[at])
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[1]), KEYS[2])
return found
"""

#: Seconds for which a settlement is known, so that one whose reply was lost is not counted again.
SETTLED: Final = 120

#: KEYS: the leases, this reservation, the counters. ARGV: seconds for which it is known that it is settled;
#: then what was used of each counter.
_SETTLE: Final = """
if not redis.call('SET', KEYS[2] .. '/settled', '1', 'NX', 'EX', ARGV[1]) then return 0 end
for i = 3, #KEYS do
  local held = redis.call('HGET', KEYS[2], KEYS[i]) or '0'
  if redis.call('EXISTS', KEYS[i]) == 1 then
    redis.call('INCRBY', KEYS[i], ARGV[i - 1])
    redis.call('DECRBY', KEYS[i], held)
  end
end
redis.call('DEL', KEYS[2])
redis.call('ZREM', KEYS[1], KEYS[2])
return 1
"""


class ValkeyBudgets:
    """Counters under ``{pointsman:budget}:…``, each with the time to live of its window."""

    waits: Final = True

    def __init__(
        self,
        url: str,
        *,
        password: str | None = None,
        lease: int = LEASE,
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time,
    ) -> None:
        """Connect with the first use. ``lease``, ``timeout``: seconds.

        Raises:
            MissingExtra: redis-py is not installed.
        """
        what = "the budget store"
        self._client: Final = ValkeyClient(url, password=password, what=what, timeout=timeout, clock=clock)
        self._lease: Final = lease
        self._reserve: Final[Any] = self._client.redis.register_script(_RESERVE)
        self._settle: Final[Any] = self._client.redis.register_script(_SETTLE)

    def reserve(self, reservation: str, claims: Sequence[Claim], /) -> Reserved:
        """Add every claim to its counter where all have room; else add none."""
        numbers = [n for each in claims for n in (each.amount, each.limit, int(each.seconds * 1_000) + 1)]
        keys = _keys(reservation, (claim.counter for claim in claims))
        with self._client.available():
            refused, *totals = self._reserve(keys=keys, args=[self._lease, *numbers])
        return Reserved(tuple(map(int, totals)), int(refused) - 1)

    def settle(self, settlements: Sequence[Settlement], /) -> None:
        """End reservations: what was used takes the place of what was reserved."""
        with self._client.available() as client, client.pipeline(transaction=True) as calls:
            for reservation, used in settlements:
                self._settle(keys=_keys(reservation, used), args=[SETTLED, *used.values()], client=calls)
            calls.execute()

    def totals(self, counters: Sequence[str], /) -> tuple[int, ...]:
        """Return what is used and reserved of each counter."""
        if not counters:
            return ()
        with self._client.available() as client:
            found: Any = client.mget([PREFIX + counter for counter in counters])
        return tuple(int(each or 0) for each in found)

    def close(self) -> None:
        """Release the connections."""
        self._client.close()


def _keys(reservation: str, counters: Iterable[str]) -> list[str]:
    return [PREFIX + "leases", f"{PREFIX}held/{reservation}", *(PREFIX + each for each in counters)]
