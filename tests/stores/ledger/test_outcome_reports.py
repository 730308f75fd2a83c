"""Which reported outcomes a SQLite ledger admits: while its file is behind, locked, without the decision."""

import sqlite3
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.errors import StoreUnavailable, TooManyOutcomes, UnknownDecision
from pointsman.stores import _sqlite_file as sqlite_file
from pointsman.stores.ledger import Outcome, Retention, SqliteLedger
from pointsman.stores.ledger.outcome_reports import LENGTHS, MAX_OUTCOMES, Admission, read_line, read_report
from pointsman.testing import a_decision
from support.examples import share
from support.waiting import until

FOREVER = Retention(keep_days=None, max_mb=None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def good(decision: str = "d") -> Outcome:
    return Outcome(decision=decision, score=1.0, at=1.0)


@pytest.mark.slow
def test_both_wait_while_the_file_is_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY", 0.01)
    with closing(SqliteLedger(path, retention=FOREVER)) as ledger:
        ledger.append(a_decision("before"))
        ledger.flush()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            ledger.append(a_decision("d"))
            until(lambda: "locked" in ledger.fault)
            ledger.add_outcome(good())
            ledger.add_outcome(good("before"))
            with pytest.raises(UnknownDecision):
                ledger.add_outcome(good("none"))
            other.execute("ROLLBACK")
        until(lambda: ledger.fault == "")
        assert (len(ledger.outcomes("d")), len(ledger.outcomes("before"))) == (1, 1)
        assert ledger.lost == 0


def test_a_decision_that_the_queue_lost_is_unknown(path: Path) -> None:
    with closing(SqliteLedger(path, queue=0, retention=FOREVER)) as ledger:
        ledger.append(a_decision("d"))
        assert ledger.lost == 1
        with pytest.raises(UnknownDecision):
            ledger.add_outcome(good())


def test_an_outcome_that_the_queue_cannot_take_is_said(path: Path) -> None:
    with closing(SqliteLedger(path, retention=FOREVER)) as ledger:
        ledger.append(a_decision("d"))
    with (
        closing(SqliteLedger(path, queue=0, retention=FOREVER)) as ledger,
        pytest.raises(StoreUnavailable, match="queue is full"),
    ):
        ledger.add_outcome(good())


def test_a_decision_that_was_removed_is_unknown(path: Path) -> None:
    now = 0.0
    retention = Retention(keep_days=1, max_mb=None)
    with closing(SqliteLedger(path, retention=retention, clock=lambda: now)) as ledger:
        ledger.append(a_decision("d", at=0.0))
        ledger.add_outcome(good())
        ledger.flush()
        now = 1e9
        ledger.append(a_decision("new", at=now))
        ledger.flush()
        with pytest.raises(UnknownDecision):
            ledger.add_outcome(good())
        assert ledger.outcomes("d") == ()


def test_a_decision_of_another_process_is_known_once_it_is_written(path: Path) -> None:
    with (
        closing(SqliteLedger(path, retention=FOREVER)) as one,
        closing(SqliteLedger(path, retention=FOREVER)) as other,
    ):
        one.append(a_decision("d"))
        one.flush()
        for ledger in (one, other) * (MAX_OUTCOMES // 2):
            ledger.add_outcome(good())
            ledger.flush()
        for ledger in (one, other):
            with pytest.raises(TooManyOutcomes):
                ledger.add_outcome(good())


def test_counts_are_remembered_of_so_many_decisions() -> None:
    admission = Admission(size=2)
    for decision in ("a", "b", "a", "c"):
        admission.admit(decision, 0)
    assert list(admission._counts.items()) == [("a", 2), ("c", 1)]


@settings(max_examples=share(0.3))
@given(st.lists(st.sampled_from(["decide", "report", "report", "report", "flush"]), max_size=120))
def test_what_is_admitted_is_kept_and_never_too_much(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    admitted: Counter[str] = Counter()
    with closing(
        SqliteLedger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite", retention=FOREVER)
    ) as ledger:
        decided = 0
        for step in steps:
            newest = f"d{decided}"
            match step:
                case "decide":
                    decided += 1
                    ledger.append(a_decision(f"d{decided}", at=float(decided)))
                case "flush":
                    ledger.flush()
                case _:
                    with suppress(TooManyOutcomes, UnknownDecision):
                        ledger.add_outcome(good(newest))
                        admitted[newest] += 1
                    assert admitted[newest] > 0 or decided == 0
        assert all(count <= MAX_OUTCOMES for count in admitted.values())
        assert {name: len(ledger.outcomes(name)) for name in admitted} == dict(admitted)
        assert ledger.lost == 0


@pytest.mark.parametrize(("field", "limit"), LENGTHS.items())
def test_a_line_is_as_long_as_it_may_be(field: str, limit: int) -> None:
    said = '{"score": 1, "%s": "%s"}'
    if field != "decision":
        said = said.replace("{", '{"decision": "d", ')
    assert len(getattr(read_line((said % (field, "ä" * limit)).encode(), at=0.0), field)) == limit
    with pytest.raises(ValueError, match=f'"{field}" is longer than {limit:,} characters'):
        read_line((said % (field, "ä" * (limit + 1))).encode(), at=0.0)


def test_half_a_character_is_no_outcome() -> None:
    with pytest.raises(ValueError, match="truncated"):
        read_report(b'{"score": 1, "label": "\\ud800"}', decision="d", at=0.0)
