"""The connection to Valkey, or Redis, that stores share: short timeouts, and pauses after failures."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pointsman.errors import MissingExtra, StoreUnavailable

if TYPE_CHECKING:
    import redis

__all__ = ["PAUSE", "TIMEOUT", "ValkeyClient"]

#: Seconds a request waits at most; a server in the same network answers in under one millisecond.
TIMEOUT: Final = 0.05

#: Failures in a row after which a server is not called for a pause: one late answer costs one call.
_FAILURES: Final = 3
#: Seconds of the first pause, which is doubled each time that the one call after it fails, and of the
#: longest. A failover or a collection of garbage is over after tens of milliseconds.
_FIRST_PAUSE: Final = 0.025
PAUSE: Final = 1.0


class ValkeyClient:
    """A client of redis-py (an extra) that connects with its first use and never retries."""

    def __init__(
        self,
        url: str,
        *,
        password: str | None,
        what: str,
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare to connect.

        Args:
            url: Address, without a password.
            password: Of the server.
            what: The store, in the words of an error: "the session store".
            timeout: Seconds a call waits at most.
            clock: Seconds.

        Raises:
            MissingExtra: redis-py is not installed.
        """
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise MissingExtra("valkey", needed_for=f"{what} in Valkey") from None
        self._error: Final = redis.RedisError
        self._what: Final = what
        self._clock: Final = clock
        self._timeout: Final = timeout
        self._failures = 0  # in a row
        self._pause = 0.0  # seconds; 0 while the server may be called
        self._next_call = -math.inf  # once it may not
        self._state: Final = threading.Lock()
        self.redis: Final[redis.Redis] = redis.Redis.from_url(
            url,
            password=password,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
        )

    @contextmanager
    def available(self) -> Iterator[redis.Redis]:
        """Give the client of redis-py.

        Raises:
            StoreUnavailable: the server fails, or failed within the last second.
        """
        is_probe = self._begin()
        try:
            yield self.redis
        except self._error as error:
            self._failed(is_probe=is_probe)
            # The class alone: a message of the client may carry the address.
            raise StoreUnavailable(f"cannot reach {self._what}: {type(error).__name__}") from None
        self._failures, self._pause = 0, 0.0

    def _begin(self) -> bool:
        """Return whether this call is the one after a pause; refuse the others until it ends."""
        if not self._pause:
            return False
        with self._state:
            left = self._next_call - self._clock()
            if 0 < left <= PAUSE + self._timeout:  # more when the clock was set back
                raise StoreUnavailable(f"{self._what} failed within the last second; one call tries it again")
            self._next_call = self._clock() + self._timeout
        return True

    def _failed(self, *, is_probe: bool) -> None:
        with self._state:
            self._failures += 1
            if is_probe or (not self._pause and self._failures >= _FAILURES):
                self._pause = min(max(self._pause * 2, _FIRST_PAUSE), PAUSE)
                self._next_call = self._clock() + self._pause

    def close(self) -> None:
        """Release the connections."""
        self.redis.close()
