"""Files in a home directory that an audit must not read, or must not believe: pipes, devices, clones."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman.audit.sources.aider import Aider
from pointsman.cli import app
from support.agent_logs import ClaudeSession, CodexSession

HISTORY = """
# aider chat started at 2026-11-20 10:00:00

> Aider v0.86.2
> Model: openai/gpt-5 with diff edit format

#### Mend it.

Done.

> Tokens: 2.0k sent, 100 received. Cost: $250.00 message, $250.00 session.
"""


def audit(home: Path, *more: str) -> dict[str, Any]:
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--json", "--incremental", *more])
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSMAN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with one session of Claude Code."""
    session = ClaudeSession(tmp_path / "home", "s1")
    session.says("Hello")
    session.answers("m1", stop="end_turn")
    return tmp_path / "home"


def history(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / Aider.FILE
    file.write_text(HISTORY)
    return file


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-C", folder, *arguments],
        check=True,
        capture_output=True,
        env={**os.environ, "HOME": "/nowhere"},
    )


def test_a_history_of_ones_own_counts(home: Path) -> None:
    history(home / "app")
    found = audit(home)
    assert (found["total"]["sessions"], found["notes"]) == (2, [])
    assert found["total"]["spent"] > 249


ODD = {
    "a pipe of Claude Code": ".claude/projects/-home-ana-code-shop/s2.jsonl",
    "a pipe of a sub-agent": ".claude/projects/-home-ana-code-shop/s1/subagents/agent-1.jsonl",
    "a pipe of Codex": ".codex/sessions/2026/11/20/rollout-x.jsonl",
    "a pipe of Gemini CLI": ".gemini/tmp/p/chats/session-1.jsonl",
    "a pipe of Qwen Code": ".qwen/projects/p/chats/1.jsonl",
    "a pipe of opencode": ".local/share/opencode/opencode.db",
    "a pipe of aider": f"app/{Aider.FILE}",
}


@pytest.mark.parametrize("name", ODD)
def test_a_pipe_is_left_out_and_named(home: Path, name: str) -> None:
    pipe = home / ODD[name]
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    found = audit(home)
    assert found["total"]["sessions"] == 1
    assert [note for note in found["notes"] if str(pipe) in note] == [f"left out: {pipe}: not a regular file"]


ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS id"


def test_a_view_in_the_place_of_a_table_is_not_read(home: Path) -> None:
    """Its rows may have no end: once the audit had none either."""
    database = home / ".local/share/opencode/opencode.db"
    database.parent.mkdir(parents=True)
    columns = "'' AS parent_id, '' AS directory, '' AS version, 0 AS time_created"
    with closing(sqlite3.connect(database)) as made:
        made.execute(f"CREATE VIEW session AS {ENDLESS}, {columns} FROM c")
    found = audit(home)
    assert found["total"]["sessions"] == 1
    assert [note for note in found["notes"] if str(database) in note]


def test_links_to_devices_and_out_of_home_are_left_out_and_named(home: Path, tmp_path: Path) -> None:
    for project in ("zero", "out", "in"):
        (home / project).mkdir()
    (home / "zero" / Aider.FILE).symlink_to("/dev/zero")
    (home / "out" / Aider.FILE).symlink_to(history(tmp_path / "elsewhere"))
    (home / "in" / Aider.FILE).symlink_to(history(home / "real"))
    found = audit(home)
    assert found["total"]["sessions"] == 3  # Claude Code's, and the real one under both names
    notes = "\n".join(found["notes"])
    assert f"{home / 'zero' / Aider.FILE}: not a regular file" in notes
    assert f"{home / 'out' / Aider.FILE}: a link to a file outside of {home}" in notes


def test_links_to_logs_in_another_folder_of_codex_are_left_out(home: Path, tmp_path: Path) -> None:
    session = CodexSession(tmp_path / "other")
    session.says("Hello")
    session.count()
    folder = home / ".codex/sessions/2026"
    folder.mkdir(parents=True)
    (folder / session.file.name).symlink_to(session.file)
    assert "outside of" in " ".join(audit(home)["notes"])


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("inside", ["", "deep/er"])
def test_a_history_that_git_tracks_is_left_out_and_named(
    home: Path, hashes: str, version: str, inside: str
) -> None:
    clone = home / "oss"
    file = history(clone / inside)
    for name in ("a.py", ".aider.chat.history.ma", "z.py"):  # names that begin alike, for version 4
        (file.parent / name).write_text("")
    git(clone, "init", "-q", f"--object-format={hashes}")
    git(clone, "config", "index.version", version)
    git(clone, "add", "--force", ".")
    found = audit(home)
    assert found["total"]["sessions"] == 1
    assert found["total"]["spent"] < 1
    assert found["notes"] == [
        f"left out: {file}: git tracks it, so anyone may have written it (name the file to read it)"
    ]
    named = audit(home, str(file))
    assert (named["total"]["sessions"], named["found"]["aider"]) == (2, 1)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
@pytest.mark.parametrize("version", ["2", "4"])
def test_a_history_beside_tracked_files_counts(home: Path, hashes: str, version: str) -> None:
    """Near misses: another name, the same name in another folder, nothing added yet, an empty repository."""
    clone = home / "own"
    history(clone)
    (clone / "sub").mkdir()
    (clone / "sub" / Aider.FILE).write_text("")
    (clone / f"{Aider.FILE}.old").write_text("")
    git(clone, "init", "-q", f"--object-format={hashes}")
    git(clone, "config", "index.version", version)
    assert audit(home)["total"]["sessions"] == 2
    git(clone, "add", "--force", f"{Aider.FILE}.old", f"sub/{Aider.FILE}")
    found = audit(home)
    assert found["total"]["sessions"] == 2
    assert all(str(clone / "sub") in note for note in found["notes"])


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
def test_the_index_of_a_second_work_tree_is_found(home: Path, hashes: str) -> None:
    clone = home / "oss"
    history(clone)
    git(clone, "init", "-q", f"--object-format={hashes}")
    git(clone, "add", "--force", ".")
    git(clone, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a")
    git(clone, "worktree", "add", "-q", str(home / "second"))
    assert len(audit(home)["notes"]) == 2


@pytest.mark.parametrize("index", [b"", b"DIRC", b"DIRC\0\0\0\x02\0\0\0\x09" + bytes(80)])
def test_a_damaged_index_makes_a_history_doubtful(home: Path, index: bytes) -> None:
    history(home / "own")
    (home / "own/.git").mkdir()
    (home / "own/.git/index").write_bytes(index)
    assert "git tracks it" in audit(home)["notes"][0]


def test_a_history_of_another_user_is_left_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, stat = history(home / "app"), Path.stat

    def owned(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = stat(self, follow_symlinks=follow_symlinks)
        return os.stat_result((*found[:4], found.st_uid + 1, *found[5:10])) if self == file else found

    monkeypatch.setattr(Path, "stat", owned)
    assert "another user owns it" in audit(home)["notes"][0]


def test_a_line_without_an_end_is_read_in_pieces(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[Aider.__module__], "_LONGEST", 100)
    file = history(home / "app")
    file.write_text(HISTORY.replace("Done.", "x" * 10_000))
    (session,) = [each for each in audit(home)["sessions"] if each["client"] == "aider"]
    assert session["requests"] == 1
