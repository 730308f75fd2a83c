"""The tables of summaries in a SQLite ledger: their SQL and their rows.

``summaries`` has a row a decision, in order of time. ``hours`` and ``hour_parts`` hold the sums of each hour,
made once it is over; an hour in ``dirty`` has changed since then, and is added up when it is read.
``unsummarized`` says from where on decisions of an earlier version have no row yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

import msgspec

from pointsman.prices import Prices
from pointsman.stores.ledger.reading import (
    DecisionFilter,
    DecisionRow,
    Part,
    PartTotals,
    Position,
    Result,
    TurnTotals,
)
from pointsman.stores.ledger.turns import HOUR, Before, beside_of
from pointsman.vocabulary import OF_SUBAGENT

__all__ = ["EARLIER_LEFT", "MIGRATION", "NEWEST", "PARTS", "SEAL", "STATE", "STORE", "STORED", "TURNS",
           "encoded", "part_totals", "row_in", "search_of", "session_of", "turn_totals"]  # fmt: skip

_RESULTS: Final[tuple[Result, ...]] = get_args(Result)
_NUMBERS: Final = {result: number for number, result in enumerate(_RESULTS)}
_COUNTED: Final = _NUMBERS["counted"]
_PER: Final = 1_000_000
#: Most seconds, and tokens of a turn: sums of a million such turns are numbers that SQLite can hold.
_MOST: Final = 10**12

#: Columns of a summary, in the order of ``encoded``.
_COLUMNS: Final = (
    "at", "id", "hour", "session", "caller", "role", "tier", "model", "result", "status", "attempts",
    "domains", "signals", "stuck", "downgraded", "abstained", "label", "score", "labelled", "input", "cached",
    "output", "gap", "reused", "own", "switched", "asked", "trials", "added", "judging", "parts", "beside",
    "before", "tried",
)  # fmt: skip
_NAMES: Final = ", ".join(_COLUMNS)
_SELECT: Final = f"SELECT {_NAMES} FROM {{source}}"  # noqa: S608 - names above

STORE: Final = f"INSERT OR REPLACE INTO summaries ({_NAMES}) VALUES {{rows}}"  # noqa: S608 - names above
#: One decision's, with the turn before it.
STORED: Final = "SELECT asked, before FROM summaries WHERE at = ? AND id = ?"
#: Up to where decisions of an earlier version have summaries, and which the last of them is.
STATE: Final = "SELECT at, number, until FROM unsummarized"
EARLIER_LEFT: Final = "SELECT count(*) FROM decisions WHERE (arrived_at, number) > (?, ?) AND number <= ?"
#: The last turns until a time, to go on from after a start.
NEWEST: Final = (
    "SELECT session, CASE WHEN result != 0 THEN model WHEN before != '' THEN json_extract(before, '$[0]') "
    "ELSE '' END, CASE result WHEN 2 THEN input END, at, tried FROM summaries "
    "WHERE session != '' AND role != 'helper' AND at <= ? ORDER BY at DESC, id DESC LIMIT ?"
)

_TURN_KEYS: Final = "tier, model, result, own, gap, asked, beside"
_TURN_SUMS: Final = TurnTotals.__struct_fields__[8:]
_PART_KEYS: Final = "tier, model, result, asked, beside, kind, part_model"
_PART_SUMS: Final = PartTotals.__struct_fields__[8:]

_TURNS_OF: Final = f"""SELECT summaries.hour AS hour, tier,
    CASE result WHEN 0 THEN '' ELSE model END AS model, result, own, gap, asked, beside,
    count(*) AS turns, sum(input) AS input, sum(cached) AS cached,
    sum(output) AS output, sum(reused) AS reused, sum(result = {_COUNTED} AND reused > cached) AS assumed,
    sum(switched) AS switches, sum(trials) AS trials,
    sum(CASE result WHEN 2 THEN added ELSE 0 END) AS added, sum(judging) AS judging,
    sum(stuck) AS stuck, sum(downgraded) AS downgraded,
    sum(abstained) AS abstained FROM {{source}} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8"""  # noqa: S608 - words of ours
_PARTS_OF: Final = """SELECT summaries.hour AS hour, tier, CASE result WHEN 0 THEN '' ELSE model END AS model,
    result, asked, beside, json_extract(part.value, '$[0]') AS kind,
    json_extract(part.value, '$[1]') AS part_model, sum(json_extract(part.value, '$[2]')) AS input,
    sum(json_extract(part.value, '$[3]')) AS cached, sum(json_extract(part.value, '$[4]')) AS output
    FROM {source}, json_each(parts) AS part WHERE beside != '' GROUP BY 1, 2, 3, 4, 5, 6, 7, 8"""

_ONE_HOUR: Final = "(SELECT * FROM summaries WHERE at >= ? * 3600.0 AND at < (? + 1) * 3600.0) AS summaries"
#: The period of a sum, each value once: hours, and the zone in hours.
_PERIOD: Final = "WITH period(since, until, zone) AS (VALUES (?, ?, ?))"
_SINCE, _UNTIL, _ZONE = (f"(SELECT {name} FROM period)" for name in ("since", "until", "zone"))  # noqa: S608 - words of ours
#: CROSS: the hours first, or all rows would be read.
_DIRTY: Final = (
    "dirty CROSS JOIN summaries ON at >= dirty.hour * 3600.0 AND at < (dirty.hour + 1) * 3600.0 "
    f"AND dirty.hour >= {_SINCE} AND dirty.hour < {_UNTIL}"
)


def _totals(table: str, keys: str, sums: Sequence[str], live: str) -> str:
    """Sums of a period by days of a zone, of hours that are over and others."""
    names = f"{keys}, {', '.join(sums)}"
    added = ", ".join(f"sum({name})" for name in sums)
    return f"""{_PERIOD} SELECT (hour + {_ZONE}) / 24 * 24 - {_ZONE}, {keys}, {added} FROM (
        SELECT hour, {names} FROM {table}
        WHERE hour >= {_SINCE} AND hour < {_UNTIL} AND hour NOT IN (SELECT hour FROM dirty)
        UNION ALL SELECT hour, {names} FROM ({live})
    ) GROUP BY 1, {keys}"""  # noqa: S608 - words of ours


TURNS: Final = _totals("hours", _TURN_KEYS, _TURN_SUMS, _TURNS_OF.format(source=_DIRTY))
PARTS: Final = _totals("hour_parts", _PART_KEYS, _PART_SUMS, _PARTS_OF.format(source=_DIRTY))

#: Add an hour up. Each statement with the values that it takes: so many times the hour.
SEAL: Final = (
    ("DELETE FROM hours WHERE hour = ?", 1),
    ("DELETE FROM hour_parts WHERE hour = ?", 1),
    (f"INSERT INTO hours {_TURNS_OF.format(source=_ONE_HOUR)}", 2),
    (f"INSERT INTO hour_parts {_PARTS_OF.format(source=_ONE_HOUR)}", 2),
    ("DELETE FROM dirty WHERE hour = ?", 1),
)


def _sums_of(names: Sequence[str]) -> str:
    return ", ".join(f"{name} {'REAL' if name == 'judging' else 'INTEGER'}" for name in names)


_FLAGS: Final = ("stuck", "downgraded", "abstained", "labelled")

MIGRATION: Final = (
    # In order of time: a page of a list is read from one place, however deep it is.
    """CREATE TABLE summaries (
        at REAL NOT NULL, id TEXT NOT NULL, hour INTEGER NOT NULL, session TEXT NOT NULL,
        caller TEXT NOT NULL, role TEXT NOT NULL, tier TEXT NOT NULL, model TEXT NOT NULL,
        result INTEGER NOT NULL,
        status INTEGER NOT NULL, attempts INTEGER NOT NULL, domains TEXT NOT NULL, signals TEXT NOT NULL,
        stuck INTEGER NOT NULL, downgraded INTEGER NOT NULL, abstained INTEGER NOT NULL, label TEXT NOT NULL,
        score REAL, labelled INTEGER NOT NULL, input INTEGER NOT NULL, cached INTEGER NOT NULL,
        output INTEGER NOT NULL, gap INTEGER NOT NULL, reused INTEGER NOT NULL, own TEXT NOT NULL,
        switched INTEGER NOT NULL, asked INTEGER NOT NULL, trials INTEGER NOT NULL,
        added INTEGER NOT NULL, judging REAL NOT NULL, parts TEXT NOT NULL,
        beside TEXT NOT NULL, before TEXT NOT NULL, tried TEXT, PRIMARY KEY (at, id)
    ) WITHOUT ROWID""",
    # What is rare is found at once, and costs nothing where it is not.
    *(f"CREATE INDEX summaries_{flag} ON summaries (at, id) WHERE {flag} = 1" for flag in _FLAGS),
    f"""CREATE TABLE hours (hour INTEGER NOT NULL, tier TEXT, model TEXT, result INTEGER, own TEXT,
        gap INTEGER, asked INTEGER, beside TEXT, {_sums_of(_TURN_SUMS)})""",
    "CREATE INDEX hours_by_hour ON hours (hour)",
    f"""CREATE TABLE hour_parts (hour INTEGER NOT NULL, tier TEXT, model TEXT, result INTEGER, asked INTEGER,
        beside TEXT, kind TEXT, part_model TEXT, {_sums_of(_PART_SUMS)})""",
    "CREATE INDEX hour_parts_by_hour ON hour_parts (hour)",
    "CREATE TABLE dirty (hour INTEGER PRIMARY KEY)",
    # The decisions there are get their rows piece by piece: a million of them do not hold up a start.
    "CREATE TABLE unsummarized (at REAL NOT NULL, number INTEGER NOT NULL, until INTEGER NOT NULL)",
    "INSERT INTO unsummarized SELECT -1e308, -1, number FROM decisions ORDER BY number DESC LIMIT 1",
    "DROP TRIGGER forget",
    """CREATE TRIGGER forget AFTER DELETE ON decisions BEGIN
        DELETE FROM attempts WHERE decision = old.id;
        DELETE FROM outcomes WHERE decision = old.id;
        DELETE FROM texts WHERE decision = old.id;
        DELETE FROM shadows WHERE decision = old.id;
        DELETE FROM summaries WHERE at = old.arrived_at AND id = old.id;
    END""",
    """CREATE TRIGGER moved AFTER UPDATE OF arrived_at ON decisions
    WHEN old.arrived_at IS NOT new.arrived_at BEGIN
        DELETE FROM summaries WHERE at = old.arrived_at AND id = old.id;
    END""",
    """CREATE TRIGGER unsummarize AFTER DELETE ON summaries BEGIN
        INSERT OR IGNORE INTO dirty VALUES (old.hour);
    END""",
)

_json: Final = msgspec.json.Encoder().encode
_parts: Final = msgspec.json.Decoder(tuple[Part, ...]).decode
_EMPTY: Final = "[]"


def encoded(row: DecisionRow, before: Before | None, tried: str | None) -> tuple[object, ...]:
    """The values of ``STORE``; ``tried`` as of ``Before``."""
    at = 0.0 if math.isnan(row.at) else max(-_MOST, min(row.at, _MOST))
    counts = [min(count, _MOST) for count in (row.input, row.cached, row.output, row.reused)]
    return (
        at, row.id, int(at // HOUR), row.session, row.caller, row.role, row.tier, row.model,
        _NUMBERS[row.result], row.status, row.attempts, _lines(row.domains), _lines(row.signals),
        row.stuck, row.downgraded, row.abstained, row.label, row.score, row.labelled, *counts[:3],
        row.gap, counts[3], row.own, row.switched, row.asked, row.trials, row.added, row.judging,
        _json(row.parts).decode() if row.parts else _EMPTY, beside_of(row.parts),
        _json(before).decode() if before else "", tried,
    )  # fmt: skip


def row_in(values: Sequence[Any]) -> DecisionRow:
    """The row of the values that ``search_of`` reads."""
    found = dict(zip(_COLUMNS, values, strict=True))
    for derived in ("hour", "beside", "before", "tried"):
        del found[derived]
    for flag in (*_FLAGS, "switched", "asked"):
        found[flag] = bool(found[flag])
    found["result"] = _RESULTS[found["result"]]
    for several in ("domains", "signals"):
        found[several] = tuple(filter(None, found[several].split("\n")))
    found["parts"] = _parts(found["parts"]) if found["parts"] != _EMPTY else ()
    return DecisionRow(**found)


def _lines(values: Sequence[str]) -> str:
    """A line each, an empty one at both ends: each is found between two line ends."""
    return f"\n{chr(10).join(values)}\n" if values else ""


def search_of(
    wanted: DecisionFilter, before: Position | None, limit: int, models: Mapping[str, Prices]
) -> tuple[str, list[object]]:
    """The statement of a search, and its values."""
    source, values = _in_session(wanted.session) if wanted.session else ("summaries", [])
    terms: list[str] = []
    for term, given in _terms(wanted, before, models):
        terms.append(term)
        values += given
    where = f"WHERE {' AND '.join(terms)} " if terms else ""
    select = _SELECT.format(source=source)
    return f"{select} {where}ORDER BY at DESC, id DESC LIMIT ?", [*values, limit]


def session_of(session: str, limit: int) -> tuple[str, list[object]]:
    """The statement of a session's rows, the oldest first, and its values."""
    source, values = _in_session(session)
    return f"{_SELECT.format(source=source)} ORDER BY at, id LIMIT ?", [*values, limit]


