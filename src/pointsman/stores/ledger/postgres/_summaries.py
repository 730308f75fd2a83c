"""The summaries of a ledger in PostgreSQL: written with their entries, searched, and added up by hours.

Several gateways write: a session's turn before may be another's, and an outcome of a decision may come to any
of them. So the last turn of each session is looked up, turns of other processes are read whole, and an
outcome that another has recorded stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from pointsman.decision.decision import Decision
from pointsman.errors import StoreUnavailable
from pointsman.stores.ledger._bodies import READERS, encode, read_decision
from pointsman.stores.ledger._summaries import (
    ADDED,
    DOMAIN,
    KEYS,
    KINDS,
    MOST_OF_MODEL,
    MOST_TOKENS,
    SIGNAL,
    SUMS,
    SearchDialect,
    SummarySearch,
    hour_of,
    listed,
)
from pointsman.stores.ledger.port import Entry
from pointsman.stores.ledger.postgres._connection import Connection, Row, copy_in
from pointsman.stores.ledger.postgres._schema import LOCK, clean, most, stored_at
from pointsman.stores.ledger.reading import GAPS, HOUR, RESULTS, beside_of
from pointsman.stores.ledger.turns import MOST, Before, Belonging, Turns, TurnSummary, read_before
from pointsman.vocabulary import DAY

_COUNTED: Final = RESULTS.index("counted")

#: Fields of a row, with their types; then what only the writer reads.
COLUMNS: Final = {
    "id": "text", "at": "float8", "session": "text", "caller": "text", "role": "text", "project": "text",
    "project_name": "text", "client": "text", "tier": "text", "model": "text", "result": "int2",
    "status": "int4", "attempts": "int4", "stuck": "bool", "downgraded": "bool", "abstained": "bool",
    "label": "text", "score": "float8", "labelled": "bool", "input": "int8", "cached": "int8",
    "output": "int8", "written": "int8", "written_1h": "int8", "gap": "int2", "reused": "int8",
    "own": "text", "switched": "bool", "asked": "bool", "trials": "int4", "added": "int8",
    "judging": "float8", "domains": "text[]", "signals": "text[]", "parts": "text", "tried": "text",
    "hour": "int8", "beside": "text", "before": "text", "last_model": "text",
}  # fmt: skip
_AT, _PARTS, _LABEL, _JUDGING = map(tuple(COLUMNS).index, ("at", "parts", "label", "judging"))

#: What a column of a type can hold of a value. Sums of a million turns are numbers that eight bytes hold.
_HELD: Final[dict[str, Callable[[Any], object]]] = {
    "text": clean,
    "text[]": lambda texts: list(map(clean, texts)),
    "int4": most,
    "int8": lambda count: min(count, MOST),
}


def encoded(turn: TurnSummary, outcome: Row | None = None) -> Row:
    """The values of ``COLUMNS``; with the outcome that another gateway took, as ``_REMOVE`` returns it."""
    values: list[Any] = list(turn.values())
    if outcome is not None and turn.said is None:
        *said, judging = outcome
        if said[-1]:
            values[_LABEL : _LABEL + len(said)] = said
        values[_JUDGING] = max(values[_JUDGING], judging)
    parts, before = values[_PARTS], turn.before
    values[_AT] = at = stored_at(values[_AT])
    values[_PARTS] = encode(parts).decode()
    values += (
        int(at // HOUR), beside_of(parts), encode(before).decode() if before else "", turn.after().model
    )  # fmt: skip
    held = zip(values, COLUMNS.values(), strict=True)
    return tuple(_HELD[kind](value) if kind in _HELD and value is not None else value for value, kind in held)


#: The words of a kept text. Rows of earlier versions may hold a NUL, at which ``convert_from`` would fail and
#: with it the search of all others: there U+FFFD takes its place, as in new rows. In the escaped form a NUL
#: is ``\000``, and each backslash is doubled; those go first, so that what is left begins a number.
_WORDS: Final = r"""convert_from(CASE WHEN position('\x00'::bytea IN body) = 0 THEN body
    ELSE decode(replace(replace(encode(body, 'escape'), '\\', '\134'), '\000', '\357\277\275'), 'escape')
    END, 'UTF8')"""
#: Characters of an hour's value: an index holds no long ones.
_LONGEST: Final = 200
_NAMED: Final = ", ".join(SUMS)
SEARCH: Final = SummarySearch(
    SearchDialect(
        place="%s",
        flags=("NOT {}", "{}"),
        having="? = ANY ({})",
        element="{}",
        words=f"""EXISTS (SELECT 1 FROM entries WHERE decision = summaries.id AND kind = 3
            AND {_WORDS} ILIKE ?)""",  # noqa: S608 - words of ours
        # OFFSET: a session's rows are found first, or it would be looked for among all rows.
        of_session="(SELECT * FROM summaries WHERE session = ? "
        "OR (session >= ? AND session < ? AND role = 'subagent') OFFSET 0) AS summaries",
        clean=clean,
        several=tuple,
        each_part="jsonb_array_elements(parts::jsonb) AS part",
        member="part ->> {}",
        item="(value::json ->> {})",
        longest=_LONGEST,
        unknown="SELECT hour FROM dirty UNION SELECT hour FROM hours WHERE NOT has_values",
        spent="1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13",
        # The time leaves out partitions. MATERIALIZED: to plan one more read of all of them takes 25 ms.
        tables=f"""sums AS NOT MATERIALIZED (SELECT 24 AS hours, hour AS since, grp, {_NAMED} FROM days
            UNION ALL SELECT 1, hour, grp, {_NAMED} FROM hours),
        changed_rows AS MATERIALIZED (
            SELECT summaries.* FROM summaries JOIN dirty USING (hour) WHERE hour >= :since AND hour < :until
            AND at >= (SELECT min(hour) FROM dirty WHERE hour >= :since) * 3600.0
            AND at < ((SELECT max(hour) FROM dirty WHERE hour < :until) + 1) * 3600.0
        ),""",  # noqa: S608 - words of ours
        # Days that were added up before there were sums of days have only hours.
        unfit="""SELECT hour / 24 * 24 FROM dirty UNION SELECT day
            FROM (SELECT min(hour), max(hour) FROM hours) AS known (oldest, newest), generate_series(
            greatest(:first, coalesce(oldest / 24 * 24, 0)), least(:last - 1, coalesce(newest, -1)), 24
            ) AS day WHERE NOT EXISTS (SELECT FROM days WHERE hour = day)""",
        live="changed_rows AS summaries",
        joined="JOIN",
        named=r"%(\1)s",
    )
)

_ONE: Final = (
    "(SELECT * FROM summaries WHERE at >= %(hour)s * 3600.0 AND at < (%(hour)s + 1) * 3600.0) AS summaries"
)
#: Place in ``GAPS`` of the time since the turn before.
_GAP: Final = " + ".join(f"(summaries.at - latest.at > {bound})::int" for bound in GAPS[1:])
_OWN: Final = "coalesce(summaries.tried, '')"
#: Turns of an hour whose turn before was written later, by another gateway: they learn of it.
LINK: Final = f"""UPDATE summaries SET gap = {_GAP},
    reused = greatest(summaries.cached, least(coalesce(latest.input, summaries.input), summaries.input)),
    own = CASE WHEN latest.tried IS NULL OR latest.tried = {_OWN} THEN {_OWN} ELSE '' END,
    switched = latest.model NOT IN ('', summaries.model),
    before = json_build_array(latest.model, latest.input, latest.at, latest.tried)::text
    FROM (
        SELECT at AS of_at, id AS of_id, lag(at) OVER turns AS at, lag(last_model) OVER turns AS model,
        lag(CASE result WHEN {_COUNTED} THEN input END) OVER turns AS input, lag(tried) OVER turns AS tried
        FROM summaries WHERE at >= (%(hour)s - 1) * 3600.0 AND at < (%(hour)s + 1) * 3600.0
        AND session != '' AND role != 'helper' WINDOW turns AS (PARTITION BY session ORDER BY at, id)
    ) AS latest
    WHERE summaries.at = latest.of_at AND summaries.id = latest.of_id
    AND summaries.at >= %(hour)s * 3600.0 AND summaries.at < (%(hour)s + 1) * 3600.0
    AND result = {_COUNTED} AND latest.at < summaries.at
    AND (before = '' OR (before::json ->> 2)::float8 < latest.at)"""  # noqa: S608 - words of ours
_VALUES: Final = ", ".join(
    f"({kind}, {name}::text)" for kind, name in enumerate(KINDS) if kind not in (DOMAIN, SIGNAL)
)
#: Store the values that occur in the rows of an hour.
VALUES: Final = (
    "DELETE FROM hour_values WHERE hour = %(hour)s",
    f"""INSERT INTO hour_values (kind, value, hour)
        SELECT DISTINCT kind, left(value, {_LONGEST}) COLLATE "C", %(hour)s FROM {_ONE} CROSS JOIN LATERAL (
            SELECT * FROM (VALUES {_VALUES}) AS one (kind, value)
            UNION ALL SELECT {DOMAIN}, unnest(domains) UNION ALL SELECT {SIGNAL}, unnest(signals)
        ) AS of_row
        UNION ALL SELECT {MOST_OF_MODEL},
        json_build_array(left(model, {_LONGEST}), {MOST_TOKENS})::text,
        %(hour)s FROM {_ONE} WHERE result = {_COUNTED} GROUP BY left(model, {_LONGEST})""",  # noqa: S608 - as above
)
#: Add an hour up. It is taken out of ``dirty`` first: that waits for those who have written to it, and
#: what they wrote is seen by what follows.
SEAL: Final = (
    "DELETE FROM dirty WHERE hour = %(hour)s",
    # Two sets of an hour's rows are joined whole. Without statistics, which a new partition has none of, row
    # by row would be chosen: that took seconds for each hour of 1,400 decisions.
    "SET LOCAL enable_hashjoin = on",
    "SET LOCAL enable_nestloop = off",
    LINK,
    "SET LOCAL enable_nestloop = on",
    "DELETE FROM hours WHERE hour = %(hour)s",
    f"""INSERT INTO groups ({KEYS}) SELECT DISTINCT {KEYS} FROM ({SEARCH.rollup(_ONE)}) AS live
        ON CONFLICT DO NOTHING""",  # noqa: S608 - as above
    f"""INSERT INTO hours (hour, grp, has_values, {_NAMED}) SELECT hour, groups.id, true, {_NAMED}
        FROM ({SEARCH.rollup(_ONE)}) AS live JOIN groups USING ({KEYS})""",  # noqa: S608 - as above
    *VALUES,
    "DELETE FROM days WHERE hour = %(hour)s / 24 * 24",
    f"""INSERT INTO days (hour, grp, {_NAMED}) SELECT %(hour)s / 24 * 24, grp, {ADDED} FROM hours
        WHERE hour >= %(hour)s / 24 * 24 AND hour < %(hour)s / 24 * 24 + 24 AND NOT EXISTS (
            SELECT FROM dirty WHERE hour >= %(hour)s / 24 * 24 AND hour < %(hour)s / 24 * 24 + 24
        ) GROUP BY grp""",  # noqa: S608 - as above
)


#: Days for which the turn before is looked for: the longest class of ``reading.GAPS`` is a day and more.
_BACK: Final = 2

#: The last turn of each session before a time. A value that no result has means "unknown".
_LAST: Final = f"""SELECT asked.session, last.* FROM unnest(%s::text[], %s::float8[]) AS asked (session, at)
    CROSS JOIN LATERAL (
        SELECT last_model, CASE result WHEN 2 THEN input END, summaries.at, tried FROM summaries
        WHERE summaries.session = asked.session AND role != 'helper' AND summaries.at < asked.at
        AND summaries.at >= asked.at - {_BACK * DAY} AND summaries.at >= %s AND summaries.at < %s
        ORDER BY summaries.at DESC LIMIT 1
    ) AS last"""  # noqa: S608 - a number of ours
#: Whether an hour is of a day whose rows were removed, and has sums.
_IS_KEPT: Final = """SELECT 1 FROM meta JOIN hours ON hour = %(hour)s
    WHERE name = 'rows_from' AND value::bigint > hour LIMIT 1"""
_REMOVE: Final = """DELETE FROM summaries USING unnest(%s::float8[], %s::text[]) AS gone (at, id)
    WHERE summaries.at = gone.at AND summaries.id = gone.id AND summaries.at >= %s AND summaries.at <= %s
    RETURNING summaries.id, label, score, labelled, judging"""
_STORED: Final = """SELECT summaries.id, asked, before FROM summaries
    JOIN unnest(%s::float8[], %s::text[]) AS known (at, id)
    ON summaries.at = known.at AND summaries.id = known.id
    WHERE summaries.at >= %s AND summaries.at <= %s"""


class Summarizer:
    """Summarises entries as they are written. Not safe for threads: the writer's alone."""

    def __init__(self) -> None:
        self._turns: Final = Turns()  # of decisions that this process wrote

    def clear(self) -> None:
        """Forget all turns: they may not have been written."""
        self._turns.clear()

    def arrival(self, decision: str) -> float | None:
        """When a decision that is remembered arrived."""
        turn = self._turns.get(decision)
        return stored_at(turn.decision.input.arrived_at) if turn else None

    def remembers(self, decision: str) -> bool:
        """Whether this process wrote a decision lately."""
        return self._turns.get(decision) is not None

    def write(
        self, connection: Connection, entries: Sequence[Entry], removed: dict[str, float], *, careful: bool
    ) -> None:
        """Write the summaries of entries that have been written.

        Args:
            connection: In the transaction of the entries.
            entries: The written entries.
            removed: Decisions that were there before, by id, and when they arrived then.
            careful: Any summary may be there before.
        """
        decisions = [entry for entry in entries if type(entry) is Decision]
        self._recall(connection, decisions)
        known = {each.id for each in decisions if self.remembers(each.id)}
        begun = {each.id for each in decisions}
        turns, others = self._turns.take(each for each in entries if isinstance(each, Decision | Belonging))
        foreign: dict[str, None] = {each: None for each in removed if each not in known}
        for entry in others:
            if (mine := turns.get(entry.decision)) is not None:
                mine.add(entry)  # it came before its decision
            else:
                foreign[entry.decision] = None
        loaded = _loaded(connection, foreign) if foreign else {}
        for decision, turn in loaded.items():  # said again: its place among the turns is that of now
            if (mine := turns.get(decision)) is not None:
                turn.asked, turn.before = mine.asked, mine.settle()
        turns |= loaded
        fresh = begun - known - set(loaded)
        old = [(stored_at(turn.decision.input.arrived_at), each) for each, turn in turns.items()
               if careful or each not in fresh]  # fmt: skip
        old += [(at, decision) for decision, at in removed.items()]
        _store(connection, turns, _remove(connection, old), set(loaded))
        arrivals = [at for at, _ in old] + [turn.decision.input.arrived_at for turn in turns.values()]
        _mark(connection, sorted({hour_of(stored_at(at)) for at in arrivals}))

    def _recall(self, connection: Connection, decisions: Iterable[Decision]) -> None:
        """Learn of turns that another process wrote after the last that this one knows."""
        first: dict[str, float] = {}
        for decision in decisions:
            if session := decision.input.conversation:
                first.setdefault(clean(session), stored_at(decision.input.arrived_at))
        if not first:
            return
        times = list(first.values())
        bounds = min(times) - _BACK * DAY, max(times)
        for session, *before in connection.execute(_LAST, (list(first), times, *bounds)):
            found = Before(*before)
            if found.at > self._turns.last_arrival(session):
                self._turns.recall(session, found)


