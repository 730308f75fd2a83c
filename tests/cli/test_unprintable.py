"""What callers, models and upstreams say steers no terminal, forges no line and is no formula."""

import csv
import io
import json
import logging
import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from pointsman.cli import main
from pointsman.cli._listening import OneLine
from pointsman.printable import printable, printable_json
from pointsman.stores.ledger import Outcome, PromptText, SqliteLedger
from pointsman.stores.sessions import SqliteSessions
from pointsman.testing import a_decision, a_run_entry, an_attempt
from support.deciders import ScriptedDecider
from support.servers import gateway, state_for

#: Sets a title, clears the screen in one C1 byte, turns the text around, forges a line.
NASTY = "\x1b]0;x\x07 \x9b2J \u202egnp.exe\u2066 \x7f\x00\u2028\nd-forged 200 ok\r\x1b[31m"


def run(*arguments: str) -> None:
    """Run ``pointsman ARGUMENTS``, whatever its exit code."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["pointsman", *arguments])
        with pytest.raises(SystemExit):
            main()


def acting(text: str) -> list[str]:
    """The characters of a text that act, ends of lines and tabs apart."""
    return [char for char in text if not char.isprintable() and char not in "\n\t"]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.sqlite"
    decision = a_decision("d-1", session=NASTY, at=1.0)
    asked = msgspec.structs.replace(decision.input, model_asked=NASTY)
    with closing(SqliteLedger(path, text="full")) as ledger:
        ledger.append(msgspec.structs.replace(decision, input=asked, chain=(NASTY,)))
        attempt = an_attempt("d-1")
        ledger.append(msgspec.structs.replace(attempt, model=NASTY, upstream=NASTY, translated=NASTY))
        ledger.append(Outcome(decision="d-1", label=NASTY, comment=NASTY, source=NASTY))
        ledger.append(PromptText(decision="d-1", text=NASTY))
        ledger.append(msgspec.structs.replace(a_run_entry("r-1"), node=NASTY, detail=NASTY, message=NASTY))
    return path


COMMANDS = [
    ["decisions", "list"],
    ["decisions", "list", "--json"],
    ["decisions", "show", "d-1"],
    ["decisions", "show", "d-1", "--json"],
    ["decisions", "show", "r-1"],
    ["decisions", "show", "r-1", "--json"],
    ["decisions", "export", "--format", "jsonl"],
    ["decisions", "export", "--format", "json"],
    ["decisions", "export", "--format", "csv"],
    ["report", "savings", "--baseline", NASTY],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:4:]))
def test_nothing_in_a_ledger_acts(
    command: list[str], ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(*command, "--ledger", str(ledger))
    said = capsys.readouterr()
    assert acting(said.out + said.err) == []
    assert not re.search("^d-forged", said.out, re.MULTILINE)


def test_json_means_the_same(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("decisions", "show", "d-1", "--json", "--ledger", str(ledger))
    assert json.loads(capsys.readouterr().out)["decision"]["input"]["model_asked"] == NASTY
    run("decisions", "export", "--ledger", str(ledger))
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    assert line["outcomes"][0]["comment"] == NASTY


@pytest.mark.parametrize(
    "said", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n=1", "\uff1d1", "\u202e=1", "\x00=1"]
)
def test_no_cell_is_a_formula(said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(path)) as ledger:
        ledger.append(a_decision("d-1", session=said))
        ledger.append(Outcome(decision="d-1", label=said))
    run("decisions", "export", "--format", "csv", "--ledger", str(path))
    [row] = csv.DictReader(io.StringIO(capsys.readouterr().out))
    for cell in (row["session"], row["outcome_label"]):
        assert not cell.strip().startswith(("=", "+", "-", "@", "\uff1d"))


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_an_explanation_of_a_text_does_not_act(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run("explain", f"Write a function {NASTY} please", "--profile", "default", *more)
    assert acting(capsys.readouterr().out) == []


def test_sessions_and_errors_do_not_act(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "pointsman.toml"
    config.write_text(f'[sessions]\nstore = "sqlite"\npath = "{tmp_path}/s.sqlite"\n', encoding="utf-8")
    with closing(SqliteSessions(tmp_path / "s.sqlite")) as store:
        store.put(NASTY, b'{"model": %s}' % json.dumps(NASTY, ensure_ascii=False).encode())
    for command in (["list"], ["list", "--json"], ["show", NASTY], ["show", "no" + NASTY], ["forget", NASTY]):
        run("sessions", *command, "--config", str(config))
    run("decisions", "show", NASTY, "--ledger", str(config))
    said = capsys.readouterr()
    assert acting(said.out + said.err) == []


def test_a_line_of_the_log_is_one_line() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(OneLine("%(levelname)s %(message)s"))
    record = logging.LogRecord("a", logging.INFO, "", 0, "refused: %s", (NASTY,), None)
    handler.emit(record)
    assert acting(written.getvalue()) == []
    assert written.getvalue().count("\n") == 1
    error = ValueError(NASTY)
    handler.emit(logging.LogRecord("a", logging.INFO, "", 0, "failed", (), (ValueError, error, None)))
    assert acting(written.getvalue()) == []


@pytest.mark.integration
def test_answers_of_the_gateway_do_not_act(caplog: pytest.LogCaptureFixture) -> None:
    decider = ScriptedDecider("m0")
    decision = a_decision("d-1", session=NASTY)
    decider.ledger.append(decision)
    decider.ledger.append(Outcome(decision="d-1", comment=NASTY))
    with gateway(state_for(decider=decider)) as running, httpx.Client(base_url=running.url) as client:
        shown = client.get("/v1/decisions/d-1")
        wrong = client.post("/v1/decisions/d-1/outcome", json={NASTY: 1})
        model = client.post("/v1/chat/completions", json={"model": NASTY, "messages": []})
        body: dict[str, Any] = {"model": "m0", "messages": [], NASTY: 1}
        again = json.dumps(body)[:-1] + f",{json.dumps(NASTY)}:1}}"
        twice = client.post("/v1/chat/completions", content=again)
    assert shown.json()["decision"]["input"]["session"] == NASTY
    for answer in (shown, wrong, model, twice):
        assert acting(answer.text) == []
        assert acting(answer.json().get("error", {}).get("message", "")) == []
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("pointsman")]
    assert acting("".join(ours)) == []


def test_commands_print_by_one_function() -> None:
    folder = Path(main.__globals__["__file__"]).parent
    others = [path for path in folder.glob("*.py") if path.name != "output.py"]
    assert [path.name for path in others if "typer.echo(" in path.read_text("utf-8")] == []


@pytest.mark.parametrize("text", ["plain", "", "na\u00efve \u65e5\u672c \U0001f600"])
def test_what_does_not_act_stays(text: str) -> None:
    assert printable(text) == text
    assert printable_json(f'"{text}"') == f'"{text}"'


@pytest.mark.parametrize("char", ["\x7f", "\x9b", "\u202e", "\u2028", "\ufeff", "\U000e0041", "\ud83d"])
def test_an_escape_means_the_same(char: str) -> None:
    escaped = printable_json(f'{{"a":"{char}"}}')
    assert escaped.isascii()
    assert json.loads(escaped) == {"a": char}
    assert printable(char) == "\ufffd"
