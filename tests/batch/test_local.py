"""Batches on this machine: parts, their bytes, and what an ended run leaves."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from pointsman.batch.files import write_part
from pointsman.batch.row_jobs import run_local
from pointsman.cli import app
from pointsman.errors import PointsmanError
from support.parquet import rows_in, some_files, texts, write, written
from support.waiting import until


def classify(pattern: str, out: Path, *more: str) -> Result:
    return CliRunner().invoke(app, ["classify", "--in", pattern, "--out", str(out), "--workers", "1", *more])


def test_every_row_group_has_its_part_in_the_order_of_the_rows(tmp_path: Path) -> None:
    ran = classify(some_files(tmp_path / "in"), tmp_path / "out")
    assert (ran.exit_code, ran.stdout) == (0, f"240 rows; 6 files in {tmp_path / 'out'}\n")
    assert [row["id"] for row in rows_in(tmp_path / "out")] == list(range(240))
    names = [f"part-0000{file}-0000{group}.parquet" for file in range(2) for group in range(3)]
    assert list(written(tmp_path / "out")) == [*names, "run.json"]


@pytest.mark.slow
def test_two_processes_write_the_same_bytes_as_one(tmp_path: Path) -> None:
    pattern = some_files(tmp_path / "in")
    classify(pattern, tmp_path / "one")
    ran = classify(pattern, tmp_path / "two", "--workers", "2")
    assert ran.exit_code == 0, ran.output
    assert written(tmp_path / "two") == written(tmp_path / "one")


def test_finished_parts_stay_and_half_written_ones_are_done_again(tmp_path: Path) -> None:
    pattern, out = some_files(tmp_path / "in"), tmp_path / "out"
    classify(pattern, out)
    whole = written(out)
    (out / "part-00000-00001.parquet").unlink()
    torn = out / "part-00001-00000.parquet"
    torn.write_bytes(torn.read_bytes()[:-9])
    (out / ".part-00001-00002.parquet.1.new").write_bytes(b"PAR1")
    kept = (out / "part-00000-00000.parquet").stat().st_mtime_ns
    ran = classify(pattern, out)
    assert ran.stdout == f"240 rows, 140 of them by an earlier run; 6 files in {out}\n"
    assert written(out) == whole
    assert (out / "part-00000-00000.parquet").stat().st_mtime_ns == kept


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_killed_run_goes_on_to_the_same_files(tmp_path: Path) -> None:
    pattern = some_files(tmp_path / "in", files=3, rows=2_000)
    classify(pattern, tmp_path / "whole")
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "pointsman",
        "classify",
        "--in",
        pattern,
        "--out",
        str(out),
        "--workers",
        "2",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        until(lambda: any(out.glob("*.parquet")) or running.poll() is not None)
        running.send_signal(signal.SIGKILL)
    ran = classify(pattern, out)
    assert ran.exit_code == 0, ran.output
    assert written(out) == written(tmp_path / "whole")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder, out: write(folder / "9.parquet", text=["one more"], id=[1]), "another run"),
        (lambda folder, out: (out / "run.json").unlink(), "is not empty, and holds no run"),
    ],
    ids=["another input", "no run"],
)
def test_a_folder_of_something_else_is_refused(
    tmp_path: Path, change: Callable[[Path, Path], object], message: str
) -> None:
    pattern, out = some_files(tmp_path / "in", files=1), tmp_path / "out"
    classify(pattern, out)
    change(tmp_path / "in", out)
    before = written(out)
    ran = classify(pattern, out)
    assert (ran.exit_code, written(out)) == (1, before)
    assert message in str(ran.exception)


@pytest.mark.parametrize("policy", [("--profile", "seed"), ("--column", "text=text")])
def test_other_options_are_another_run(tmp_path: Path, policy: tuple[str, ...]) -> None:
    pattern, out = some_files(tmp_path / "in", files=1), tmp_path / "out"
    classify(pattern, out)
    with pytest.raises(PointsmanError, match="policy, options or input differ"):
        raise_from(classify(pattern, out, *policy))


def raise_from(ran: Result) -> None:
    assert ran.exception
    raise ran.exception


def test_two_runs_do_not_write_to_one_folder(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="Windows has no flock")
    pattern, out = some_files(tmp_path / "in", files=1), tmp_path / "out"
    classify(pattern, out)
    with (out / "run.json").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(PointsmanError, match="another run is writing to"):
            raise_from(classify(pattern, out))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"words": ["Hello!"]}, r"b.parquet: there is no column to read; expected is one of \"text\""),
        ({"text": [3]}, r"b.parquet: column \"text\" is of type int64; expected is string"),
        (
            {"text": ["a"], "id": ["x"]},
            r"b.parquet: column \"id\" is of type string; expected is int64, as in .*a",
        ),
        ({"text": ["a"]}, r"b.parquet: its columns are text; expected are id, text, as in .*a.parquet"),
    ],
)
def test_a_wrong_file_is_named_before_anything_is_written(
    tmp_path: Path, second: dict[str, Any], message: str
) -> None:
    write(tmp_path / "in/a.parquet", id=[1], text=["Hello!"])
    write(tmp_path / "in/b.parquet", **second)
    with pytest.raises(PointsmanError, match=message):
        raise_from(classify(str(tmp_path / "in"), tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "no.parquet").write_text("text\nHello!\n")
    for pattern, message in (("*.parquet", "no.parquet: not a Parquet file"), ("*.csv", "no file matches")):
        with pytest.raises(PointsmanError, match=message):
            raise_from(classify(str(tmp_path / pattern), tmp_path / "out"))


@pytest.mark.parametrize("named", ["", "/*.parquet", "/0.parquet", "/**/*.parquet"])
def test_files_are_named_by_a_pattern_a_folder_or_a_name(tmp_path: Path, named: str) -> None:
    folder = tmp_path / ("in" if "*" in named else "in [1]")
    some_files(folder, files=1, rows=3)
    assert classify(f"{folder}{named}", tmp_path / "out").exit_code == 0
    assert len(rows_in(tmp_path / "out")) == 3


def test_rows_that_cannot_be_read_give_the_exit_code(tmp_path: Path) -> None:
    pattern = str(write(tmp_path / "a.parquet", text=["Hello!", None]))
    ran = classify(pattern, tmp_path / "out")
    assert ran.exit_code == 1
    assert '1 rows could not be read; column "error" says why' in ran.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--in", "a.parquet"], "--in needs a folder"),
        (["--in", "a.parquet", "--out", "x", "--verify"], "--verify does not go with --in"),
        (["lines.jsonl", "--in", "a.parquet", "--out", "x"], "FILE does not go with --in"),
        (["--column", "text=a"], "--column goes with --in"),
        (["--out", "x"], "--out, --engine and --workers go with --in"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    with pytest.raises(PointsmanError, match=message):
        raise_from(CliRunner().invoke(app, ["classify", *arguments]))


class Failing:
    """A task that fails in the way its item says. Picklable."""

    def __call__(self, item: str, report: Callable[[int], None]) -> None:
        report(1)
        if item == "error":
            raise PointsmanError("no such thing", hint="another one")
        if item == "bug":
            raise ValueError(item)
        if item == "exit":
            os._exit(3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("error", "no such thing"),
        ("bug", "failed at bug: (?s:.*)ValueError"),
        ("exit", r"exit code 3\) at exit"),
    ],
)
def test_a_worker_that_fails_ends_the_run_and_is_named(item: str, message: str) -> None:
    with pytest.raises(PointsmanError, match=message):
        list(run_local(Failing(), ["good", item], 2))


def test_a_part_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"text": texts(3)})
        raise PointsmanError("half-way")

    with pytest.raises(PointsmanError, match="half-way"):
        write_part(tmp_path / "part.parquet", pa.schema([("text", pa.string())]), failing())
    assert written(tmp_path) == {}
