"""``pointsman`` alone: the first time it says what it found; afterwards it shows the commands."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.cli.launch import AGENTS


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "config"), ("XDG_STATE_HOME", "state")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pointsman.config.draft.find_local", list)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said() -> list[str]:
    done = CliRunner().invoke(app)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_nothing_is_there(home: Path) -> None:
    lines = said()
    assert [line.split() for line in lines[2:6]] == [
        ["Logs", "none"],
        ["Agents", "none"],
        ["Keys", "none"],
        ["Model", "servers", "none"],
    ]
    assert "pointsman serve --demo" in lines[7]
    assert len(lines) <= 10
    assert list(home.iterdir()) == [], "nothing is written"


def test_what_is_there_has_its_command(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "bin").mkdir()
    for name in AGENTS:
        (home / "bin" / name).write_text("#!/bin/sh\n")
        (home / "bin" / name).chmod(0o755)
    log = home / ".claude" / "projects" / "-shop" / "s.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("{}\n")
    lines = said()
    assert lines[2].split()[-2:] == ["pointsman", "audit"]
    assert lines[3].endswith("claude, codex, opencode, qwen, aider        needs a key or a model server")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    lines = said()
    assert lines[3].endswith("pointsman claude")
    assert lines[4].endswith(
        "OPENAI_API_KEY                              pointsman config init && pointsman serve"
    )
    assert "sk-nobody" not in "\n".join(lines)


def test_a_configuration_ends_it(home: Path) -> None:
    (home / "config" / "pointsman").mkdir(parents=True)
    (home / "config" / "pointsman" / "pointsman.toml").write_text("")
    done = CliRunner().invoke(app)
    assert done.exit_code == 2
    assert "Usage: pointsman" in done.output
