"""Retention of a ledger in PostgreSQL: days over a bound are removed whole, with their partitions.

Age is by the server's clock: one gateway with a clock that is ahead must not remove the entries of all.
All gateways together remove one day in a sweep, so that a wrong clock of the server, or a bound set by
mistake, is noticed before everything is gone.
"""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime
from typing import Final

from pointsman.stores.ledger._retention import (
    LEAST_POLICIES,
    MOST_OWNERS,
    MOST_POLICIES,
    SWEEP,
    Reason,
    Removed,
    Retention,
)
from pointsman.stores.ledger.postgres._connection import Connection
from pointsman.stores.ledger.postgres._schema import KEEP_META, LOCK, partitions_of
from pointsman.stores.ledger.postgres._summarizer import seal
from pointsman.vocabulary import DAY

__all__ = ["remove_day"]

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
#: The server's clock, and when a day was removed last, in seconds since the epoch.
_TIMES: Final = (
    "SELECT extract(epoch FROM now())::float8, "
    "coalesce((SELECT value::float8 FROM meta WHERE name = 'removed_at'), '-infinity')"
)
#: The hour since the epoch before which rows were removed: it never goes back.
_ROWS_FROM: Final = """INSERT INTO meta AS known (name, value) VALUES ('rows_from', %s) ON CONFLICT (name)
    DO UPDATE SET value = greatest(known.value::bigint, excluded.value::bigint)::text"""
#: Tables with rows that are counted when a day goes. What belongs to decisions goes with them.
_COUNTED: Final = ("decisions", "passed", "runs")


def remove_day(connection: Connection, retention: Retention, where: str) -> Removed:
    """Remove the oldest day if it is over a bound, and no gateway has removed one in this sweep.

    The day of the server's clock and later ones stay whatever their size.

    Args:
        connection: To write with.
        retention: The bounds.
        where: The database, for the log.

    Returns:
        How many decisions, passed requests and steps of runs were removed, by reason.
    """
    with connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout = {_PATIENCE}")
        [free] = connection.execute("SELECT pg_try_advisory_xact_lock(%s, 3)", (LOCK,)).fetchone() or (False,)
        if not free:
            return {}
        now, removed_at = connection.execute(_TIMES).fetchone() or (-math.inf, -math.inf)
        is_due = not 0 <= now - removed_at < SWEEP
        days = partitions_of(connection) if is_due else {}
        found = _over({day: sum(size for _, size in tables) for day, tables in days.items()}, retention, now)
        removed: Removed = {}
        if found is not None:
            day, reason = found
            removed[reason] = _drop(connection, day, [name for name, _ in days[day]])
        sums = is_due and _drop_sums(connection, retention, now, min(days, default=int(now // DAY)))
        if found is not None or sums:
            connection.execute(KEEP_META, ("removed_at", repr(now)))
        until = now - retention.keep_days * DAY if retention.keep_days is not None else -math.inf
        connection.execute(_POLICIES, (MOST_POLICIES, until, LEAST_POLICIES))
        connection.execute(_OWNERS, (MOST_OWNERS,))
        connection.execute(_WRITERS, (now - DAY,))
    if sums:
        log.warning(
            "the ledger in PostgreSQL at %s: removed the sums of a day: older than keep_sums_days = %g",
            *(where, retention.keep_sums_days),
        )
    if found is not None:
        megabytes = sum(size for _, size in days[day]) / 1024 / 1024
        log.warning(
            "the ledger in PostgreSQL at %s: removed %s (UTC), %d decisions and other entries, %.1f MiB: %s",
            *(where, _date(day), removed[reason], megabytes, retention.why(reason)),
        )
    return removed


def _drop(connection: Connection, day: int, tables: list[str]) -> int:
    """Remove a day since the epoch, not its sums; return how many rows of ``_COUNTED`` it had."""
    count = 0
    hours = (day * 24, (day + 1) * 24)
    connection.execute(_ROWS_FROM, (str(hours[1]),))
    left = connection.execute("SELECT hour FROM dirty WHERE hour >= %s AND hour < %s ORDER BY hour", hours)
    for [hour] in left.fetchall():
        seal(connection, hour)
    for name in tables:
        if name.startswith(_COUNTED):
            found = connection.execute(f"SELECT count(*) FROM {name}").fetchone()  # noqa: S608 - as in pg_class
            count += found[0] if found else 0
        connection.execute(f"DROP TABLE {name}")
    return count


def _drop_sums(connection: Connection, retention: Retention, now: float, first: int) -> bool:
    """Remove the sums of the oldest day if they are too old and its entries are gone; whether any were.

    ``first`` is the oldest day since the epoch that has entries.
    """
    if retention.keep_sums_days is None:
        return False
    until = min(int((now - retention.keep_sums_days * DAY) // DAY), first) * 24
    [oldest] = connection.execute("SELECT min(hour) FROM hours").fetchone() or (None,)
    if oldest is None or (end := oldest // 24 * 24 + 24) > until:
        return False
    connection.execute("DELETE FROM hours WHERE hour < %s", (end,))
    connection.execute("DELETE FROM days WHERE hour < %s", (end,))
    return True


def _over(sizes: dict[int, int], retention: Retention, now: float) -> tuple[int, Reason] | None:
    """The oldest day since the epoch and the bound that it exceeds; None if it exceeds none."""
    day = min(sizes, default=int(now // DAY))
    if day >= int(now // DAY):
        return None
    if retention.keep_days is not None and (day + 1) * DAY <= now - retention.keep_days * DAY:
        return day, "age"
    is_large = retention.max_mb is not None and sum(sizes.values()) > retention.max_mb * 1024 * 1024
    return (day, "size") if is_large else None


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * DAY, UTC).date().isoformat()
