"""Logs that the real clients wrote, against what the upstream counted; paths and long texts are shortened."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman.audit import Collection, Home, sources
from pointsman.audit.caches import calls, predicted
from pointsman.audit.money import Pricing
from pointsman.audit.sources import seconds
from pointsman.cli import app

LOGS = Path(__file__).parent / "logs"
TRUTH: list[dict[str, Any]] = json.loads((LOGS / "truth.json").read_text())["sessions"]
#: Counts of aider are those of its own tokenizer, rounded to two digits.
ROUNDED = {"aider"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory with the logs of all clients. A file was last changed when its last line says so."""
    folder = tmp_path_factory.mktemp("home")
    shutil.copytree(LOGS / "home", folder, dirs_exist_ok=True)
    for file in folder.glob(".claude/**/*.jsonl"):
        times = [seconds(json.loads(line).get("timestamp")) for line in file.read_text().splitlines()]
        os.utime(file, (max(times), max(times)))
    database = folder / ".local/share/opencode/opencode.db"
    database.parent.mkdir(parents=True)
    with sqlite3.connect(database) as made:
        made.executescript((LOGS / "opencode.sql").read_text())
    made.close()
    return folder


@pytest.fixture(scope="module")
def read(home: Path) -> dict[str, Any]:
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--json"])
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def sessions(read: dict[str, Any], client: str) -> list[dict[str, Any]]:
    """In the order of the truth: that in which they began."""
    return sorted((each for each in read["sessions"] if each["client"] == client), key=lambda s: s["started"])


@pytest.mark.parametrize("client", sorted({each["client"] for each in TRUTH} - ROUNDED))
def test_what_is_read_is_what_the_upstream_counted(read: dict[str, Any], client: str) -> None:
    real = [each for each in TRUTH if each["client"] == client]
    found = [{name: each[name] for name in real[0]} for each in sessions(read, client)]
    assert found == real


def test_rounded_counts_are_near_and_bounded(read: dict[str, Any]) -> None:
    real = [each for each in TRUTH if each["client"] == "aider"]
    found = sessions(read, "aider")
    exact = ("requests", "tool_calls", "failed_calls", "stuck", "solved")
    for counted, each in zip(real, sorted(found, key=lambda s: s["id"]), strict=True):
        assert {name: each[name] for name in exact} == {name: counted[name] for name in exact}
        assert each["input_tokens"] == pytest.approx(counted["input_tokens"], rel=0.06)
        assert each["output_tokens_at_most"] >= counted["output_tokens"]
        assert each["uncertain_requests"] == each["requests"]


def test_a_forked_session_repeats_requests_that_count_once(read: dict[str, Any]) -> None:
    assert read["requests_copied"] == 5


def test_requests_that_a_client_does_not_log_are_named(read: dict[str, Any]) -> None:
    named = {each["client"]: set(each["not_logged"]) for each in read["sessions"]}
    assert "titles" in named["claude-code"]
    assert "titles" in named["opencode"]
    assert "answers that loop detection cut off" in named["qwen-code"]
    assert "loop checks" in named["gemini-cli"]


def test_reading_changes_nothing(home: Path, read: dict[str, Any]) -> None:
    del read
    names = {file.relative_to(home) for file in home.rglob("*") if file.is_file()}
    assert not [name for name in names if name.name.endswith(("-wal", "-shm", "-journal"))]


def test_a_session_costs_what_its_client_says(home: Path, read: dict[str, Any]) -> None:
    """Claude Code writes down what it takes a session to have cost: of the first, 0.1004098 dollars."""
    said: dict[str, float] = {}
    for file in home.glob(".claude/projects/*/*.jsonl"):
        for line in map(json.loads, file.read_text().splitlines()):
            if line["type"] == "cost-state" and not said.get(line["sessionId"]):
                said[line["sessionId"]] = line["totalCostUSD"]
            elif line["type"] == "cost-state":
                said[line["sessionId"]] = max(said[line["sessionId"]], line["totalCostUSD"])
    first, _, third, fourth = sessions(read, "claude-code")
    assert first["spent"] == pytest.approx(said[first["id"]], abs=1e-6) == 0.1004098
    for each in (third, fourth):
        assert each["spent"] == pytest.approx(said[each["id"]], abs=1e-6)


