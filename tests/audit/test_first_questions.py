"""What a person tries first with ``audit``, and mistypes: each is answered, and nothing is lost by it."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pointsman.audit.tables import project_names
from pointsman.cli import app
from pointsman.errors import PointsmanError
from support.agent_logs import ClaudeSession, CodexSession


def audit(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def refused(*arguments: object) -> str:
    ran = audit(*arguments)
    assert isinstance(ran.exception, PointsmanError)
    return str(ran.exception)


@pytest.fixture
def session(tmp_path: Path) -> ClaudeSession:
    made = ClaudeSession(tmp_path, "one")
    made.says("Hello")
    made.answers("m1", stop="end_turn")
    return made


def test_a_quiet_period_is_not_a_home_without_logs(tmp_path: Path, session: ClaudeSession) -> None:
    os.utime(session.file, (1.7e9, 1.7e9))
    said = refused("--home", tmp_path, "--since", "30d")
    assert "in the period of --since; 1 is older" in said
    assert "leave out --since" in said


def test_a_client_that_does_not_exist_is_no_subscription(tmp_path: Path, session: ClaudeSession) -> None:
    said = refused("--home", tmp_path, "--subscription", "claude_code")
    assert "--subscription claude_code: there is no client of this name" in said
    assert "claude-code" in said
    assert audit("--home", tmp_path, "--subscription", "codex").exit_code == 0  # known, and not used here


def test_the_session_file_of_a_client_is_read(tmp_path: Path, session: ClaudeSession) -> None:
    codex = CodexSession(tmp_path)
    codex.says("Hello")
    codex.count()
    for file, client in ((session.file, "claude-code"), (codex.file, "codex")):
        ran = audit(file, "--json")
        assert ran.exit_code == 0, ran.output
        assert [each["client"] for each in json.loads(ran.stdout)["sessions"]] == [client]


def test_only_a_page_is_written_over(tmp_path: Path, session: ClaudeSession) -> None:
    page, other = tmp_path / "a.html", tmp_path / ".bashrc"
    other.write_text("alias ll='ls -l'\n")
    assert audit("--home", tmp_path, "--html", page).exit_code == 0
    assert audit("--home", tmp_path, "--html", page).exit_code == 0
    assert "exists and is not a page" in refused("--home", tmp_path, "--html", other)
    assert other.read_text() == "alias ll='ls -l'\n"


def test_projects_whose_folders_have_one_name_are_two_rows(tmp_path: Path) -> None:
    for number, project in enumerate(("/home/ana/work/shop", "/home/ana/play/shop", "/home/ana/notes")):
        made = ClaudeSession(tmp_path, f"s{number}", project)
        made.says("Hello")
        made.answers(f"m{number}", stop="end_turn")
    found = json.loads(audit("--home", tmp_path, "--json").stdout)["by_project"]
    assert {each["name"] for each in found} == {"work/shop", "play/shop", "notes"}


@pytest.mark.parametrize(
    ("projects", "names"),
    [
        ([], []),
        (["", "/"], ["(none)", "(none)"]),
        (["/a/b", "/b"], ["a/b", "b"]),
        (["C:\\work\\shop", "/x/shop"], ["work/shop", "x/shop"]),
        (["same", "same"], ["same"]),
    ],
)
def test_names_of_projects(projects: list[str], names: list[str]) -> None:
    assert list(project_names(projects).values()) == names


def test_days_are_those_of_this_machine(
    tmp_path: Path, session: ClaudeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = {}
    try:
        for zone in ("Etc/GMT-14", "Etc/GMT+12"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            ran = json.loads(audit("--home", tmp_path, "--incremental", "--json").stdout)
            days[zone] = [each["name"] for each in ran["by_day"]]
            begins = datetime.fromisoformat(ran["sessions"][0]["started"]).astimezone()
            assert days[zone] == [begins.date().isoformat()]
            assert f"this machine's zone, {time.tzname[0]}" in audit("--home", tmp_path).stdout
    finally:
        monkeypatch.undo()
        time.tzset()
    assert len({*map(tuple, days.values())}) == 2
