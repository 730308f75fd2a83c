"""Retention of a ledger in PostgreSQL: days over a bound go whole, with their partitions."""

from __future__ import annotations

import logging
import math
from typing import Final

from pointsman.stores.ledger._retention import LEAST_POLICIES, MOST_OWNERS, MOST_POLICIES, ROOM, Retention
from pointsman.stores.ledger.postgres._connection import Connection
from pointsman.stores.ledger.postgres._schema import LOCK, partitions_of
from pointsman.vocabulary import DAY

__all__ = ["remove_days"]

log = logging.getLogger(__name__)

#: Milliseconds for which removing waits for those who read; they wait for it no longer.
_PATIENCE: Final = 1_000

_OWNERS: Final = (
    "DELETE FROM owners WHERE at < "
    "(SELECT at FROM owners ORDER BY at DESC OFFSET %s LIMIT 1)"  # none where there are not so many
)
_LATEST: Final = "(SELECT version FROM policies ORDER BY last DESC NULLS FIRST LIMIT %s)"
_POLICIES: Final = (
    f"DELETE FROM policies WHERE version NOT IN {_LATEST} OR (last <= %s AND version NOT IN {_LATEST})"  # noqa: S608 - words above
)
_WRITERS: Final = "DELETE FROM writers WHERE at < %s"


def remove_days(connection: Connection, retention: Retention, now: float) -> int:
    """Remove the days that are over a bound, where no other gateway does; return how many.

    The day of ``now``, in seconds since the epoch, and later ones stay whatever their size.
    """
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = {_PATIENCE}")
        [free] = connection.execute("SELECT pg_try_advisory_xact_lock(%s, 3)", (LOCK,)).fetchone() or (False,)
        if not free:
            return 0
        days = partitions_of(connection)
        sizes = {day: sum(size for _, size in tables) for day, tables in days.items()}
        gone = _over(sizes, retention, now)
        for day in gone:
            for name, _ in days[day]:
                connection.execute(f"DROP TABLE {name}")
            period = (day * 24, (day + 1) * 24)
            connection.execute("DELETE FROM hours WHERE hour >= %s AND hour < %s", period)
            connection.execute("DELETE FROM dirty WHERE hour >= %s AND hour < %s", period)
            connection.execute("DELETE FROM days WHERE hour = %s", period[:1])
        until = now - retention.keep_days * DAY if retention.keep_days is not None else -math.inf
        connection.execute(_POLICIES, (MOST_POLICIES, until, LEAST_POLICIES))
        connection.execute(_OWNERS, (MOST_OWNERS,))
        connection.execute(_WRITERS, (now - DAY,))
    return len(gone)


def _over(sizes: dict[int, int], retention: Retention, now: float) -> list[int]:
    """The days that go, the oldest first."""
    today, gone = int(now // DAY), []
    left = sum(sizes.values())
    bound = None if retention.max_mb is None else retention.max_mb * 1024 * 1024
    is_over = bound is not None and left > bound
    for day in sorted(sizes):
        if day >= today:
            break
        is_old = retention.keep_days is not None and (day + 1) * DAY <= now - retention.keep_days * DAY
        if not (is_old or (is_over and bound is not None and left > bound * ROOM)):
            break
        gone.append(day)
        left -= sizes[day]
    return gone