def test_tools_that_were_offered_and_never_called(read: dict[str, Any]) -> None:
    first, *_ = sessions(read, "claude-code")
    assert {"Agent", "Read", "Write"} <= first["unused_tools"].keys()
    assert not {"Bash", "Edit"} & first["unused_tools"].keys()


def test_the_report_for_a_person(home: Path) -> None:
    ran = CliRunner().invoke(app, ["audit", "--home", str(home)])
    assert ran.exit_code == 0
    sentence, empty, *lines = ran.stdout.splitlines()
    assert sentence.startswith("$0.52 in 1 day, 8 requests without a price. Sure to save: $0.0")
    assert sentence.endswith(" 5 sessions stuck, $0.05 after the first sign.")
    assert not empty
    assert lines[0].startswith(f"Sessions in {home}: 4 of claude-code, 3 of opencode, 2 of codex")
    assert "67 requests on 2026-11-23" in lines[0]
    for heading in ("project", "client", "model", "role", "day", "detector", "cause of cache misses"):
        assert any(line.startswith(f"{heading}  ") for line in lines), heading
    assert "5 sessions ended stuck." in ran.stdout
    assert "Without a price, so in no amount: qwen3-coder-plus." in ran.stdout


def test_the_caches_that_are_predicted_are_those_of_the_upstream(home: Path) -> None:
    pricing = Pricing()
    sums: dict[str, tuple[int, int]] = {}
    for session, _ in Collection(Home.at(home), sources()).sessions():
        made = calls(session.requests)
        read = sum(predicted(made, pricing.lifetimes(made)))
        before = sums.get(session.client, (0, 0))
        sums[session.client] = before[0] + read, before[1] + sum(each.cached_tokens for each in made)
    del sums["aider"]  # it logs no cached tokens
    found, logged = (sum(each[at] for each in sums.values()) for at in (0, 1))
    assert found == pytest.approx(logged, rel=0.02)
    for client in sums:
        assert sums[client][0] == pytest.approx(sums[client][1], rel=0.02), client


def test_a_subscription_is_worth_what_it_would_have_cost(home: Path) -> None:
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--json", "--subscription", "claude-code"])
    (group,) = (each for each in json.loads(ran.stdout)["by_client"] if each["name"] == "claude-code")
    assert (group["spent"], group["worth"]) == (0, pytest.approx(0.35394))


def test_nothing_leaves_the_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "bind", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert CliRunner().invoke(app, ["audit", "--home", str(home)]).exit_code == 0


def test_nothing_is_written(home: Path, tmp_path: Path) -> None:
    """In a process of its own, with the folders of a user's files empty."""
    before = {file: file.stat().st_mtime_ns for file in home.rglob("*")}
    folders = {"HOME": "h", "XDG_CACHE_HOME": "c", "XDG_STATE_HOME": "s", "XDG_CONFIG_HOME": "k"}
    environment = {name: str(tmp_path / folder) for name, folder in folders.items()}
    command = [sys.executable, "-m", "pointsman", "audit", "--home", str(home), "--json"]
    other = {*folders, "POINTSMAN_CACHE_DIR"}
    known = {name: value for name, value in os.environ.items() if name not in other}
    subprocess.run(command, env={**known, **environment}, cwd=tmp_path, check=True, capture_output=True)
    assert list(tmp_path.rglob("*")) == []
    assert {file: file.stat().st_mtime_ns for file in home.rglob("*")} == before


