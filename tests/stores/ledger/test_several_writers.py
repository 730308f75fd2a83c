"""Several processes that write one SQLite ledger summarise as one would."""

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pointsman.errors import UnknownDecision
from pointsman.stores.ledger import (
    DecisionFilter,
    DecisionRow,
    Entry,
    Ledger,
    Outcome,
    Retention,
    ShadowAnswer,
    SqliteLedger,
)
from pointsman.stores.ledger.reading import totals_of
from pointsman.stores.ledger.turns import rows_of
from pointsman.testing import a_decision
from pointsman.testing.ledger_summaries import an_answer
from pointsman.tiers import TierDecision
from pointsman.vocabulary import Stage, Tier
from support.waiting import until


class Writers:
    """Ledgers on one file that flush one another, as workers do."""

    def __init__(self, path: Path, count: int) -> None:
        self.asked = 0
        self.ledgers = [
            SqliteLedger(path, retention=Retention(None, None), clock=lambda: 1e9) for _ in range(count)
        ]
        for ledger in self.ledgers:
            ledger.share(self.flush)

    def flush(self) -> None:
        self.asked += 1
        for ledger in self.ledgers:
            ledger.flush_own()


@contextmanager
def writers(path: Path, count: int = 2) -> Iterator[Writers]:
    opened = Writers(path, count)
    yield opened
    for ledger in opened.ledgers:
        ledger.close()


def found(ledger: Ledger) -> list[DecisionRow]:
    return list(ledger.search(DecisionFilter(), limit=10_000).rows)


def of_records(ledger: Ledger) -> list[DecisionRow]:
    return sorted(rows_of(ledger.records()), key=lambda row: (row.at, row.id), reverse=True)


def shares(count: int, draw: random.Random) -> Iterator[tuple[int, Entry]]:
    """Entries, and which of three processes appends each: a turn is one's, its outcomes may be another's."""
    at = 0.0
    for number in range(count):
        at += draw.choice((0.25, 60.0, 400.0))
        name, own = f"d{number:04}", draw.randrange(3)
        yield own, a_decision(name, at=at, session=draw.choice(("", "s1", "s2", "s3")))
        if draw.random() < 0.3:
            yield own, an_answer(name, status=500, error="status", model="first")
        if draw.random() < 0.9:
            model, tokens = draw.choice(("large", "small")), draw.randrange(1, 500)
            yield own, an_answer(name, number=2, model=model, input_tokens=tokens, cached_tokens=tokens // 3)
        for _ in range(draw.choice((0, 0, 0, 1, 2))):
            yield draw.randrange(3), Outcome(decision=name, score=0.5, label="said", cost=0.25)
        if draw.random() < 0.2:
            yield (
                own,
                ShadowAnswer(
                    decision=name,
                    at=at,
                    upstream="main",
                    model="tried",
                    status=200,
                    input_tokens=5,
                    output_tokens=6,
                ),
            )


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), pause=st.floats(0.02, 0.9))
def test_rows_are_those_of_the_records(
    tmp_path_factory: pytest.TempPathFactory, seed: int, pause: float
) -> None:
    """Each writes when it pleases: a turn may be written after the one that follows it."""
    draw = random.Random(seed)
    with writers(tmp_path_factory.mktemp("ledger") / "ledger.sqlite", 3) as some:
        for number, entry in shares(40, draw):
            some.ledgers[number].append(entry)
            if draw.random() < pause:
                some.ledgers[draw.randrange(3)].flush_own()
        some.flush()
        rows = found(some.ledgers[0])
        assert len(rows) == 40
        assert rows == of_records(some.ledgers[1])
        assert sorted(map(repr, some.ledgers[2].totals().turns)) == sorted(map(repr, totals_of(rows).turns))


@pytest.mark.parametrize(("later", "paid"), [(1, 1), (2, 2)])
def test_a_verification_is_paid_for_once(tmp_path: Path, later: int, paid: int) -> None:
    """Tool calls of one user message use the answer again, whichever worker serves them."""

    def verified(name: str, at: float, message: int) -> Entry:
        decision = a_decision(name, at=at, session="s")
        tier = TierDecision(Tier.SIMPLE, 0.0, 0.5, (), Stage.VERIFIED, True, ())  # noqa: FBT003
        return replace(decision, tier=tier, input=replace(decision.input, user_message=message))

    with writers(tmp_path / "ledger.sqlite") as some:
        for number, (name, message) in enumerate([("a", 1), ("b", later)]):
            some.ledgers[number].append(verified(name, float(number), message))
            some.ledgers[number].flush_own()
        rows = found(some.ledgers[0])
        assert sum(row.asked for row in rows) == paid
        assert rows == of_records(some.ledgers[1])


def test_what_waits_in_another_process_is_found(tmp_path: Path) -> None:
    with writers(tmp_path / "ledger.sqlite") as some:
        one, other = some.ledgers
        one.append(a_decision("d"))
        other.add_outcome(Outcome(decision="d", label="said"))
        one.append(an_answer("d"))
        assert other.get("d") is not None
        assert len(other.attempts("d")) == 1
        assert [each.label for each in one.outcomes("d")] == ["said"]
        asked = some.asked
        with pytest.raises(UnknownDecision):
            other.add_outcome(Outcome(decision="nobody's"))
        assert some.asked == asked + 1


@pytest.mark.parametrize("count", [1, 3])
def test_an_entry_waits_for_a_batch_as_long_as_there_are_writers(tmp_path: Path, count: int) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(path)) as ledger, closing(sqlite3.connect(path)) as reader:
        ledger.share(lambda: None, count)
        ledger.append(a_decision("first"))
        ledger.flush_own()
        began = time.monotonic()
        ledger.append(a_decision("d"))
        until(lambda: reader.execute("SELECT count(*) FROM decisions").fetchone() == (2,))
        assert time.monotonic() - began > 0.19 * count  # what a process that is killed loses at most
