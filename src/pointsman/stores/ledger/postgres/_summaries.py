"""The summaries of a ledger in PostgreSQL: a row a decision, what is searched among them, and their sums."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, get_args

import msgspec

from pointsman.prices import Prices
from pointsman.stores.ledger.postgres._rows import Row, clean, most
from pointsman.stores.ledger.postgres._schema import stored_at
from pointsman.stores.ledger.reading import (
    GAPS,
    DecisionFilter,
    DecisionRow,
    Part,
    PartTotals,
    Position,
    Result,
    Spender,
    Totals,
    TurnTotals,
)
from pointsman.stores.ledger.turns import HOUR, Before, TurnSummary, beside_of
from pointsman.vocabulary import OF_SUBAGENT

__all__ = ["COLUMNS", "LINK", "LIVE_TOTALS", "SEAL", "SPENDERS", "TOTALS", "encoded", "hour_of",
           "read_before", "row_in", "search_of", "session_of", "spenders_in", "totals_in"]  # fmt: skip

_RESULTS: Final[tuple[Result, ...]] = get_args(Result)
_NUMBERS: Final = {result: number for number, result in enumerate(_RESULTS)}
_COUNTED: Final = _NUMBERS["counted"]
_NO_ANSWER: Final = _NUMBERS["no_answer"]
_PER: Final = 1_000_000
#: Most tokens of a turn: sums of a million such turns are numbers that a column holds.
_MOST: Final = 10**12

#: Fields of a row, in the order of its struct, with their types; then what only the writer reads.
_FIELDS: Final = {
    "id": "text", "at": "float8", "session": "text", "caller": "text", "role": "text", "project": "text",
    "project_name": "text", "client": "text", "tier": "text", "model": "text", "result": "int2",
    "status": "int4", "attempts": "int4", "domains": "text[]", "signals": "text[]", "stuck": "bool",
    "downgraded": "bool", "abstained": "bool", "label": "text", "score": "float8", "labelled": "bool",
    "input": "int8", "cached": "int8", "output": "int8", "gap": "int2", "reused": "int8", "own": "text",
    "switched": "bool", "asked": "bool", "trials": "int4", "added": "int8", "judging": "float8",
    "parts": "text",
}  # fmt: skip
COLUMNS: Final = _FIELDS | {
    "hour": "int8", "beside": "text", "before": "text", "last_model": "text", "tried": "text",
}  # fmt: skip
_NAMES: Final = ", ".join(_FIELDS)

_json: Final = msgspec.json.Encoder().encode
_parts: Final = msgspec.json.Decoder(tuple[Part, ...]).decode
read_before: Final = msgspec.json.Decoder(Before).decode


def encoded(turn: TurnSummary, row: DecisionRow) -> Row:
    """The values of ``COLUMNS``."""
    after, at = turn.after(), stored_at(row.at)
    return (
        clean(row.id), at, clean(row.session), clean(row.caller), row.role,
        clean(row.project), clean(row.project_name), clean(row.client), row.tier, clean(row.model),
        _NUMBERS[row.result], most(row.status), most(row.attempts), list(map(clean, row.domains)),
        list(map(clean, row.signals)), row.stuck, row.downgraded, row.abstained, clean(row.label), row.score,
        row.labelled, _tokens(row.input), _tokens(row.cached), _tokens(row.output), row.gap,
        _tokens(row.reused), clean(row.own), row.switched, row.asked, most(row.trials), _tokens(row.added),
        row.judging, _json(row.parts).decode(), int(at // HOUR), clean(beside_of(row.parts)),
        clean(_json(turn.before).decode()) if turn.before else "", clean(after.model),
        None if after.tried is None else clean(after.tried),
    )  # fmt: skip


def _tokens(count: int) -> int:
    return min(count, _MOST)


def row_in(values: Sequence[Any]) -> DecisionRow:
    """The row of the values that ``search_of`` reads."""
    found = dict(zip(_FIELDS, values, strict=True))
    found["result"] = _RESULTS[found["result"]]
    found["domains"], found["signals"] = tuple(found["domains"]), tuple(found["signals"])
    found["parts"] = _parts(found["parts"])
    return DecisionRow(**found)


def search_of(
    wanted: DecisionFilter, before: Position | None, limit: int, models: Mapping[str, Prices]
) -> tuple[str, list[object]]:
    """The statement of a search, and its values."""
    terms, values = [], []
    for term, given in _terms(wanted, before, models):
        terms.append(term)
        values += given
    where = f"WHERE {' AND '.join(terms)} " if terms else ""
    source, own = _in_session(wanted.session) if wanted.session else ("summaries", [])
    found = f"SELECT {_NAMES} FROM {source} {where}ORDER BY at DESC, id DESC LIMIT %s"  # noqa: S608 - names of ours
    return found, [*own, *values, limit]


def session_of(session: str, limit: int) -> tuple[str, list[object]]:
    """The statement of a session's rows, the oldest first, and its values."""
    source, values = _in_session(session)
    return f"SELECT {_NAMES} FROM {source} ORDER BY at, id LIMIT %s", [*values, limit]  # noqa: S608 - names of ours