def test_a_fork_of_opencode_repeats_requests_that_count_once(home: Path, tmp_path: Path) -> None:
    """It copies messages and their parts under new ids, with the old times, and names no parent."""
    copy = tmp_path / ".local/share/opencode/opencode.db"
    copy.parent.mkdir(parents=True)
    shutil.copy(home / ".local/share/opencode/opencode.db", copy)
    before = json.loads(CliRunner().invoke(app, ["audit", "--home", str(tmp_path), "--json"]).stdout)
    session = before["sessions"][0]
    with sqlite3.connect(copy) as made:
        made.execute(
            "INSERT INTO session SELECT 'ses_f', NULL, directory, version, time_created + 99 FROM session "
            "WHERE id = ?",
            [session["id"]],
        )
        made.execute(
            "INSERT INTO part SELECT 'f' || id, 'f' || message_id, 'ses_f', time_created, data FROM part "
            "WHERE session_id = ?",
            [session["id"]],
        )
        made.execute(
            "INSERT INTO message SELECT 'f' || id, 'ses_f', time_created, data FROM message "
            "WHERE session_id = ?",
            [session["id"]],
        )
    made.close()
    after = json.loads(CliRunner().invoke(app, ["audit", "--home", str(tmp_path), "--json"]).stdout)
    assert after["total"] == before["total"]
    assert after["requests_copied"] == session["requests"]


def _version_2(database: Path, session: str, number: int, *, id_: str = "") -> None:
    """Add a session with one answer to the tables of version 2, as their published description has them."""
    counts = {"input": 100, "output": 20, "reasoning": 5, "cache": {"read": 900, "write": 0}}
    call = {"type": "tool", "id": "c1", "name": "bash", "state": {"status": "completed", "input": {"a": 1}}}
    answer = {
        "model": {"id": "claude-sonnet-4-5", "providerID": "anthropic"},
        "cost": 0.25,
        "tokens": counts,
        "time": {"created": 1795405257590 + number, "completed": 1795405259999 + number},
        "content": [{"type": "text", "text": "Done."}, call],
    }
    with sqlite3.connect(database) as made:
        made.execute(
            "CREATE TABLE IF NOT EXISTS session_v2 (id, parent_id, directory, version, time_created)"
        )
        made.execute(
            "CREATE TABLE IF NOT EXISTS session_message (id, session_id, type, seq, time_created, data)"
        )
        made.execute(
            "INSERT INTO session_v2 VALUES (?, NULL, '/home/ana/code/oc', '2.0.8', 1795405257000)", [session]
        )
        for seq, (kind, data) in enumerate((("user", {"text": "Fix it."}), ("assistant", answer))):
            row = [id_ or f"{session}-{seq}", session, kind, seq, 1795405257590 + number, json.dumps(data)]
            made.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", row)
    made.close()


@pytest.mark.parametrize("upgraded", [False, True])
def test_sessions_of_version_2_of_opencode_are_read(home: Path, tmp_path: Path, upgraded: bool) -> None:
    """The tables of version 1 stay beside those of version 2, and get no more rows."""
    database = tmp_path / ".local/share/opencode/opencode.db"
    database.parent.mkdir(parents=True)
    before = {"requests": 0, "spent": 0.0}
    if upgraded:
        shutil.copy(home / ".local/share/opencode/opencode.db", database)
        before = json.loads(CliRunner().invoke(app, ["audit", "--home", str(tmp_path), "--json"]).stdout)[
            "total"
        ]
        with sqlite3.connect(database) as made:  # what version 2 took over keeps its id
            ((id_, session),) = made.execute("SELECT id, session_id FROM message LIMIT 1")
        made.close()
        _version_2(database, session, 0, id_=id_)
    _version_2(database, "ses_a", 1)
    _version_2(database, "ses_fork", 1)
    found = json.loads(CliRunner().invoke(app, ["audit", "--home", str(tmp_path), "--json"]).stdout)
    assert found["total"]["requests"] == before["requests"] + 1
    assert found["total"]["spent"] == pytest.approx(before["spent"] + 0.25)
    (new,) = (each for each in found["sessions"] if each["id"] == "ses_a")
    assert (new["input_tokens"], new["cached_tokens"], new["output_tokens"]) == (1_000, 900, 25)
    assert (new["turns"], new["calls_by_tool"]) == (1, {"bash": {"calls": 1, "failed": 0}})
    assert found["requests_copied"] == 1


