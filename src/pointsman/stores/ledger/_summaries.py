"""The tables of summaries in a SQLite ledger; search and sums of both engines: their SQL and their rows.

``summaries`` has a row a decision, in order of time; the sums of rows are in ``_sums``. ``unsummarized``
is the position from which on decisions of an earlier version have no row yet.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from pointsman.prices import Prices
from pointsman.stores.ledger._bodies import encode
from pointsman.stores.ledger.reading import (
    FIELDS,
    FLAGS,
    HOUR,
    RESULTS,
    DecisionFilter,
    DecisionRow,
    Part,
    PartTotals,
    Position,
    Spender,
    Totals,
    TurnTotals,
    beside_of,
    row_of,
)
from pointsman.stores.ledger.turns import TurnSummary
from pointsman.vocabulary import OF_SUBAGENT

log = logging.getLogger(__name__)

KEYS: Final = "tier, model, result, own, gap, asked, beside, kind, part_model"
#: Of a part, ``turns`` are the parts, and all but the tokens is 0.
SUMS: Final = TurnTotals.__struct_fields__[8:]

#: Columns of a summary: fields of a row, in their order, then those that are none.
COLUMNS: Final = (*FIELDS, "tried", "hour", "beside", "before")
_NAMES: Final = ", ".join(COLUMNS)

#: Rows of new decisions; and of those that have one, of which what stays is not written again, so that no
#: index of it is.
_INTO: Final = f"INTO summaries ({_NAMES}) VALUES {{rows}}"
BEGIN: Final = f"INSERT OR REPLACE {_INTO}"
CHANGE: Final = f"INSERT {_INTO} ON CONFLICT (at, id) DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in COLUMNS[FIELDS.index("tier") :] if name != "hour"
)
#: Places in the values of a row.
AT, HOUR_OF = FIELDS.index("at"), COLUMNS.index("hour")
#: What of a stored row a turn goes on with.
STORED: Final = "SELECT asked, before FROM summaries WHERE at = ? AND id = ?"
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
    *(f"CREATE INDEX summaries_{flag} ON summaries (at, id) WHERE {flag} = 1" for flag in FLAGS),
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

T = TypeVar("T")

_parts: Final = msgspec.json.Decoder(tuple[Part, ...]).decode
_EMPTY: Final = "[]"
#: Most seconds since the epoch.
_LATEST: Final = 1e12


def encoded(turn: TurnSummary) -> list[object]:
    """The values of a turn's row for ``BEGIN``."""
    values: list[Any]
    *values, domains, signals, parts, tried = turn.values()
    at, before = values[AT], turn.before
    if not -_LATEST <= at <= _LATEST:
        values[AT] = at = 0.0 if math.isnan(at) else math.copysign(_LATEST, at)
    values += (
        # A line each, an empty one at both ends: each is found between two line ends.
        "\n".join(("", *domains, "")) if domains else "",
        "\n".join(("", *signals, "")) if signals else "",
        encode(parts).decode() if parts else _EMPTY,
        tried,
        at // HOUR,
        beside_of(parts) if parts else "",
        encode(before).decode() if before else "",
    )
    return values


def listed(turn: TurnSummary, encode_turn: Callable[[TurnSummary], T], error: Exception | None) -> T | None:
    """The values of a failed summary, from the request alone, so that lists have the decision.

    A fault in a summary must not cost the entry. None if the request is at fault.
    """
    log.warning("decision %s is listed without a summary", turn.decision.id, exc_info=error)
    try:
        return encode_turn(turn.bare())
    except Exception:  # as above
        log.warning("decision %s is not listed", turn.decision.id, exc_info=True)
    return None