def _in_session(session: str) -> tuple[str, list[object]]:
    """A session's rows are found first, or it would be looked for among all rows."""
    below = clean(session) + OF_SUBAGENT
    beyond = below[:-1] + chr(ord(OF_SUBAGENT) + 1)
    both = "session = %s OR (session >= %s AND session < %s AND role = 'subagent')"
    found = f"(SELECT * FROM summaries WHERE {both} OFFSET 0) AS summaries"  # noqa: S608 - words of ours
    return found, [clean(session), below, beyond]


Terms = Iterator[tuple[str, list[object]]]


def _terms(wanted: DecisionFilter, before: Position | None, models: Mapping[str, Prices]) -> Terms:
    """What a row has to meet, the cheapest first."""
    if before is not None:  # the first term leaves out partitions
        yield "at <= %s AND (at, id) < (%s, %s)", [before[0], before[0], clean(before[1])]
    for term, value in (
        ("at >= %s", wanted.since),
        ("at < %s", wanted.until),
        ("status = %s", wanted.status),
    ):
        if value is not None:
            yield term, [value]
    for name in ("caller", "tier", "model", "role", "project", "client", "label"):
        if value := getattr(wanted, name):
            yield f"{name} = %s", [clean(value)]
    for flag in ("stuck", "downgraded", "abstained", "labelled"):
        if (value := getattr(wanted, flag)) is not None:
            yield flag if value else f"NOT {flag}", []
    yield from _searches(wanted, models)


#: The words of a kept text. Rows of earlier versions may hold a NUL, at which ``convert_from`` would fail and
#: with it the search of all others: there U+FFFD takes its place, as in new rows. In the escaped form a NUL
#: is ``\000``, and each backslash is doubled; those go first, so that what is left begins a number.
_WORDS: Final = r"""convert_from(CASE WHEN position('\x00'::bytea IN body) = 0 THEN body
    ELSE decode(replace(replace(encode(body, 'escape'), '\\', '\134'), '\000', '\357\277\275'), 'escape')
    END, 'UTF8')"""


def _searches(wanted: DecisionFilter, models: Mapping[str, Prices]) -> Terms:
    for several, value in (("domains", wanted.domain), *(("signals", each) for each in wanted.in_signals)):
        if value:
            yield f"%s = ANY ({several})", [clean(value)]
    if wanted.cost_at_least is not None:
        yield _costs(wanted.cost_at_least, models)
    if wanted.text:
        said = "SELECT 1 FROM entries WHERE decision = summaries.id AND kind = 3"
        part = wanted.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        yield f"EXISTS ({said} AND {_WORDS} ILIKE %s)", [f"%{clean(part)}%"]


def _costs(least: float, models: Mapping[str, Prices]) -> tuple[str, list[object]]:
    """That an answer cost so much: each model's price of a token of input, cached input and output."""
    cases: list[str] = []
    values: list[object] = []
    for name, model in models.items():
        prices = [model.cost(*tokens) for tokens in ((_PER, 0, 0), (0, _PER, 0), (0, 0, _PER))]
        if None not in prices:
            each = "%s::float8"
            cases.append(f"WHEN %s THEN input * {each} + cached * {each} + output * {each}")
            values += [clean(name), *((price or 0.0) / _PER for price in prices)]
    costs = f"CASE model {' '.join(cases)} ELSE -1 END" if cases else "-1"
    return f"(result = {_COUNTED} AND {costs} >= %s::float8)", [*values, least]


