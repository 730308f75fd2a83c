"""``--ledger``, ``--open`` and ``--with-text``: logs as decisions of our own, and the console on them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import webbrowser
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.cli.ledger import open_file
from pointsman.errors import PointsmanError
from pointsman.gateway.serve import Server
from pointsman.stores.ledger import Record
from pointsman.vocabulary import AgentRole
from support.agent_logs import ClaudeSession

SECRET = "sk-proj-" + "Ab1" * 16
SAID = f"Mend the basket of ana@example.com with {SECRET}"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def done(*words: str) -> str:
    ran = run(*words)
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    return ran.stdout


def home_of(folder: Path) -> Path:
    """A session that is solved, and one that fails alike again and again."""
    home = folder / "home"
    good = ClaudeSession(home, "good")
    good.says(SAID)
    good.calls("g1", "Edit", "The file was updated.", file_path="/home/ana/code/shop/basket.py")
    good.calls("g2", "Bash", "3 passed in 0.1s", command="pytest")
    good.answers("g3", stop="end_turn")
    stuck = ClaudeSession(home, "stuck")
    stuck.says("Mend the tests.")
    for number in range(6):
        stuck.calls(f"s{number}", "Bash", "Exit code 1\nno such file", error=True, command="make test")
    stuck.answers("s-last", model="my-own-model", stop="end_turn")
    return home


def records(file: Path) -> dict[str, list[Record]]:
    """By session."""
    found: dict[str, list[Record]] = {}
    store = open_file(file)
    for record in store.records():
        found.setdefault(record.decision.input.session, []).append(record)
    store.close()
    return found


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    file = tmp_path / "audit.sqlite"
    done("audit", "--home", str(home_of(tmp_path)), "--ledger", str(file))
    return file


def test_requests_are_decisions_that_the_logged_model_answered(ledger: Path) -> None:
    found = records(ledger)
    assert {name: len(own) for name, own in found.items()} == {"good": 3, "stuck": 7}
    first = found["good"][0]
    assert first.decision.chain == ("claude-sonnet-4-5",)
    assert first.decision.tier is not None
    assert first.decision.input.role is AgentRole.MAIN
    assert first.decision.input.client == "claude-code"
    assert first.decision.input.project_name == "shop"
    (attempt,) = first.attempts
    assert (attempt.model, attempt.status, attempt.cached_tokens) == ("claude-sonnet-4-5", 200, 1_000)
    assert attempt.input_tokens == 1_010
    assert found["stuck"][-1].decision.chain == ("my-own-model",)


def test_outcomes_of_the_logs_are_outcomes_of_the_last_decision(ledger: Path) -> None:
    found = records(ledger)
    (outcome,) = found["good"][-1].outcomes
    assert (outcome.score, outcome.label, outcome.source, outcome.comment) == (
        1.0,
        "solved",
        "import",
        "tests",
    )
    (outcome,) = found["stuck"][-1].outcomes
    assert (outcome.score, outcome.label) == (0.0, "not solved")
    assert not any(each.outcomes for own in found.values() for each in own[:-1])


def test_the_stuck_agent_is_found_in_the_ledger_too(ledger: Path) -> None:
    guided = [each.decision.guidance for each in records(ledger)["stuck"]]
    assert any(each is not None and each.firings for each in guided)


def test_nothing_but_the_ledger_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSMAN_CACHE_DIR", str(tmp_path / "cache"))
    done("audit", "--home", str(home_of(tmp_path)), "--ledger", str(tmp_path / "new.sqlite"))
    assert (tmp_path / "new.sqlite").exists()
    assert not (tmp_path / "cache").exists()


def test_no_prompt_is_kept_unless_asked(ledger: Path, tmp_path: Path) -> None:
    assert all(each.text is None for own in records(ledger).values() for each in own)
    assert b"Mend the" not in ledger.read_bytes()
    texts = tmp_path / "texts.sqlite"
    done("audit", "--home", str(tmp_path / "home"), "--ledger", str(texts), "--with-text")
    (text,) = {each.text for each in records(texts)["good"]}
    assert text is not None
    assert text.startswith("Mend the basket of ")
    assert "example.com" not in text
    assert SECRET not in text


def test_the_page_quotes_prompts_only_when_asked(tmp_path: Path) -> None:
    home, page = str(home_of(tmp_path)), tmp_path / "a.html"
    done("audit", "--home", home, "--html", str(page))
    assert "Mend the" not in page.read_text()
    for more in ((), ("--incremental",), ("--incremental",)):
        done("audit", "--home", home, "--html", str(page), "--with-text", *more)
        shown = page.read_text()
        assert "Mend the basket of " in shown
        assert "Mend the tests." in shown
        assert "example.com" not in shown
        assert SECRET not in shown


def test_a_long_session_is_quoted_in_part(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    for number in range(11):
        session.says(f"Part {number}: " + "<b>word</b> " * 500)
        session.answers(f"m{number}", stop="end_turn")
    done("audit", "--home", str(tmp_path), "--html", str(tmp_path / "a.html"), "--with-text")
    shown = (tmp_path / "a.html").read_text()
    assert "Part 7: &lt;b&gt;word" in shown
    assert "Part 8: " not in shown
    assert "and 3 prompts more" in shown
    assert len(shown) < 40_000


def test_reports_replay_and_the_audit_read_the_ledger(ledger: Path, tmp_path: Path) -> None:
    home, config = str(tmp_path / "home"), str(tmp_path / "pointsman.toml")
    done("config", "init", "--from-audit", "--home", home, "-o", config)
    assert "9 of 10 turns" in done("report", "savings", "--ledger", str(ledger), "--config", config)
    assert "message" in done("report", "roles", "--ledger", str(ledger), "--config", config)
    alone = done("report", "savings", "--ledger", str(ledger))  # at the prices of the policy that it holds
    assert "9 of 10 turns" in alone
    assert "cost of answers" in done("replay", str(ledger), "--policy", config)
    again = json.loads(done("audit", str(ledger), "--json"))
    assert again["total"]["requests"] == 10
    assert {each["project_name"] for each in again["sessions"]} == {"shop"}
    assert len(done("decisions", "list", "--ledger", str(ledger)).splitlines()) == 11


def test_the_ledger_of_logs_has_what_they_wrote_to_caches(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Mend the tests.")
    lifetimes = {"ephemeral_5m_input_tokens": 2_000, "ephemeral_1h_input_tokens": 3_000}
    usage = {"cache_creation_input_tokens": 5_000, "cache_creation": lifetimes}
    session.answers("m1", usage=usage, stop="end_turn")
    logs = json.loads(done("audit", "--home", str(tmp_path), "--json"))["total"]
    assert logs["cache_write_tokens"] == 5_000
    file = str(tmp_path / "l.sqlite")
    done("audit", "--home", str(tmp_path), "--ledger", file)
    again = json.loads(done("audit", file, "--json"))["total"]
    assert (again["spent"], again["cache_write_tokens"]) == (pytest.approx(logs["spent"]), 5_000)
    money = json.loads(done("report", "savings", "--ledger", file, "--json"))
    assert money["paid"] == pytest.approx(logs["spent"], abs=1e-6)


def test_a_ledger_that_is_there_is_left_alone(ledger: Path) -> None:
    before = ledger.read_bytes()
    ran = run("audit", "--home", str(ledger.parent / "home"), "--ledger", str(ledger))
    assert isinstance(ran.exception, PointsmanError)
    assert ran.exception.message == f"{ledger} exists"
    assert ledger.read_bytes() == before


def test_logs_without_a_known_model_have_a_ledger_too(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Mend it.")
    session.answers("m", model="my-own-model", stop="end_turn")
    done("audit", "--home", str(tmp_path), "--ledger", str(tmp_path / "l.sqlite"))
    ((record,),) = records(tmp_path / "l.sqlite").values()
    assert record.decision.chain == ("my-own-model",)


def test_a_session_whose_words_are_not_known_is_written(tmp_path: Path) -> None:
    """As after a line that is cut off."""
    session = ClaudeSession(tmp_path)
    session.calls("m1", "Read", "text", file="a")
    session.answers("m2", stop="end_turn")
    done("audit", "--home", str(tmp_path), "--ledger", str(tmp_path / "l.sqlite"))
    assert [len(own) for own in records(tmp_path / "l.sqlite").values()] == [2]


def look_around(base: str) -> dict[str, httpx.Response]:
    """What a browser, and whoever tries more, gets."""
    chat = {"model": "auto", "messages": [{"role": "user", "content": "Hello!"}]}
    with httpx.Client(base_url=base) as client:
        found = {path: client.get(path) for path in ("/console", "/console/decisions", "/v1/models")}
        rows = client.get("/console/decisions.json")
        found["chat"] = client.post("/v1/chat/completions", json=chat)
        found["label"] = client.post("/console/decisions/x/outcome", data={"score": "1"})
    return found | {"rows": rows}


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """The console is served in a thread instead of for ever; what a visitor saw."""
    seen: dict[str, Any] = {"opened": []}
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def open_page(url: str) -> bool:
        seen["opened"].append(url)
        seen["files"] = sorted(temporary.glob("*/*.sqlite"))
        return False

    def run_for_a_visit(server: Server, sockets: list[socket.socket]) -> None:
        serving = threading.Thread(target=lambda: uvloop.run(server.serve(sockets)))
        serving.start()
        try:
            seen.update(look_around(f"http://127.0.0.1:{sockets[0].getsockname()[1]}"))
        finally:
            server.should_exit = True
            serving.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(webbrowser, "open", open_page)
    monkeypatch.setattr(Server, "run", run_for_a_visit)
    return seen


def test_the_console_opens_on_the_logs_and_changes_nothing(tmp_path: Path, visited: dict[str, Any]) -> None:
    ran = run("audit", "--home", str(home_of(tmp_path)), "--open")
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    (address,) = visited["opened"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/console/decisions", address)
    assert f"console: {address} (read-only, Ctrl-C ends it; its ledger is temporary" in ran.stderr
    assert "there is no browser here" in ran.stderr
    assert visited["/console"].status_code == visited["/console/decisions"].status_code == 200
    assert "claude-sonnet-4-5" in visited["/console/decisions"].text
    for refused in ("chat", "label", "/v1/models"):
        assert visited[refused].status_code == 405, refused
        assert "read-only" in visited[refused].text
    (file,) = visited["files"]
    assert not file.parent.exists()


def test_the_console_opens_on_a_ledger_that_stays(tmp_path: Path, visited: dict[str, Any]) -> None:
    file = tmp_path / "audit.sqlite"
    ran = run("audit", "--home", str(home_of(tmp_path)), "--open", "--ledger", str(file))
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    assert visited["files"] == []
    assert "temporary" not in ran.stderr
    assert {name: len(own) for name, own in records(file).items()} == {"good": 3, "stuck": 7}


def test_the_console_of_unknown_models_opens_too(tmp_path: Path, visited: dict[str, Any]) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Mend it.")
    session.answers("m", model="my-own-model", stop="end_turn")
    assert run("audit", "--home", str(tmp_path), "--open").exit_code == 0
    assert "my-own-model" in visited["/console/decisions"].text


@pytest.mark.integration
def test_ctrl_c_ends_the_console(tmp_path: Path) -> None:
    """In a process of its own, with a program that stands for the browser."""
    home = home_of(tmp_path)
    environment = os.environ | {"BROWSER": f"{sys.executable} -c pass %s", "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "pointsman", "audit", "--home", str(home), "--json", "--open"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        address = next(line.split()[1] for line in running.stderr if line.startswith("console: "))
        assert httpx.get(address).status_code == 200
        running.send_signal(signal.SIGINT)
        running.communicate()
    assert running.returncode == 0
    assert list((tmp_path / "tmp").iterdir()) == []
