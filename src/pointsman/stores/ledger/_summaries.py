"""The tables of summaries in a SQLite ledger: their SQL and their rows.

``summaries`` has a row a decision, in order of time; what rows add up to is in ``_sums``. ``unsummarized``
says from where on decisions of an earlier version have no row yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from pointsman.prices import Prices
from pointsman.stores.ledger._sums import RESULT_NUMBERS, RESULTS
from pointsman.stores.ledger.reading import DecisionFilter, DecisionRow, Part, Position
from pointsman.stores.ledger.turns import HOUR, Before, beside_of
from pointsman.vocabulary import OF_SUBAGENT

__all__ = ["AFTER", "BEGIN", "CHANGE", "EARLIER_LEFT", "HOUR_OF", "MIGRATION", "NEWEST", "REPLACE", "STATE",
           "STORED", "encoded", "row_in", "search_of", "session_of"]  # fmt: skip

_COUNTED: Final = RESULT_NUMBERS["counted"]
_PER: Final = 1_000_000

#: Columns of a summary that are fields of a row, in their order, and those that are not.
_FIELDS: Final = DecisionRow.__struct_fields__[: DecisionRow.__struct_fields__.index("cost")]
_COLUMNS: Final = (*_FIELDS, "hour", "beside", "before", "tried")
_NAMES: Final = ", ".join(_COLUMNS)
_SELECT: Final = f"SELECT {', '.join(_FIELDS)} FROM {{source}}"  # noqa: S608 - names above

_INTO: Final = f"INTO summaries ({_NAMES}) VALUES {{rows}}"
#: Rows of new decisions; of those that were written before by this process; and of any.
BEGIN: Final = f"INSERT {_INTO} ON CONFLICT DO NOTHING"
#: What stays is not written again, so that no index of it is.
CHANGE: Final = f"INSERT {_INTO} ON CONFLICT (at, id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in _COLUMNS[_COLUMNS.index("tier") :] if name != "hour"
)
REPLACE: Final = f"INSERT OR REPLACE {_INTO}"
#: Place of the hour in the values of a row.
HOUR_OF: Final = _COLUMNS.index("hour")
#: One decision's, with the turn before it.
STORED: Final = f"SELECT before, hour, {', '.join(_FIELDS)} FROM summaries WHERE at = ? AND id = ?"  # noqa: S608 - as above
#: Up to where decisions of an earlier version have summaries, and which the last of them is.
STATE: Final = "SELECT at, number, until FROM unsummarized"
EARLIER_LEFT: Final = "SELECT count(*) FROM decisions WHERE (arrived_at, number) > (?, ?) AND number <= ?"
#: Of a turn, the values of ``Before``; and the last turns until a time, to go on from after a start.
AFTER: Final = (
    "CASE WHEN result != 0 THEN model WHEN before != '' THEN json_extract(before, '$[0]') "
    "ELSE '' END, CASE result WHEN 2 THEN input END, summaries.at, tried"
)
NEWEST: Final = (
    f"SELECT session, {AFTER} FROM summaries "  # noqa: S608 - columns above
    "WHERE session != '' AND role != 'helper' AND at <= ? ORDER BY at DESC, id DESC LIMIT ?"
)

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
    # Sums of hours, until there were those of ``_sums``.
    "CREATE TABLE hours (hour INTEGER NOT NULL)",
    "CREATE TABLE hour_parts (hour INTEGER NOT NULL)",
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
#: Most seconds since the epoch.
_LATEST: Final = 1e12
#: Fields between those that are converted.
_BETWEEN: Final = _FIELDS.index("parts") - _FIELDS.index("stuck")


def encoded(row: DecisionRow, before: Before | None, tried: str | None) -> tuple[object, ...]:
    """The values of a row for ``BEGIN``; ``tried`` as of ``Before``."""
    name, at, session, caller, role, project, folder, client, tier, model, result, status, attempts, *rest = (
        astuple(row)
    )
    domains, signals, *rest = rest
    at = 0.0 if math.isnan(at) else max(-_LATEST, min(at, _LATEST))
    parts = row.parts
    return (
        name, at, session, caller, role, project, folder, client, tier, model, RESULT_NUMBERS[result], status,
        attempts, _lines(domains), _lines(signals), *rest[:_BETWEEN],
        _json(parts).decode() if parts else _EMPTY, int(at // HOUR), beside_of(parts) if parts else "",
        _json(before).decode() if before else "", tried,
    )  # fmt: skip


def row_in(values: Sequence[Any]) -> DecisionRow:
    """The row of the values that ``search_of`` reads."""
    found = dict(zip(_FIELDS, values, strict=True))
    for flag in (*_FLAGS, "switched", "asked"):
        found[flag] = bool(found[flag])
    found["result"] = RESULTS[found["result"]]
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
    for name in ("caller", "tier", "model", "role", "project", "client", "label"):
        if value := getattr(wanted, name):
            yield f"{name} = ?", [value]
    for flag in _FLAGS:
        if (value := getattr(wanted, flag)) is not None:
            yield f"{flag} = {int(value)}", []  # written out: only so are the indexes of flags used
    yield from _searches(wanted, models)


def _searches(wanted: DecisionFilter, models: Mapping[str, Prices]) -> Terms:
    for several, value in (("domains", wanted.domain), *(("signals", each) for each in wanted.in_signals)):
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
