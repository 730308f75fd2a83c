"""The Ray engine writes the same bytes as the local one. Ray is started once, on the loopback address."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from support.outcomes import made_up
from support.parquet import some_files, write, written
from support.recorded_lines import policy_file, recorded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.integration,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed"),
]

SCRIPT = Path(__file__).parents[1] / "support" / "on_ray.py"
PART = 10_000


def commands(folder: Path, out: Path, *more: str) -> list[list[str]]:
    """The three commands that take ``--engine``, each into a folder of ``out``."""
    classify = ["classify", "--in", str(folder / "texts")]
    replay = ["replay", "--in", str(folder / "records"), "--policy", str(folder / "seed.toml"), "--json"]
    tiers = ["eval", "tiers", "--in", str(folder / "outcomes.parquet"), "--kinds", "off", "--json"]
    return [[*each, "--out", str(out / each[0]), *more] for each in (classify, replay, tiers)]


def inputs(folder: Path) -> None:
    some_files(folder / "texts")
    lines, rows = recorded(), made_up(60, seed=3)
    for number in range(2):
        write(folder / f"records/{number}.parquet", rows_in_group=9, record=lines[number::2])
    columns = {name: [getattr(row, name) for row in rows] for name in ("prompt", "weak", "strong")}
    write(folder / "outcomes.parquet", rows_in_group=25, **columns)
    policy_file(folder)


def local(arguments: Sequence[str]) -> str:
    ran = CliRunner().invoke(app, [*arguments])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_both_engines_write_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointsman.batch.sessions._PART", PART)
    inputs(tmp_path)
    here, there = tmp_path / "local", tmp_path / "ray"
    said = [local(each) for each in commands(tmp_path, here, "--workers", "1")]
    again = there / "again"  # a run that the local engine began
    shutil.copytree(here / "classify", again / "classify")
    (again / "classify/part-00000-00001.parquet").unlink()

    asked = [*commands(tmp_path, there, "--engine", "ray"), commands(tmp_path, again, "--engine", "ray")[0]]
    command = [sys.executable, str(SCRIPT), str(PART), json.dumps(asked)]
    surroundings = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    ran = subprocess.run(command, stdout=subprocess.PIPE, env=surroundings, check=True, timeout=900)

    *on_ray, continued = json.loads(ran.stdout.splitlines()[-1])
    assert [json.loads(each) for each in on_ray[1:]] == [json.loads(each) for each in said[1:]]
    assert continued.startswith("240 rows, 190 of them by an earlier run;")
    assert len(written(here / "replay")) > 3
    for name in ("classify", "replay", "eval"):
        assert written(there / name) == written(here / name)
    assert written(again / "classify") == written(here / "classify")
