"""Summaries of a SQLite ledger are those of its records, whatever restarts and removals there were."""

import math
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pointsman.decision.decision import Decision
from pointsman.errors import StoreUnavailable
from pointsman.stores.ledger import (
    Attempt,
    DecisionFilter,
    DecisionRow,
    Entry,
    Ledger,
    MemoryLedger,
    Outcome,
    Owner,
    PassedRequest,
    PromptText,
    Retention,
    SqliteLedger,
    turns,
)
from pointsman.stores.ledger import _retention as retention
from pointsman.stores.ledger._schema import MIGRATIONS, ledger_file
from pointsman.stores.ledger._summaries import SEARCH
from pointsman.stores.ledger._summarizer import STEP
from pointsman.stores.ledger._sums import seal_some
from pointsman.stores.ledger.reading import HOUR, totals_of
from pointsman.stores.ledger.turns import rows_of
from pointsman.testing import a_decision
from pointsman.testing.ledger_summaries import an_answer
from pointsman.vocabulary import DAY, ModelSpec

WRITTEN = Path(__file__).parent / "data" / "ledger_2cff89a.sqlite"
FOREVER = Retention(keep_days=None, max_mb=None)
HOURS = 24  # more than the entries below fill
PASSED = PassedRequest(id="p", at=0.0, upstream="main", method="GET", path="/v1/files")


def opened(path: Path, clock: float = 1e9, **given: object) -> SqliteLedger:
    return SqliteLedger(path, retention=FOREVER, clock=lambda: clock, **given)  # type: ignore[arg-type]


