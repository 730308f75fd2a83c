"""The tables of summaries in a SQLite ledger, and the search of both engines: their SQL and their rows.

``summaries`` has a row a decision, in order of time; the sums of rows are in ``_sums``. ``unsummarized``
is the position from which on decisions of an earlier version have no row yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import astuple

from pointsman.prices import Prices
from pointsman.stores.ledger._sums import RESULT_NUMBERS, RESULTS
from pointsman.stores.ledger.reading import DecisionFilter, DecisionRow, Part, Position
from pointsman.stores.ledger.turns import HOUR, Before, beside_of
from pointsman.vocabulary import OF_SUBAGENT

__all__ = [
    "AFTER",
    "BEGIN",
    "CHANGE",
    "EARLIER_LEFT",
    "HOUR_OF",
    "MIGRATION",
    "NEWEST",
    "REPLACE",
    "STATE",
    "STORED",
    "SearchDialect",
    "SummarySearch",
    "encoded",
    "row_in",
    "search_of",
    "session_of",
]  # fmt: skip

#: Columns of a summary that are fields of a row, in their order, and those that are not.
_FIELDS: Final = DecisionRow.__struct_fields__[: DecisionRow.__struct_fields__.index("cost")]
_COLUMNS: Final = (*_FIELDS, "hour", "beside", "before", "tried")
_NAMES: Final = ", ".join(_COLUMNS)

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


_COUNTED: Final = RESULT_NUMBERS["counted"]
_PER: Final = 1_000_000
#: A condition with ``?`` for its values, and these.
Term: TypeAlias = tuple[str, list[object]]


class SearchDialect(NamedTuple):
    """What differs between the engines."""

    place: str  # of a value
    flags: tuple[str, str]  # that a flag is not set, and that it is; as a literal, for the index of the flag
    having: str  # that a list of a row has a value
    element: str  # that value
    words: str  # that the text of a row's decision has a part
    of_session: str  # the rows of a session: itself, and from a name until before another
    clean: Callable[[str], str]  # a text as the engine can hold it


class SummarySearch:
    """Makes the statements of searches.

    Args:
        dialect: Of the engine.
        columns: That are read, separated by commas.
    """

    def __init__(self, dialect: SearchDialect, columns: str) -> None:
        self._dialect: Final = dialect
        self._columns: Final = columns

    def search_of(
        self, wanted: DecisionFilter, before: Position | None, limit: int, models: Mapping[str, Prices]
    ) -> Term:
        """Return the statement of a search, and its values."""
        source, values = self._in_session(wanted.session) if wanted.session else ("summaries", [])
        terms: list[str] = []
        for term, given in self._terms(wanted, before, models):
            terms.append(term)
            values += given
        where = f"WHERE {' AND '.join(terms)} " if terms else ""
        return self._statement(source, f"{where}ORDER BY at DESC, id DESC LIMIT ?"), [*values, limit]

    def session_of(self, session: str, limit: int) -> Term:
        """Return the statement of a session's rows, the oldest first, and its values."""
        source, values = self._in_session(session)
        return self._statement(source, "ORDER BY at, id LIMIT ?"), [*values, limit]

    def _statement(self, source: str, rest: str) -> str:
        statement = f"SELECT {self._columns} FROM {source} {rest}"  # noqa: S608 - words of ours
        return statement.replace("?", self._dialect.place)

    def _in_session(self, session: str) -> Term:
        """Return the rows of a session, found by its name first and not among all rows in order of time."""
        named = self._dialect.clean(session)
        below = named + OF_SUBAGENT
        return self._dialect.of_session, [named, below, below[:-1] + chr(ord(OF_SUBAGENT) + 1)]

    def _terms(
        self, wanted: DecisionFilter, before: Position | None, models: Mapping[str, Prices]
    ) -> Iterator[Term]:
        """Yield the terms that a row has to meet, the cheapest first."""
        clean = self._dialect.clean
        if before is not None:  # the first term leaves out partitions
            yield "at <= ? AND (at, id) < (?, ?)", [before[0], before[0], clean(before[1])]
        for term, value in (
            ("at >= ?", wanted.since),
            ("at < ?", wanted.until),
            ("status = ?", wanted.status),
        ):
            if value is not None:
                yield term, [value]
        for name in ("caller", "tier", "model", "role", "project", "client", "label"):
            if named := getattr(wanted, name):
                yield f"{name} = ?", [clean(named)]
        for flag in _FLAGS:
            if (is_set := getattr(wanted, flag)) is not None:
                yield self._dialect.flags[is_set].format(flag), []
        yield from self._searches(wanted, models)

    def _searches(self, wanted: DecisionFilter, models: Mapping[str, Prices]) -> Iterator[Term]:
        """Yield the terms for which no index helps."""
        clean = self._dialect.clean
        for several, value in (
            ("domains", wanted.domain),
            *(("signals", each) for each in wanted.in_signals),
        ):
            if value:
                yield self._dialect.having.format(several), [self._dialect.element.format(clean(value))]
        if wanted.cost_at_least is not None:
            yield self._costs(wanted.cost_at_least, models)
        if wanted.text:
            part = wanted.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            yield self._dialect.words, [f"%{clean(part)}%"]

    def _costs(self, least: float, models: Mapping[str, Prices]) -> Term:
        """Return that an answer cost so much, by each model's price of a token of each kind."""
        cases: list[str] = []
        values: list[object] = []
        each = "CAST(? AS float8)"
        for name, model in models.items():
            prices = [model.cost(*tokens) for tokens in ((_PER, 0, 0), (0, _PER, 0), (0, 0, _PER))]
            if None not in prices:
                cases.append(f"WHEN ? THEN input * {each} + cached * {each} + output * {each}")
                values += [self._dialect.clean(name), *((price or 0.0) / _PER for price in prices)]
        costs = f"CASE model {' '.join(cases)} ELSE -1.0 END" if cases else "-1.0"
        return f"(result = {_COUNTED} AND {costs} >= {each})", [*values, least]


_OF_SESSION: Final = (
    "SELECT at AS of_at, id AS of_id FROM summaries INDEXED BY summaries_by_session WHERE session"
)
_SEARCH: Final = SummarySearch(
    SearchDialect(
        place="?",
        flags=("{} = 0", "{} = 1"),
        having="instr({}, ?)",
        element="\n{}\n",
        words="EXISTS (SELECT 1 FROM texts WHERE decision = summaries.id AND text LIKE ? ESCAPE '\\')",
        # CROSS: the session's rows first, or it is looked for among all rows.
        of_session=f"({_OF_SESSION} = ? UNION ALL {_OF_SESSION} >= ? AND session < ? AND role = 'subagent') "
        "CROSS JOIN summaries ON at = of_at AND id = of_id",
        clean=str,
    ),
    ", ".join(_FIELDS),
)
search_of: Final = _SEARCH.search_of
session_of: Final = _SEARCH.session_of