def test_a_fork_in_version_2_of_a_session_of_version_1_counts_once(home: Path, tmp_path: Path) -> None:
    """Its messages have new ids, and their parts are others than those of version 1."""
    database = tmp_path / ".local/share/opencode/opencode.db"
    database.parent.mkdir(parents=True)
    shutil.copy(home / ".local/share/opencode/opencode.db", database)
    before = json.loads(CliRunner().invoke(app, ["audit", "--home", str(tmp_path), "--json"]).stdout)
    _version_2(database, "ses_new", 1)
    with sqlite3.connect(database) as made:
        made.execute("DELETE FROM session_message")
        answers = made.execute("SELECT data FROM message WHERE data LIKE '%cost%'")
        for number, (data,) in enumerate(answers.fetchall()):
            old = json.loads(data)
            new = {name: old[name] for name in ("cost", "tokens", "time")} | {
                "model": {"id": old["modelID"], "providerID": old["providerID"]},
                "content": [{"type": "text", "text": "Done."}],
            }
            row = [f"new{number}", "ses_new", "assistant", number, old["time"]["created"], json.dumps(new)]
            made.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", row)
    made.close()
    after = json.loads(CliRunner().invoke(app, ["audit", "--home", str(tmp_path), "--json"]).stdout)
    assert number > 0
    assert after["total"] == before["total"]


@pytest.mark.parametrize(("provider", "kind"), [("anthropic", "worth"), ("my-proxy", "spent")])
def test_what_opencode_counts_as_free_is_worth_of_a_subscription(
    home: Path, tmp_path: Path, provider: str, kind: str
) -> None:
    """It sets the prices of models to 0 that a plan pays, and knows none of a provider of the user's own."""
    copy = tmp_path / ".local/share/opencode/opencode.db"
    copy.parent.mkdir(parents=True)
    shutil.copy(home / ".local/share/opencode/opencode.db", copy)
    with sqlite3.connect(copy) as made:
        made.execute("UPDATE part SET data = json_set(data, '$.cost', 0) WHERE data LIKE '%step-finish%'")
        made.execute(f"UPDATE message SET data = json_set(data, '$.providerID', '{provider}')")
    made.close()
    total = json.loads(CliRunner().invoke(app, ["audit", "--home", str(tmp_path), "--json"]).stdout)["total"]
    assert [name for name in ("spent", "worth") if total[name] > 0] == [kind]


def test_sessions_of_opencode_in_files_are_those_of_the_database(home: Path, tmp_path: Path) -> None:
    """Earlier versions wrote the same data into one JSON file each."""
    storage = tmp_path / "home/.local/share/opencode/storage"
    database = sqlite3.connect(home / ".local/share/opencode/opencode.db")
    for id_, parent, directory, version in database.execute(
        "SELECT id, parent_id, directory, version FROM session"
    ):
        row = {"id": id_, "directory": directory, "version": version}
        _write(storage / f"session/global/{id_}.json", row | ({"parentID": parent} if parent else {}))
    for id_, session, data in database.execute("SELECT id, session_id, data FROM message"):
        _write(storage / f"message/{session}/{id_}.json", json.loads(data))
    for id_, message, data in database.execute("SELECT id, message_id, data FROM part"):
        _write(storage / f"part/{message}/{id_}.json", json.loads(data))
    database.close()
    found = [
        json.loads(CliRunner().invoke(app, ["audit", "--home", str(place), "--json"]).stdout)["sessions"]
        for place in (home, tmp_path / "home")
    ]
    own = [
        [{name: each[name] for name in TRUTH[0]} for each in some if each["client"] == "opencode"]
        for some in (sorted(each, key=lambda session: session["id"]) for each in found)
    ]
    assert own[0] == own[1]
    assert len(own[0]) == 3