_OF_SESSION: Final = (
    "SELECT at AS of_at, id AS of_id FROM summaries INDEXED BY summaries_by_session WHERE session"
)
#: CROSS: the session's rows first, or it is looked for among all rows.
_IN_SESSION: Final = (
    f"({_OF_SESSION} = ? UNION ALL {_OF_SESSION} >= ? AND session < ? AND role = 'subagent') "
    "CROSS JOIN summaries ON at = of_at AND id = of_id"
)
Terms = Iterator[tuple[str, list[object]]]


def _terms(wanted: DecisionFilter, before: Position | None, models: Mapping[str, Prices]) -> Terms:
    """What a row has to meet, the cheapest first."""
    if before is not None:
        yield "(at, id) < (?, ?)", [*before]
    for term, value in (("at >= ?", wanted.since), ("at < ?", wanted.until), ("status = ?", wanted.status)):
        if value is not None:
            yield term, [value]
    for name in ("caller", "tier", "model", "role", "label"):
        if value := getattr(wanted, name):
            yield f"{name} = ?", [value]
    for flag in _FLAGS:
        if (value := getattr(wanted, flag)) is not None:
            yield f"{flag} = {int(value)}", []  # written out: only so are the indexes of flags used
    yield from _searches(wanted, models)


def _searches(wanted: DecisionFilter, models: Mapping[str, Prices]) -> Terms:
    for several, value in (("domains", wanted.domain), ("signals", wanted.signal)):
        if value:
            yield f"instr({several}, ?)", [f"\n{value}\n"]
    if wanted.cost_at_least is not None:
        yield _costs(wanted.cost_at_least, models)
    if wanted.text:
        found = "EXISTS (SELECT 1 FROM texts WHERE decision = summaries.id AND text LIKE ? ESCAPE '\\')"
        yield found, [f"%{_escaped(wanted.text)}%"]


