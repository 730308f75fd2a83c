"""Session memory shared by several gateways: Valkey, or Redis, over redis-py (an extra)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from pointsman.stores.sessions._stored import WholeMemories
from pointsman.stores.valkey_client import ValkeyClient
from pointsman.vocabulary import DAY

__all__ = ["ValkeySessions"]

PREFIX: Final = "pointsman:session:"


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
        self._client: Final = ValkeyClient(url, password=password, what="the session store", clock=clock)
        self._ttl: Final = ttl
        self._clock: Final = clock
        self._whole: Final = WholeMemories()

    def get(self, session: str, /) -> bytes | None:
        """Return what was put last, or None when unknown, expired or evicted."""
        with self._client.available() as client:
            found = client.get(PREFIX + session)
        return self._whole.whole(session, found) if isinstance(found, bytes) else None

    def put(self, session: str, memory: bytes, /) -> None:
        """Keep a session's memory."""
        stored = self._whole.store(session, memory)
        with self._client.available() as client:
            client.set(PREFIX + session, stored, px=int(self._ttl * 1_000))

    def forget(self, session: str, /) -> bool:
        """Forget a session; tell whether anything was known of it."""
        with self._client.available() as client:
            return bool(client.delete(PREFIX + session))

    def sessions(self) -> Iterator[tuple[str, float]]:
        """Yield the sessions that are kept, in no order, and when each was last put."""
        with self._client.available() as client:
            for key in client.scan_iter(match=PREFIX + "*", count=1_000):
                left = client.pttl(key) / 1_000
                if left > 0:
                    yield key.decode().removeprefix(PREFIX), self._clock() + left - self._ttl

    def close(self) -> None:
        """Release the connections."""
        self._client.close()
