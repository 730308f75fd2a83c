"""The summaries of a ledger in PostgreSQL: a row a decision, the searches among rows, and their sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pointsman.stores.ledger._summaries import SearchDialect, SummarySearch
from pointsman.stores.ledger._sums import KEYS, RESULT_NUMBERS, RESULTS, SUMS
from pointsman.stores.ledger.postgres._rows import Row, clean, most
from pointsman.stores.ledger.postgres._schema import stored_at
from pointsman.stores.ledger.reading import (
    GAPS,
    DecisionRow,
    Part,
    Spender,
)
from pointsman.stores.ledger.turns import HOUR, Before, TurnSummary, beside_of

__all__ = ["COLUMNS", "LINK", "LIVE_TOTALS", "SEAL", "SPENDERS", "TOTALS", "encoded", "read_before", "row_in",
           "search_of", "session_of"]  # fmt: skip

_COUNTED: Final = RESULT_NUMBERS["counted"]
_NO_ANSWER: Final = RESULT_NUMBERS["no_answer"]
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
        RESULT_NUMBERS[row.result], most(row.status), most(row.attempts), list(map(clean, row.domains)),
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
    found["result"] = RESULTS[found["result"]]
    found["domains"], found["signals"] = tuple(found["domains"]), tuple(found["signals"])
    found["parts"] = _parts(found["parts"])
    return DecisionRow(**found)


#: The words of a kept text. Rows of earlier versions may hold a NUL, at which ``convert_from`` would fail and
#: with it the search of all others: there U+FFFD takes its place, as in new rows. In the escaped form a NUL
#: is ``\000``, and each backslash is doubled; those go first, so that what is left begins a number.
_WORDS: Final = r"""convert_from(CASE WHEN position('\x00'::bytea IN body) = 0 THEN body
    ELSE decode(replace(replace(encode(body, 'escape'), '\\', '\134'), '\000', '\357\277\275'), 'escape')
    END, 'UTF8')"""
_SEARCH: Final = SummarySearch(
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
    ),
    _NAMES,
)
search_of: Final = _SEARCH.search_of
session_of: Final = _SEARCH.session_of

_NAMED: Final = ", ".join(SUMS)
_OF_TYPE: Final = {"judging": "float8"}
_ADDED: Final = ", ".join(f"sum({each})::{_OF_TYPE.get(each, 'bigint')} AS {each}" for each in SUMS)

#: Sums of rows, and of their parts, of which ``turns`` are the parts, and all but the tokens is 0.
_SUMS_OF_TURNS: Final = f"""count(*) AS turns, sum(input) AS input,
    sum(cached) AS cached, sum(output) AS output, sum(reused) AS reused,
    count(*) FILTER (WHERE result = {_COUNTED} AND reused > cached) AS assumed,
    count(*) FILTER (WHERE switched) AS switches, sum(trials) AS trials,
    coalesce(sum(added) FILTER (WHERE result = {_COUNTED}), 0) AS added, sum(judging) AS judging,
    count(*) FILTER (WHERE stuck) AS stuck, count(*) FILTER (WHERE downgraded) AS downgraded,
    count(*) FILTER (WHERE abstained) AS abstained"""
_SUMS_OF_PARTS: Final = f"""count(*), sum((part ->> 2)::bigint),
    sum((part ->> 3)::bigint), sum((part ->> 4)::bigint), {", ".join(["0"] * (len(SUMS) - 4))}"""
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
SPENDERS: Final = f"SELECT {_SPENDER}, 0, '', {KEYS.partition(', ')[2]}, {', '.join(each if each == 'judging' else each + '::bigint' for each in SUMS)} FROM ({_SPENT}) AS spent"  # noqa: S608, E501

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
    SELECT day, {KEYS}, {_NAMED} FROM sums JOIN groups ON groups.id = grp"""  # noqa: S608 - words of ours
#: And of what is not.
LIVE_TOTALS: Final = f"""SELECT (hour + %(zone)s) / 24 * 24 - %(zone)s, {KEYS}, {_ADDED}
    FROM ({_LIVE.format(source=_UNSEALED)}) AS live GROUP BY 1, {KEYS}"""  # noqa: S608 - words of ours

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
    f"""INSERT INTO groups ({KEYS}) SELECT DISTINCT {KEYS} FROM ({_LIVE.format(source=_ONE)}) AS live
        ON CONFLICT DO NOTHING""",  # noqa: S608 - as above
    f"""INSERT INTO hours (hour, grp, {_NAMED}) SELECT hour, groups.id, {_NAMED}
        FROM ({_LIVE.format(source=_ONE)}) AS live JOIN groups USING ({KEYS})""",  # noqa: S608 - as above
    "DELETE FROM days WHERE hour = %(hour)s / 24 * 24",
    f"""INSERT INTO days (hour, grp, {_NAMED}) SELECT %(hour)s / 24 * 24, grp, {_ADDED} FROM hours
        WHERE hour >= %(hour)s / 24 * 24 AND hour < %(hour)s / 24 * 24 + 24 AND NOT EXISTS (
            SELECT FROM dirty WHERE hour >= %(hour)s / 24 * 24 AND hour < %(hour)s / 24 * 24 + 24
        ) GROUP BY grp""",  # noqa: S608 - as above
)
