"""Budgets shared by several gateways: Valkey, or Redis (an extra), in front of a durable record.

Each process reports with every call the amounts that it has spent and holds, so that amounts lost by the
server are restored by the next call, a repeated call counts once, and a late one changes nothing. A counter
that the server does not know is made again from the durable record before anything is reserved of it. All
names have one hash tag, so that a cluster puts them in one slot, where a script may change them together.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final

from pointsman.errors import StoreUnavailable
from pointsman.stores.batch_writer import BatchWriter
from pointsman.stores.budgets.port import Book, Claim, Reserved, Settlement, Spent
from pointsman.stores.valkey_client import TIMEOUT, ValkeyClient

PREFIX: Final = "{pointsman:budget}:"
#: Counters that wait for the durable record; each waits once, whatever is spent of it.
_WAITING: Final = 100_000


@dataclass(slots=True)
class _Part:
    """State of one counter in this process."""

    writer: str  # names this part for ever; one that is made again, after it was forgotten, has another name
    seconds: float
    lasting: bool
    spent: int = 0  # by this process
    held: int = 0  # by this process
    others: int = 0  # the highest amount reported as spent by others

    @property
    def floor(self) -> int:
        return self.others + self.spent


class ValkeyBudgets:
    """Counters under ``{pointsman:budget}:…``, each with the time to live of its window."""

    waits: Final = True

    def __init__(
        self,
        url: str,
        *,
        password: str | None = None,
        book: Book | None = None,
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Connect with the first use.

        Args:
            url: Address, without a password.
            password: Of the server.
            book: The durable record of spent money. None: amounts that the server loses are lost.
            timeout: Seconds a call waits at most.
            clock: Seconds.

        Raises:
            MissingExtra: redis-py is not installed.
        """
        what = "the budget store"
        self._client: Final = ValkeyClient(url, password=password, what=what, timeout=timeout, clock=clock)
        self._book: Final = book
        self._process: Final = secrets.token_hex(8)
        self._numbers: Final = itertools.count(1)
        #: One call at a time: the server hears what is held in the order in which it changed.
        self._calls: Final = threading.Lock()
        self._parts: Final[dict[str, _Part]] = {}
        self._ends: Final[list[tuple[float, str]]] = []  # a heap: when each part is forgotten
        self._reserved: Final[dict[str, Sequence[Claim]]] = {}
        self._applied: Final[set[str]] = set()  # reservations that were settled here, and not yet there
        self._unrecorded: Final[set[str]] = set()  # counters that wait for the durable record
        self._writer: Final = BatchWriter[str](self._record, size=_WAITING, name="pointsman-spent")
        script = self._client.redis.register_script
        self._scripts: Final[dict[str, Any]] = {each: script(each) for each in (RESERVE, PUBLISH, SEED)}

    @property
    def lost(self) -> int:
        """Counters with a last total that did not reach the durable record."""
        return self._writer.lost

    @property
    def fault(self) -> str:
        """Why the durable record cannot be written just now."""
        return self._writer.fault

    def reserve(self, reservation: str, claims: Sequence[Claim], /) -> Reserved:
        """Add every claim to its counter where all have room; else add none."""
        with self._calls:
            self._forget()
            parts = [self._part(claim) for claim in claims]
            refused, *sums = self._ask(claims, parts)
            totals, reserved = [], int(sums[2 * int(refused) - 1]) if refused else 0
            for place, part in enumerate(parts):
                spent, held = int(sums[2 * place]), int(sums[2 * place + 1])
                part.others = max(part.others, spent - part.spent)
                totals.append(max(spent, part.floor) + held)
            if not refused:
                for claim, part in zip(claims, parts, strict=True):
                    part.held += claim.amount
                self._reserved[reservation] = claims
        return Reserved(tuple(totals), int(refused) - 1, reserved)

    def settle(self, settlements: Sequence[Settlement], /) -> None:
        """End reservations: the used amount replaces the reserved one."""
        with self._calls:
            touched: dict[str, _Part] = {}
            for settlement in settlements:
                self._apply(settlement)
                for counter in settlement.used:
                    if (part := self._parts.get(counter)) is not None:
                        touched[counter] = part
            if touched:
                arguments = [n for part in touched.values() for n in _said(part)]
                self._call(PUBLISH, touched, [next(self._numbers), *arguments])
            self._applied.clear()

    def totals(self, counters: Sequence[str], /) -> tuple[int, ...]:
        """Return the used and reserved amount of each counter."""
        if not counters:
            return ()
        with self._client.available() as client, client.pipeline(transaction=False) as calls:
            for counter in counters:
                calls.hmget(PREFIX + counter, "S", "H", "seeded")
            rows: list[Any] = calls.execute()
        missing = [each for each, row in zip(counters, rows, strict=True) if row[2] is None]
        known = self._book.spent(missing) if self._book is not None and missing else {}
        found = []
        for counter, (spent, held, _) in zip(counters, rows, strict=True):
            part = self._parts.get(counter)
            recorded = sum(known.get(counter, {}).values())
            found.append(max(int(spent or 0), recorded, part.floor if part else 0) + int(held or 0))
        return tuple(found)

    def join(self, process: str, /) -> float:
        """Return the share of a process in an outage; see ``Book.join``."""
        return 1.0 if self._book is None else self._book.join(process)

    def leave(self, process: str, /) -> None:
        """Give the share back, unless something that was spent is not recorded."""
        self._writer.flush()
        if self._book is not None and not self._unrecorded:
            self._book.leave(process)

    def close(self) -> None:
        """Write the waiting counters, and release the connections."""
        self._writer.close()
        self._client.close()
        if self._book is not None:
            self._book.close()

    def _ask(self, claims: Sequence[Claim], parts: Sequence[_Part]) -> list[Any]:
        counters = [claim.counter for claim in claims]
        for _ in range(2):
            arguments: list[object] = [next(self._numbers)]
            for claim, part in zip(claims, parts, strict=True):
                is_recorded = int(part.lasting and self._book is not None)
                arguments += [*_said(part), claim.amount, claim.limit, part.floor, is_recorded]
            answer: list[Any] = self._call(RESERVE, counters, arguments)
            if answer[0] not in {UNSEEDED, LATE}:
                return answer
            self._seed(counters, parts)
        raise StoreUnavailable("the budget store loses counters as soon as they are made")

    def _seed(self, counters: Sequence[str], parts: Sequence[_Part]) -> None:
        """Make counters of money again, as the durable record has them."""
        lasting = {counter: part for counter, part in zip(counters, parts, strict=True) if part.lasting}
        if self._book is None:
            return
        for counter, recorded in self._book.spent(list(lasting)).items():
            part = lasting[counter]
            pairs = [value for pair in recorded.items() for value in pair]
            self._call(SEED, [counter], [_milliseconds(part), *pairs])

    def _call(self, script: str, counters: Iterable[str], arguments: Sequence[object]) -> Any:
        with self._client.available():
            return self._scripts[script](keys=[PREFIX + each for each in counters], args=arguments)

    def _apply(self, settlement: Settlement) -> None:
        """Count a settlement here, once."""
        reservation, used, claims = settlement
        if reservation in self._applied:
            return
        self._applied.add(reservation)
        for claim in claims:
            self._part(claim)
        for claim in self._reserved.pop(reservation, ()):
            if (part := self._parts.get(claim.counter)) is not None:
                part.held -= claim.amount
        for counter, amount in used.items():
            part = self._parts.get(counter)
            if part is None:
                continue
            part.spent += amount
            if amount and part.lasting and self._book is not None and counter not in self._unrecorded:
                self._unrecorded.add(counter)
                if not self._writer.put(counter):
                    self._unrecorded.discard(counter)

    def _record(self, counters: Sequence[str]) -> int:
        """Write the amounts that this process has spent to the durable record."""
        with self._calls:
            known = [(counter, self._parts.get(counter)) for counter in counters]
            self._unrecorded.difference_update(counters)
        spent = [Spent(counter, part.writer, part.spent) for counter, part in known if part is not None]
        if self._book is not None and spent:
            try:
                self._book.record(spent)
            except BaseException:
                self._unrecorded.update(counters)
                raise
        return 0

    def _part(self, claim: Claim) -> _Part:
        part = self._parts.get(claim.counter)
        if part is None:
            writer = f"{self._process}-{next(self._numbers):x}"
            part = self._parts[claim.counter] = _Part(writer, claim.seconds, claim.lasting)
            heappush(self._ends, (time.monotonic() + claim.seconds, claim.counter))
        return part

    def _forget(self) -> None:
        """Forget counters one window's length after the end of their window; those that wait, later."""
        now = time.monotonic()
        while self._ends and self._ends[0][0] <= now:
            counter = heappop(self._ends)[1]
            part = self._parts.get(counter)
            if part is not None and (part.held or counter in self._unrecorded):
                heappush(self._ends, (now + part.seconds, counter))
            else:
                self._parts.pop(counter, None)


