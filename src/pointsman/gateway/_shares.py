"""How many of the requests in progress are one caller's: none takes all the room from the others."""

from __future__ import annotations

from collections import Counter
from typing import Final

from pointsman.errors import Overloaded

__all__ = ["RequestShares"]

#: The share of ``limits.requests`` that one of several callers has at most.
_SHARE: Final = 0.75


class RequestShares:
    """Counts the requests in progress by caller. For one event loop."""

    def __init__(self) -> None:
        self._active: Counter[str] = Counter()
        self._callers: dict[object, str] = {}  # by request

    def enter(self, request: object, caller: str, limit: int) -> None:
        """Count a request until it leaves.

        Args:
            request: Any object that identifies it.
            caller: Name of the key.
            limit: Requests in progress of all callers together.

        Raises:
            Overloaded: the caller has its share; nothing is counted.
        """
        if self._active[caller] >= max(int(_SHARE * limit), 1):
            raise Overloaded(
                "too many requests of this caller are in progress", hint="send the request again later"
            )
        self._active[caller] += 1
        self._callers[request] = caller

    def leave(self, request: object) -> None:
        """A request is over."""
        if (caller := self._callers.pop(request, None)) is not None:
            self._active[caller] -= 1
            if not self._active[caller]:
                del self._active[caller]
