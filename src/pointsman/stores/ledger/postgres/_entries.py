"""Reads the entries of a ledger in PostgreSQL: the SQL, and what belongs to decisions and runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from pointsman.stores.ledger._decoders import (
    grouped,
    read_attempt,
    read_outcome,
    read_run_entry,
    read_shadow,
)
from pointsman.stores.ledger.port import Attempt, Outcome, RunEntry, Shadow
from pointsman.stores.ledger.postgres._connection import Reader
from pointsman.stores.ledger.postgres._rows import ATTEMPT, OUTCOME, SHADOW, TEXT, clean

__all__ = [
    "DECISIONS_PAGE",
    "OF_SESSION",
    "OUTCOMES_COUNT",
    "PASSED_PAGE",
    "POLICIES",
    "RUN_PAGE",
    "SIDES",
    "Belonging",
    "belonging_of",
    "runs_of",
]

_ENTRIES: Final = (
    "SELECT kind, decision, body FROM entries WHERE decision = ANY (%s) ORDER BY kind, step, number"
)
DECISIONS_PAGE: Final = (
    "SELECT body, shape, at, number FROM decisions WHERE {session} at {side}= %s AND (at, number) {side} "
    "(%s, %s) ORDER BY at {order}, number {order} LIMIT %s"
)
OF_SESSION: Final = "(session = %s OR (session >= %s AND session < %s)) AND"
PASSED_PAGE: Final = "SELECT number, body FROM passed WHERE number {side} %s ORDER BY number {order} LIMIT %s"
RUN_PAGE: Final = (
    "SELECT run, min(number) FROM runs WHERE %s::text IN ('', session) GROUP BY run "
    "HAVING min(number) {side} %s ORDER BY 2 {order} LIMIT %s"
)
#: By (newest first).
SIDES: Final = {True: {"side": "<", "order": "DESC"}, False: {"side": ">", "order": "ASC"}}
POLICIES: Final = (
    "SELECT version, first, last, decisions, text != '' FROM policies WHERE last IS NOT NULL "
    "ORDER BY last DESC, version"
)
OUTCOMES_COUNT: Final = (
    "SELECT (SELECT count(*) FROM entries WHERE decision = decisions.id AND kind = 1) FROM decisions "
    "WHERE id = %s AND %s::text IN ('', caller)"
)


class Belonging(NamedTuple):
    """What belongs to a decision."""

    attempts: tuple[Attempt, ...]
    outcomes: tuple[Outcome, ...]
    text: str | None
    shadows: tuple[Shadow, ...]


def belonging_of(reader: Reader, decisions: Sequence[str]) -> dict[str, Belonging]:
    """What belongs to decisions, by their ids as they were given."""
    kinds: dict[int, list[tuple[str, bytes]]] = defaultdict(list)
    ids = {clean(each): each for each in decisions}
    for kind, decision, body in reader.read(_ENTRIES, (list(ids),)):
        kinds[kind].append((ids[decision], body))
    attempts = grouped(kinds[ATTEMPT], read_attempt)
    outcomes = grouped(kinds[OUTCOME], read_outcome)
    shadows = grouped(kinds[SHADOW], read_shadow)
    texts = {decision: body.decode() for decision, body in kinds[TEXT]}  # the last one said
    return {
        each: Belonging(tuple(attempts[each]), tuple(outcomes[each]), texts.get(each), tuple(shadows[each]))
        for each in decisions
    }


def runs_of(reader: Reader, runs: Sequence[str]) -> dict[str, tuple[RunEntry, ...]]:
    """Runs by their ids; of an entry that was said twice the last."""
    query = "SELECT run, step, body FROM runs WHERE run = ANY (%s) ORDER BY number"
    found: dict[str, dict[int, RunEntry]] = {run: {} for run in runs}
    ids = {clean(each): each for each in runs}
    for run, step, body in reader.read(query, (list(ids),)):
        found[ids[run]][step] = read_run_entry(body)
    return {run: tuple(entries[step] for step in sorted(entries)) for run, entries in found.items()}
