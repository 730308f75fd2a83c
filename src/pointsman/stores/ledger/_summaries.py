"""Search, and sums of rows, in both engines: their SQL and their rows.

``summaries`` has a row a decision, in order of time; ``sums`` one for each hour, and each day of UTC, of
turns that have a ``groups`` row in common. ``unsummarized`` is the position from which on decisions of an
earlier version have no row yet.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from pointsman.prices import Prices
from pointsman.remembering import grouped
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
    Usage,
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

#: Places in the values of a row.
AT, HOUR_OF = FIELDS.index("at"), COLUMNS.index("hour")
#: Up to where decisions of an earlier version have summaries, and which the last of them is.
STATE: Final = "SELECT at, number, until FROM unsummarized"
EARLIER_LEFT: Final = "SELECT count(*) FROM decisions WHERE (arrived_at, number) > (?, ?) AND number <= ?"
T = TypeVar("T")

_parts: Final = msgspec.json.Decoder(tuple[Part, ...]).decode
EMPTY: Final = "[]"


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
_REST: Final = "CASE WHEN {0} > reused - cached THEN {0} - (reused - cached) ELSE 0 END"
#: What a row adds to each of ``SUMS`` that is no column of it.
_ADDENDS: Final = {
    "turns": "1",
    "rest": _REST.format("written"),
    "rest_1h": _REST.format("written_1h"),
    "assumed": f"CASE WHEN result = {_COUNTED} AND reused > cached THEN 1 ELSE 0 END",
    "switches": "CASE WHEN switched THEN 1 ELSE 0 END",
    "added": f"CASE result WHEN {_COUNTED} THEN added ELSE 0 END",
} | {flag: f"CASE WHEN {flag} THEN 1 ELSE 0 END" for flag in ("stuck", "downgraded", "abstained")}


def _summed(of: Mapping[str, str]) -> str:
    """Return the sums over a group of rows: of a column each, or of the expression given for it."""
    of_type = {"judging": "float8"}
    return ", ".join(
        f"CAST(sum({of.get(name, name)}) AS {of_type.get(name, 'bigint')}) AS {name}" for name in SUMS
    )


_SUMS_OF_TURNS: Final = _summed(_ADDENDS)
#: The sums of sums.
ADDED: Final = _summed({})
#: Of a part, ``turns`` are the parts, and all but the tokens is 0.
_NO_MORE: Final = ", ".join(["0"] * (len(SUMS) - 1 - len(Usage._fields)))
_FREE: Final = (0.0,) * len(Usage._fields)
#: A condition with ``?`` for its values, and these.
Term: TypeAlias = tuple[str, list[object]]


#: Kinds of values that an hour has, by a row's columns; a domain and a signal are one of several. Then, for
#: each model, the most tokens of each kind in an answer, as JSON: nothing in the hour costs more.
KINDS: Final = ("tier", "model", "role", "caller", "status", "domains", "signals", "project", "client")
DOMAIN, SIGNAL, MOST_OF_MODEL = 5, 6, len(KINDS)
#: The most tokens of each kind, in the order of ``Usage``.
MOST_TOKENS: Final = ", ".join(f"max({kind})" for kind in Usage._fields)
_HAVING: Final = "SELECT hour FROM hour_values WHERE kind = ? AND value = ?"
#: Hours in which an answer may cost so much; those that an earlier version added up do not tell.
_COSTLY: Final = f"""SELECT hour FROM (
    SELECT hour FROM (
        SELECT hour, {_COUNTED} AS result, {{0}} AS model, CAST({{1}} AS bigint) AS input,
        CAST({{2}} AS bigint) AS cached, CAST({{3}} AS bigint) AS output,
        coalesce(CAST({{4}} AS bigint), 0) AS written, coalesce(CAST({{5}} AS bigint), 0) AS written_1h
        FROM hour_values WHERE kind = {MOST_OF_MODEL}
    ) AS most WHERE {{costs}}
    UNION SELECT hour FROM hour_values
    WHERE kind = 0 AND hour NOT IN (SELECT hour FROM hour_values WHERE kind = {MOST_OF_MODEL})
) AS costly"""  # noqa: S608 - as above

_EACH: Final = ", ".join(SUMS)
_TAKEN: Final = ", ".join(f"-{name}" for name in SUMS)
#: The hour at which the day of a zone begins.
_BEGINS: Final = "(since + :ahead) / 24 * 24 - :ahead"
_DIRTY_BEGINS: Final = _BEGINS.replace("since", "hour")
#: Sums by days of a zone: of whole days of UTC in the period with all hours up to date; of hours of others.
#: In another zone some hours of each whole day belong to the day beside it: they are taken from the one and
#: added to the other. Only days with changed hours are grouped by their keys: to sort all days by nine
#: columns took half of the time.
_TOTALS: Final = f"""WITH {{tables}} unfit(day) AS ({{unfit}}),
    whole AS (
        SELECT since, grp, {_EACH} FROM sums WHERE hours = 24 AND since >= :first AND since < :last
        AND since NOT IN (SELECT day FROM unfit)
    ),
    moved AS (
        SELECT day, grp, {ADDED} FROM (SELECT DISTINCT since AS day FROM whole) AS days {{joined}} sums
        ON hours = 1 AND sums.since >= day + :moved_from AND sums.since < day + :moved_until GROUP BY 1, 2
    ),
    known AS (
        SELECT since, grp, {_EACH} FROM sums WHERE hours = 1
        AND since >= :since AND since < :first AND since NOT IN (SELECT hour FROM dirty)
        UNION ALL SELECT since, grp, {_EACH} FROM sums WHERE hours = 1
        AND since >= :last AND since < :until AND since NOT IN (SELECT hour FROM dirty)
        UNION ALL SELECT since, grp, {_EACH} FROM unfit {{joined}} sums ON hours = 1
        AND since >= day AND since < day + 24 WHERE day >= :first AND day < :last
        AND since NOT IN (SELECT hour FROM dirty)
        UNION ALL SELECT since, grp, {_EACH} FROM dirty {{joined}} sums ON hours = 0 AND since = hour
        WHERE since >= :since AND since < :until
    ),
    days_of_zone AS (
        SELECT day, grp, {ADDED} FROM (
            SELECT since - :zone AS day, grp, {_EACH} FROM whole WHERE :zone != 0
            UNION ALL SELECT day - :zone, grp, {_TAKEN} FROM moved
            UNION ALL SELECT day + :beside - :zone, grp, {_EACH} FROM moved
            UNION ALL SELECT {_BEGINS}, grp, {_EACH} FROM known
        ) AS parts GROUP BY 1, 2 HAVING sum(turns) > 0
    ),
    changed(day) AS (SELECT DISTINCT {_DIRTY_BEGINS} FROM dirty)
    SELECT since, {KEYS}, {_EACH} FROM whole {{joined}} groups ON groups.id = grp WHERE :zone = 0
    UNION ALL SELECT day, {KEYS}, {_EACH} FROM days_of_zone {{joined}} groups ON groups.id = grp
    WHERE day NOT IN (SELECT day FROM changed)
    UNION ALL SELECT day, {KEYS}, {ADDED} FROM (
        SELECT day, {KEYS}, {_EACH} FROM days_of_zone {{joined}} groups ON groups.id = grp
        WHERE day IN (SELECT day FROM changed)
        UNION ALL SELECT {_DIRTY_BEGINS}, {KEYS}, {_EACH} FROM ({{live}}) AS live
    ) AS found GROUP BY 1, {KEYS}"""  # noqa: S608 - as above


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
    tables: str  # what is read instead of tables that the engine does not have
    unfit: str  # the days of UTC whose sums are not those of their hours
    live: str  # the rows of hours that have changed, under the name ``summaries``
    joined: str  # a join whose first side is read first
    named: str  # the place of a named value, which is group 1 of a pattern


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
        totals = _TOTALS.format(**{**dialect._asdict(), "live": self.rollup(dialect.live)})
        self._totals: Final = re.sub(r"(?<!:):(\w+)", dialect.named, totals)

    def totals_of(self, since: float, until: float, zone: int, gone: float) -> tuple[str, dict[str, float]]:
        """Return the statement of the totals of a period by days of a zone, and its values.

        Rows until ``gone``, in seconds since the epoch, are in sums that stay.
        """
        begin, end = hour_of(since), hour_of(until, math.ceil)
        ahead = zone % 24
        zone = ahead if ahead <= 12 else ahead - 24  # a day of zone 13 begins with one of zone -11
        first, last = -(-begin // 24) * 24, end // 24 * 24
        if first > last:
            first = last = begin
        moved_from, moved_until, beside = (24 - zone, 24, 24) if zone > 0 else (0, -zone, -24)
        return self._totals, {
            "since": begin, "until": end, "first": first, "last": last, "zone": zone, "ahead": ahead,
            "gone": gone, "moved_from": moved_from, "moved_until": moved_until, "beside": beside,
        }  # fmt: skip

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
        kind, model, *tokens = (self._dialect.member.format(place) for place in range(2 + len(Usage._fields)))
        keys = f"{_ANSWERED}, result, '', CAST(0 AS smallint), asked, beside, {kind}, {model}"
        # Parts of before 30 November 2026 are shorter.
        sums = ", ".join(f"CAST(sum(coalesce(CAST({each} AS bigint), 0)) AS bigint)" for each in tokens)
        source = f"{source}, {self._dialect.each_part}"
        return f"{keys}, count(*), {sums}, {_NO_MORE} FROM {source} WHERE beside != ''"

    def row_in(self, values: Sequence[Any]) -> DecisionRow:
        """Return the row of the values that ``search_of`` reads."""
        found = dict(zip(FIELDS, values, strict=True))
        for flag in (*FLAGS, "switched", "asked"):
            found[flag] = bool(found[flag])
        for several in ("domains", "signals"):
            found[several] = tuple(self._dialect.several(found[several]))
        found["parts"] = _parts(found["parts"]) if found["parts"] != EMPTY else ()
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
            items = [self._dialect.item.format(place) for place in range(1 + len(Usage._fields))]
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
        found: dict[str, tuple[float, ...]] = {}
        for name, model in models.items():
            per_token = model.per_token
            if not per_token:
                continue
            if of_hour:  # names that begin with the same characters are stored as one
                named = self._of_hour(name)
                found[named] = tuple(map(max, per_token, found.get(named, _FREE)))
            else:
                found.setdefault(self._dialect.clean(name), per_token)
        each = "CAST(? AS float8)"
        terms = " + ".join(f"{kind} * {each}" for kind in Usage._fields)
        cases = [f"WHEN ? THEN {terms}"] * len(found)
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
        tables="",
        unfit="SELECT DISTINCT hour / 24 * 24 FROM dirty",
        # CROSS: the hours first, or all rows would be read.
        live="dirty CROSS JOIN summaries ON at >= dirty.hour * 3600.0 AND at < (dirty.hour + 1) * 3600.0 "
        "AND at > :gone AND dirty.hour >= :since AND dirty.hour < :until",
        joined="CROSS JOIN",
        named=r":\1",
    )
)


def totals_in(rows: Iterable[tuple[Any, ...]]) -> Totals:
    """Return the totals in rows of hour, ``KEYS`` and ``SUMS``, one for each hour and group, sorted."""
    turns, parts = [], []
    for hour, tier, model, result, own, gap, asked, beside, kind, of, *sums in sorted(rows):
        said = RESULTS[result]
        if kind:
            part = (hour, tier, model, said, bool(asked), beside, kind, of)
            parts.append(PartTotals(*part, *sums[: 1 + len(Usage._fields)]))
        else:
            turns.append(TurnTotals(hour, tier, model, said, own, gap, bool(asked), beside, *sums))
    return Totals(tuple(turns), tuple(parts))


def spenders_in(rows: Iterable[tuple[Any, ...]]) -> dict[Spender, Totals]:
    """Return the totals of each spender in the rows of ``SummarySearch.spenders``."""
    width = len(Spender._fields)
    found = grouped((Spender(*row[:width]), row[width:]) for row in sorted(rows))
    return {spender: totals_in(of) for spender, of in found.items()}


def hour_of(seconds: float, rounded: Callable[[float], int] = math.floor) -> int:
    """The hour since the epoch, within bounds that a column can hold."""
    return rounded(max(-1e12, min(seconds, 1e12)) / HOUR)
