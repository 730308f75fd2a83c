"""What other processes wrote of the sessions and turns that this one summarises (docs/decisions/0176)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from pointsman.stores.ledger._summaries import AFTER
from pointsman.stores.ledger.turns import Before, TurnSummary

__all__ = ["Neighbour", "next_turns", "previous_turns", "reported"]

_encode: Final = msgspec.json.Encoder().encode


def _beside(order: str, sign: str) -> str:
    """The turn next to each of those in a JSON array of ids, sessions and times, in one direction."""
    return f"""WITH wanted(id, session, at) AS (SELECT json_extract(value, '$[0]'),
            json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?))
        SELECT wanted.id, summaries.id, {AFTER} FROM wanted CROSS JOIN summaries
        ON (summaries.at, summaries.id) = (
            SELECT at, id FROM summaries AS other INDEXED BY summaries_by_session
            WHERE other.session = wanted.session AND other.role != 'helper' AND other.id != wanted.id
            AND (other.at, other.id) {sign} (wanted.at, wanted.id)
            ORDER BY other.at {order}, other.id {order} LIMIT 1)"""  # noqa: S608 - words of ours


_PREVIOUS: Final = _beside("DESC", "<")
_NEXT: Final = _beside("ASC", ">")
_REPORTED: Final = (
    "SELECT decision, count(*) FROM outcomes WHERE decision IN (SELECT value FROM json_each(?)) "
    "GROUP BY decision"
)


class Neighbour(NamedTuple):
    """The turn before or after another one of the same session, as it was written."""

    id: str
    after: Before


def previous_turns(
    connection: sqlite3.Connection, turns: Iterable[TurnSummary]
) -> list[tuple[str, Neighbour]]:
    """Return the turn before each of these, with the id of the later one; first turns are left out."""
    return _neighbours(connection, _PREVIOUS, turns)


def next_turns(connection: sqlite3.Connection, turns: Iterable[TurnSummary]) -> list[tuple[str, Neighbour]]:
    """Return the turn after each of these, with the id of the earlier one; last turns are left out."""
    return _neighbours(connection, _NEXT, turns)


def _neighbours(
    connection: sqlite3.Connection, query: str, turns: Iterable[TurnSummary]
) -> list[tuple[str, Neighbour]]:
    wanted = [
        (turn.decision.id, asked.conversation, asked.arrived_at)
        for turn in turns
        if (asked := turn.decision.input).conversation
    ]
    if not wanted:
        return []
    rows = connection.execute(query, (_encode(wanted).decode(),)).fetchall()
    return [(of, Neighbour(found, Before(*after))) for of, found, *after in rows]


def reported(connection: sqlite3.Connection, decisions: Iterable[str]) -> dict[str, int]:
    """Return how many outcomes each of these decisions has, without those that have none."""
    return dict(connection.execute(_REPORTED, (_encode(list(decisions)).decode(),)).fetchall())