def _said(part: _Part) -> tuple[str, int, int, int]:
    return part.writer, part.spent, part.held, _milliseconds(part)


def _milliseconds(part: _Part) -> int:
    return int(part.seconds * 1_000) + 1


#: Answers of ``RESERVE`` in the place of a counter: one has to be seeded; the call came after a later one.
UNSEEDED: Final = -1
LATE: Final = -2

_PUT: Final = """
local function put(key, field, sum, value)
  local old = redis.call('HGET', key, field) or '0'
  if old == value then return end
  redis.call('HSET', key, field, value)
  if value ~= '0' then redis.call('HINCRBY', key, sum, value) end
  if old ~= '0' then redis.call('HINCRBY', key, sum, '-' .. old) end
end
local function raise(key, writer, value)
  local old = redis.call('HGET', key, 's:' .. writer) or '0'
  if #value > #old or (#value == #old and value > old) then put(key, 's:' .. writer, 'S', value) end
end
local function keep(key, milliseconds)
  if redis.call('PTTL', key) < 0 then redis.call('PEXPIRE', key, milliseconds) end
end
"""

#: KEYS: counters. ARGV: the number of this call; then of each counter: writer, spent and held by it,
#: milliseconds. Sets a process's part; a call that comes late changes no later one.
PUBLISH: Final = (
    _PUT
    + """
for i, key in ipairs(KEYS) do
  local at = (i - 1) * 4 + 2
  local writer = ARGV[at]
  raise(key, writer, ARGV[at + 1])
  if tonumber(redis.call('HGET', key, 'n:' .. writer) or '0') < tonumber(ARGV[1]) then
    redis.call('HSET', key, 'n:' .. writer, ARGV[1])
    put(key, 'h:' .. writer, 'H', ARGV[at + 2])
  end
  keep(key, ARGV[at + 3])
end
return 1
"""
)

