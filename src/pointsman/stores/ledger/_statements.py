"""The SQL of entries: what SQLite writes, and what both engines read; they differ in a few names."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from pointsman.decision.decision import Decision
from pointsman.stores.ledger.port import (
    Attempt,
    ComparedAnswers,
    Outcome,
    Owner,
    PassedRequest,
    PolicyText,
    PromptText,
    RunEntry,
    ShadowAnswer,
    ShadowDecision,
)

__all__ = [
    "INSERT",
    "KEEP_OWNER",
    "KEEP_POLICY",
    "POLICY_USED",
    "POSTGRES",
    "SQLITE",
    "Dialect",
    "Statements",
]

#: The first owner stays: an upstream may give an id again, as after a restart.
KEEP_OWNER: Final = "INSERT INTO owners (object, caller, at) VALUES {rows} ON CONFLICT (object) DO NOTHING"
KEEP_POLICY: Final = (
    "INSERT INTO policies (version, text) VALUES {rows} "
    "ON CONFLICT (version) DO UPDATE SET text = excluded.text"
)
#: That a policy decided: its version, twice a time, and how often.
POLICY_USED: Final = (
    "INSERT INTO policies (version, first, last, decisions) VALUES {rows} "
    "ON CONFLICT (version) DO UPDATE SET "
    "first = CASE WHEN policies.first < excluded.first THEN policies.first ELSE excluded.first END, "
    "last = CASE WHEN policies.last > excluded.last THEN policies.last ELSE excluded.last END, "
    "decisions = policies.decisions + excluded.decisions"
)

_INSERT_SHADOW: Final = "INSERT INTO shadows (decision, at, body) VALUES {rows}"

INSERT: Final[dict[type, str]] = {
    Decision: "INSERT INTO decisions (id, session, arrived_at, body, shape, caller) VALUES {rows} "
    "ON CONFLICT (id) DO UPDATE SET session = excluded.session, arrived_at = excluded.arrived_at, "
    "body = excluded.body, shape = excluded.shape, caller = excluded.caller",
    Attempt: "INSERT INTO attempts (decision, number, at, body) VALUES {rows}",
    Outcome: "INSERT INTO outcomes (decision, at, body) VALUES {rows}",
    ShadowDecision: _INSERT_SHADOW,
    ShadowAnswer: _INSERT_SHADOW,
    ComparedAnswers: _INSERT_SHADOW,
    Owner: KEEP_OWNER,
    PassedRequest: "INSERT INTO passed (id, at, body) VALUES {rows}",
    RunEntry: "INSERT INTO runs (run, number, session, at, body) VALUES {rows} ON CONFLICT (run, number) "
    "DO UPDATE SET session = excluded.session, at = excluded.at, body = excluded.body",
    PromptText: "INSERT OR REPLACE INTO texts (decision, at, text) VALUES {rows}",
    PolicyText: KEEP_POLICY,
}


class Dialect(NamedTuple):
    """Names in which the engines differ."""

    place: str  # of a value
    arrival: str  # column: when a decision arrived
    number: str  # column: counts rows in order of insertion
    step: str  # column: number of a step of a run
    one_of: str  # that an id is one of several, which are one value
    entries: str  # kind, decision and body of what belongs to several decisions
    outcomes: str  # those that are outcomes, of the decision that follows
    owners: tuple[
        tuple[str, float | str], ...
    ]  # columns in whose order owners are read, and what is before all


SQLITE: Final = Dialect(
    place="?",
    arrival="arrived_at",
    number="rowid",
    step="number",
    one_of="IN (SELECT value FROM json_each(?))",
    entries="""WITH wanted(id) AS (SELECT value FROM json_each(?)) SELECT kind, decision, body FROM (
        SELECT 0 AS kind, decision, number AS step, rowid AS number, body FROM attempts
        WHERE decision IN wanted
        UNION ALL SELECT 1, decision, 0, rowid, body FROM outcomes WHERE decision IN wanted
        UNION ALL SELECT 2, decision, 0, rowid, body FROM shadows WHERE decision IN wanted
        UNION ALL SELECT 3, decision, 0, rowid, CAST(text AS BLOB) FROM texts WHERE decision IN wanted)""",
    outcomes="outcomes WHERE decision",
    owners=(("rowid", -1.0),),
)
POSTGRES: Final = Dialect(
    place="%s",
    arrival="at",
    number="number",
    step="step",
    one_of="= ANY (?)",
    entries="SELECT kind, decision, body FROM entries WHERE decision = ANY (?)",
    outcomes="entries WHERE kind = 1 AND decision",
    owners=(("at", -math.inf), ("object", "")),
)

_SIDES: Final = {True: {"side": "<", "order": "DESC"}, False: {"side": ">", "order": "ASC"}}
_OF_CALLER: Final = "id = ? AND CAST(? AS text) IN ('', caller)"
_OF_SESSION: Final = "(session = ? OR (session >= ? AND session < ?)) AND"
_DECISION: Final = "SELECT body, shape FROM decisions WHERE "
#: The first term leaves out partitions.
_DECISIONS: Final = (
    "SELECT body, shape, {arrival}, number FROM decisions WHERE {session} {arrival} {side}= ? "
    "AND ({arrival}, number) {side} (?, ?) ORDER BY {arrival} {order}, number {order} LIMIT ?"
)
_PASSED: Final = "SELECT {number}, body FROM passed WHERE {number} {side} ? ORDER BY {number} {order} LIMIT ?"
#: Ids of runs by their first entry that is left; of one session or of all ('').
_RUNS: Final = (
    "SELECT run, min({number}) FROM runs WHERE CAST(? AS text) IN ('', session) GROUP BY run "
    "HAVING min({number}) {side} ? ORDER BY 2 {order} LIMIT ?"
)


class Statements:
    """The statements of a dialect. Several ids are one value, as ``one_of`` takes them.

    Args:
        dialect: Of the engine.
    """

    def __init__(self, dialect: Dialect) -> None:
        def of(query: str, **more: str) -> str:
            return query.format(**{**names, **more}).replace("?", dialect.place)

        columns = ", ".join(name for name, _ in dialect.owners)
        places = ", ".join("?" * len(dialect.owners))
        names = {**dialect._asdict(), "columns": columns, "places": places, "of_caller": _OF_CALLER}
        #: One decision, of one caller or of all ('').
        self.decision: Final = of(_DECISION + "{of_caller}")
        self.decisions: Final = of(_DECISION + "id {one_of}")
        #: By (newest first, of one session).
        self.pages: Final = {
            (newest_first, one): of(_DECISIONS, session=_OF_SESSION if one else "", **side)
            for newest_first, side in _SIDES.items()
            for one in (True, False)
        }
        #: Kind, decision and body; kinds are 0 attempt, 1 outcome, 2 shadow, 3 text.
        self.entries: Final = of("{entries} ORDER BY kind, step, number")
        #: A row where there is such a decision.
        self.outcomes_count: Final = of(
            "SELECT (SELECT count(*) FROM {outcomes} = decisions.id) FROM decisions WHERE {of_caller}"
        )
        #: By (newest first).
        self.passed: Final = {newest_first: of(_PASSED, **side) for newest_first, side in _SIDES.items()}
        self.run_pages: Final = {newest_first: of(_RUNS, **side) for newest_first, side in _SIDES.items()}
        self.runs: Final = of("SELECT run, {step}, body FROM runs WHERE run {one_of} ORDER BY {number}")
        self.owner: Final = of("SELECT caller FROM owners WHERE object = ?")
        self.owners: Final = of(
            "SELECT object, caller, at, {columns} FROM owners WHERE ({columns}) > ({places}) "
            "ORDER BY {columns} LIMIT ?"
        )
        self.owners_from: Final = tuple(before for _, before in dialect.owners)
        self.policy: Final = of("SELECT text FROM policies WHERE version = ? AND text != ''")
        self.policies: Final = of(
            "SELECT version, first, last, decisions, text != '' FROM policies WHERE last IS NOT NULL "
            "ORDER BY last DESC, version"
        )