_KEYS: Final = "tier, model, result, own, gap, asked, beside, kind, part_model"
_SUMS: Final = TurnTotals.__struct_fields__[8:]
_NAMED: Final = ", ".join(_SUMS)
#: Values of a row before its sums: the day, and what its turns have in common.
_KEYED: Final = 2 + _KEYS.count(",")
_OF_TYPE: Final = {"judging": "float8"}
_ADDED: Final = ", ".join(f"sum({each})::{_OF_TYPE.get(each, 'bigint')} AS {each}" for each in _SUMS)

#: Sums of rows, and of their parts, of which ``turns`` are the parts, and all but the tokens is 0.
_SUMS_OF_TURNS: Final = f"""count(*) AS turns, sum(input) AS input,
    sum(cached) AS cached, sum(output) AS output, sum(reused) AS reused,
    count(*) FILTER (WHERE result = {_COUNTED} AND reused > cached) AS assumed,
    count(*) FILTER (WHERE switched) AS switches, sum(trials) AS trials,
    coalesce(sum(added) FILTER (WHERE result = {_COUNTED}), 0) AS added, sum(judging) AS judging,
    count(*) FILTER (WHERE stuck) AS stuck, count(*) FILTER (WHERE downgraded) AS downgraded,
    count(*) FILTER (WHERE abstained) AS abstained"""
_SUMS_OF_PARTS: Final = f"""count(*), sum((part ->> 2)::bigint),
    sum((part ->> 3)::bigint), sum((part ->> 4)::bigint), {", ".join(["0"] * (len(_SUMS) - 4))}"""
_ANSWERED: Final = f"CASE result WHEN {_NO_ANSWER} THEN '' ELSE model END AS model"
_LIVE: Final = f"""SELECT hour, tier, {_ANSWERED}, result, own, gap, asked, beside, '' AS kind,
    '' AS part_model, {_SUMS_OF_TURNS} FROM {{source}} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
    UNION ALL SELECT hour, tier, {_ANSWERED}, result, '', 0::smallint, asked, beside, part ->> 0,
    part ->> 1, {_SUMS_OF_PARTS}
    FROM {{source}}, jsonb_array_elements(parts::jsonb) AS part WHERE beside != ''
    GROUP BY 1, 2, 3, 4, 7, 8, 9, 10"""  # noqa: S608 - words of ours

_SPENDER: Final = ", ".join(Spender._fields)
_WITHIN: Final = "at >= %(since)s AND at < %(until)s"
#: The sums of a period for each spender, neither by hour nor by tier.
_SPENT: Final = f"""SELECT {_SPENDER}, 0, '', {_ANSWERED}, result, own, gap, asked, beside, '' AS kind,
    '' AS part_model, {_SUMS_OF_TURNS} FROM summaries WHERE {_WITHIN}
    GROUP BY 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13
    UNION ALL SELECT {_SPENDER}, 0, '', {_ANSWERED}, result, '', 0::smallint, asked, beside, part ->> 0,
    part ->> 1, {_SUMS_OF_PARTS}
    FROM summaries, jsonb_array_elements(parts::jsonb) AS part WHERE beside != '' AND {_WITHIN}
    GROUP BY 1, 2, 3, 4, 5, 8, 9, 12, 13, 14, 15"""  # noqa: S608 - words of ours
SPENDERS: Final = f"SELECT {_SPENDER}, 0, '', {_KEYS.partition(', ')[2]}, {', '.join(each if each == 'judging' else each + '::bigint' for each in _SUMS)} FROM ({_SPENT}) AS spent"  # noqa: S608, E501

