"""The SQL of a SQLite ledger."""

from __future__ import annotations

from typing import Final

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

__all__ = ["ATTEMPTS_OF", "DECISION", "DECISIONS_OF", "INSERT", "OUTCOMES_COUNT", "OUTCOMES_OF",
           "OWNERS_PAGE", "PAGES", "PASSED_PAGES", "POLICIES", "POLICY_USED", "RUNS_OF", "RUN_PAGES",
           "SHADOWS_OF", "TEXTS_OF"]  # fmt: skip

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
    # Who made it first keeps it: an upstream may give an id again, as after a restart.
    Owner: "INSERT INTO owners (object, caller, at) VALUES {rows} ON CONFLICT (object) DO NOTHING",
    PassedRequest: "INSERT INTO passed (id, at, body) VALUES {rows}",
    RunEntry: "INSERT INTO runs (run, number, session, at, body) VALUES {rows} ON CONFLICT (run, number) "
    "DO UPDATE SET session = excluded.session, at = excluded.at, body = excluded.body",
    PromptText: "INSERT OR REPLACE INTO texts (decision, at, text) VALUES {rows}",
    PolicyText: "INSERT INTO policies (version, text) VALUES {rows} "
    "ON CONFLICT (version) DO UPDATE SET text = excluded.text",
}

#: That a policy decided: its version, twice a time, and how often.
POLICY_USED: Final = (
    "INSERT INTO policies (version, first, last, decisions) VALUES {rows} "
    "ON CONFLICT (version) DO UPDATE SET first = min(coalesce(first, excluded.first), excluded.first), "
    "last = max(coalesce(last, excluded.last), excluded.last), decisions = decisions + excluded.decisions"
)
POLICIES: Final = (
    "SELECT version, first, last, decisions, text != '' FROM policies WHERE last IS NOT NULL "
    "ORDER BY last DESC, version"
)


_PAGE: Final = (
    "SELECT body, shape, arrived_at, number FROM decisions "
    "WHERE {session} (arrived_at, number) {beyond} (?, ?) ORDER BY arrived_at {order}, number {order} LIMIT ?"
)
#: By (newest first, of one session).
PAGES: Final = {
    (newest_first, one): _PAGE.format(
        session="(session = ? OR (session >= ? AND session < ?)) AND" if one else "",
        beyond="<" if newest_first else ">",
        order="DESC" if newest_first else "ASC",
    )
    for newest_first in (True, False)
    for one in (True, False)
}


_SIDES: Final = ((True, "<", "DESC"), (False, ">", "ASC"))
#: By (newest first).
PASSED_PAGES: Final = {
    newest_first: f"SELECT rowid, body FROM passed WHERE rowid {side} ? ORDER BY rowid {order} LIMIT ?"  # noqa: S608 - signs above
    for newest_first, side, order in _SIDES
}
OWNERS_PAGE: Final = "SELECT rowid, object, caller, at FROM owners WHERE rowid > ? ORDER BY rowid LIMIT ?"

#: Ids of runs by their first entry that is left; of one session or of all (''); by (newest first).
RUN_PAGES: Final = {
    newest_first: "SELECT run, min(rowid) AS began FROM runs WHERE ? IN ('', session) GROUP BY run "  # noqa: S608 - as above
    f"HAVING began {side} ? ORDER BY began {order} LIMIT ?"
    for newest_first, side, order in _SIDES
}
RUNS_OF: Final = (
    "SELECT run, body FROM runs WHERE run IN (SELECT value FROM json_each(?)) ORDER BY run, number"
)

#: What belongs to several decisions at once, which come as a JSON array of ids.
ATTEMPTS_OF: Final = (
    "SELECT decision, body FROM attempts WHERE decision IN (SELECT value FROM json_each(?)) "
    "ORDER BY decision, number, rowid"
)
OUTCOMES_OF: Final = (
    "SELECT decision, body FROM outcomes WHERE decision IN (SELECT value FROM json_each(?)) ORDER BY rowid"
)
SHADOWS_OF: Final = (
    "SELECT decision, body FROM shadows WHERE decision IN (SELECT value FROM json_each(?)) ORDER BY rowid"
)
TEXTS_OF: Final = "SELECT decision, text FROM texts WHERE decision IN (SELECT value FROM json_each(?))"
DECISIONS_OF: Final = "SELECT body, shape FROM decisions WHERE id IN (SELECT value FROM json_each(?))"

#: One decision, of one caller or of all ('').
DECISION: Final = "SELECT body, shape FROM decisions WHERE id = ? AND ? IN ('', caller)"
#: A row where there is such a decision.
OUTCOMES_COUNT: Final = (
    "SELECT (SELECT count(*) FROM outcomes WHERE decision = decisions.id) FROM decisions "
    "WHERE id = ? AND ? IN ('', caller)"
)
