"""``pointsman ledger copy`` between every pair of forms: all of it, once, also when it is done again."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pointsman.cli import ledger as command
from pointsman.errors import ConfigError, PointsmanError
from pointsman.stores.ledger import (
    Entry,
    Ledger,
    Outcome,
    Owner,
    PassedRequest,
    PolicyText,
    PromptText,
    Retention,
    ShadowDecision,
    SqliteLedger,
)
from pointsman.stores.ledger.copying import entries_of
from pointsman.stores.ledger.lines import entry_in, line_of
from pointsman.testing import a_decision, a_run_entry, an_attempt

if TYPE_CHECKING:
    from support.engines import Postgres

NOW = 1_800_000_000.0


def entries() -> Iterator[Entry]:
    yield PolicyText(version="p1", text="[tiers]")  # by which the decisions below are
    for number in range(30):
        name = f"d{number:02}"
        yield a_decision(name, at=NOW + number, session=f"s{number % 3}", caller="ann")
        yield PromptText(decision=name, text=f"words of {name}, é")
        yield an_attempt(name, 1)
        yield an_attempt(name, 2)
        yield Outcome(decision=name, label="good", score=1.0, at=NOW)
        yield ShadowDecision(decision=name, at=NOW, policy="p2", changed=("tier",))
        yield PassedRequest(id=f"p{number}", at=NOW, upstream="main", method="GET", path="/v1/files")
        yield Owner(object=f"o{number}", caller="ann", at=NOW + number)
    for run in range(3):
        for step in (1, 2):
            yield a_run_entry(f"r{run}", step, at=NOW)


def opened(path: Path) -> SqliteLedger:
    return SqliteLedger(path, text="full", retention=Retention(None, None))


def everything(ledger: Ledger) -> list[Entry]:
    with closing(ledger):
        return list(entries_of(ledger))


@pytest.fixture
def full(tmp_path: Path) -> Path:
    path = tmp_path / "full.sqlite"
    with closing(opened(path)) as ledger:
        for entry in entries():
            ledger.append(entry)
    return path


def copy(source: object, target: object, **options: Any) -> None:
    command.copy(str(source), str(target), config=None, **{"overwrite": False, "as_json": False, **options})


@pytest.mark.parametrize("name", ["x.sqlite", "x.jsonl", "x.jsonl.gz", "x.parquet", "postgres"])
def test_all_of_it_arrives_once_and_comes_back(
    full: Path, tmp_path: Path, name: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / name)
    if name == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        target = server.database()
    elif name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    before = everything(opened(full))
    copy(full, target)
    assert f"copied {len(before)} entries" in capsys.readouterr().out
    back = tmp_path / "back.sqlite"
    copy(target, back)
    assert everything(opened(back)) == before
    capsys.readouterr()
    copy(target, back, as_json=True)  # again
    assert json.loads(capsys.readouterr().out) == {"written": 0, "there": len(before)}
    assert everything(opened(back)) == before
    with closing(opened(back)) as ledger:
        assert ledger.policy("p1") == "[tiers]"
    if name in {"postgres", "x.sqlite"}:
        copy(full, target)
        assert f"copied 0 entries, {len(before)} were there" in capsys.readouterr().out
        copy(target, back)
        assert everything(opened(back)) == before
    else:
        with pytest.raises(PointsmanError, match="is there already"):
            copy(full, target)
        copy(full, target, overwrite=True)


def test_a_copy_that_was_cut_off_goes_on(full: Path, tmp_path: Path) -> None:
    target = tmp_path / "part.sqlite"
    before = everything(opened(full))
    with closing(opened(target)) as ledger:
        for entry in before[: len(before) // 2]:
            ledger.append(entry)
    copy(full, target)
    assert everything(opened(target)) == before


def test_the_summaries_are_those_of_the_source(full: Path, tmp_path: Path, postgres: Postgres) -> None:
    from pointsman.stores.ledger.postgres import PostgresLedger

    url = postgres.database()
    copy(full, url)
    with closing(opened(full)) as one, closing(PostgresLedger(url)) as other:
        for session in ("s0", "s1", "s2"):
            assert one.session(session) == other.session(session)
        assert sorted(map(repr, one.totals().turns)) == sorted(map(repr, other.totals().turns))


def test_lines_to_standard_output(full: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    copy(full, "-")
    said = capfdbinary.readouterr()
    found = [entry_in(line) for line in said.out.splitlines()]
    assert found == everything(opened(full))
    assert b"copied" in said.err


def test_files_put_aside_are_read_first(full: Path, tmp_path: Path) -> None:
    lines = [line_of(entry) + b"\n" for entry in everything(opened(full))]
    with gzip.open(tmp_path / "x-20260101T000000.000000.jsonl.gz", "wb") as packed:
        packed.writelines(lines[:40])
    (tmp_path / "x-20260102T000000.000000.jsonl").write_bytes(b"".join(lines[40:80]))
    (tmp_path / "x-other.jsonl").write_bytes(b"no line of ours\n")
    (tmp_path / "x.jsonl").write_bytes(b"".join(lines[80:]))
    copy(tmp_path / "x.jsonl", tmp_path / "back.sqlite")
    assert everything(opened(tmp_path / "back.sqlite")) == everything(opened(full))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"version":3,"row":"attempt"}', "x.jsonl:2"),
        (b'{"version":99,"row":"decision"}', "version 99; this program reads versions up to"),
        (b'{"version":3,"row":"letter"}', 'unknown row "letter"'),
        (b"{", "x.jsonl:2"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: bytes, said: str) -> None:
    good = line_of(Owner(object="o", caller="ann", at=NOW))
    (tmp_path / "x.jsonl").write_bytes(good + b"\n" + line + b"\n")
    with pytest.raises(ConfigError, match=said):
        copy(tmp_path / "x.jsonl", tmp_path / "y.sqlite")


def test_a_wrong_column_is_named(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    good = {"row": ["owner"], "id": ["o"], "at": [NOW], "body": ['{"row":"none","version":3}']}
    file = tmp_path / "x.parquet"
    for table, said in (
        (
            {name: good[name] for name in ("row", "id", "at")},
            'x.parquet: there is no column "body"; expected is',
        ),
        ({**good, "at": ["noon"]}, 'x.parquet: column "at" is of type string; expected is a number'),
        (good, 'x.parquet: row 1: column "body" is no entry of a ledger: unknown row "none"'),
        ({**good, "body": pa.array([None], pa.string())}, "row 1"),
    ):
        pq.write_table(pa.table(table), file)
        with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
            copy(file, tmp_path / "y.sqlite")
    file.write_bytes(b"PAR1 and no more")
    with pytest.raises(ConfigError, match="not a Parquet file"):
        copy(file, tmp_path / "y.sqlite")


def test_a_place_that_cannot_be(tmp_path: Path, full: Path) -> None:
    with pytest.raises(PointsmanError, match="cannot be copied to itself"):
        copy(full, full)
    with pytest.raises(PointsmanError, match="there is no ledger at"):
        copy(tmp_path / "none.sqlite", tmp_path / "x.jsonl")
    with pytest.raises(PointsmanError, match="there is no folder"):
        copy(full, tmp_path / "none" / "x.jsonl")


def test_a_parquet_file_can_be_queried(full: Path, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    copy(full, tmp_path / "x.parquet")
    rows = pq.read_table(tmp_path / "x.parquet").to_pylist()
    [decision] = [row for row in rows if row["row"] == "decision" and row["id"] == "d00"]
    said = [decision[name] for name in ("at", "session", "caller", "tier")]
    assert said == [NOW, "s0", "ann", "COMPLEX"]
    [attempt] = [row for row in rows if row["row"] == "attempt" and row["id"] == "d00"][:1]
    assert (attempt["model"], attempt["status"], attempt["input_tokens"]) == ("large", 200, 10)
    assert msgspec.json.decode(attempt["body"])["row"] == "attempt"


@pytest.mark.parametrize("name", ["out.json", "out.ndjson", "out.csv", "out.gz", "OUT.JSONL", "out.Parquet"])
def test_a_copy_in_a_format_that_is_not_written_is_refused(full: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(PointsmanError, match=rf"{re.escape(name)} is no name of a copy") as refused:
        copy(full, tmp_path / name)
    assert refused.value.hint == "FILE.jsonl, FILE.jsonl.gz, FILE.parquet; other names are SQLite files"
    assert not (tmp_path / name).exists()


def test_a_copy_that_no_command_reads_says_how_to_read_it(full: Path, tmp_path: Path) -> None:
    copy(full, tmp_path / "c.jsonl")
    with pytest.raises(PointsmanError, match="which no command reads") as refused:
        command.open_file(tmp_path / "c.jsonl")
    assert f"pointsman ledger copy {tmp_path / 'c.jsonl'} FILE.sqlite" in refused.value.hint