def _loaded(connection: Connection, wanted: Iterable[str]) -> dict[str, TurnSummary]:
    """Turns of decisions that another process wrote, or this one long ago, with all that belongs to them."""
    ids = list(map(clean, wanted))
    turns: dict[str, TurnSummary] = {}
    query = "SELECT id, body, shape, at FROM decisions WHERE id = ANY (%s)"
    times: list[float] = []
    for decision, body, shape, at in connection.execute(query, (ids,), binary=True):
        try:
            turns[decision] = TurnSummary(read_decision(body, shape)[0])
        except StoreUnavailable:  # a damaged row: a read of it alone raises
            continue
        times.append(at)
    if not turns:
        return turns
    places = (times, list(turns), min(times), max(times))
    for decision, asked, before in connection.execute(_STORED, places):
        turns[decision].asked = asked
        turns[decision].before = read_before(before) if before else None
    query = "SELECT decision, kind, body FROM entries WHERE decision = ANY (%s) AND kind < 3 ORDER BY number"
    for decision, kind, body in connection.execute(query, (list(turns),), binary=True):
        with suppress(StoreUnavailable):  # a damaged row: a read of it alone raises
            for entry in READERS[kind](body):
                turns[decision].add(entry)
    return turns


def _remove(connection: Connection, places: list[tuple[float, str]]) -> dict[str, Row]:
    """Take out summaries that are written anew; return what of each another process may have recorded."""
    if not places:
        return {}
    times, ids = [at for at, _ in sorted(places)], [clean(name) for _, name in sorted(places)]
    found = connection.execute(_REMOVE, (times, ids, times[0], times[-1]))
    return {decision: tuple(said) for decision, *said in found}


