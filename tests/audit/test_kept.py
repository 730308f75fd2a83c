"""``--incremental``: the second audit reads changed logs alone and says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman.audit import Collection, Home, Log, Session, sources
from pointsman.audit.collect import KeptFigures
from pointsman.audit.sources.claude_code import ClaudeCode
from pointsman.cli import app
from support.agent_logs import ClaudeSession


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POINTSMAN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache/audit.msgpack"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the logs that are read."""
    names: list[str] = []
    read = ClaudeCode.read

    def noted(self: ClaudeCode, log: Log) -> Any:
        names.append(log.files[0].stem)
        return read(self, log)

    monkeypatch.setattr(ClaudeCode, "read", noted)
    return names


def audit(home: Path, *more: str) -> dict[str, Any]:
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--incremental", "--json", *more])
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def home_of(folder: Path, *names: str) -> list[ClaudeSession]:
    made = [ClaudeSession(folder / "home", name) for name in names]
    for session in made:
        session.says("Fix it, secretly.")
        session.calls(f"m-{session.name}", "Bash", "Exit code 1\nsecret", error=True, command="ls secret")
    return made


def test_a_second_run_reads_changed_logs_alone(tmp_path: Path, opened: list[str]) -> None:
    one, _ = home_of(tmp_path, "s1", "s2")
    first = audit(tmp_path / "home")
    opened.clear()
    assert audit(tmp_path / "home") == first
    assert opened == []
    one.answers("m-more", stop="end_turn")
    again = audit(tmp_path / "home")
    assert opened == ["s1"]
    assert again["total"]["requests"] == first["total"]["requests"] + 1


def test_a_version_that_was_not_tested_is_named_in_every_run(tmp_path: Path) -> None:
    (one,) = home_of(tmp_path, "s1")
    one.line(type="system", version="9.9.9")
    first = audit(tmp_path / "home")
    assert "claude-code 9.9.9 was not tested" in first["notes"][0]
    assert audit(tmp_path / "home") == first


def test_a_copy_counts_once_in_every_run(tmp_path: Path) -> None:
    (one,) = home_of(tmp_path, "s1")
    two = ClaudeSession(tmp_path / "home", "s2")
    two.file.write_text(one.file.read_text())
    two.answers("m-more", stop="end_turn")
    first = audit(tmp_path / "home")
    assert (first["total"]["requests"], first["requests_copied"]) == (2, 1)
    assert audit(tmp_path / "home") == first
    one.file.unlink()
    assert audit(tmp_path / "home")["total"]["requests"] == 2


def test_what_is_kept_has_no_texts(tmp_path: Path, cache: Path) -> None:
    home_of(tmp_path, "s1")
    audit(tmp_path / "home")
    assert b"secret" not in cache.read_bytes()
    assert cache.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"\xff\xff", msgspec.msgpack.encode({"version": 0, "logs": {}})])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, cache: Path, content: bytes) -> None:
    home_of(tmp_path, "s1")
    cache.parent.mkdir()
    cache.write_bytes(content)
    assert audit(tmp_path / "home")["total"]["requests"] == 1


def test_older_requests_are_left_out_of_kept_figures_too(tmp_path: Path) -> None:
    home_of(tmp_path, "s1")
    audit(tmp_path / "home")
    found = Collection(Home.at(tmp_path / "home"), sources(), since=2e9)
    found.logs.append(next(ClaudeCode().find(Home.at(tmp_path / "home"))))
    assert list(found.figures(KeptFigures(tmp_path / "cache/audit.msgpack"))) == []
    assert found.left_out == 1


def test_a_source_of_ones_own(tmp_path: Path) -> None:
    class Own:
        name = "own"
        versions = "1"

        def places(self, home: Home) -> tuple[Path, ...]:
            return (home.path / "own.log",)

        def find(self, home: Home) -> Any:
            yield Log(self.name, self.places(home))

        def read(self, log: Log) -> Any:
            yield Session(id=log.files[0].read_text(), client=self.name)

    (tmp_path / "own.log").write_text("s1")
    found = Collection(Home.at(tmp_path), [Own()])
    assert (found.found(), list(found.sessions())) == ({"own": 1}, [])  # a session without requests
