"""Which connections and requests are served when there are more than may be open or in progress."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

from pointsman.errors import Overloaded
from pointsman.gateway._inbound import BodyReservation, CallerShare

__all__ = ["Admission", "RequestShares", "Spare"]

#: Connections beyond the limit, as a share of it and at least, that are kept open to read what they ask and
#: to answer with 503 in its format. Those beyond them are aborted.
_SURPLUS_SHARE: Final = 8
_LEAST_SURPLUS: Final = 16


class Spare(IntEnum):
    """Why a connection that has sent a head may be closed for another; the first of these goes first."""

    IDLE = 0  # every request is answered, and the answers are taken
    HALF_A_HEAD = 1  # every request is answered, and a part of another has come
    UNREAD = 2  # every request is answered, and not all of the answers is taken
    UNKNOWN_CALLER = 3  # the body of a request is arriving, and nothing is known of the caller before


class Admission:
    """Limits the connections of all callers.

    Beyond the limit, the first request on a connection takes the place of the oldest connection that has not
    sent the head of a request, else of a ``Spare`` one (as nginx reuses idle connections), of equal ones that
    which has been so for the longest. A connection with any other request in progress is never closed for
    another.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        """Take the limit, which a reload may change."""
        self._most = most
        self._without_head: OrderedDict[Any, None] = OrderedDict()  # the oldest connection first

    def opened(self, new: Any, connections: set[Any]) -> None:
        """Take in a new connection, which is in ``connections``, or abort it when there are far too many."""
        most = self._most()
        most += max(most // _SURPLUS_SHARE, _LEAST_SURPLUS)
        if len(connections) <= most or self._has_made_room(new, connections):
            self._without_head[new] = None
        else:
            _abort(new, connections)

    def may_ask(self, connection: Any, connections: set[Any]) -> bool:
        """Whether the first request on a connection is served."""
        self.forget(connection)
        return len(connections) <= self._most() or self._has_made_room(connection, connections)

    def forget(self, connection: Any) -> None:
        """A connection has sent a head, or is closed."""
        self._without_head.pop(connection, None)

    def _has_made_room(self, new: Any, connections: set[Any]) -> bool:
        if self._without_head:
            longest, _ = self._without_head.popitem(last=False)
        else:
            spare = [(why, one) for one in connections if one is not new and (why := one.spare) is not None]
            if not spare:
                return False
            _, longest = min(spare, key=lambda found: (found[0], -found[1].looks))
        _abort(longest, connections)
        return True


def _abort(connection: Any, connections: set[Any]) -> None:
    connections.discard(connection)  # now, not when its end is noticed: others may come before
    connection.transport.abort()


#: The share of ``limits.requests`` that one of several callers has at most.
_SHARE: Final = 0.75


class RequestShares:
    """Counts the requests in progress, and the bytes of their bodies, by caller. For one event loop."""

    def __init__(self) -> None:
        self._shares: dict[str, CallerShare] = {}  # by name, of callers with requests in progress

    def enter(self, request: BodyReservation, caller: str, limit: int) -> None:
        """Count a request until it leaves.

        Args:
            request: Its reservation.
            caller: Name of the key.
            limit: Requests in progress of all callers together.

        Raises:
            Overloaded: the caller has its share; nothing is counted.
        """
        share = self._shares.get(caller) or CallerShare(caller)
        if share.requests >= max(int(_SHARE * limit), 1):
            raise Overloaded(
                "too many requests of this caller are in progress", hint="send the request again later"
            )
        share.requests += 1
        request.share = self._shares[caller] = share

    def leave(self, request: BodyReservation) -> None:
        """A request is over, its bytes are released."""
        if (share := request.share) is not None:
            share.requests -= 1
            if not share.requests:
                del self._shares[share.caller]
