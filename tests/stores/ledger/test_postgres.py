"""A ledger in PostgreSQL beyond the contract: outages, several gateways, retention, clear errors."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pointsman.errors import ConfigError, StoreUnavailable
from pointsman.stores.ledger import Attempt, DecisionFilter, Entry, Outcome, Owner, PromptText, Retention
from pointsman.stores.ledger._retention import Removed
from pointsman.stores.ledger.reading import HOUR
from pointsman.testing import a_decision, a_run_entry, an_attempt
from pointsman.vocabulary import DAY, ModelSpec
from support.waiting import until

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: the extra `postgres`")
from pointsman.stores.ledger.postgres import PostgresLedger, _ledger  # noqa: E402 - after its client
from pointsman.stores.ledger.postgres._connection import Connection, Database  # noqa: E402
from pointsman.stores.ledger.postgres._rows import BatchCopier  # noqa: E402
from pointsman.stores.ledger.postgres._schema import PARTITIONED  # noqa: E402
from pointsman.stores.ledger.postgres._summaries import LINK, SEAL, seal_one  # noqa: E402

if TYPE_CHECKING:
    from support.engines import Postgres

NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def shared(postgres: Postgres) -> str:
    """A database for tests that look at ids and sessions of their own alone."""
    url = postgres.database()
    with closing(PostgresLedger(url)) as ledger:
        ledger.check()
    return url


@contextmanager
def opened(url: str, **settings: Any) -> Iterator[PostgresLedger]:
    settings.setdefault("clock", lambda: NOW)
    with closing(PostgresLedger(url, **settings)) as ledger:
        yield ledger


def an_answer(decision: str, **given: Any) -> Attempt:
    return replace(an_attempt(decision), started_at=NOW, cached_tokens=0, output_tokens=5, **given)


def written(ledger: PostgresLedger) -> bool:
    """Let the writer hurry; tell whether nothing waits."""
    ledger.flush()
    return not (ledger.fault or ledger.waiting)


def test_an_outage_costs_what_does_not_fit_and_is_over_by_itself(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres.database()
    with opened(url, queue=40) as ledger:
        ledger.append(a_decision("before", at=NOW))
        ledger.flush()
        with postgres.refusing(url), caplog.at_level(logging.WARNING):
            ledger.append(a_decision("first", at=NOW))
            until(lambda: ledger.fault)
            for number in range(200):
                ledger.append(a_decision(f"d{number}", at=NOW))
            assert ledger.lost > 0
            with pytest.raises(StoreUnavailable, match="database"):
                ledger.get("before")
        until(lambda: written(ledger))
        kept = {decision.id for decision in ledger.decisions(limit=None)}
        assert len(kept) + ledger.lost == 202
        assert {"before", "first", "d0"} <= kept  # what came first waited
        ledger.append(a_decision("after", at=NOW))
        assert ledger.get("after") is not None
    said = caplog.text
    assert "entries at most" in said
    assert "recovered; lost meanwhile" in said
    assert postgres.url().split(":")[2].split("@")[0] not in said  # the password


def test_a_batch_whose_commit_was_not_answered_is_there_once(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copier = BatchCopier(Database(shared), "off", lambda: NOW)
    transact = copier._transact

    def cut_off(part: Any, *, careful: bool) -> int:
        transact(part, careful=careful)
        copier._unsure = copier._number  # as it is while the commit is under way
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    batch: list[Entry] = [
        a_decision("once", at=NOW, session="once"),
        an_attempt("once"),
        PromptText(decision="once", text="x"),
    ]
    with monkeypatch.context() as patched:
        patched.setattr(copier, "_transact", cut_off)
        with pytest.raises(StoreUnavailable, match="server closed the connection"):
            copier.write(batch)
    later: list[Entry] = [*batch, an_attempt("once", 2)]  # it is tried again with what came meanwhile
    assert copier.write(later) == 0
    copier._database.close_writer()
    with opened(shared) as ledger:
        assert [attempt.number for attempt in ledger.attempts("once")] == [1, 2]
        assert [row.attempts for row in ledger.session("once")] == [2]


def test_a_batch_that_is_lost_takes_none_of_the_next_with_it(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise TypeError("a mistake of ours")

    with opened(shared) as ledger:
        with monkeypatch.context() as patched:
            patched.setattr(ledger._copier._summarizer, "write", broken)
            for number in range(3):
                ledger.append(a_decision(f"mistaken-{number}", at=NOW))
            until(lambda: ledger.lost == 3)
        for number in range(3):
            ledger.append(a_decision(f"after-a-mistake-{number}", at=NOW, session="after-a-mistake"))
        assert len(ledger.session("after-a-mistake")) == 3
        assert (ledger.lost, ledger.get("mistaken-0")) == (3, None)


def test_gateways_that_start_together_make_the_tables_once(postgres: Postgres) -> None:
    url = postgres.database()

    def append(number: int) -> int:
        with opened(url) as ledger:
            ledger.append(a_decision(f"d{number}", at=NOW))
            ledger.append(an_answer(f"d{number}"))
            ledger.flush()
            return ledger.lost

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(append, range(4))) == [0] * 4
    with opened(url) as ledger:
        rows, _ = ledger.search(DecisionFilter())
        assert {(row.id, row.result) for row in rows} == {(f"d{number}", "counted") for number in range(4)}
        assert sum(each.turns for each in ledger.totals().turns) == 4


def test_a_turn_knows_the_one_before_it_at_another_gateway(shared: str) -> None:
    with opened(shared) as one, opened(shared) as other:
        for number, ledger in enumerate((one, other, one, other)):
            at = NOW + 100 * number
            ledger.append(a_decision(f"alternating-{number}", at=at, session="alternating"))
            ledger.append(an_answer(f"alternating-{number}", model=("large", "small")[number // 3]))
            ledger.flush()
        rows = one.session("alternating")
        assert [row.gap for row in rows] == [-1, 1, 1, 1]
        assert [row.own for row in rows] == ["large", "large", "large", ""]
        assert [row.switched for row in rows] == [False, False, False, True]


def test_a_turn_written_later_is_known_when_its_hour_is_over(postgres: Postgres) -> None:
    """A fast agent: the turn at the other gateway is written before the one that it follows."""
    url = postgres.database()
    with opened(url) as one, opened(url) as other:
        for number, ledger in ((1, one), (0, other)):
            ledger.append(a_decision(f"fast-{number}", at=NOW + 0.1 * number, session="fast"))
            ledger.append(an_answer(f"fast-{number}", input_tokens=100 + number))
            ledger.flush()
        assert [row.gap for row in one.session("fast")] == [-1, -1]
        while seal_one(one._database.writer(), NOW + 7_200):
            pass
        first, second = one.session("fast")
        assert (first.gap, first.reused, first.own) == (-1, 0, "large")
        assert (second.gap, second.reused, second.own, second.switched) == (0, 100, "large", False)
        assert {each.gap for each in one.totals().turns} == {-1, 0}
        other.add_outcome(Outcome(decision="fast-1", label="good"))
        assert other.session("fast")[1].gap == 0  # and it stays


def test_what_another_gateway_adds_is_found_by_the_time_of_the_decision(postgres: Postgres) -> None:
    url = postgres.database()
    with opened(url, text="full") as first:
        first.append(a_decision("old", at=NOW - 9 * DAY))
        for name in ("early", "late", "none"):
            first.append(a_decision(name, at=NOW))
            first.append(PromptText(decision=name, text=name))
    with opened(url, clock=lambda: NOW - HOUR) as behind:  # it remembers none of these decisions
        behind.add_outcome(Outcome(decision="early", score=0.25, at=NOW - HOUR))
        behind.add_outcome(Outcome(decision="late", score=0.75, at=NOW + 3 * DAY))
        behind.add_outcome(Outcome(decision="old", score=1.0, at=NOW))
        behind.add_outcome(Outcome(decision="none", score=0.5))  # without a time
        behind.flush()
        read = list(behind.records(newest_first=True, limit=3))
        assert [(each.decision.id, each.text, each.outcomes[0].score) for each in read] == [
            ("none", "none", 0.5),
            ("late", "late", 0.75),
            ("early", "early", 0.25),
        ]
        found = behind.records_of(["early", "late", "none"], since=NOW, with_text=True)
        assert found == {each.decision.id: each for each in read}
        [oldest] = behind.records(limit=1)
        assert [each.score for each in oldest.outcomes] == [1.0]


def test_an_outcome_taken_by_another_gateway_stays(shared: str) -> None:
    with opened(shared) as one, opened(shared) as other:
        one.append(a_decision("said", at=NOW, session="said"))
        one.flush()
        other.add_outcome(Outcome(decision="said", label="good", score=1.0, cost=0.5))
        other.flush()
        one.append(an_answer("said"))
        one.flush()
        [row] = other.session("said")
        assert (row.label, row.score, row.result, row.judging) == ("good", 1.0, "counted", 0.5)
        other.add_outcome(Outcome(decision="said", label="better", score=0.5))
        [row] = other.session("said")
        assert (row.label, row.result) == ("better", "counted")


def filled(url: str, days: int) -> float:
    """Write a decision with all that belongs to it on each of the last days; return the time of the last."""
    now = time.time()
    with opened(url, retention=Retention(None, None), text="full") as ledger:
        for number in range(days):
            at = now - number * DAY
            ledger.append(a_decision(f"d{number}", at=at))
            ledger.append(PromptText(decision=f"d{number}", text="words"))
            ledger.append(replace(an_answer(f"d{number}"), started_at=at))
        ledger.append(a_run_entry("r", at=now - (days - 1) * DAY))
        ledger.append(Owner(object="o", caller="ann", at=now - days * DAY))
        ledger.flush()
        assert (ledger.count(), ledger.fault) == (days, "")
    return now


def sweep(url: str, retention: Retention, *, ahead: float = 0.0) -> Removed:
    """Write a row by a gateway whose clock is ahead, ten minutes after the last removal: its ``removed``."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("DELETE FROM pointsman.meta WHERE name = 'removed_at'")
    with opened(url, retention=retention, clock=lambda: time.time() + ahead) as ledger:
        ledger.append(a_run_entry("sweep", at=time.time() + ahead))
        assert written(ledger)
        return dict(ledger.removed)