def _in_session(session: str) -> tuple[str, list[object]]:
    """Through the index of sessions: in order of time a session is looked for among all rows."""
    below = session + OF_SUBAGENT
    beyond = below[:-1] + chr(ord(OF_SUBAGENT) + 1)
    return _IN_SESSION, [session, below, beyond]


def _costs(least: float, models: Mapping[str, Prices]) -> tuple[str, list[object]]:
    """That an answer cost so much: each model's price of a token of input, cached input and output."""
    cases: list[str] = []
    values: list[object] = []
    for name, model in models.items():
        prices = [model.cost(*tokens) for tokens in ((_PER, 0, 0), (0, _PER, 0), (0, 0, _PER))]
        if None not in prices:
            cases.append("WHEN ? THEN input * ? + cached * ? + output * ?")
            values += [name, *((price or 0.0) / _PER for price in prices)]
    costs = f"CASE model {' '.join(cases)} ELSE -1.0 END" if cases else "-1.0"
    return f"(result = {_COUNTED} AND {costs} >= ?)", [*values, least]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def turn_totals(values: Sequence[Any]) -> TurnTotals:
    """The sums in a row that ``TURNS`` reads."""
    hour, tier, model, result, own, gap, asked, *rest = values
    return TurnTotals(hour, tier, model, _RESULTS[result], own, gap, bool(asked), *rest)


def part_totals(values: Sequence[Any]) -> PartTotals:
    """The sums in a row that ``PARTS`` reads."""
    hour, tier, model, result, asked, *rest = values
    return PartTotals(hour, tier, model, _RESULTS[result], bool(asked), *rest)