#: Of the hours that are not added up yet, from one hour to another: the time leaves out partitions.
_UNSEALED: Final = (
    "(SELECT summaries.* FROM summaries JOIN dirty USING (hour) WHERE hour >= %(since)s AND hour < %(until)s "
    "AND at >= (SELECT min(hour) FROM dirty WHERE hour >= %(since)s) * 3600.0 "
    "AND at < ((SELECT max(hour) FROM dirty WHERE hour < %(until)s) + 1) * 3600.0) AS summaries"
)
#: Totals by days of a zone, of what is added up: of whole days of UTC from the sums of days, where they do.
TOTALS: Final = f"""WITH whole AS (
        SELECT DISTINCT hour AS day FROM days
        WHERE %(zone)s = 0 AND hour >= %(since)s AND hour + 24 <= %(until)s
        AND hour NOT IN (SELECT hour / 24 * 24 FROM dirty)
    ),
    sums AS (
        SELECT hour AS day, grp, {_NAMED} FROM days WHERE hour IN (SELECT day FROM whole)
        UNION ALL
        SELECT (hour + %(zone)s) / 24 * 24 - %(zone)s, grp, {_ADDED} FROM hours
        WHERE hour >= %(since)s AND hour < %(until)s AND hour NOT IN (SELECT hour FROM dirty)
        AND hour / 24 * 24 NOT IN (SELECT day FROM whole) GROUP BY 1, 2
    )
    SELECT day, {_KEYS}, {_NAMED} FROM sums JOIN groups ON groups.id = grp"""  # noqa: S608 - words of ours
#: And of what is not.
LIVE_TOTALS: Final = f"""SELECT (hour + %(zone)s) / 24 * 24 - %(zone)s, {_KEYS}, {_ADDED}
    FROM ({_LIVE.format(source=_UNSEALED)}) AS live GROUP BY 1, {_KEYS}"""  # noqa: S608 - words of ours

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
    f"""INSERT INTO groups ({_KEYS}) SELECT DISTINCT {_KEYS} FROM ({_LIVE.format(source=_ONE)}) AS live
        ON CONFLICT DO NOTHING""",  # noqa: S608 - as above
    f"""INSERT INTO hours (hour, grp, {_NAMED}) SELECT hour, groups.id, {_NAMED}
        FROM ({_LIVE.format(source=_ONE)}) AS live JOIN groups USING ({_KEYS})""",  # noqa: S608 - as above
    "DELETE FROM days WHERE hour = %(hour)s / 24 * 24",
    f"""INSERT INTO days (hour, grp, {_NAMED}) SELECT %(hour)s / 24 * 24, grp, {_ADDED} FROM hours
        WHERE hour >= %(hour)s / 24 * 24 AND hour < %(hour)s / 24 * 24 + 24 AND NOT EXISTS (
            SELECT FROM dirty WHERE hour >= %(hour)s / 24 * 24 AND hour < %(hour)s / 24 * 24 + 24
        ) GROUP BY grp""",  # noqa: S608 - as above
)


def hour_of(seconds: float, *, up: bool = False) -> int:
    """The hour since the epoch in which a period begins, or before which it ends."""
    hours = max(-1e12, min(seconds, 1e12)) / HOUR
    return math.ceil(hours) if up else math.floor(hours)


def totals_in(*parts_of: Sequence[Sequence[Any]]) -> Totals:
    """The totals in the rows of ``TOTALS`` and ``LIVE_TOTALS``: those of one day and group are one."""
    found: dict[tuple[Any, ...], Sequence[Any]] = {}
    for row in chain.from_iterable(parts_of):
        key, sums = tuple(row[:_KEYED]), row[_KEYED:]
        known = found.get(key)
        found[key] = sums if known is None else [a + b for a, b in zip(known, sums, strict=True)]
    turns, parts = [], []
    for (hour, tier, model, result, own, gap, asked, beside, kind, of), sums in found.items():
        said = _RESULTS[result]
        if kind:
            parts.append(PartTotals(hour, tier, model, said, asked, beside, kind, of, *sums[1:4]))
        else:
            turns.append(TurnTotals(hour, tier, model, said, own, gap, asked, beside, *sums))
    return Totals(tuple(turns), tuple(parts))


def spenders_in(rows: Iterable[Sequence[Any]]) -> dict[Spender, Totals]:
    """The totals of each spender in the rows of ``SPENDERS``."""
    found: dict[Spender, list[Sequence[Any]]] = {}
    for row in rows:
        found.setdefault(Spender(*row[: len(Spender._fields)]), []).append(row[len(Spender._fields) :])
    return {spender: totals_in(of) for spender, of in found.items()}
