"""The SQLite ledger when its file is shared, old, foreign, locked, full, broken or too big."""

import hashlib
import sqlite3
import stat
import threading
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pointsman.decision.decision import Decision
from pointsman.errors import StoreUnavailable
from pointsman.stores import _sqlite_file as sqlite_file
from pointsman.stores.batch_writer import BatchWriter
from pointsman.stores.ledger import (
    DecisionFilter,
    Outcome,
    PromptText,
    Retention,
    ShadowDecision,
    SqliteLedger,
    _bodies,
)
from pointsman.stores.ledger import (
    _retention as retention,
)
from pointsman.stores.ledger import (
    _schema as schema,
)
from pointsman.stores.ledger.port import MAX_TEXT
from pointsman.testing import a_decision, an_attempt
from support.waiting import until

DAY = 86_400.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


TABLES = ("decisions", "attempts", "outcomes", "texts", "shadows")
FOREVER = Retention(keep_days=None, max_mb=None)


def opened(path: Path) -> SqliteLedger:
    return SqliteLedger(path, retention=FOREVER)


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def test_entries_survive_a_restart(path: Path) -> None:
    first = opened(path)
    first.append(a_decision("d"))
    first.close()
    second = opened(path)
    assert second.get("d") == a_decision("d")
    second.append(a_decision("e"))
    second.close()
    assert {d.id for d in opened(path).decisions()} == {"d", "e"}


def test_a_path_may_be_a_text(path: Path) -> None:
    """Typed as a ``Path``; a program without a type checker lost its first batch."""
    with closing(SqliteLedger(str(path))) as ledger:  # type: ignore[arg-type]
        ledger.append(a_decision("d-1"))
        ledger.flush()
        assert ledger.get("d-1") is not None
    assert path.exists()


def test_only_reading_makes_no_file(path: Path) -> None:
    ledger = SqliteLedger(path)
    assert list(ledger.decisions()) == []
    ledger.close()
    assert not path.exists()


def test_nobody_else_can_read_the_file(path: Path) -> None:
    ledger = SqliteLedger(path)
    ledger.append(a_decision("d"))
    ledger.flush()
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    ledger.close()


def test_reading_while_writing(path: Path) -> None:
    writing, reading = SqliteLedger(path), SqliteLedger(path)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set() and number < 5_000:
            writing.append(a_decision(f"d{number}", at=float(number)))
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    counts = [sum(1 for _ in reading.decisions(limit=None)) for _ in range(5)]
    stop.set()
    thread.join()
    writing.close()
    assert counts == sorted(counts)
    assert writing.lost == 0


def test_two_processes_may_write_one_file(path: Path) -> None:
    ledgers = [opened(path), opened(path)]
    for number in range(200):
        ledgers[number % 2].append(a_decision(f"d{number}"))
    for ledger in ledgers:
        ledger.close()
    assert sum(1 for _ in SqliteLedger(path).decisions(limit=None)) == 200
    assert [ledger.lost for ledger in ledgers] == [0, 0]


def test_text_modes(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "full", text="full")
    ledger.append(PromptText(decision="d", text="a" * (MAX_TEXT * 2)))
    ledger.append(PromptText(decision="e", text="lone \ud800 surrogate"))
    assert ledger.text("d") == "a" * MAX_TEXT
    assert ledger.text("e") == "lone \ufffd surrogate"
    ledger.close()
    ledger = SqliteLedger(tmp_path / "redacted", text="redacted")
    ledger.append(PromptText(decision="d", text="I am jane@example.com"))
    assert ledger.text("d") == "I am [e-mail]"
    ledger.close()
    assert b"jane" not in (tmp_path / "redacted").read_bytes()


def test_what_has_no_json_is_lost_and_counted_and_its_neighbours_are_kept(path: Path) -> None:
    ledger = SqliteLedger(path)
    ledger.append(a_decision("d"))
    ledger.append(msgspec.structs.replace(a_decision("bad"), domains={"x": object()}))
    nested: dict[str, object] = {}
    for _ in range(100_000):
        nested = {"x": nested}
    ledger.append(msgspec.structs.replace(a_decision("deep"), guidance=nested))
    ledger.append(a_decision("e"))
    ledger.close()
    assert ledger.lost == 2
    assert {d.id for d in SqliteLedger(path).decisions()} == {"d", "e"}
    while nested:  # freed from the outside in: the interpreter's own recursion is not up to it
        nested = nested["x"]  # type: ignore[assignment]


