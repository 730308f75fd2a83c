"""``pointsman domains``."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.errors import PointsmanError

DIALOGUE = [
    {"dialogue_id": "1", "turn": 0, "text": "Investigate the filings", "domain": "investigation"},
    {"dialogue_id": "1", "turn": 1, "text": "yes, go on", "domain": "investigation", "speaker": "user"},
    {"dialogue_id": "1", "turn": 2, "text": "Done.", "domain": "investigation", "speaker": "assistant"},
    {"dialogue_id": "1", "turn": 3, "text": "Now plan the sprint", "domain": "planning", "switch": True},
]


def evaluate(file: Path, *args: str) -> Result:
    return CliRunner().invoke(app, ["domains", "eval", str(file), *args])


@pytest.fixture(params=["turns.jsonl", "turns.jsonl.gz"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = tmp_path / request.param
    data = "\n".join(map(json.dumps, DIALOGUE)).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_the_table_has_a_line_for_each_strategy(file: Path) -> None:
    result = evaluate(file)
    assert result.exit_code == 0
    heading, *lines = result.stdout.splitlines()
    assert "on the switch" in heading
    assert [line[:22].strip() for line in lines[:4]] == [
        "no memory",
        "seed momentum as given",
        "carry-on-null",
        "default",
    ]
    assert "66.67%" in lines[0]
    assert "100.00%" in lines[3]
    assert lines[4] == "3 user turns"


def test_json_has_the_same_figures(file: Path) -> None:
    reports = json.loads(evaluate(file, "--json").stdout)["rows"]
    assert [report["accuracy"] for report in reports] == pytest.approx([2 / 3, 2 / 3, 1, 1])
    assert reports[3]["delay"] == 0


def test_a_domain_file_of_ones_own(file: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('extends = "none"\n[domains.planning]\nclass = "task"\nsignals = {s = "sprint"}')
    result = evaluate(file, "--domains", str(own))
    assert result.exit_code == 0
    assert "no such domain: investigation; their turns count as errors" in result.stderr


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"dialogue_id": "1"}')
    cases: list[tuple[Path, tuple[str, ...], str]] = [
        (broken, (), f"{broken}:1: Object missing required field `turn`"),
        (tmp_path / "none.jsonl", (), f"cannot read {tmp_path / 'none.jsonl'}: No such file or directory"),
        (broken, ("--domains", str(tmp_path / "none.toml")), f"cannot read {tmp_path / 'none.toml'}: "),
    ]
    for file, args, message in cases:
        error = evaluate(file, *args).exception
        assert isinstance(error, PointsmanError)
        assert str(error).startswith(message)


def test_an_empty_file_has_nothing_to_report(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    result = evaluate(tmp_path / "empty.jsonl")
    assert result.exit_code == 0
    assert "0 user turns" in result.stdout


def test_both_spellings_are_one_command_and_the_help_names_one(file: Path) -> None:
    for more in ((), ("--json",)):
        assert (
            evaluate(file, *more).stdout
            == CliRunner().invoke(app, ["eval", "domains", str(file), *more]).stdout
        )
    listed = CliRunner().invoke(app, ["domains", "--help"]).stdout.partition("Commands:")[2]
    assert "check" in listed
    assert "eval" not in listed


def check(*args: str) -> Result:
    return CliRunner().invoke(app, ["domains", "check", *args])


def test_the_built_in_domains_are_checked_by_default() -> None:
    result = check()
    assert result.exit_code == 0
    assert result.stdout == "11 domains, 0 findings\n"


def test_a_phrase_that_cannot_match_fails_the_check(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'extends = "none"\n[domains.law]\nclass = "task"\n'
        'signals = {c = "court  fee", d = ["judge", "judge"]}'
    )
    result = check(str(own))
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        'error: law/c: "court  fee": cannot match',
        'warning: law/d: "judge": is there twice',
        "2 domains, 2 findings",
    ]
    assert [finding["severity"] for finding in json.loads(check(str(own), "--json").stdout)] == [
        "error",
        "warning",
    ]


def test_a_pattern_that_is_not_linear_time_is_refused_with_its_line(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[domains.law]\nclass = "task"\n[domains.law.signals]\nc = { regex = "a(?=b)" }')
    error = check(str(own)).exception
    assert isinstance(error, PointsmanError)
    assert str(error).startswith(f'{own}:4: concept "c" of domain "law": ')
