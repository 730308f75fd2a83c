"""A ledger in PostgreSQL beyond the contract: outages, several gateways, retention, clear errors."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pointsman.errors import ConfigError, StoreUnavailable
from pointsman.stores.ledger import Attempt, DecisionFilter, Entry, Outcome, Owner, PromptText, Retention
from pointsman.testing import a_decision, a_run_entry, an_attempt
from pointsman.vocabulary import DAY
from support.waiting import until

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: the extra `postgres`")
from pointsman.stores.ledger.postgres import PostgresLedger  # noqa: E402 - after its client
from pointsman.stores.ledger.postgres._connection import Database  # noqa: E402
from pointsman.stores.ledger.postgres._schema import PARTITIONED  # noqa: E402
from pointsman.stores.ledger.postgres._summarizer import seal_one  # noqa: E402
from pointsman.stores.ledger.postgres._writing import BatchCopier  # noqa: E402

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


def test_days_over_a_bound_go_with_all_that_belongs_to_them(postgres: Postgres) -> None:
    url, now = postgres.database(), NOW
    with opened(url, retention=Retention(keep_days=2, max_mb=None), clock=lambda: now, text="full") as ledger:
        for number in range(5):
            at = NOW + number * DAY
            ledger.append(a_decision(f"d{number}", at=at))
            ledger.append(PromptText(decision=f"d{number}", text="words"))
            ledger.append(an_answer(f"d{number}"))
        ledger.append(a_run_entry("r", at=NOW))
        ledger.append(Owner(object="o", caller="ann", at=NOW))
        ledger.flush()
        assert (ledger.count(), ledger.text("d0")) == (5, "words")
        assert sum(each.turns for each in ledger.totals().turns) == 5
        now = NOW + 4 * DAY
        ledger.append(a_decision("last", at=now))
        ledger.flush()
        assert [d.id for d in ledger.decisions()] == ["last", "d4", "d3", "d2"]
        assert (ledger.text("d0"), ledger.attempts("d1"), ledger.run("r")) == (None, (), ())
        assert ledger.owner("o") == "ann"
        assert sum(each.turns for each in ledger.totals().turns) == 4
    with opened(url, retention=Retention(keep_days=None, max_mb=1e-6), clock=lambda: now + DAY) as ledger:
        ledger.append(a_decision("today", at=now + DAY))
        ledger.flush()
        assert [d.id for d in ledger.decisions()] == ["today"]


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


def test_a_newer_schema_is_refused_and_left_as_it_is(postgres: Postgres) -> None:
    url = postgres.database()
    with opened(url) as ledger:
        ledger.check()
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE pointsman.version SET number = 99")
    with opened(url) as ledger:
        told = "has version 99; this program supports versions up to"
        with pytest.raises(StoreUnavailable, match=told):
            ledger.check()
        with pytest.raises(StoreUnavailable, match=told):
            ledger.get("d")
        ledger.append(a_decision("d", at=NOW))
        until(lambda: "version 99" in ledger.fault)


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
            assert "what comes waits" in caplog.text
    with pytest.raises(ConfigError, match="none of PostgreSQL") as wrong:
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