@pytest.mark.slow
def test_a_locked_file_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY", 0.01)
    ledger = SqliteLedger(path)
    ledger.append(a_decision("d"))
    ledger.flush()
    ledger.close()
    ledger = SqliteLedger(path)
    with closing(raw(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        ledger.append(a_decision("e"))
        until(lambda: "locked" in ledger.fault)
        assert ledger.waiting == 1
        other.execute("ROLLBACK")
    until(lambda: ledger.fault == "")
    assert ledger.get("e") is not None
    assert (ledger.lost, ledger.fault) == (0, "")
    ledger.close()


@pytest.mark.slow
def test_a_full_disk_loses_nothing_once_there_is_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite_file._connect

    def connect_without_room(uri: str) -> sqlite3.Connection:
        connection = connect(uri)
        connection.execute("PRAGMA max_page_count = 1")  # SQLite's own "database or disk is full"
        return connection

    monkeypatch.setattr(sqlite_file, "_connect", connect_without_room)
    ledger = SqliteLedger(path)
    for number in range(300):
        ledger.append(a_decision(f"d{number}"))
    until(lambda: "full" in ledger.fault)
    assert (ledger.lost, ledger.waiting) == (0, 300)
    monkeypatch.undo()
    until(lambda: ledger.fault == "")
    ledger.flush()
    assert (ledger.lost, ledger.fault) == (0, "")
    assert ledger.get("d299") is not None
    ledger.close()


@pytest.mark.parametrize("content", [b"not a database at all, " * 100, None])
def test_a_broken_file_blocks_nobody_and_is_not_empty(
    path: Path, content: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    ledger = SqliteLedger(path)
    monkeypatch.setattr(ledger._writer, "flush", lambda timeout=0.1: True)
    ledger.append(a_decision("d"))
    with pytest.raises(StoreUnavailable, match="cannot read the ledger"):
        ledger.get("d")
    with pytest.raises(StoreUnavailable):
        list(ledger.decisions())
    ledger.close()
    assert ledger.lost == 1
    assert "cannot write the ledger" in ledger.fault or "cannot" in ledger.fault


@pytest.mark.parametrize("table", ["decisions", "attempts", "outcomes", "shadows"])
@pytest.mark.parametrize("body", [b'{"', b'{"id": 1}', b"\xff"])
def test_a_damaged_row_is_said(path: Path, table: str, body: bytes) -> None:
    fill(opened(path), [a_decision("d")])
    with closing(raw(path)) as disk:
        disk.execute(f"UPDATE {table} SET body = ?", (body,))
    ledger = opened(path)
    with pytest.raises(StoreUnavailable, match="a row of the ledger is damaged"):
        list(ledger.records())
    ledger.close()


@pytest.mark.parametrize("body", [b"", b"\xff"])
def test_a_damaged_body_hides_nothing_that_is_stored_beside_it(path: Path, body: bytes) -> None:
    """Attempts are in the body of their decision; outcomes, shadows and the text are not."""
    ledger = SqliteLedger(path, text="full", retention=FOREVER)
    outcome, shadow = Outcome(decision="d", score=1.0), ShadowDecision(decision="d", at=1.0, policy="p")
    ledger.append(a_decision("d"))
    ledger.append(an_attempt("d"))
    ledger.append(PromptText(decision="d", text="words"))
    ledger.append(outcome)
    ledger.append(shadow)
    ledger.flush()
    with closing(raw(path)) as disk:
        disk.execute("DROP TRIGGER answered")
        disk.execute("UPDATE decisions SET body = ?", (body,))
    assert (ledger.outcomes("d"), ledger.shadows("d"), ledger.text("d")) == ((outcome,), (shadow,), "words")
    for read in (ledger.get, ledger.attempts):
        with pytest.raises(StoreUnavailable, match="a row of the ledger is damaged"):
            read("d")
    ledger.close()


def test_a_directory_that_cannot_be_made_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ledger = SqliteLedger(tmp_path / "file" / "ledger.sqlite")
    ledger.append(a_decision("d"))
    ledger.close()
    assert ledger.lost == 1
    assert ledger.fault
    with pytest.raises(StoreUnavailable):
        ledger.get("d")


def test_a_file_of_another_program_is_not_touched(path: Path) -> None:
    with closing(raw(path)) as other:
        other.execute("CREATE TABLE theirs (x)")
    ledger = SqliteLedger(path)
    ledger.append(a_decision("d"))
    ledger.close()
    said = f"{path} is not a ledger but a database of another program; name another path in the configuration"
    assert (ledger.lost, ledger.fault) == (1, said)
    with closing(raw(path)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def owned_by_a_later_version(path: Path) -> None:
    """A break that this program does not know."""
    with closing(raw(path)) as newer:
        newer.execute("PRAGMA user_version = 99")
        newer.execute("UPDATE meta SET value = '99' WHERE name = 'readable_from'")
        newer.commit()


def test_a_ledger_of_a_newer_version_is_not_touched(path: Path) -> None:
    fill(opened(path), [a_decision("d")])
    owned_by_a_later_version(path)
    ledger = SqliteLedger(path)
    ledger.append(a_decision("d"))
    ledger.close()
    assert ledger.lost == 1
    assert "belongs to a later version of pointsman: it has schema 99" in ledger.fault


def test_an_older_ledger_is_migrated_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(opened(path), [a_decision("d")])
    migrations = (*schema.MIGRATIONS, ("ALTER TABLE decisions ADD COLUMN later TEXT",))
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    for _ in range(2):
        ledger = SqliteLedger(path)
        ledger.append(a_decision("d"))
        ledger.close()
        assert ledger.lost == 0
    with closing(raw(path)) as current:
        assert current.execute("PRAGMA user_version").fetchone() == (len(migrations),)


def test_an_older_ledger_is_brought_up_to_date_to_be_read(path: Path) -> None:
    with closing(raw(path)) as older:
        for statement in schema.MIGRATIONS[0]:
            older.execute(statement)
        older.execute(f"PRAGMA application_id = {schema.APPLICATION}")
        older.execute("PRAGMA user_version = 1")
        data = Path(__file__).parent / "data" / "ledger_2cff89a.sqlite"
        with closing(raw(data)) as written:
            [body] = written.execute("SELECT body FROM decisions LIMIT 1").fetchone()
        row = ("d", "s", 0.0, msgspec.json.encode({**msgspec.json.decode(body), "id": "d"}))
        older.execute("INSERT INTO decisions (id, session, arrived_at, body) VALUES (?, ?, ?, ?)", row)
        older.commit()
    ledger = SqliteLedger(path)
    assert [(record.decision.id, record.shadows) for record in ledger.records()] == [("d", ())]
    ledger.close()


def test_bodies_are_compressed_and_read_back(path: Path) -> None:
    decision = a_decision("d")
    with closing(SqliteLedger(path, text="full")) as ledger:
        ledger.append(decision)
        assert ledger.get("d") == decision
    plain = msgspec.json.encode(decision)
    with closing(raw(path)) as connection:
        [body] = connection.execute("SELECT body FROM decisions").fetchone()
    assert len(body) < len(plain) / 2
    assert _bodies.read_decision(body, 3) == _bodies.read_decision(plain, 3) == (decision, [])
    for damaged in (body[:-5], body[:20], body[1:], b"", b"{"):
        with pytest.raises(StoreUnavailable, match="damaged"):
            _bodies.read_decision(damaged, 3)


@given(st.binary(max_size=20_000))
def test_any_object_is_packed_without_loss(content: bytes) -> None:
    plain = b"{" + content
    assert _bodies._unpacked(_bodies.packed(plain)) == plain


def test_the_dictionary_of_bodies_never_changes() -> None:
    # Rows that were written with another one could not be read.
    known = [hashlib.sha256(each).hexdigest()[:16] for each in _bodies._DICTIONARIES.values()]
    assert known == ["1fb004a9fc0e9a83", "67bcf9239fe2ed4f", "5c900a5fa4ef0a23"]


def test_attempts_written_with_their_decision_are_in_its_body(path: Path) -> None:
    first, second, late = (an_attempt("d", number=number) for number in (1, 2, 3))
    with closing(SqliteLedger(path)) as ledger:
        for entry in (first, a_decision("d"), second, an_attempt("lost")):
            ledger.append(entry)
        ledger.flush()
        with closing(raw(path)) as disk:
            assert disk.execute("SELECT decision FROM attempts").fetchall() == [("lost",)]
        assert ledger.attempts("d") == (first, second)
        ledger.append(late)
        assert ledger.attempts("d") == (first, second, late)
        assert [record.attempts for record in ledger.records()] == [(first, second, late)]
        assert (ledger.get("d"), list(ledger.decisions())) == (a_decision("d"), [a_decision("d")])


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_a_decision_that_is_written_again_keeps_its_attempts(path: Path, is_one_batch: bool) -> None:
    tried = tuple(an_attempt("d", number=number) for number in (1, 2, 3))
    with closing(SqliteLedger(path)) as ledger:
        for number, attempt in enumerate(tried):
            ledger.append(a_decision("d", session=f"s{number}"))
            ledger.append(attempt)
            if not is_one_batch:
                ledger.flush()
        assert ledger.attempts("d") == tried
        assert ledger.get("d") == a_decision("d", session="s2")
    with closing(SqliteLedger(path, retention=Retention(keep_days=1))) as ledger:
        ledger.append(a_decision("new", at=1e12))  # the sweep before it removes the other
    assert counts(path)["attempts"] == 0


def test_a_batch_that_is_written_again_after_a_crash_is_there_once(path: Path) -> None:
    for _ in range(3):
        with closing(opened(path)) as ledger:
            ledger.append(a_decision("d"))
            ledger.append(an_attempt("d"))
            assert ledger.attempts("d") == (an_attempt("d"),)
            assert [row.attempts for row in ledger.search(DecisionFilter()).rows] == [1]
    assert counts(path)["attempts"] == 0


def test_uses_of_a_policy_are_gathered_and_those_of_another_written_at_once(path: Path) -> None:
    now = [1e9]
    ledger = SqliteLedger(path, retention=FOREVER, clock=lambda: now[0])

    def stored() -> dict[str, int]:
        with closing(raw(path)) as disk:
            return dict(disk.execute("SELECT version, decisions FROM policies"))

    def decide(name: str, policy: str, seconds: float) -> dict[str, int]:
        now[0] += seconds
        ledger.append(replace(a_decision(name, at=now[0]), policy=policy))
        ledger.flush()
        return stored()

    assert [decide("a", "p", 0), decide("b", "p", 1), decide("c", "p", 1)] == [{"p": 1}] * 3
    assert [(use.version, use.decisions, use.last) for use in ledger.policies()] == [("p", 3, now[0])]
    assert stored() == {"p": 3}
    assert [decide("d", "p", 1), decide("e", "q", 1)] == [{"p": 3}, {"p": 4, "q": 1}]
    assert decide("f", "p", 1) == {"p": 5, "q": 1}  # the last that decided is known
    assert [decide("g", "p", 1), decide("h", "p", 60)] == [{"p": 5, "q": 1}, {"p": 7, "q": 1}]
    decide("i", "p", 1)
    ledger.flush_own()  # another process reads
    assert stored() == {"p": 8, "q": 1}
    decide("j", "p", 1)
    ledger.close()
    assert stored() == {"p": 9, "q": 1}


def test_attempts_of_one_number_are_in_the_order_in_which_they_were_written(path: Path) -> None:
    ledger = opened(path)
    for model in ("first", "second", "third"):
        ledger.append(a_decision("d"))
        ledger.append(replace(an_attempt("d"), model=model))
        ledger.flush()
    ledger.append(replace(an_attempt("d"), model="late"))
    assert [attempt.model for attempt in ledger.attempts("d")] == ["first", "second", "third", "late"]
    ledger.close()


def test_a_body_of_before_attempts_were_in_it_is_read(path: Path) -> None:
    plain = msgspec.json.encode(a_decision("d"))
    packer = zlib.compressobj(1, zlib.DEFLATED, 13, 6, zdict=_bodies._OF_DECISIONS)
    assert _bodies.read_decision(packer.compress(plain) + packer.flush(), 3)[0] == a_decision("d")


def fill(ledger: SqliteLedger, decisions: list[Decision]) -> None:
    for decision in decisions:
        ledger.append(decision)
    ledger.flush()
    for decision in decisions:
        ledger.append(an_attempt(decision.id))  # written later than its decision, so in a row of its own
        ledger.append(Outcome(decision=decision.id, at=decision.input.arrived_at))
        ledger.append(ShadowDecision(decision=decision.id, at=decision.input.arrived_at, policy="p2"))
        ledger.append(PromptText(decision=decision.id, text="x" * 500))
    ledger.close()


def counts(path: Path) -> dict[str, int]:
    with closing(raw(path)) as connection:
        return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}


def test_old_entries_go_with_all_that_belongs_to_them(path: Path) -> None:
    now = 100 * DAY
    days = [a_decision(f"d{day}", at=day * DAY) for day in range(60, 100)]
    fill(SqliteLedger(path, text="full", clock=lambda: now), days)
    assert counts(path) == dict.fromkeys(TABLES, 40)
    for _ in range(40):  # a sweep removes a day
        late = SqliteLedger(path, retention=Retention(keep_days=10, max_mb=None), clock=lambda: now)
        late.append(a_decision("new", at=now))
        late.close()
    kept = {d.id for d in SqliteLedger(path).decisions(limit=None)}
    assert kept == {"new"} | {f"d{day}" for day in range(91, 100)}
    assert counts(path) == {**dict.fromkeys(TABLES, 9), "decisions": 10}


def test_what_belongs_to_no_decision_goes_too(path: Path) -> None:
    early = SqliteLedger(path, text="full", clock=lambda: 0.0)
    shadow = ShadowDecision(decision="lost", at=0.0, policy="p2")
    for entry in (
        an_attempt("lost"),
        Outcome(decision="lost"),
        PromptText(decision="lost", text="x"),
        shadow,
    ):
        early.append(entry)
    early.close()
    late = SqliteLedger(path, clock=lambda: 100 * DAY)
    late.append(a_decision("new", at=100 * DAY))
    late.close()
    assert counts(path) == {**dict.fromkeys(TABLES, 0), "decisions": 1}


def test_a_file_over_its_bound_loses_its_oldest_entries_and_shrinks(path: Path) -> None:
    decisions = [a_decision(f"d{number}", at=float(number)) for number in range(2_000)]
    fill(SqliteLedger(path, text="full", queue=100_000, retention=FOREVER), decisions)
    before = path.stat().st_size
    bound = before * 0.5 / 1024 / 1024
    late = SqliteLedger(path, retention=Retention(keep_days=None, max_mb=bound))
    late.append(a_decision("new", at=1e6))
    late.close()
    with closing(raw(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    kept = [d.id for d in SqliteLedger(path).decisions(limit=None)]
    assert kept[:2] == ["new", "d1999"]
    assert 500 < len(kept) < 1_100
    assert path.stat().st_size <= before * 0.55


def moved_away(path: Path) -> Path:
    return path.rename(path.with_name("moved.sqlite"))


def deleted(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


@pytest.mark.parametrize("gone", [moved_away, deleted])
def test_a_file_that_is_gone_is_written_anew(
    path: Path, gone: Callable[[Path], Path | None], caplog: pytest.LogCaptureFixture
) -> None:
    ledger = opened(path)
    ledger.append(a_decision("before"))
    assert ledger.get("before") is not None
    moved = gone(path)
    for name in ("after", "later"):
        ledger.append(a_decision(name))
        assert ledger.get(name) is not None
    assert ledger.get("before") is None
    assert ledger.lost == 0
    ledger.close()
    assert caplog.messages == [f"the ledger {path} was moved or deleted; a new file is created"]
    assert {d.id for d in opened(path).decisions()} == {"after", "later"}
    if moved:
        assert {d.id for d in opened(moved).decisions()} == {"before"}


def test_a_file_put_in_its_place_is_written_and_read(path: Path, tmp_path: Path) -> None:
    fill(opened(other := tmp_path / "other"), [a_decision("theirs")])
    ledger = opened(path)
    ledger.append(a_decision("before"))
    assert ledger.get("before") is not None
    other.replace(path)
    assert ledger.get("theirs") is not None
    ledger.append(a_decision("after"))
    assert {d.id for d in ledger.decisions()} == {"theirs", "after"}
    ledger.close()


def test_a_reader_that_finds_the_new_file_at_the_same_moment_keeps_its_log(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(opened(other := tmp_path / "other"), [a_decision("theirs")])
    ledger = opened(path)
    ledger.append(a_decision("before"))
    assert ledger.get("before") is not None
    other.replace(path)
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.append(ledger._file.read("SELECT id FROM decisions")))
    identity = sqlite_file._identity

    def read_after_a_look_at_the_log(asked: Path) -> tuple[int, int] | None:
        seen = identity(asked)
        if asked.name.endswith("-wal") and reader.ident is None:
            reader.start()
            reader.join(0.2)  # held back: it ends after the writer has its file
        return seen

    monkeypatch.setattr(sqlite_file, "_identity", read_after_a_look_at_the_log)
    ledger.append(a_decision("after"))
    ledger.flush()
    reader.join()
    assert {d.id for d in ledger.decisions()} == {"theirs", "after"}
    assert len(found) == 1
    ledger.close()


def test_what_is_not_ours_to_read_says_so(path: Path) -> None:
    with closing(raw(path)) as other:
        other.execute("CREATE TABLE decisions (x)")
    with pytest.raises(StoreUnavailable, match="is not a ledger but a database of another program"):
        SqliteLedger(path).count()
    deleted(path)
    fill(opened(path), [a_decision("d")])
    owned_by_a_later_version(path)
    with pytest.raises(StoreUnavailable, match="belongs to a later version of pointsman: it has schema 99"):
        SqliteLedger(path).count()


def test_a_clock_set_back_does_not_put_off_what_is_too_old(path: Path) -> None:
    now = 1_000 * DAY
    ledger = SqliteLedger(path, retention=Retention(keep_days=1, max_mb=None), clock=lambda: now)
    ledger.append(a_decision("first", at=now))
    ledger.flush()
    now = 10 * DAY
    ledger.append(a_decision("old", at=0.0))
    ledger.flush()
    now += retention.SWEEP
    ledger.append(a_decision("new", at=now))
    ledger.flush()
    assert {d.id for d in ledger.decisions()} == {"first", "new"}
    ledger.close()


def free_pages(path: Path) -> int:
    with closing(raw(path)) as connection:
        return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def test_entries_are_written_between_the_pieces_of_a_removal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(opened(path), [a_decision(f"d{number}", at=float(number)) for number in range(100)])
    monkeypatch.setattr(retention, "STEP", 10)
    monkeypatch.setattr(retention, "PAGES", 2)
    ledger = SqliteLedger(path, retention=Retention(keep_days=1, max_mb=None))
    left: list[dict[str, int]] = []
    assert isinstance(ledger._writer, BatchWriter)
    remove = ledger._writer._upkeep

    def remove_and_append() -> bool:
        left.append(counts(path))
        if len(left) == 1:
            ledger.append(a_decision("between", at=1e12))
        return remove()

    monkeypatch.setattr(ledger._writer, "_upkeep", remove_and_append)
    ledger.append(a_decision("new", at=1e12))
    until(lambda: ledger.count() == 2 and free_pages(path) == 0)
    ledger.close()
    # Ten are gone before the first entry is written, ten more in a pause, ten before the second entry.
    assert [found["attempts"] for found in left[:2]] == [90, 70]
    assert left[1]["decisions"] == 72