_COUNTED, _NO_ANSWER = RESULTS.index("counted"), RESULTS.index("no_answer")
_ANSWERER: Final = f"CASE result WHEN {_NO_ANSWER} THEN '' ELSE model END"
_ANSWERED: Final = f"{_ANSWERER} AS model"
_SPENDER: Final = ", ".join(Spender._fields)
_NAMED: Final = ", ".join(FIELDS)
#: What a row adds to each of ``SUMS`` that is no column of it.
_ADDENDS: Final = {
    "turns": "1",
    "assumed": f"CASE WHEN result = {_COUNTED} AND reused > cached THEN 1 ELSE 0 END",
    "switches": "CASE WHEN switched THEN 1 ELSE 0 END",
    "added": f"CASE result WHEN {_COUNTED} THEN added ELSE 0 END",
} | {flag: f"CASE WHEN {flag} THEN 1 ELSE 0 END" for flag in ("stuck", "downgraded", "abstained")}
_SUMS_OF_TURNS: Final = ", ".join(
    f"CAST(sum({_ADDENDS.get(name, name)}) AS {'float8' if name == 'judging' else 'bigint'}) AS {name}"
    for name in SUMS
)
#: Of a part, ``turns`` are the parts, and all but the tokens is 0.
_NO_MORE: Final = ", ".join(["0"] * (len(SUMS) - 4))
_PER: Final = 1_000_000
_FREE: Final = (0.0, 0.0, 0.0)
#: A condition with ``?`` for its values, and these.
Term: TypeAlias = tuple[str, list[object]]


#: Kinds of values that an hour has, by a row's columns; a domain and a signal are one of several. Then, for
#: each model, the most tokens of each kind in an answer, as JSON: nothing in the hour costs more.
KINDS: Final = ("tier", "model", "role", "caller", "status", "domains", "signals", "project", "client")
DOMAIN, SIGNAL, MOST_OF_MODEL = 5, 6, len(KINDS)
_HAVING: Final = "SELECT hour FROM hour_values WHERE kind = ? AND value = ?"
#: Hours in which an answer may cost so much; those that an earlier version added up do not tell.
_COSTLY: Final = f"""SELECT hour FROM (
    SELECT hour FROM (
        SELECT hour, {_COUNTED} AS result, {{0}} AS model, CAST({{1}} AS bigint) AS input,
        CAST({{2}} AS bigint) AS cached, CAST({{3}} AS bigint) AS output
        FROM hour_values WHERE kind = {MOST_OF_MODEL}
    ) AS most WHERE {{costs}}
    UNION SELECT hour FROM hour_values
    WHERE kind = 0 AND hour NOT IN (SELECT hour FROM hour_values WHERE kind = {MOST_OF_MODEL})
) AS costly"""  # noqa: S608 - as above


class SearchDialect(NamedTuple):
    """What differs between the engines."""

    place: str  # of a value
    flags: tuple[str, str]  # that a flag is not set, and that it is; as a literal, for the index of the flag
    having: str  # that a list of a row has a value
    element: str  # that value
    words: str  # that the text of a row's decision has a part
    of_session: str  # the rows of a session: itself, and from a name until before another
    clean: Callable[[str], str]  # a text as the engine can hold it
    several: Callable[[Any], Iterable[str]]  # the values of a list that was read
    each_part: str  # the parts of a row, as a table ``part``
    member: str  # of a part, by its place
    item: str  # of the JSON of an hour's value, by its place
    longest: int | None  # characters of an hour's value that are stored; None: all
    unknown: str  # the hours whose values are not known, or have changed
    spent: str  # what turns of one spender that are added up have in common


