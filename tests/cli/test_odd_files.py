"""Files that hold anything but what they should: one line and a way out, never a traceback."""

import gzip
import json
import sqlite3
from codecs import BOM_UTF8
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.errors import ConfigError, PointsmanError, StoreUnavailable
from pointsman.stores.ledger import SqliteLedger
from pointsman.testing import a_decision

DEEP = b"[" * 100_000 + b"]" * 100_000
BYTES = b'{"id": "\xff", "text": "", "steps": []}'


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    file = tmp_path / "odd.jsonl"
    file.write_bytes(b"\n".join([b'{"messages": ' + DEEP + b"}", BYTES, b"\xff\xfe\x00", b"{", b""]))
    return file


@pytest.mark.parametrize(
    "command",
    [
        "explain --profile FILE hello",
        "classify --profile FILE",
        "config check --config FILE",
        "config show --config FILE",
        "serve --config FILE",
        "decisions list --ledger FILE",
        "report savings --demo --ledger FILE",
        "domains check FILE",
        "domains eval FILE",
        "lexicon check FILE",
        "eval tiers --data FILE",
        "fit tiers --data FILE --weak a --strong b --out x.json",
        "capabilities check FILE",
        "select --capabilities FILE hello",
        "replay FILE --policy FILE",
        "outcomes import FILE --ledger FILE",
        "router classifier x --config FILE",
        "report guidance --hooks FILE",
        "report guidance --ledger FILE",
    ],
)
def test_a_file_of_another_kind(odd: Path, command: str) -> None:
    result = CliRunner().invoke(app, [str(odd) if word == "FILE" else word for word in command.split()])
    assert result.exit_code in {1, 2}
    if result.exception and not isinstance(result.exception, SystemExit):
        assert isinstance(result.exception, PointsmanError), repr(result.exception)
        assert odd.name in str(result.exception)


@pytest.mark.parametrize("command", ["classify", "watch"])
def test_lines_that_cannot_be_read_are_errors_in_their_place(odd: Path, command: str) -> None:
    result = CliRunner().invoke(app, [command, str(odd)])
    assert result.exit_code == 1
    errors = [json.loads(line)["error"] for line in result.stdout.splitlines()]
    assert [error["line"] for error in errors] == [1, 2, 3, 4]
    assert [error["message"] for error in errors[:2]] == ["nested too deep", "not UTF-8"]


@pytest.mark.parametrize(
    "command",
    [
        "explain --profile FILE hello",
        "config show --config FILE",
        "router classifier x --config FILE",
        "domains check FILE",
        "lexicon check FILE",
        "replay FILE --policy FILE",
    ],
)
def test_a_document_with_a_fault_is_named_with_its_line(tmp_path: Path, command: str) -> None:
    file = tmp_path / "odd.toml"
    file.write_text('name = "x"\n\n[models\n', encoding="utf-8")
    result = CliRunner().invoke(app, [str(file) if word == "FILE" else word for word in command.split()])
    assert isinstance(result.exception, ConfigError), repr(result.exception)
    assert str(result.exception).startswith(f"{file}:3: Expected ']'")


LINE = b'{"id": 1, "text": "hello"}\n'


def test_a_mark_at_the_beginning_is_no_part_of_a_file(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    lines, settings = tmp_path / "lines.jsonl", tmp_path / "settings.toml"
    lines.write_bytes(BOM_UTF8 + LINE)
    settings.write_bytes(BOM_UTF8 + b'[tiers]\nprofile = "seed"\n')
    assert json.loads(CliRunner().invoke(app, ["classify", str(lines)]).stdout)["tier"] == "SIMPLE"
    assert CliRunner().invoke(app, ["config", "check", "--config", str(settings)]).exit_code == 0


@pytest.mark.parametrize(
    "command",
    ["report guidance --hooks FILE", "report guidance --ledger FILE", "decisions list --ledger FILE"],
)
def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path, command: str) -> None:
    file = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE things (name)")
    before = file.read_bytes()
    result = CliRunner().invoke(app, [str(file) if word == "FILE" else word for word in command.split()])
    assert isinstance(result.exception, StoreUnavailable), repr(result.exception)
    assert file.read_bytes() == before


def test_a_run_without_steps(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text('{"id": 1, "steps": []}\n', encoding="utf-8")
    result = CliRunner().invoke(app, ["watch", str(file)])
    assert result.exit_code == 0, result.exception


@pytest.mark.parametrize("command", ["classify", "watch"])
def test_a_packed_file_that_was_cut_off(tmp_path: Path, command: str) -> None:
    file = tmp_path / "cut.jsonl.gz"
    file.write_bytes(gzip.compress(b'{"id": 1, "text": "hello"}\n' * 2)[:-9])
    result = CliRunner().invoke(app, [*command.split(), str(file)])
    assert isinstance(result.exception, PointsmanError), repr(result.exception)
    assert "cut.jsonl.gz: Compressed file ended" in str(result.exception)


@pytest.mark.parametrize(
    "command",
    [
        "fit tiers --data FILE --out PLACE",
        "fit policy --data FILE --out PLACE --quality 0.9",
        "fit policy --data FILE --out p.toml --curve PLACE --quality 0.9",
        "fit capabilities --data FILE --capabilities FILE --out PLACE",
    ],
)
@pytest.mark.parametrize(("place", "why"), [("none/out", "there is no folder"), (".", "it is a folder")])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    odd: Path, command: str, place: str, why: str
) -> None:
    named = {"FILE": str(odd), "PLACE": str(odd.parent / place)}
    result = CliRunner().invoke(app, [named.get(word, word) for word in command.split()])
    assert isinstance(result.exception, PointsmanError), repr(result.exception)
    assert f"cannot write {named['PLACE']}: {why}" in str(result.exception)


def test_each_refused_outcome_has_its_line_and_its_reason_and_a_way_out(tmp_path: Path) -> None:
    file, ledger = tmp_path / "o.jsonl", tmp_path / "l.sqlite"
    with closing(SqliteLedger(ledger)) as store:
        store.append(a_decision("d"))
    file.write_text('{"decision": "d", "scor": 1}\n{"decision": "d", "sco')
    ran = CliRunner().invoke(app, ["outcomes", "import", str(file), "--ledger", str(ledger)])
    assert ran.exit_code == 1
    first, second, hint = ran.stderr.splitlines()
    assert first == f"{file}:1: Object contains unknown field `scor`"
    assert second == f"{file}:2: Input data was truncated: a value has no end, so the rest of it is missing"
    assert hint.startswith('  hint: {"decision": ID, "score": 0.5}')


def test_a_character_that_acts_has_its_line_and_a_way_out(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text('[tiers]\nsimple = "a\x01"\n')
    ran = CliRunner().invoke(app, ["config", "check", "--config", str(file)])
    assert ran.stderr.startswith(f"{file}:2: Illegal character '\\x01': remove it, or write it in a")
