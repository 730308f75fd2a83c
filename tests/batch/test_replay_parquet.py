"""``pointsman replay --in``: records in Parquet files, session by session."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from pointsman.batch.replay import REPLAYED, BatchReplayer, part_of
from pointsman.batch.sessions import replay_sessions
from pointsman.cli import app
from pointsman.errors import ConfigError, PointsmanError
from pointsman.factory import default_policy
from pointsman.stores.ledger.export import record_in
from pointsman.tiers import builtin_profile
from support.parquet import rows_in, write, written
from support.recorded_lines import policy_file, recorded


def replay(pattern: Path | str, out: Path, policy: Path, *more: str) -> Result:
    arguments = ["replay", "--in", str(pattern), "--out", str(out), "--policy", str(policy), "--workers", "1"]
    return CliRunner().invoke(app, [*arguments, *more])


def test_the_rows_are_those_of_a_replay_of_the_ledger(tmp_path: Path) -> None:
    lines, policy = recorded(), policy_file(tmp_path)
    order = random.Random(1).sample(lines, len(lines))  # the rows of a file need no order
    ran = replay(write(tmp_path / "a.parquet", record=order), tmp_path / "out", policy, "--json")
    assert ran.exit_code == 0, ran.output
    summary = json.loads(ran.stdout)["summary"]
    from pointsman.factory import build_engine, read_policy
    from pointsman.reports.replay import Replay, Summary

    engine = build_engine(read_policy(policy, default_policy()))
    expected = Summary(engine.version)
    turns = {line.id: expected.add(line) for line in Replay(engine).turns(map(record_in, lines))}
    rows = rows_in(tmp_path / "out")
    assert summary == expected.to_json()
    assert {row["id"]: row["tier_now"] for row in rows} == {id_: turn.now.tier for id_, turn in turns.items()}
    assert [(row["session"], row["arrived_at"], row["id"]) for row in rows] == sorted(
        (row["session"], row["arrived_at"], row["id"]) for row in rows
    )
    assert {row["policy_version"] for row in rows} == {engine.version}


def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointsman.batch.sessions._PART", 2_000)
    monkeypatch.setattr("pointsman.batch.sessions._WAITING", 5_000)


def test_a_session_stays_in_one_part_and_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_parts(monkeypatch)
    policy, out = policy_file(tmp_path), tmp_path / "out"
    lines = recorded()
    for number in range(2):
        write(tmp_path / f"in/{number}.parquet", rows_in_group=5, record=lines[number::2])
    assert replay(tmp_path / "in", out, policy).exit_code == 0
    whole = written(out)
    assert len(whole) > 3
    of_session: dict[str, set[str]] = {}
    for part in out.glob("part-*"):
        for row in rows_in_part(part):
            of_session.setdefault(row, set()).add(part.name)
    assert all(len(parts) == 1 for session, parts in of_session.items() if session)
    (out / "part-00000.parquet").unlink()
    (out / "part-00001.parquet").write_bytes(b"PAR1")
    ran = replay(tmp_path / "in", out, policy)
    assert ran.exit_code == 0
    assert written(out) == whole


def rows_in_part(part: Path) -> list[str]:
    import pyarrow.parquet as pq

    return [str(session) for session in pq.read_table(part)["session"].to_pylist()]


def test_an_ended_run_deals_the_records_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch)
    write(tmp_path / "in/a.parquet", record=recorded())
    job = BatchReplayer(replace(default_policy(), profile=builtin_profile("seed")))
    policy, out = policy_file(tmp_path), tmp_path / "out"
    replay(tmp_path / "in", tmp_path / "whole", policy)

    def failing(self: BatchReplayer, records: pa.ChunkedArray) -> pa.Table:
        raise PointsmanError("half-way")

    with monkeypatch.context() as broken:
        broken.setattr(BatchReplayer, "__call__", failing)
        assert "half-way" in str(replay(tmp_path / "in", out, policy).exception)
    assert (out / ".sessions/complete").exists()
    monkeypatch.setattr("pointsman.batch.sessions._by_part", None)  # it is not called again
    assert replay(tmp_path / "in", out, policy).exit_code == 0
    assert written(out) == written(tmp_path / "whole")
    assert job.version


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (None, "the record is null"),
        ("{", "Input data was truncated"),
        ('{"version": 3, "run": "r-1", "entries": []}', "missing required field `decision`"),
        ('{"version": 99, "decision": {}}', "version 99; this program reads versions up to 3"),
    ],
)
def test_a_record_that_cannot_be_read_says_why(tmp_path: Path, record: str | None, error: str) -> None:
    good = recorded(sessions=1, turns=1)
    file = write(tmp_path / "a.parquet", record=pa.array([record, *good], pa.string()))
    ran = replay(file, tmp_path / "out", policy_file(tmp_path))
    assert ran.exit_code == 1
    first, last = rows_in(tmp_path / "out")
    assert (first["error"], first["tier_now"]) == (None, "SIMPLE")
    assert error in last["error"]


def test_a_wrong_column_is_named(tmp_path: Path) -> None:
    for columns, message in (
        ({"text": ["a"]}, 'there is no column "record"; expected is string or binary'),
        ({"record": [1]}, 'a.parquet: column "record" is of type int64; expected is string or binary'),
    ):
        file = write(tmp_path / "a.parquet", **columns)
        ran = replay(file, tmp_path / "out", policy_file(tmp_path))
        assert isinstance(ran.exception, ConfigError)
        assert message in str(ran.exception)


def test_records_of_one_session_belong_to_one_part() -> None:
    parts = {
        part_of(json.dumps({"decision": {"id": f"d-{n}", "input": {"session": "s"}}}), 50) for n in range(20)
    }
    assert len(parts) == 1
    alone = {part_of(json.dumps({"decision": {"id": f"d-{n}", "input": {}}}), 50) for n in range(99)}
    assert len(alone) > 30
    old = part_of(b'{"decision": {"id": "d", "session": "s"}}', 50)  # of version 1
    assert {old} == parts
    assert part_of(b"{", 50) == 0


def test_the_columns_are_those_of_the_reference() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/batch.md").read_text("utf-8")
    for field in REPLAYED:
        assert f"| `{field.name}` | {field.type} |".replace("element", "item") in page, field


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--demo", "--in", "a.parquet", "--out", "x"], "--demo does not go with --in"),
        (["a.sqlite", "--in", "a.parquet", "--out", "x"], "LEDGER does not go with --in"),
        (["--in", "a.parquet", "--out", "x", "--resume"], "--resume does not go with --in"),
        (["a.sqlite", "--workers", "2"], "--out, --engine and --workers go with --in"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], message: str) -> None:
    ran = CliRunner().invoke(app, ["replay", *arguments, "--policy", str(policy_file(tmp_path))])
    assert message in str(ran.exception)


def test_nothing_to_replay(tmp_path: Path) -> None:
    file = write(tmp_path / "a.parquet", record=pa.array([], pa.string()))
    ran = replay(file, tmp_path / "out", policy_file(tmp_path))
    assert ran.exit_code == 0, ran.output
    assert rows_in(tmp_path / "out") == []
    assert replay_sessions.__doc__