class SummarySearch:
    """Makes the statements of searches, and of sums of rows, and reads the rows found.

    Args:
        dialect: Of the engine.
    """

    def __init__(self, dialect: SearchDialect) -> None:
        self._dialect: Final = dialect
        within = "at >= ? AND at < ?"
        turns = self._turns(f"summaries WHERE {within}")
        parts = f"{self._parts('summaries')} AND {within}"
        #: The sums of a period for each spender, neither by hour nor by tier; its bounds twice.
        self.spenders: Final = (
            f"SELECT {_SPENDER}, 0, '', {turns} GROUP BY {dialect.spent} "
            f"UNION ALL SELECT {_SPENDER}, 0, '', {parts} GROUP BY 1, 2, 3, 4, 5, 8, 9, 12, 13, 14, 15"
        ).replace("?", dialect.place)

    def rollup(self, source: str) -> str:
        """Return the statement of the sums of rows by ``KEYS`` and hour.

        Args:
            source: The rows, under the name ``summaries``.
        """
        hour = "summaries.hour AS hour, tier"
        return (
            f"SELECT {hour}, {self._turns(source)} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 "
            f"UNION ALL SELECT {hour}, {self._parts(source)} GROUP BY 1, 2, 3, 4, 7, 8, 9, 10"
        )

    def _turns(self, source: str) -> str:
        keys = f"{_ANSWERED}, result, own, gap, asked, beside, '' AS kind, '' AS part_model"
        return f"{keys}, {_SUMS_OF_TURNS} FROM {source}"

    def _parts(self, source: str) -> str:
        kind, model, *tokens = (self._dialect.member.format(place) for place in range(5))
        keys = f"{_ANSWERED}, result, '', CAST(0 AS smallint), asked, beside, {kind}, {model}"
        sums = ", ".join(f"CAST(sum(CAST({each} AS bigint)) AS bigint)" for each in tokens)
        source = f"{source}, {self._dialect.each_part}"
        return f"{keys}, count(*), {sums}, {_NO_MORE} FROM {source} WHERE beside != ''"

    def row_in(self, values: Sequence[Any]) -> DecisionRow:
        """Return the row of the values that ``search_of`` reads."""
        found = dict(zip(FIELDS, values, strict=True))
        for flag in (*FLAGS, "switched", "asked"):
            found[flag] = bool(found[flag])
        for several in ("domains", "signals"):
            found[several] = tuple(self._dialect.several(found[several]))
        found["parts"] = _parts(found["parts"]) if found["parts"] != _EMPTY else ()
        return row_of(found.values())

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
        statement = f"SELECT {_NAMED} FROM {source} {rest}"  # noqa: S608 - words of ours
        return statement.replace("?", self._dialect.place)

    def _in_session(self, session: str) -> Term:
        """Return the rows of a session, found by its name first and not among all rows in order of time."""
        named = self._dialect.clean(session)
        below = named + OF_SUBAGENT
        return self._dialect.of_session, [named, below, below[:-1] + chr(ord(OF_SUBAGENT) + 1)]

    def hours_of(self, wanted: DecisionFilter, models: Mapping[str, Prices]) -> Term | None:
        """Return the statement of the hours in which rows may meet a filter, the latest first.

        Args:
            wanted: The filter.
            models: Prices, for the least cost of an answer.

        Returns:
            The statement and its values; None for any hour.
        """
        status = "" if wanted.status is None else str(wanted.status)
        named = (wanted.tier, wanted.model, wanted.role, wanted.caller, status, wanted.domain)
        asked = (*named, "", wanted.project, wanted.client)
        terms = [(kind, value) for kind, value in enumerate(asked) if value]
        terms += [(SIGNAL, value) for value in wanted.in_signals]
        having = [_HAVING] * len(terms)
        values: list[object] = [each for kind, value in terms for each in (kind, self._of_hour(value))]
        if wanted.cost_at_least is not None:
            costs, prices = self.costs(wanted.cost_at_least, models, of_hour=True)
            items = [self._dialect.item.format(place) for place in range(4)]
            having.append(_COSTLY.format(*items, costs=costs))
            values += prices
        if not having:
            return None
        query = f"""SELECT hour FROM ({" INTERSECT ".join(having)} UNION {self._dialect.unknown}) AS found
            WHERE hour BETWEEN ? AND ? ORDER BY hour DESC"""  # noqa: S608 - words of ours
        since = hour_of(-math.inf if wanted.since is None else wanted.since)
        until = hour_of(math.inf if wanted.until is None else wanted.until)
        return query.replace("?", self._dialect.place), [*values, since, until]

    def _of_hour(self, value: str) -> str:
        """Return a value as those of an hour are stored."""
        return self._dialect.clean(value)[: self._dialect.longest]

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
        if wanted.label:  # rows with a label are found by the index of the flag
            yield self._dialect.flags[True].format("labelled"), []
        for flag in FLAGS:
            is_set = getattr(wanted, flag)
            if is_set is not None:
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
            yield self.costs(wanted.cost_at_least, models)
        if wanted.text:
            part = wanted.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            yield self._dialect.words, [f"%{clean(part)}%"]

    def costs(self, least: float, models: Mapping[str, Prices], *, of_hour: bool = False) -> Term:
        """Return that an answer cost so much, by each model's price of a token of each kind.

        Of an hour with the most tokens of each kind: that one of its answers may have. Those of another one
        that were read from the cache make it no cheaper.
        """
        found: dict[str, list[float]] = {}
        for name, model in models.items():
            prices = [model.cost(*tokens) for tokens in ((_PER, 0, 0), (0, _PER, 0), (0, 0, _PER))]
            if None in prices:
                continue
            per_token = [(price or 0.0) / _PER for price in prices]
            if of_hour:  # names that begin with the same characters are stored as one
                named = self._of_hour(name)
                found[named] = list(map(max, per_token, found.get(named, _FREE)))
            else:
                found.setdefault(self._dialect.clean(name), per_token)
        each = "CAST(? AS float8)"
        cases = [f"WHEN ? THEN input * {each} + cached * {each} + output * {each}"] * len(found)
        values: list[object] = [value for name, prices in found.items() for value in (name, *prices)]
        costs = f"CASE model {' '.join(cases)} ELSE -1.0 END" if cases else "-1.0"
        return f"(result = {_COUNTED} AND {costs} >= {each})", [*values, least]


