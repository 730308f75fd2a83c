"""What the entry point makes of mistakes: one line, the way out and an exit code, never a traceback."""

import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from pointsman.cli import main


def left(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    """The exit code of ``pointsman ARGUMENTS``."""
    monkeypatch.setattr(sys, "argv", ["pointsman", *arguments])
    with pytest.raises(SystemExit) as exited:
        main()
    return exited.value.code


@pytest.mark.parametrize(
    ("command", "message", "hint"),
    [
        ("desicions", "No such command 'desicions'. Did you mean 'decisions'", "pointsman --help"),
        ("doctor", 'no such command "doctor"', "pointsman router doctor"),
        ("savings", 'no such command "savings"', "pointsman eval savings or pointsman report savings"),
        ("config chek", "No such command 'chek'. Did you mean 'check'", "pointsman config --help"),
        ("classify --profil seed", "No such option: --profil", "pointsman classify --help"),
        ("eval answers f.jsonl", "Missing option '--cheap'", "pointsman eval answers --help"),
        (
            "report savings --baseline m --prices-as-of yesterday",
            "Invalid value for '--prices-as-of': 'yesterday' does not match",
            "pointsman report savings --help",
        ),
        ("explain", "Missing argument 'text'", "pointsman explain --help"),
        ("decisions list -n none", "Invalid value for '--limit'", "pointsman decisions list --help"),
        (
            "config show --config none.toml",
            "cannot read none.toml: No such file",
            "pointsman config init writes one",
        ),
    ],
)
def test_a_mistake_is_a_line_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, message: str, hint: str
) -> None:
    assert left(monkeypatch, *command.split()) == 2
    said = capsys.readouterr()
    first, second, *third = said.err.splitlines()
    assert first.startswith(f"pointsman: {message}")
    assert second == f"  hint: {hint}"
    page = "  docs: docs/how-to/troubleshooting.md#configerror"
    assert third == ([page] if command.startswith("config show") else [])
    assert said.out == ""


@pytest.mark.parametrize(
    "command", ["hook claude-code --nope", "hook nope", "hook claude-code install --nope"]
)
def test_a_mistake_in_a_hook_blocks_no_agent(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    assert left(monkeypatch, *command.split()) == 1


CAPABILITIES = '[{"name": "a", "instructions": "when a is needed"}]'
TASKS = '{"task": "do a", "capabilities": ["a"]}\n'


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("config init -o nowhere/x.toml", "cannot write nowhere/x.toml: No such file"),
        ("fit capabilities --data t.jsonl --capabilities c.json --out .", "cannot write .: it is a folder"),
        (
            "fit capabilities --data t.jsonl --capabilities c.json --out nowhere/x",
            "cannot write nowhere/x: there is no folder",
        ),
        ("decisions list --ledger .", "there is no ledger at ."),
        ("report guidance --hooks .", "there is no file of the hook at ."),
        ("explain --profile . hello", "cannot read .: Is a directory"),
    ],
)
def test_a_place_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.jsonl").write_text(TASKS, encoding="utf-8")
    (tmp_path / "c.json").write_text(CAPABILITIES, encoding="utf-8")
    assert left(monkeypatch, *command.split()) == 2
    assert capsys.readouterr().err.startswith(f"pointsman: {message}")


def test_a_group_alone_shows_its_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert left(monkeypatch, "report") == 2
    assert "savings" in capsys.readouterr().err


def test_what_went_well_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not left(monkeypatch, "--version")


@pytest.mark.parametrize(("command", "code"), [("explain -", 2), ("classify", 2), ("hook claude-code", 1)])
def test_standard_input_is_closed(monkeypatch: pytest.MonkeyPatch, command: str, code: int) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert left(monkeypatch, *command.split()) == code


def test_what_is_said_is_not_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"caf\xe9"), encoding="utf-8"))
    assert left(monkeypatch, "explain", "-") == 2
    assert "standard input is not UTF-8" in capsys.readouterr().err


def test_a_terminal_without_the_character(monkeypatch: pytest.MonkeyPatch) -> None:
    written = BytesIO()
    terminal = TextIOWrapper(written, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert not left(monkeypatch, "explain", "hello")
    terminal.flush()
    assert b"SIMPLE < 0 ? MEDIUM" in written.getvalue()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_the_disk_behind_the_output_is_full(unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "pointsman", "--version"],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == 2
    assert ran.stderr.splitlines() == ["pointsman: No space left on device"]


def test_no_page_is_named_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("pointsman.cli.output.__file__", str(tmp_path / "lib/pointsman/cli/output.py"))
    assert left(monkeypatch, "config", "show", "--config", "none.toml") == 2
    assert "docs:" not in capsys.readouterr().err