def left(url: str) -> set[str]:
    with opened(url, retention=Retention(None, None)) as ledger:
        return {each.id for each in ledger.decisions(limit=None)}


def test_a_day_over_a_bound_goes_with_all_that_belongs_to_it(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres.database()
    filled(url, 5)
    assert sweep(url, Retention(keep_days=2, max_mb=None)) == {"age": 2, "size": 0}  # a decision, and a run
    assert "removed 20" in caplog.text
    assert "older than keep_days = 2" in caplog.text
    assert left(url) == {"d0", "d1", "d2", "d3"}
    with opened(url, retention=Retention(None, None)) as ledger:
        assert (ledger.text("d4"), ledger.attempts("d4"), ledger.run("r")) == (None, (), ())
        assert (ledger.text("d3"), ledger.owner("o")) == ("words", "ann")
    caplog.clear()
    assert sweep(url, Retention(keep_days=None, max_mb=1e-6)) == {"age": 0, "size": 1}
    assert "larger than max_mb = 1e-06" in caplog.text
    for _ in range(5):
        sweep(url, Retention(keep_days=1, max_mb=1e-6))
    assert left(url) == {"d0"}  # the present day stays


def turns(url: str) -> int:
    with opened(url, retention=Retention(None, None)) as ledger:
        return sum(each.turns for each in ledger.totals().turns)


def test_sums_outlive_their_rows_and_have_a_retention_of_their_own(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres.database()
    now = filled(url, 5)
    for _ in range(3):
        sweep(url, Retention(keep_days=1, max_mb=None))
    assert left(url) == {"d0", "d1"}
    assert turns(url) == 5
    with opened(url, retention=Retention(None, None)) as ledger:  # a late row adds nothing, and takes nothing
        ledger.append(Outcome(decision="d4", score=1.0, at=now))
        ledger.append(a_decision("late", at=now - 4 * DAY))
        ledger.flush()
    with closing(Database(url)._prepared()) as connection:
        while seal_one(connection, now + DAY):
            pass
    assert turns(url) == 5
    sweep(url, Retention(keep_days=1, max_mb=None))
    assert (left(url), turns(url)) == ({"d0", "d1"}, 5)
    for remaining in (4, 3, 2, 2):
        sweep(url, Retention(keep_days=None, max_mb=None, keep_sums_days=0.5))
        assert turns(url) == remaining  # those of the days that have rows stay
    assert caplog.text.count("removed the sums of a day: older than keep_sums_days = 0.5") == 3


def test_gateways_together_remove_one_day_in_ten_minutes(postgres: Postgres) -> None:
    url = postgres.database()
    filled(url, 5)
    sweep(url, Retention(keep_days=1, max_mb=None))
    for _ in range(3):
        with opened(url, retention=Retention(keep_days=1, max_mb=None)) as ledger:
            ledger.append(a_run_entry("r2", at=NOW))
            assert written(ledger)
            assert dict(ledger.removed) == {"age": 0, "size": 0}
    assert left(url) == {"d0", "d1", "d2", "d3"}


@pytest.mark.parametrize("days", [40, 4_000])
def test_a_gateway_whose_clock_is_ahead_removes_nothing(postgres: Postgres, days: int) -> None:
    """Once, the first sweep of such a gateway left 60 of 44,797 decisions, its own."""
    url = postgres.database()
    filled(url, 10)
    for _ in range(3):
        assert sweep(url, Retention(), ahead=days * DAY) == {"age": 0, "size": 0}
    assert len(left(url)) == 10


@pytest.mark.parametrize("at", [1e300, -1e300, math.nan, math.inf])
def test_a_time_beyond_all_bounds_costs_no_entry(shared: str, at: float) -> None:
    with opened(shared, retention=Retention(None, None)) as ledger:
        ledger.append(a_decision(f"at {at}", at=at, session=f"at {at}"))
        ledger.append(replace(an_attempt(f"at {at}"), input_tokens=2**70, output_tokens=1, status=2**40))
        ledger.flush()
        assert (ledger.lost, ledger.fault) == (0, "")
        assert len(ledger.session(f"at {at}")) == 1


def test_what_postgres_cannot_hold_is_replaced(shared: str) -> None:
    name = "nul \0, half \ud800, é"
    with opened(shared) as ledger:
        made = a_decision("odd", at=NOW)
        asked = replace(made.input, session="nul \0 é", caller="a\0", signals=("s\0",))
        ledger.append(replace(made, input=asked))
        ledger.append(a_decision(name, at=NOW))
        ledger.flush()
        assert ledger.fault == ""
        assert [row.id for row in ledger.session("nul \0 é")] == ["odd"]
        assert ledger.get("odd", caller="a\0") is not None
        assert [row.id for row in ledger.search(DecisionFilter(signal="s\0", session="nul \0 é")).rows] == [
            "odd"
        ]


def test_a_frozen_server_is_waited_for_with_an_end(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, who asked for a decision waited for as long as the server was frozen: it keeps its own limits."""
    monkeypatch.setattr(_ledger, "_ONE_ROW", 0.5)
    with opened(postgres.database()) as ledger:
        ledger.append(a_decision("d", at=NOW))
        ledger.flush()
        assert ledger.get("d") is not None
        with postgres.frozen(), pytest.raises(StoreUnavailable, match=r"was answered for 0\.5 s"):
            ledger.get("d")
        until(lambda: readable(ledger))


def readable(ledger: PostgresLedger) -> bool:
    try:
        return ledger.get("d") is not None
    except StoreUnavailable:
        return False


def test_a_nul_in_a_text_breaks_no_search(postgres: Postgres) -> None:
    """Once, one prompt with a NUL failed the word search of all, for as long as its row was kept."""
    url = postgres.database()
    texts = {
        "plain": "hello you",
        "odd": "hello a\0b \\000 \\\0\\ é \U0001f600 \0",
        "other": "nothing \0 of it",
    }
    with opened(url, text="full") as ledger:
        for name, text in texts.items():
            ledger.append(a_decision(name, at=NOW))
            ledger.append(PromptText(decision=name, text=text))
        ledger.flush()
        assert ledger.fault == ""
        for by_an_earlier_version in (False, True):
            if by_an_earlier_version:
                with psycopg.connect(url) as connection:
                    for name, text in texts.items():
                        connection.execute(
                            "UPDATE pointsman.entries SET body = %s WHERE decision = %s AND kind = 3",
                            (text.encode(), name),
                        )
            for words, found in (
                ("hello", {"plain", "odd"}),
                ("\\000", {"odd"}),
                ("a\ufffdB", {"odd"}),
                ("a\0b", {"odd"}),
                ("é \U0001f600", {"odd"}),
                ("\\\0\\ é", {"odd"}),
                ("OF IT", {"other"}),
                ("absent", set()),
            ):
                rows = ledger.search(DecisionFilter(text=words)).rows
                assert {row.id for row in rows} == found, words


def test_a_newer_schema_is_refused_and_left_as_it_is(postgres: Postgres) -> None:
    url = postgres.database()
    with opened(url) as ledger:
        ledger.check()
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE pointsman.version SET number = 99")
        connection.execute("UPDATE pointsman.meta SET value = '99' WHERE name = 'readable_from'")
    with opened(url) as ledger:
        told = "belongs to a later version of pointsman: it has schema 99"
        with pytest.raises(StoreUnavailable, match=told):
            ledger.check()
        with pytest.raises(StoreUnavailable, match=told):
            ledger.get("d")
        ledger.append(a_decision("d", at=NOW))
        until(lambda: "schema 99" in ledger.fault)


def test_nothing_is_made_by_who_only_reads(postgres: Postgres) -> None:
    url = postgres.database()
    with opened(url) as ledger:
        assert (ledger.count(), list(ledger.decisions()), ledger.totals().turns) == (0, [], ())
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT to_regnamespace('pointsman')").fetchone() == (None,)


def test_a_table_of_a_day_is_made_for_each_that_has_one(shared: str) -> None:
    with opened(shared) as ledger:
        ledger.append(a_decision("tables", at=NOW, session="tables"))
        ledger.flush()
    with psycopg.connect(shared) as connection:
        query = "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_20270115' AND relkind = 'r'"
        assert connection.execute(query).fetchone() == (len(PARTITIONED),)


def test_who_cannot_be_reached_is_named_without_the_password(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    for url in (
        postgres.url("nowhere"),
        postgres.url(password="not-the-one"),
        "postgresql://ann:not-the-one@127.0.0.1:1/x?connect_timeout=2",
    ):
        with opened(url) as ledger, pytest.raises(StoreUnavailable) as refused:
            ledger.check()
        said = str(refused.value)
        assert all(f'{part} "' in said for part in ("host", "database", "user"))
        assert not any(secret in said for secret in ("canary", "not-the-one"))
        with opened(url) as ledger, caplog.at_level(logging.WARNING):
            ledger.start()
            assert ledger.fault
            assert "new entries wait" in caplog.text
    with pytest.raises(ConfigError, match="not a PostgreSQL address") as wrong:
        PostgresLedger("postgresql://ann:canary@[::1/x")
    assert "canary" not in str(wrong.value)


def test_a_reader_outlives_a_restart_of_the_server(postgres: Postgres) -> None:
    url = postgres.database()
    with opened(url) as ledger:
        ledger.append(a_decision("d", at=NOW))
        ledger.flush()
        assert ledger.count() == 1
        with postgres.refusing(url):
            pass  # every connection has ended
        assert ledger.count() == 1


def test_an_hour_is_added_up_in_one_pass_where_there_are_no_statistics(postgres: Postgres) -> None:
    """Row by row, as the writer's own statements are planned, an hour of 1,400 decisions took seconds."""
    url, hour = postgres.database(), {"hour": int(NOW // 3_600)}
    with opened(url) as ledger:
        ledger.append(a_decision("d", at=NOW))
        ledger.flush()
    with closing(Database(url).writer()) as connection, connection.transaction():
        for statement in SEAL[: SEAL.index(LINK)]:
            connection.execute(statement, hour)
        plan = str(connection.execute(f"EXPLAIN {LINK}", hour).fetchall())
    assert "Nested Loop" not in plan
    assert "Hash Join" in plan


def test_a_search_looks_only_into_hours_that_have_what_is_asked_for(postgres: Postgres) -> None:
    url = postgres.database()
    prices = {"large": ModelSpec("large", "main", "l", input_per_million=1.0, output_per_million=2.0)}
    with opened(url) as ledger, closing(Database(url)._prepared()) as connection:
        for hour in range(5):
            made = a_decision(f"d{hour}", at=NOW + hour * HOUR)
            found = ("rare", "x" * 3_000) if hour % 3 == 0 else ("other",)
            ledger.append(replace(made, input=replace(made.input, signals=found)))
            ledger.append(an_answer(f"d{hour}", model="large", input_tokens=hour * 1_000_000))
        ledger.flush()
        searched = [
            (DecisionFilter(signal="rare"), ["d3", "d0"], 2),
            (DecisionFilter(signal="x" * 3_000), ["d3", "d0"], 2),
            (DecisionFilter(signal="x" * 2_999), [], 2),  # only so much of a value is compared
            (DecisionFilter(signal="none"), [], 0),
            (DecisionFilter(tier="NONE", signal="rare"), [], 0),
            (DecisionFilter(signal="other", status=200), ["d4", "d2", "d1"], 2),
            (DecisionFilter(cost_at_least=3.5), ["d4"], 1),
            (DecisionFilter(cost_at_least=99.0), [], 0),
        ]
        for is_sealed in (False, True):
            if is_sealed:
                while seal_one(connection, NOW + DAY):
                    pass
            for wanted, expected, periods in searched:
                rows = ledger.search(wanted, models=prices).rows
                assert [row.id for row in rows] == expected
                assert not is_sealed or len(ledger._periods(wanted, None, prices)) == periods
        connection.execute("DELETE FROM hour_values")  # as an earlier version left the hours
        connection.execute("UPDATE hours SET has_values = false")
        for wanted, expected, _ in searched:
            assert [row.id for row in ledger.search(wanted, models=prices).rows] == expected
            assert len(ledger._periods(wanted, None, prices)) == 1
        _ledger._drop(connection, int(NOW // DAY), [])
        assert connection.execute("SELECT count(*) FROM hour_values").fetchone() == (0,)


@pytest.mark.parametrize("length", [199, 200, 1_000])
def test_a_dear_answer_of_a_model_with_a_long_name_is_found(postgres: Postgres, length: int) -> None:
    """Two names that begin alike are one value of their hour, at the price of the dearer one."""
    url, long = postgres.database(), "m" * length
    prices = {
        name: ModelSpec(name, "main", "l", input_per_million=price, output_per_million=0.0)
        for name, price in (("large", 1.0), (long + "1", 1.0), (long + "2", 50.0))
    }
    with opened(url) as ledger, closing(Database(url)._prepared()) as connection:
        for number, model in enumerate(prices):
            ledger.append(a_decision(f"d{number}", at=NOW))
            ledger.append(an_answer(f"d{number}", model=model, input_tokens=1_000_000))
        ledger.flush()
        _seal_all(connection, NOW + DAY)
        for least, expected in ((0.5, {"d0", "d1", "d2"}), (2.0, {"d2"}), (51.0, set())):
            wanted = DecisionFilter(cost_at_least=least)
            assert {row.id for row in ledger.search(wanted, models=prices).rows} == expected, least
        assert ledger._periods(DecisionFilter(cost_at_least=51.0), None, prices) == []


def test_hours_of_a_removed_day_are_searched_when_rows_come_late_and_no_longer(postgres: Postgres) -> None:
    url = postgres.database()
    now, wanted = filled(url, 5), DecisionFilter(tier="COMPLEX")
    with opened(url, clock=lambda: now) as ledger, closing(Database(url)._prepared()) as connection:
        _seal_all(connection, now + DAY)
        connection.execute("DELETE FROM hour_values")  # as an earlier version left the hours
        connection.execute("UPDATE hours SET has_values = false")
        for day in (4, 3):
            _ledger._drop(connection, int(now // DAY) - day, [f"summaries_{_day(now - day * DAY)}"])
        assert len(ledger._periods(wanted, None, {})) == 3  # those of the days that have rows
        ledger.append(a_decision("late", at=now - 4 * DAY))
        ledger.flush()
        _seal_all(connection, now + DAY)
        assert [row.id for row in ledger.search(wanted).rows][-1] == "late"
        assert ledger.search(DecisionFilter(tier="NONE", until=now - 3 * DAY)).rows == ()
        assert sum(each.turns for each in ledger.totals().turns) == 5  # no sum knows it


def test_sums_of_a_removed_day_are_of_all_its_rows(postgres: Postgres) -> None:
    """An hour that has changed since it was added up is added up again before its rows go."""
    url = postgres.database()
    now = filled(url, 2)
    with opened(url, clock=lambda: 0.0) as ledger, closing(Database(url)._prepared()) as connection:
        _seal_all(connection, now + DAY)
        ledger.append(a_decision("second", at=now - DAY))
        ledger.flush()
        with connection.transaction():
            _ledger._drop(connection, int(now // DAY) - 1, [f"summaries_{_day(now - DAY)}"])
        assert sum(each.turns for each in ledger.totals().turns) == 3


def _seal_all(connection: Connection, now: float) -> None:
    """Add all hours up, also while the ledger itself adds one up."""
    until(lambda: not seal_one(connection, now) and not _dirty(connection))


def _dirty(connection: Connection) -> int:
    [count] = connection.execute("SELECT count(*) FROM dirty").fetchone() or (0,)
    return int(count)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y%m%d")


def test_an_hour_that_an_earlier_version_added_up_again_is_searched(postgres: Postgres) -> None:
    url = postgres.database()
    earlier = [each for each in SEAL if "hour_values" not in each]
    earlier = [each.replace("has_values, ", "").replace("true, ", "") for each in earlier]
    with opened(url) as ledger, closing(Database(url)._prepared()) as connection:
        for caller in ("alice", "zed"):
            ledger.append(a_decision(caller, at=NOW, caller=caller))
            ledger.flush()
            if caller == "alice":
                while seal_one(connection, NOW + DAY):
                    pass
            else:
                with connection.transaction():
                    for statement in earlier:
                        connection.execute(statement, {"hour": int(NOW // HOUR)})
        assert connection.execute("SELECT count(*) FROM dirty").fetchone() == (0,)
        for caller in ("alice", "zed"):
            assert [row.id for row in ledger.search(DecisionFilter(caller=caller)).rows] == [caller]


def test_hours_beyond_some_are_looked_into_together(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.database()
    with opened(url) as ledger, closing(Database(url)._prepared()) as connection:
        for hour in range(0, 12, 2):
            ledger.append(a_decision(f"d{hour:02}", at=NOW + hour * HOUR))
        ledger.flush()
        while seal_one(connection, NOW + DAY):
            pass
        monkeypatch.setattr(PostgresLedger, "_most_periods", 2)
        wanted = DecisionFilter(tier="COMPLEX")
        assert len(ledger._periods(wanted, None, {})) == 3
        assert [row.id for row in ledger.search(wanted).rows] == ["d10", "d08", "d06", "d04", "d02", "d00"]