def _store(
    connection: Connection, turns: dict[str, TurnSummary], removed: dict[str, Row], whole: set[str]
) -> None:
    rows = []
    for decision, turn in turns.items():
        try:
            row: Row | None = encoded(turn, None if decision in whole else removed.get(decision))
        except Exception as error:  # noqa: BLE001 - a summary must not cost the entry; it is logged
            row = listed(turn, encoded, error)
        if row is not None:
            rows.append(row)
    copy_in(connection, "summaries", COLUMNS, rows)


def _mark(connection: Connection, hours: list[int]) -> None:
    """Mark hours as changed, and block their summing until this is committed."""
    held: Sequence[object] = ()
    while len(held) < len(hours):
        mark = "INSERT INTO dirty (hour) SELECT unnest(%s::bigint[]) ON CONFLICT DO NOTHING"
        connection.execute(mark, (hours,))
        hold = "SELECT hour FROM dirty WHERE hour = ANY (%s::bigint[]) ORDER BY hour FOR KEY SHARE"
        held = connection.execute(hold, (hours,)).fetchall()


def seal_one(connection: Connection, now: float) -> bool:
    """Add up an hour that is over and has changed, where no other gateway does; whether there was any.

    ``now`` is in seconds since the epoch.
    """
    with connection.transaction():
        [free] = connection.execute("SELECT pg_try_advisory_xact_lock(%s, 2)", (LOCK,)).fetchone() or (False,)
        if not free:
            return False
        query = "SELECT hour FROM dirty WHERE hour < %s ORDER BY hour LIMIT 1"
        found = connection.execute(query, (hour_of(now),)).fetchone()
        if found is None:
            return False
        seal(connection, found[0])
    return True


def seal(connection: Connection, hour: int) -> None:
    """Add up an hour, in a transaction. Sums of rows that retention has removed stay as they are.

    Rows that came late for such an hour are in no sum, but searches find them.
    """
    is_kept = connection.execute(_IS_KEPT, {"hour": hour}).fetchone() is not None
    for statement in (SEAL[0], *VALUES) if is_kept else SEAL:  # the first marks the hour as unchanged
        connection.execute(statement, {"hour": hour})
