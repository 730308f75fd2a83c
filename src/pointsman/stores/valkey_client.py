"""The connection to Valkey, or Redis, that stores share: short timeouts, and a pause after a failure."""

from __future__ import annotations

import math
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

#: Seconds for which a failed server is not called: requests proceed at once without it.
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
        self._failed_at = -math.inf
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
        if 0 <= self._clock() - self._failed_at < PAUSE:  # below zero when the clock was set back
            raise StoreUnavailable(
                f"{self._what} failed within the last second; it is not called until the second is over"
            )
        try:
            yield self.redis
        except self._error as error:
            self._failed_at = self._clock()
            # The class alone: a message of the client may carry the address.
            raise StoreUnavailable(f"cannot reach {self._what}: {type(error).__name__}") from None

    def close(self) -> None:
        """Release the connections."""
        self.redis.close()