_OF_SESSION: Final = (
    "SELECT at AS of_at, id AS of_id FROM summaries INDEXED BY summaries_by_session WHERE session"
)
SEARCH: Final = SummarySearch(
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
        several=lambda lines: filter(None, lines.split("\n")),
        each_part="json_each(parts) AS part",
        member="json_extract(part.value, '$[{}]')",
        item="json_extract(value, '$[{}]')",
        longest=None,
        unknown="SELECT hour FROM dirty",
        # Sorted by one value that names all eleven: to compare the columns takes a quarter more.
        spent=f"json_array({_SPENDER}, {_ANSWERER}, result, own, gap, asked, beside)",
    )
)


def totals_in(rows: Iterable[tuple[Any, ...]]) -> Totals:
    """Return the totals in rows of hour, ``KEYS`` and ``SUMS``, one for each hour and group, sorted."""
    turns, parts = [], []
    for hour, tier, model, result, own, gap, asked, beside, kind, of, *sums in sorted(rows):
        said = RESULTS[result]
        if kind:
            part = (hour, tier, model, said, bool(asked), beside, kind, of)
            parts.append(PartTotals(*part, *sums[:4]))
        else:
            turns.append(TurnTotals(hour, tier, model, said, own, gap, bool(asked), beside, *sums))
    return Totals(tuple(turns), tuple(parts))


def spenders_in(rows: Iterable[tuple[Any, ...]]) -> dict[Spender, Totals]:
    """Return the totals of each spender in the rows of ``SummarySearch.spenders``."""
    found: dict[Spender, list[tuple[Any, ...]]] = {}
    for row in sorted(rows):
        found.setdefault(Spender(*row[: len(Spender._fields)]), []).append(row[len(Spender._fields) :])
    return {spender: totals_in(of) for spender, of in found.items()}


def hour_of(seconds: float, rounded: Callable[[float], int] = math.floor) -> int:
    """The hour since the epoch, within bounds that a column can hold."""
    return rounded(max(-1e12, min(seconds, 1e12)) / HOUR)