def _write(file: Path, value: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


@pytest.mark.parametrize("content", [b"SQLite format 3\0" + b"\xff" * 200, b"no database"])
def test_a_database_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / ".local/share/opencode/opencode.db"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    ran = CliRunner().invoke(app, ["audit", "--home", str(tmp_path)])
    assert ran.exit_code == 0
    assert f"cannot read {file}" in ran.stdout
    assert "opencode 1.18.33 was read" in ran.stdout


def test_the_page_is_whole_in_one_file_and_has_no_prompt(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "audit.html"
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--html", str(file), "--json"])
    assert ran.exit_code == 0, ran.output
    found, page = json.loads(ran.stdout), file.read_text()
    assert f"<h1>{found['sentence']}</h1>" in page
    assert len(page.encode()) <= 300_000
    assert not any(word in page for word in ("<script", "http:", "https:", "src=", "url("))
    prompts = [
        request.prompt
        for session, _ in Collection(Home.at(home), sources()).sessions()
        for request in session.requests
        if request.prompt
    ]
    assert len(prompts) > 10
    assert not any(prompt[:30] in page for prompt in prompts)
    assert page.index(found["dearest_sessions"][0]) < page.index(found["dearest_sessions"][1])
    assert page.count('class="m"') == len(found["dearest_sessions"])
    for change in found["changes"]:
        assert escape(change["command"]) in page


def test_names_in_logs_do_not_act_on_the_page(tmp_path: Path) -> None:
    folder = tmp_path / ".claude/projects/p"
    folder.mkdir(parents=True)
    line = (LOGS / "home/.claude/projects/-home-ana-code-shop").glob("*.jsonl")
    text = next(iter(sorted(line))).read_text().replace("/code/shop", "/code/<img src=x>&")
    (folder / "s.jsonl").write_text(text)
    ran = CliRunner().invoke(app, ["audit", "--home", str(tmp_path), "--html", str(tmp_path / "a.html")])
    assert ran.exit_code == 0, ran.output
    page = (tmp_path / "a.html").read_text()
    assert "<img" not in page
    assert "&lt;img src=x&gt;&amp;" in page


def test_a_page_that_cannot_be_written_is_an_error(home: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--html", str(tmp_path)])
    assert ran.exit_code != 0
    assert f"cannot write {tmp_path}" in str(ran.exception)


def test_labels_are_outcomes_and_fewer_are_needed(home: Path, read: dict[str, Any], tmp_path: Path) -> None:
    stakes = read["verdict"]["unknown"]
    name = next(name for stake in stakes for name in stake["sample"])  # a pair with a project in common
    file = tmp_path / "labels.jsonl"
    file.write_text(
        json.dumps({"session": name, "solved": True}) + '\n\n{"session": "none", "solved": false}\n'
    )
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--labels", str(file), "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    (session,) = (each for each in found["sessions"] if each["id"] == name)
    assert (session["solved"], session["solved_by"]) == (True, "label")
    assert all(name not in stake["sample"] for stake in found["verdict"]["unknown"])
    assert any("no session none was read" in note for note in found["notes"])


@pytest.mark.parametrize(
    "line", ["yes", '{"session": "a"}', '{"session": "a", "solved": "yes"}', '{"id": "a"}']
)
def test_a_line_that_is_no_label_is_named(home: Path, tmp_path: Path, line: str) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text(f'{{"session": "a", "solved": true}}\n{line}\n')
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--labels", str(file)])
    assert ran.exit_code != 0
    assert f"{file}, line 2" in str(ran.exception)
