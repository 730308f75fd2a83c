"""Session memory shared by several gateways: Valkey, or Redis, over redis-py (an extra)."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from pointsman.errors import StoreUnavailable
from pointsman.stores.sessions._memory import Bounded
from pointsman.stores.sessions.port import WholeMemories
from pointsman.stores.valkey_client import ValkeyClient
from pointsman.vocabulary import DAY

PREFIX: Final = "pointsman:session:"
#: Sessions that one turn writes for others after an outage.
_AT_A_TIME: Final = 4
#: Writes a session unless another gateway has: where it is still what was read or written here last.
_WRITE_IF: Final = """local now = redis.call('GET', KEYS[1])
if (ARGV[1] == '1' and now == ARGV[2]) or (ARGV[1] == '0' and not now) then
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
  return 1
end
return 0"""


class ValkeySessions:
    """Keys ``pointsman:session:…`` with a time to live; the server's ``maxmemory`` bounds their number.

    Texts that a memory quotes stay in this process: the server has digests in their place. The process holds
    a copy of each session it read or put: while the server is late or away, these sessions continue, and
    missing ones are written when it answers again, unless another gateway has written the session.
    """

    waits: Final = True

    def __init__(
        self,
        url: str,
        *,
        password: str | None = None,
        ttl: float = DAY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Store sessions for ``ttl`` seconds after they were last put. Connects with the first use.

        Raises:
            MissingExtra: redis-py is not installed.
        """
        self._client: Final = ValkeyClient(url, password=password, what="the session store", clock=clock)
        self._ttl: Final = ttl
        self._clock: Final = clock
        self._whole: Final = WholeMemories()
        self._copies: Final = Copies()
        self._write_if: Final = self._client.redis.register_script(_WRITE_IF)

    @property
    def fault(self) -> str:
        """Why the server lacks sessions that were put; empty when it has all."""
        waiting = self._copies.waiting
        return f"the session store is late or away: {waiting:,} sessions wait for it" if waiting else ""

    @property
    def lost(self) -> int:
        """Sessions that waited for the server, and of which there were too many."""
        return self._copies.lost

    def get(self, session: str, /) -> bytes | None:
        """Return a session's last memory, or None when unknown, expired or evicted."""
        copy = self._copies.get(session)
        try:
            with self._client.available() as client:
                found = client.get(PREFIX + session)
        except StoreUnavailable:
            if copy is None or self._clock() - copy.at > self._ttl:
                raise
            found = copy.stored
        else:
            if copy is not None and copy.waits and found == copy.base:  # nobody else wrote meanwhile
                found = copy.stored
            elif isinstance(found, bytes):
                self._copies.put(Copy(session, found, found, self._clock()))
        return self._whole.whole(session, found) if isinstance(found, bytes) else None

    def put(self, session: str, memory: bytes, /) -> None:
        """Store a session's memory; if the server does not take it now, it is written later."""
        before = self._copies.get(session)
        stored = self._whole.store(session, memory)
        try:
            with self._client.available() as client:
                client.set(PREFIX + session, stored, px=int(self._ttl * 1_000))
        except StoreUnavailable:
            base = None if before is None else before.base
            self._copies.put(Copy(session, stored, base, self._clock()))
            return
        self._copies.put(Copy(session, stored, stored, self._clock()))
        if self._copies.waiting:
            self._catch_up()

    def _catch_up(self) -> None:
        """Write some of the sessions that the server lacks."""
        with contextlib.suppress(StoreUnavailable):
            for copy in self._copies.next_waiting(_AT_A_TIME):
                left = int((copy.at + self._ttl - self._clock()) * 1_000)
                with self._client.available():
                    if left > 0:
                        has_base, base = int(copy.base is not None), copy.base or b""
                        self._write_if(keys=[PREFIX + copy.session], args=[has_base, base, copy.stored, left])
                self._copies.settle(copy)

    def forget(self, session: str, /) -> bool:
        """Forget a session; tell whether anything was known of it."""
        self._copies.forget(session)
        with self._client.available() as client:
            return bool(client.delete(PREFIX + session))

    def sessions(self) -> Iterator[tuple[str, float]]:
        """Yield the stored sessions, in no order, and when each was last put."""
        with self._client.available() as client:
            for key in client.scan_iter(match=PREFIX + "*", count=1_000):
                left = client.pttl(key) / 1_000
                if left > 0:
                    yield key.decode().removeprefix(PREFIX), self._clock() + left - self._ttl

    def close(self) -> None:
        """Write the waiting sessions, if the server answers, and release the connections."""
        before = 0
        while (waiting := self._copies.waiting) and waiting != before:
            before = waiting
            self._catch_up()
        self._client.close()


#: Bytes of the stored memories; one has 2 to 5 kB.
MOST_BYTES: Final = 32 << 20
#: Other bytes of an entry.
_ENTRY: Final = 500


class Copy(NamedTuple):
    """A session's memory as last put, and as the server is known to have it."""

    session: str
    stored: bytes
    base: bytes | None  # None: nothing that is known
    at: float  # when it was put, in seconds of the store's clock

    @property
    def waits(self) -> bool:
        """Whether the server does not have it yet."""
        return self.stored != self.base

    @property
    def weight(self) -> int:
        """Its bytes."""
        return len(self.stored) + _ENTRY


class Copies:
    """The latest sessions: of the caller with the most, the one put longest ago makes room. For threads."""

    def __init__(self) -> None:
        self.lost = 0  # copies that went before the server had them
        self._kept: Final = Bounded[Copy](MOST_BYTES, math.inf, self._gone)
        self._waiting: Final[dict[str, None]] = {}  # sessions that the server does not have yet, in order
        self._lock: Final = threading.Lock()

    @property
    def waiting(self) -> int:
        """Sessions that the server does not have yet."""
        return len(self._waiting)

    def get(self, session: str) -> Copy | None:
        """Return the copy of a session."""
        return self._kept.peek(session)

    def put(self, copy: Copy) -> None:
        """Store a copy in the place of an earlier one."""
        with self._lock:
            self._waiting.pop(copy.session, None)
            if copy.waits:
                self._waiting[copy.session] = None
            self._kept.put(copy.session, copy)

    def settle(self, copy: Copy) -> None:
        """The server has a copy, or something newer; a later one of this process still waits."""
        with self._lock:
            if self._kept.peek(copy.session) is copy:
                self._waiting.pop(copy.session, None)
                self._kept.put(copy.session, copy._replace(base=copy.stored))

    def forget(self, session: str) -> None:
        """Forget a session."""
        with self._lock:
            self._waiting.pop(session, None)
            self._kept.take(session)

    def next_waiting(self, count: int) -> list[Copy]:
        """Return some sessions that the server does not have yet, those that wait longest first."""
        with self._lock:
            return [copy for each in islice(self._waiting, count) if (copy := self._kept.peek(each))]

    def _gone(self, copy: Copy) -> None:
        """A copy has made room."""
        self.lost += copy.session in self._waiting
        self._waiting.pop(copy.session, None)
