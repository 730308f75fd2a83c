"""Session memory shared by several gateways: Valkey, or Redis, over redis-py (an extra)."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pointsman.errors import MissingExtra, StoreUnavailable
from pointsman.stores.sessions._stored import stored_form
from pointsman.vocabulary import DAY

__all__ = ["ValkeySessions"]

PREFIX: Final = "pointsman:session:"

#: Seconds a request waits at most; a server in the same network answers in under one millisecond.
TIMEOUT: Final = 0.05

#: Seconds for which a failed server is not called: requests proceed at once without session memory.
PAUSE: Final = 1.0


#: Sessions whose memory is kept with its texts: those that are stuck, 8 kB each.
WHOLE: Final = 1_000


class ValkeySessions:
    """Keys ``pointsman:session:…`` with a time to live; how many are kept is the server's ``maxmemory``.

    Texts that a memory quotes stay in this process: the server has digests in their place.
    """

    waits: Final = True
    fault: Final = ""  # what cannot be kept raises
    lost: Final = 0

    def __init__(
        self,
        url: str,
        *,
        password: str | None = None,
        ttl: float = DAY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Keep sessions for ``ttl`` seconds after they were last put. Connects with the first use.

        Raises:
            MissingExtra: redis-py is not installed.
        """
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise MissingExtra("valkey", needed_for='session store "valkey"') from None
        self._error: Final = redis.RedisError
        self._client: Final = redis.Redis.from_url(
            url,
            password=password,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
        self._ttl: Final = ttl
        self._clock: Final = clock
        self._failed_at = -math.inf
        self._whole: Final[OrderedDict[str, tuple[bytes, bytes]]] = OrderedDict()  # as stored, and as put

    def get(self, session: str, /) -> bytes | None:
        """Return what was put last, or None when unknown, expired or evicted."""
        with self._available():
            found = self._client.get(PREFIX + session)
        if not isinstance(found, bytes):
            return None
        stored, whole = self._whole.get(session, (b"", b""))
        return whole if stored == found else found  # it may have gone on in another process

    def put(self, session: str, memory: bytes, /) -> None:
        """Keep a session's memory."""
        stored = stored_form(memory)
        with self._available():
            self._client.set(PREFIX + session, stored, px=int(self._ttl * 1_000))
        self._whole.pop(session, None)
        if stored is not memory:
            self._whole[session] = stored, memory
            if len(self._whole) > WHOLE:
                self._whole.popitem(last=False)

    def forget(self, session: str, /) -> bool:
        """Forget a session; tell whether anything was known of it."""
        with self._available():
            return bool(self._client.delete(PREFIX + session))

    def sessions(self) -> Iterator[tuple[str, float]]:
        """Yield the sessions that are kept, in no order, and when each was last put."""
        with self._available():
            for key in self._client.scan_iter(match=PREFIX + "*", count=1_000):
                left = self._client.pttl(key) / 1_000
                if left > 0:
                    yield key.decode().removeprefix(PREFIX), self._clock() + left - self._ttl

    def close(self) -> None:
        """Release the connections."""
        self._client.close()

    @contextmanager
    def _available(self) -> Iterator[None]:
        if 0 <= self._clock() - self._failed_at < PAUSE:  # below zero when the clock was set back
            raise StoreUnavailable(
                "the session store failed within the last second; it is not called until the second is over"
            )
        try:
            yield
        except self._error as error:
            self._failed_at = self._clock()
            # The class alone: a message of the client may carry the address.
            raise StoreUnavailable(f"cannot reach the session store: {type(error).__name__}") from None