def raw(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def of_records(ledger: Ledger) -> list[DecisionRow]:
    return sorted(rows_of(ledger.records()), key=lambda row: (row.at, row.id), reverse=True)


def found(ledger: Ledger) -> list[DecisionRow]:
    return list(ledger.search(DecisionFilter(), limit=10_000).rows)


def entries(count: int, seed: int = 1) -> list[Entry]:
    """Turns of a few sessions: each answered, perhaps after a failure, before the next of its session."""
    draw = random.Random(seed)
    made: list[Entry] = []
    at = 0.0
    for number in range(count):
        at += draw.choice((60.0, 400.0))
        name, session = f"d{number:04}", f"s{draw.randrange(4)}"
        made.append(a_decision(name, at=at, session=session))
        if draw.random() < 0.3:
            made.append(an_answer(name, status=500, error="status", model="first"))
        if draw.random() < 0.9:
            model, tokens = draw.choice(("large", "small")), draw.randrange(1, 500)
            made.append(
                an_answer(name, number=2, model=model, input_tokens=tokens, cached_tokens=tokens // 3)
            )
        if draw.random() < 0.1:
            made.append(Outcome(decision=name, score=draw.random(), label="said"))
    return made


@settings(max_examples=8)
@given(
    seed=st.integers(0, 1_000), batch=st.integers(1, 30), restart=st.integers(1, 30), whole=st.integers(1, 40)
)
def test_rows_are_those_of_the_records(
    tmp_path_factory: pytest.TempPathFactory, seed: int, batch: int, restart: int, whole: int
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    ledger = opened(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(turns, "WHOLE", whole)
        for number, entry in enumerate(entries(30, seed)):
            ledger.append(entry)
            if number % batch == 0:
                ledger.flush()
            if number % (batch * restart) == 0 and isinstance(entry, Attempt):
                ledger.close()
                ledger = opened(path)
        assert found(ledger) == of_records(ledger)
    check_sums(ledger)
    ledger.close()


def check_sums(ledger: Ledger) -> None:
    """The totals are those of the rows, in any zone; a period is not left out of another."""
    rows = found(ledger)
    for zone in (0, 5, 13):
        for since in (-math.inf, 30 * 3_600.0):
            said, made = ledger.totals(since=since, zone=zone), totals_of(rows, since=since, zone=zone)
            assert sorted(map(repr, said.turns)) == sorted(map(repr, made.turns))
            assert sorted(map(repr, said.parts)) == sorted(map(repr, made.parts))


def test_days_of_every_zone_are_those_of_the_rows(tmp_path: Path) -> None:
    """Whole days of UTC are moved by some of their hours; the last day has hours that are not added up."""
    path = tmp_path / "ledger.sqlite"
    ledger = opened(path)
    for number in range(150):
        ledger.append(a_decision(f"d{number}", at=(240 + number) * 3_600.0, session=f"s{number % 7}"))
        ledger.append(an_answer(f"d{number}", model="small" if number % 3 else "large"))
    ledger.close()
    file = ledger_file(path)
    while seal_some(file.writer(), 10_000):
        pass
    file.close()
    ledger = opened(path)
    ledger.append(a_decision("late", at=385.5 * 3_600.0))
    ledger.flush()
    with closing(raw(path)) as connection:
        assert connection.execute("SELECT count(DISTINCT since) FROM sums WHERE hours = 24").fetchone() >= (
            5,
        )
    rows = found(ledger)
    for zone in range(-14, 15):
        for since in (-math.inf, 250 * 3_600.0):
            said, made = ledger.totals(since=since, zone=zone), totals_of(rows, since=since, zone=zone)
            assert sorted(map(repr, said.turns)) == sorted(map(repr, made.turns)), zone
    ledger.close()


def test_an_answer_to_a_turn_of_before_a_restart_keeps_what_was_before_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = opened(path)
    for entry in (a_decision("a"), an_answer("a"), a_decision("b", at=100.0)):
        ledger.append(entry)
    ledger.close()
    ledger = opened(path)
    ledger.append(an_answer("b", model="small"))
    ledger.flush()
    row = found(ledger)[0]
    assert (row.id, row.gap, row.reused, row.switched) == ("b", 1, 100, True)
    ledger.close()


def downgraded(path: Path) -> None:
    """Make a ledger as the version before summaries left it."""
    with closing(raw(path)) as connection:
        for name in ("moved", "unsummarize", "forget", "answered"):
            connection.execute(f"DROP TRIGGER {name}")
        for name in (
            "summaries",
            "groups",
            "sums",
            "hour_values",
            "dirty",
            "unsummarized",
            "policies",
            "meta",
        ):
            connection.execute(f"DROP TABLE {name}")
        connection.execute("CREATE TRIGGER forget AFTER DELETE ON decisions BEGIN SELECT 1; END")
        made = next(n for n, each in enumerate(MIGRATIONS) if "CREATE TABLE summaries" in "".join(each))
        connection.execute(f"PRAGMA user_version = {made}")


def test_an_earlier_ledger_opens_at_once_and_is_summarised_in_pauses(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = opened(path)
    made = entries(450)
    for entry in made:
        ledger.append(entry)
    ledger.close()
    downgraded(path)
    ledger = opened(path)
    assert (ledger.unsummarized(), found(ledger), ledger.count()) == (450, [], 450)
    late = 450 * 400.0
    ledger.append(a_decision("new", at=late, session="of its own"))
    ledger.flush()
    assert found(ledger)[0].id == "new"  # the new ones do not wait for the old
    ledger.close()  # ends the upkeep, at whatever piece it is
    for _ in range(450 // STEP + 1):
        write(path)
    reading = opened(path)
    assert found(reading) == of_records(reading)
    assert reading.totals().turns
    reading.close()


def test_a_ledger_of_the_first_version_is_summarised(tmp_path: Path) -> None:
    path = Path(shutil.copy(WRITTEN, tmp_path / "ledger.sqlite"))
    ledger = opened(path)
    assert ledger.unsummarized() == 24
    ledger.append(a_decision("new"))
    ledger.flush()
    ledger.close()
    reading = opened(path)
    assert (reading.unsummarized(), len(found(reading))) == (0, 25)
    reading.close()


def write(path: Path) -> None:
    """Write something of no decision: a piece of the upkeep at least follows."""
    ledger = opened(path)
    ledger.append(PASSED)
    ledger.flush()
    ledger.close()


def dirty(path: Path) -> int:
    """How many hours are left to be added up when they are read."""
    with closing(raw(path)) as connection:
        [left] = connection.execute("SELECT count(*) FROM dirty").fetchone()
    return int(left)


def seal(path: Path) -> None:
    """Let the upkeep add up the hours that rows have left."""
    for _ in range(HOURS):
        write(path)
    assert dirty(path) == 0


def test_sums_follow_what_is_written_while_an_hour_lasts_and_when_it_is_over(tmp_path: Path) -> None:
    path, now = tmp_path / "ledger.sqlite", 0.0
    ledger = SqliteLedger(path, text="full", retention=FOREVER, clock=lambda: now)
    for entry in entries(200):
        ledger.append(entry)
    ledger.flush()
    hours = {int(row.at // HOUR) for row in found(ledger)}
    assert dirty(path) == len(hours) > 5
    check_sums(ledger)
    ledger.close()
    now = 1e9
    seal(path)
    ledger = SqliteLedger(path, text="full", retention=FOREVER, clock=lambda: 0.0)
    check_sums(ledger)
    ledger.append(an_answer("d0000", number=9, model="huge"))
    ledger.append(Outcome(decision="d0199", score=1.0, label="late"))
    ledger.flush()
    assert dirty(path) == 2
    check_sums(ledger)
    assert any(each.model == "huge" for each in ledger.totals().turns)
    ledger.close()
    seal(path)
    check_sums(ledger := opened(path))
    ledger.close()


def test_a_ledger_that_two_processes_write_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    one, other = opened(path), opened(path)
    for ledger in (one, other):
        ledger.append(a_decision(f"d{id(ledger)}", at=10.0, session="s"))
        ledger.flush()
    for number, ledger in enumerate((one, other, one)):
        ledger.append(Outcome(decision=f"d{id(one)}", score=0.5, label=f"said {number}"))
        ledger.append(an_answer(f"d{id(other)}", number=number + 1))
        ledger.flush()
        check_sums(ledger)
    assert {row.label: row.attempts for row in found(one)} == {"said 2": 0, "": 3}
    one.close()
    other.close()


def test_a_decision_made_again_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    for _ in range(2):
        ledger = opened(path)
        for made in (a_decision("d", at=10.0), an_answer("d"), a_decision("d", at=10.0)):
            ledger.append(made)
        ledger.flush()
        check_sums(ledger)
        ledger.append(replace(made := a_decision("d"), input=replace(made.input, arrived_at=90_000.0)))
        ledger.flush()
        check_sums(ledger)
        ledger.close()
    seal(path)
    reading = opened(path)
    assert [row.at for row in found(reading)] == [90_000.0]
    check_sums(reading)
    reading.close()


def sweep(path: Path, retention: Retention, now: float, *entries: Entry) -> None:
    """Remove a day, as a gateway does after a start."""
    with closing(SqliteLedger(path, retention=retention, clock=lambda: now)) as ledger:
        for entry in entries or (Owner(object="o", caller="", at=now),):
            ledger.append(entry)


def sums(path: Path) -> list[list[str]]:
    """The totals by day, in any order."""
    with closing(opened(path)) as ledger:
        found = ledger.totals()
        return [sorted(map(repr, found.turns)), sorted(map(repr, found.parts))]


def test_what_is_removed_is_in_no_row_and_stays_in_the_sums(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(opened(path)) as ledger:
        for number in range(10):
            ledger.append(a_decision(f"d{number}", at=number * DAY))
            ledger.append(an_answer(f"d{number}", model="large", input_tokens=100))
    before = sums(path)
    for _ in range(10):
        sweep(path, Retention(keep_days=5, max_mb=None), 9.5 * DAY)
    for sealed in (False, True):
        if sealed:
            seal(path)
        with closing(opened(path)) as reading:
            assert [row.id for row in found(reading)] == ["d9", "d8", "d7", "d6", "d5"]
        assert sums(path) == before
    with closing(raw(path)) as connection:
        [said] = connection.execute("SELECT value FROM meta WHERE name = 'rows_after'").fetchone()
        assert float(said) == 4 * DAY
        [hours] = connection.execute("SELECT count(DISTINCT hour) FROM hour_values").fetchone()
        assert hours == 6  # that of the last that went, and those of the five


def test_what_comes_late_for_removed_hours_is_found_by_a_filter(tmp_path: Path) -> None:
    path, wanted = tmp_path / "ledger.sqlite", DecisionFilter(tier="COMPLEX")
    with closing(opened(path)) as ledger:
        for number in range(10):
            ledger.append(a_decision(f"d{number}", at=number * DAY))
    for _ in range(10):
        sweep(path, Retention(keep_days=5, max_mb=None), 9.5 * DAY)
    before = sums(path)
    with closing(opened(path)) as ledger:
        ledger.append(a_decision("late", at=1.5 * DAY))
        ledger.flush()
        assert [row.id for row in ledger.search(wanted).rows] == ["d9", "d8", "d7", "d6", "d5", "late"]
        assert ledger.search(DecisionFilter(tier="SIMPLE")).rows == ()
    assert sums(path) == before


def test_what_comes_late_for_removed_rows_changes_no_sum(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    made = [a_decision(f"d{number}", at=number * 60.0) for number in range(10)]
    with closing(opened(path)) as ledger:
        for decision in made:
            ledger.append(decision)
    before = sums(path)
    late: list[Entry] = [*made, Outcome(decision="d0", score=1.0, at=0.0), an_answer("d0")]
    kept = Retention(keep_days=300.0 / DAY, max_mb=None)
    sweep(path, kept, 600.0)
    with closing(opened(path)) as ledger:
        assert [row.id for row in found(ledger)] == ["d9", "d8", "d7", "d6"]
    for _ in range(2):  # the hour has rows, and rows that are gone: some are made again, some come back
        sweep(path, kept, 600.0, *late)
        seal(path)
        assert sums(path) == before


def test_the_hour_up_to_which_an_earlier_version_removed_rows_keeps_its_sums(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(opened(path)) as ledger:
        for number in range(10):
            ledger.append(a_decision(f"d{number}", at=number * 60.0))
    seal(path)
    sweep(path, Retention(keep_days=300.0 / DAY, max_mb=None), 600.0)
    with closing(raw(path)) as connection:  # that version added what it wrote to the sums
        connection.execute("DELETE FROM sums WHERE hours = 0")
    with closing(opened(path)) as ledger:
        assert (ledger.count(), sum(each.turns for each in ledger.totals().turns)) == (4, 10)
        for name, at in (("late", 650.0), ("of the next hour", 3_700.0)):
            ledger.append(a_decision(name, at=at))
        assert sum(each.turns for each in ledger.totals().turns) == 11
    seal(path)
    with closing(opened(path)) as ledger:
        assert (ledger.count(), sum(each.turns for each in ledger.totals().turns)) == (6, 11)


@settings(max_examples=8)
@given(seed=st.integers(0, 1_000), batch=st.integers(1, 30))
def test_sums_are_of_all_that_was_written_whatever_was_removed(
    tmp_path_factory: pytest.TempPathFactory, seed: int, batch: int
) -> None:
    path = tmp_path_factory.mktemp("ledger")
    now = arrived = 0.0
    bounds = Retention(keep_days=1 / 24, max_mb=None)
    removing = SqliteLedger(path / "removing.sqlite", retention=bounds, clock=lambda: now)
    whole = opened(path / "whole.sqlite")
    for number, entry in enumerate(entries(80, seed)):
        arrived = entry.input.arrived_at if isinstance(entry, Decision) else arrived
        for ledger in (removing, whole):
            ledger.append(entry)
            if number % batch == 0:
                ledger.flush()
        if number % batch == 0:
            now = arrived  # no decision is removed while its answer waits to be written
    removing.close()
    whole.close()
    assert sums(path / "removing.sqlite") == sums(path / "whole.sqlite")
    seal(path / "removing.sqlite")
    assert sums(path / "removing.sqlite") == sums(path / "whole.sqlite")
    with closing(opened(path / "removing.sqlite")) as ledger:
        assert 0 < ledger.count() < 80


def test_sums_have_a_retention_of_their_own(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(opened(path)) as ledger:
        for number in range(6):
            ledger.append(a_decision(f"d{number}", at=number * DAY + 10))
    for _ in range(3):
        sweep(path, Retention(keep_days=2, max_mb=None), 5.5 * DAY)
    with closing(opened(path)) as ledger:
        assert [row.id for row in found(ledger)] == ["d5", "d4"]
    for remaining in (5, 4, 3, 2, 2):  # those of days that have entries stay
        sweep(path, Retention(keep_days=None, max_mb=None, keep_sums_days=0.5), 5.5 * DAY)
        with closing(opened(path)) as ledger:
            assert sum(each.turns for each in ledger.totals().turns) == remaining
            assert sum(each.turns for each in ledger.totals(zone=5).turns) == remaining
    assert caplog.text.count("removed the sums of a day: older than keep_sums_days = 0.5") == 4


def test_sums_leave_room_for_entries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "SUM_BYTES", 100_000)  # as if there were thousands of them
    path = tmp_path / "ledger.sqlite"
    for number in range(8):
        sweep(
            path,
            Retention(keep_days=None, max_mb=0.1),
            number * DAY,
            a_decision(str(number), at=number * DAY),
        )
    assert "removed the sums of a day: more than 20% of max_mb = 0.1" in caplog.text
    with closing(opened(path)) as ledger:
        assert 0 < sum(each.turns for each in ledger.totals().turns) < 8


def test_a_search_looks_only_into_hours_that_have_what_is_searched_for(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = opened(path)
    for number in range(40):
        made = a_decision(f"d{number:02}", at=number * 1_800.0)
        rare = ("rare",) if number in {7, 8, 30} else ()
        ledger.append(replace(made, input=replace(made.input, signals=(*rare, "common"))))
    ledger.flush()
    searched = [
        (DecisionFilter(signal="rare"), ["d30", "d08", "d07"]),
        (DecisionFilter(signal="rare", until=30 * 1_800.0), ["d08", "d07"]),
        (DecisionFilter(signal="rare", since=8 * 1_800.0), ["d30", "d08"]),
        (DecisionFilter(signal="never"), []),
        (DecisionFilter(signal="rare", tier="NONE"), []),
        (DecisionFilter(signal="rare", status=500), []),
        (DecisionFilter(signal="rare", status=0), ["d30", "d08", "d07"]),
    ]
    for wanted, expected in searched:
        assert [row.id for row in ledger.search(wanted).rows] == expected
    first = ledger.search(DecisionFilter(signal="rare"), limit=1)
    assert [row.id for row in first.rows] == ["d30"]
    second = ledger.search(DecisionFilter(signal="rare"), limit=2, before=first.next)
    assert ([row.id for row in second.rows], second.next) == (["d08", "d07"], None)
    ledger.close()
    with closing(raw(path)) as connection:  # an hour that is to be added up again is always looked into
        connection.execute("INSERT INTO dirty SELECT DISTINCT hour FROM summaries")
        connection.execute("DELETE FROM hour_values")
    for sealed in (False, True):
        if sealed:
            seal(path)
        reading = opened(path)
        for wanted, expected in searched:
            assert [row.id for row in reading.search(wanted).rows] == expected
        check_sums(reading)
        reading.close()


def test_words_are_searched_where_they_are_kept(tmp_path: Path) -> None:
    for ledger in (opened(tmp_path / "ledger.sqlite", text="full"), MemoryLedger(text="full")):
        for name, text in (("a", "100% of Errors"), ("b", "none")):
            ledger.append(a_decision(name))
            ledger.append(PromptText(decision=name, text=text))
        for part, expected in (("errors", ["a"]), ("%", ["a"]), ("_", []), ("on", ["b"]), ("\\", [])):
            assert [row.id for row in ledger.search(DecisionFilter(text=part)).rows] == expected, part
        ledger.close()


def test_hours_without_a_dear_answer_are_not_searched_by_cost(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    prices = {"large": ModelSpec("large", "main", "l", input_per_million=1.0, output_per_million=2.0)}
    ledger = opened(path)
    for hour in range(6):
        ledger.append(a_decision(f"d{hour}", at=hour * HOUR))
        ledger.append(an_answer(f"d{hour}", input_tokens=hour * 1_000_000, output_tokens=0))
    ledger.append(a_decision("unanswered", at=6 * HOUR))
    ledger.flush()
    ledger.close()
    seal(path)
    ledger = opened(path)

    def found_by(least: float) -> list[str]:
        return [row.id for row in ledger.search(DecisionFilter(cost_at_least=least), models=prices).rows]

    def periods(least: float) -> int:
        return len(ledger._periods(DecisionFilter(cost_at_least=least), None, prices))

    assert [found_by(least) for least in (3.5, 5.0, 5.1)] == [["d5", "d4"], ["d5"], []]
    assert (periods(3.5), periods(5.1)) == (1, 0)
    with closing(raw(path)) as connection:  # an earlier version has added the hours up
        connection.execute("DELETE FROM hour_values WHERE kind = 9 AND hour < 5")
    assert [found_by(least) for least in (3.5, 5.0)] == [["d5", "d4"], ["d5"]]
    assert periods(5.1) == 1
    ledger.close()


def test_a_dear_answer_is_found_beside_one_that_was_read_from_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    model = ModelSpec(
        "large", "main", "l", input_per_million=1.0, output_per_million=2.0, cached_input_per_million=0.1
    )
    ledger = opened(path)
    for name, cached in (("plain", 0), ("cached", 1_000_000)):
        ledger.append(a_decision(name))
        ledger.append(an_answer(name, input_tokens=1_000_000, cached_tokens=cached, output_tokens=0))
    ledger.close()
    seal(path)
    ledger = opened(path)
    for least, expected in ((0.05, {"cached", "plain"}), (0.5, {"plain"}), (1.0, {"plain"}), (1.1, set())):
        wanted = DecisionFilter(cost_at_least=least)
        assert {row.id for row in ledger.search(wanted, models={"large": model}).rows} == expected, least
    ledger.close()


def test_a_session_is_read_by_its_index_and_before_it_has_summaries(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = opened(path)
    for entry in entries(40):
        ledger.append(entry)
    wanted = [each.id for each in ledger.decisions(session="s1", limit=None)]
    assert 1 < len(wanted) < 40
    ledger.close()
    with closing(raw(path)) as connection:
        statement = SqliteLedger._statements.pages[False, True]
        plan = connection.execute(
            f"EXPLAIN QUERY PLAN {statement}", ("s", "s/", "s0", 0.0, 0.0, 0, 9)
        ).fetchall()
        assert "summaries_by_session (session=?)" in str(plan)
        assert "SEARCH decisions USING INTEGER PRIMARY KEY" in str(plan)
    downgraded(path)
    ledger = opened(path)
    assert [each.id for each in ledger.decisions(session="s1", limit=None)] == wanted
    assert [each.decision.id for each in ledger.records(session="s1")] == wanted[::-1]
    ledger.close()


def test_a_damaged_decision_is_in_no_list_and_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = opened(path)
    for name in ("a", "b"):
        ledger.append(a_decision(name))
    ledger.close()
    downgraded(path)
    with closing(raw(path)) as connection:
        connection.execute("UPDATE decisions SET body = x'ff' WHERE id = 'a'")
    ledger = opened(path)
    ledger.append(an_answer("a"))
    ledger.append(a_decision("c", at=1.0))
    ledger.flush()
    ledger.close()
    reading = opened(path)
    assert [row.id for row in found(reading)] == ["c", "b"]
    assert reading.unsummarized() == 0
    reading.close()


@pytest.mark.parametrize("at", [1e300, -1e300, float("nan"), float("inf")])
def test_a_time_and_a_count_beyond_all_bounds_cost_no_entry(tmp_path: Path, at: float) -> None:
    ledger = opened(tmp_path / "ledger.sqlite")
    made = a_decision("d")
    ledger.append(replace(made, input=replace(made.input, arrived_at=at)))
    ledger.append(an_answer("d", input_tokens=2**70))
    ledger.append(a_decision("e"))
    ledger.flush()
    assert ledger.lost == 0
    assert {row.id for row in found(ledger)} == {"d", "e"}
    assert sum(each.turns for each in ledger.totals().turns) == 2
    ledger.close()


def test_a_read_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = opened(path)
    ledger.append(a_decision("d"))
    ledger.close()
    file = ledger_file(path)
    ticks = iter(range(1_000_000))
    monkeypatch.setattr("pointsman.stores._sqlite_file.time.monotonic", lambda: float(next(ticks)))
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(StoreUnavailable, match="took longer than 3 s"):
        file.read(endless, seconds=3.0)
    assert file.read("SELECT count(*) FROM decisions", seconds=3.0) == [(1,)]
    file.close()


def test_the_flags_are_found_through_their_indexes(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = opened(path)
    ledger.append(a_decision("d"))
    ledger.close()
    for flag in ("stuck", "downgraded", "abstained", "labelled"):
        query, values = SEARCH.search_of(DecisionFilter(**{flag: True}), (1.0, "x"), 10, {})  # type: ignore[arg-type]
        with closing(raw(path)) as connection:
            plan = str(connection.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall())
        assert f"summaries_{flag}" in plan
        assert "TEMP B-TREE" not in plan
    for query, values in (
        SEARCH.search_of(DecisionFilter(session="s"), None, 10, {}),
        SEARCH.session_of("s", 10),
    ):
        with closing(raw(path)) as connection:
            plan = str(connection.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall())
        assert "SCAN summaries" not in plan
