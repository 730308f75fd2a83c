"""The tables of a SQLite ledger, and the SQL of entries: what SQLite writes, and what both engines read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final, NamedTuple

from pointsman.stores._sqlite_file import MemoryFile, SqliteFile
from pointsman.stores.ledger._bodies import EVERYTHING, SUMMARISED, WITH_ATTEMPTS
from pointsman.stores.ledger._sums import MIGRATION as SUMS
from pointsman.stores.ledger.reading import FLAGS, WRITTEN

#: SQLite's field that identifies the program of a file: "Ptsm".
APPLICATION: Final = 0x5074736D
#: Schema of the earliest program that may use what the migrations make: the last that does more than add to
#: the one before it. Later ones make tables, indexes and columns with a default (docs/how-to/upgrade.md).
READABLE_FROM: Final = 18
MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE decisions (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            session TEXT NOT NULL,
            arrived_at REAL,
            body BLOB NOT NULL
        )""",
        "CREATE INDEX decisions_by_time ON decisions (arrived_at, number)",
        "CREATE INDEX decisions_by_session ON decisions (session, arrived_at, number)",
        """CREATE TABLE attempts (
            decision TEXT NOT NULL,
            number INTEGER NOT NULL,
            at REAL,
            body BLOB NOT NULL
        )""",
        "CREATE INDEX attempts_of ON attempts (decision, number)",
        "CREATE TABLE outcomes (decision TEXT NOT NULL, at REAL, body BLOB NOT NULL)",
        "CREATE INDEX outcomes_of ON outcomes (decision)",
        "CREATE TABLE texts (decision TEXT PRIMARY KEY, at REAL, text TEXT NOT NULL)",
        """CREATE TRIGGER forget AFTER DELETE ON decisions BEGIN
            DELETE FROM attempts WHERE decision = old.id;
            DELETE FROM outcomes WHERE decision = old.id;
            DELETE FROM texts WHERE decision = old.id;
        END""",
    ),
    (
        "CREATE TABLE shadows (decision TEXT NOT NULL, at REAL, body BLOB NOT NULL)",
        "CREATE INDEX shadows_of ON shadows (decision)",
        "DROP TRIGGER forget",
        """CREATE TRIGGER forget AFTER DELETE ON decisions BEGIN
            DELETE FROM attempts WHERE decision = old.id;
            DELETE FROM outcomes WHERE decision = old.id;
            DELETE FROM texts WHERE decision = old.id;
            DELETE FROM shadows WHERE decision = old.id;
        END""",
    ),
    (
        # One index serves time and session. Sessions come in no order: an index that begins with them writes
        # a page of its own for each row, a third of the cost of all; this one is written at its end alone.
        "DROP INDEX decisions_by_session",
        "DROP INDEX decisions_by_time",
        "CREATE INDEX decisions_by_time ON decisions (arrived_at, number, session)",
    ),
    (
        # Outcomes come from callers and have a share of the file: their bytes are known without a scan.
        "CREATE TABLE totals (name TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID",
        # A row's id is in the index too, and both have headers.
        """INSERT INTO totals
            SELECT 'outcomes', coalesce(sum(length(body) + 2 * length(decision) + 40), 0) FROM outcomes""",
        """CREATE TRIGGER outcome_added AFTER INSERT ON outcomes BEGIN
            UPDATE totals SET bytes = bytes + length(new.body) + 2 * length(new.decision) + 40
            WHERE name = 'outcomes';
        END""",
        """CREATE TRIGGER outcome_removed AFTER DELETE ON outcomes BEGIN
            UPDATE totals SET bytes = bytes - length(old.body) - 2 * length(old.decision) - 40
            WHERE name = 'outcomes';
        END""",
    ),
    (
        # What shape a decision's body has. The default is that of the rows there are: none is rewritten, so
        # this takes no longer for a million of them.
        "ALTER TABLE decisions ADD COLUMN shape INTEGER NOT NULL DEFAULT 1",
    ),
    ("CREATE TABLE passed (id TEXT NOT NULL, at REAL, body BLOB NOT NULL)",),
    (
        # An agent takes seconds for a step: two indexes cost nothing that anybody waits for.
        """CREATE TABLE runs (
            run TEXT NOT NULL,
            number INTEGER NOT NULL,
            session TEXT NOT NULL,
            at REAL,
            body BLOB NOT NULL
        )""",
        "CREATE UNIQUE INDEX runs_by_run ON runs (run, number)",
        "CREATE INDEX runs_by_session ON runs (session)",
    ),
    (
        # A decision, and an object of an upstream, belong to their caller. Earlier rows have no owner.
        "ALTER TABLE decisions ADD COLUMN caller TEXT NOT NULL DEFAULT ''",
        "CREATE TABLE owners (object TEXT NOT NULL UNIQUE, caller TEXT NOT NULL, at REAL)",
    ),
    (
        # In order of time: a page of a list is read from one place, however deep it is.
        """CREATE TABLE summaries (
            at REAL NOT NULL, id TEXT NOT NULL, hour INTEGER NOT NULL, session TEXT NOT NULL,
            caller TEXT NOT NULL, role TEXT NOT NULL, tier TEXT NOT NULL, model TEXT NOT NULL,
            result INTEGER NOT NULL,
            status INTEGER NOT NULL, attempts INTEGER NOT NULL, domains TEXT NOT NULL, signals TEXT NOT NULL,
            stuck INTEGER NOT NULL, downgraded INTEGER NOT NULL, abstained INTEGER NOT NULL,
            label TEXT NOT NULL, score REAL, labelled INTEGER NOT NULL, input INTEGER NOT NULL,
            cached INTEGER NOT NULL,
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
    ),
    # A session's rows lie apart: found in order of time they are looked for among all rows, which takes
    # seconds where the file is not in memory. It costs the writer some 4 µs a row.
    ("CREATE INDEX summaries_by_session ON summaries (session)",),
    SUMS,
    (
        """CREATE TABLE policies (
            version TEXT NOT NULL PRIMARY KEY,
            text TEXT NOT NULL DEFAULT '',
            first REAL,
            last REAL,
            decisions INTEGER NOT NULL DEFAULT 0
        )""",
    ),
    # Which program may use the file (`schema_version`), and notes of the ledger about itself.
    ("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",),
    # Project and program charged for a decision's tokens. Unknown in earlier rows; none is rewritten.
    tuple(
        f"ALTER TABLE summaries ADD COLUMN {name} TEXT NOT NULL DEFAULT ''"
        for name in ("project", "project_name", "client")
    ),
    # A break: bodies of decisions are compressed (`_bodies`). The rows there are stay as they are.
    (),
    # If a body with attempts in it is written anew, they stay in the body that was, now a row of their table.
    (
        """CREATE TRIGGER answered AFTER UPDATE OF body ON decisions WHEN old.shape = 4 BEGIN
            INSERT INTO attempts (decision, number, at, body) VALUES (old.id, 0, old.arrived_at, old.body);
        END""",
    ),
    # A break: attempts that are written with their decision are part of its body.
    (),
    # A break: tokens written to a provider's cache. 0 in earlier rows; none is rewritten. Earlier programs
    # add to the sums without the names of their columns.
    tuple(
        f"ALTER TABLE {table} ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0"
        for table, names in (("summaries", WRITTEN[:2]), ("sums", WRITTEN))
        for name in names
    ),
)


def ledger_file(path: Path) -> SqliteFile:
    """Return the file of a ledger."""
    return SqliteFile(
        path,
        kind="ledger",
        application=APPLICATION,
        migrations=MIGRATIONS,
        readable_from=READABLE_FROM,
    )


def ledger_in_memory() -> MemoryFile:
    """Return an empty database in memory with the tables of a ledger."""
    return MemoryFile(kind="ledger", application=APPLICATION, migrations=MIGRATIONS)


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


class Dialect(NamedTuple):
    """Names in which the engines differ."""

    place: str  # of a value
    arrival: str  # column: when a decision arrived
    number: str  # column: counts rows in order of insertion
    step: str  # column: number of a step of a run
    one_of: str  # that an id is one of several, which are one value
    since: str  # condition that leaves out partitions before a time; empty: there are none
    entries: str  # kind, decision and body of what belongs to several decisions, of kinds that follow
    outcomes: str  # those that are outcomes, of the decision that follows
    owners: tuple[
        tuple[str, float | str], ...
    ]  # columns in whose order owners are read, and what is before all
    #: How decisions of a session are found: after the table's name, and the condition. From its name, and
    #: from another name until before a third.
    of_session: tuple[str, str]


_SUMMARIES_OF: Final = "SELECT id FROM summaries INDEXED BY summaries_by_session WHERE session"
#: By the summaries' index: in order of time a session would be looked for among all decisions. Those of an
#: earlier version have no summaries for a while.
_IN_SESSION: Final = f"""number IN (
    SELECT number FROM ({_SUMMARIES_OF} = ?1 UNION ALL {_SUMMARIES_OF} >= ?2 AND session < ?3) AS found
    CROSS JOIN decisions USING (id)
    UNION ALL SELECT decisions.number FROM unsummarized CROSS JOIN decisions
    WHERE session = ?1 OR (session >= ?2 AND session < ?3))"""  # noqa: S608 - words of ours
_IN_BODIES: Final = (
    f"UNION ALL SELECT 0, id, 0, 1e999, body FROM decisions WHERE id IN wanted AND shape = {WITH_ATTEMPTS}"  # noqa: S608 - as above
)
#: Attempts in a decision's body come behind those of bodies before it, which are rows of number 0.
SQLITE: Final = Dialect(
    place="?",
    arrival="arrived_at",
    number="rowid",
    step="number",
    one_of="IN (SELECT value FROM json_each(?))",
    since="",
    entries=f"""WITH wanted(id) AS (SELECT value FROM json_each(?)) SELECT kind, decision, body FROM (
        SELECT 0 AS kind, decision, number AS step, rowid AS number, body FROM attempts
        WHERE decision IN wanted
        {_IN_BODIES}
        UNION ALL SELECT 1, decision, 0, rowid, body FROM outcomes WHERE decision IN wanted
        UNION ALL SELECT 2, decision, 0, rowid, body FROM shadows WHERE decision IN wanted
        UNION ALL SELECT 3, decision, 0, rowid, CAST(text AS BLOB) FROM texts WHERE decision IN wanted)
        WHERE kind""",  # noqa: S608 - as above
    outcomes="outcomes WHERE decision",
    owners=(("rowid", -1.0),),
    of_session=("NOT INDEXED", _IN_SESSION),
)
POSTGRES: Final = Dialect(
    place="%s",
    arrival="at",
    number="number",
    step="step",
    one_of="= ANY (?)",
    since=" AND at >= ?",
    # OFFSET: each id is looked up in the index. For 1,000 ids with ANY, all partitions were read by parallel
    # workers, which took twelve times as long. An entry is on the day of its decision, or on a later one.
    entries="SELECT kind, decision, body FROM unnest(CAST(? AS text[])) AS wanted "
    "CROSS JOIN LATERAL (SELECT * FROM entries WHERE decision = wanted AND at >= ? OFFSET 0) AS found "
    "WHERE kind",
    outcomes="entries WHERE kind = 1 AND decision",
    owners=(("at", -math.inf), ("object", "")),
    of_session=("", "(session = ? OR (session >= ? AND session < ?))"),
)

_SIDES: Final = {True: {"side": "<", "order": "DESC"}, False: {"side": ">", "order": "ASC"}}
_OF_CALLER: Final = "id = ? AND CAST(? AS text) IN ('', caller)"
_DECISION: Final = "SELECT body, shape FROM decisions WHERE "
#: The first term leaves out partitions.
_DECISIONS: Final = (
    "SELECT body, shape, {arrival}, number FROM decisions {hint} WHERE {session} {arrival} {side}= ? "
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
        self.decisions: Final = of(_DECISION + "id {one_of}{since}")
        #: By (newest first, of one session).
        self.pages: Final = {
            (newest_first, one): of(_DECISIONS, hint=hint, session=f"{condition} AND" if one else "", **side)
            for newest_first, side in _SIDES.items()
            for one, (hint, condition) in ((True, dialect.of_session), (False, ("", "")))
        }
        #: Kind, decision and body, by the kinds that are read.
        self.entries: Final = {
            kinds: of(f"{{entries}} IN ({', '.join(map(str, kinds))}) ORDER BY kind, step, number")
            for kinds in (*((kind,) for kind in EVERYTHING), SUMMARISED, EVERYTHING)
        }
        #: All kinds without the attempts in bodies of decisions.
        self.entries_beside: Final = self.entries[EVERYTHING].replace(_IN_BODIES, "")
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