#: KEYS: one counter. ARGV: milliseconds; then writer and amount of each process in the durable record.
SEED: Final = (
    _PUT
    + """
for i = 2, #ARGV, 2 do raise(KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[1], 'seeded', '1')
keep(KEYS[1], ARGV[1])
return 1
"""
)

#: KEYS: counters. ARGV: the number of this call; then of each counter: writer, spent and held by it,
#: milliseconds, the amount, the limit, the least that was spent as far as the process knows, and whether
#: it has to be seeded. Returns the place of the counter without room, 0, or one of the answers above;
#: then S and H of each counter.
RESERVE: Final = (
    _PUT
    + """
for i, key in ipairs(KEYS) do
  local at = (i - 1) * 8 + 2
  if ARGV[at + 7] == '1' and redis.call('HEXISTS', key, 'seeded') == 0 then return {-1} end
  if tonumber(redis.call('HGET', key, 'n:' .. ARGV[at]) or '0') >= tonumber(ARGV[1]) then return {-2} end
end
local refused = 0
for i, key in ipairs(KEYS) do
  local at = (i - 1) * 8 + 2
  raise(key, ARGV[at], ARGV[at + 1])
  put(key, 'h:' .. ARGV[at], 'H', ARGV[at + 2])
  redis.call('HSET', key, 'n:' .. ARGV[at], ARGV[1])
  keep(key, ARGV[at + 3])
  local spent = math.max(tonumber(redis.call('HGET', key, 'S') or '0'), tonumber(ARGV[at + 6]))
  local held = tonumber(redis.call('HGET', key, 'H') or '0')
  if refused == 0 and spent + held + tonumber(ARGV[at + 4]) > tonumber(ARGV[at + 5]) then refused = i end
end
local found = {refused}
for i, key in ipairs(KEYS) do
  local at = (i - 1) * 8 + 2
  if refused == 0 then
    redis.call('HINCRBY', key, 'h:' .. ARGV[at], ARGV[at + 4])
    redis.call('HINCRBY', key, 'H', ARGV[at + 4])
  end
  found[#found + 1] = redis.call('HGET', key, 'S') or '0'
  found[#found + 1] = redis.call('HGET', key, 'H') or '0'
end
return found
"""
)
