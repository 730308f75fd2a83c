"""Values in a log that no request has: they count as unknown, and never cost the figures of other logs."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman.audit.session import Session
from pointsman.audit.sources.aider import Aider
from pointsman.cli import app
from pointsman.stores.ledger import SqliteLedger
from support.agent_logs import ClaudeSession, CodexSession

LOGS = Path(__file__).parent / "logs"
HISTORY = """
# aider chat started at {started}

> Model: openai/gpt-5 with diff edit format

#### Mend it.

Done.

> Tokens: {tokens}
"""
USUAL = {
    "started": "2026-11-20 10:00:00",
    "tokens": "2.0k sent, 100 received. Cost: $0.25 message, $1.00 session.",
}
UNKNOWN = "a time, count or cost that no request has"


def audit(*arguments: str | Path) -> dict[str, Any]:
    ran = CliRunner().invoke(app, ["audit", *map(str, arguments), "--json"])
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def history(home: Path, **changed: str) -> Path:
    file = home / "app" / Aider.FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(HISTORY.format(**USUAL | changed))
    return file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with one session of Claude Code, whose figures are to survive."""
    session = ClaudeSession(tmp_path / "home", "other")
    session.says("Hello")
    session.answers("m1", stop="end_turn")
    return tmp_path / "home"


@pytest.fixture(params=["Asia/Tokyo", "America/New_York", "UTC"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+14:00"]
)
def test_a_time_that_no_date_holds_is_unknown(tmp_path: Path, text: str) -> None:
    home = tmp_path / "home"
    shutil.copytree(LOGS / "home", home)
    before = audit("--home", home)
    for file in home.rglob("*.json*"):
        file.write_text(re.sub(r'("timestamp": ?)"[^"]*"', rf'\1"{text}"', file.read_text()))
    for file in home.rglob(Aider.FILE):
        started = rf"\g<1>{text[:19].replace('T', ' ')}"
        file.write_text(re.sub(r"(# aider chat started at ).*", started, file.read_text()))
    found = audit("--home", home)
    assert {each["client"] for each in found["sessions"]} == {each["client"] for each in before["sessions"]}
    assert {each["started"] for each in found["sessions"]} == {None}
    assert found["total"]["requests"] == before["total"]["requests"]
    assert sum(UNKNOWN in note for note in found["notes"]) >= 4  # of each client that writes times in lines


@pytest.mark.usefixtures("zone")
def test_an_answer_of_the_last_day_of_all_has_no_day(home: Path) -> None:
    history(home, started="9999-12-31 23:59:59")
    found = audit("--home", home)
    assert found["total"]["requests"] == 2
    assert [each["name"] for each in found["by_day"] if each["name"] > "3"] == []


@pytest.mark.parametrize(
    ("tokens", "requests"),
    [
        ("1.2.3 sent, 1 received.", 1),
        (", sent, 1 received.", 1),
        (f"{'9' * 400} sent, 1 received.", 1),
        (f"1 sent, {'9' * 400}M received.", 1),
        ("2.0k sent, 100 received. Cost: $1.2.3 message, $1.00 session.", 2),
        (f"2.0k sent, 100 received. Cost: ${'9' * 400} message, $1.00 session.", 2),
        ("99,999,999,999M sent, 100 received.", 2),
        ("2.0k sent, 100 received. Cost: $9,999,999,999 message, $1.00 session.", 2),
    ],
)
def test_numbers_that_aider_did_not_write_count_as_none(home: Path, tokens: str, requests: int) -> None:
    history(home, tokens=tokens)
    found = audit("--home", home)
    assert found["total"]["requests"] == requests
    left_out = [note.endswith("requests with unreadable tokens: 1") for note in found["notes"]]
    assert sum(left_out) == 2 - requests
    assert found["total"]["input_tokens"] < 10_000
    assert found["total"]["spent"] < 0.1


@pytest.mark.parametrize("count", [-(2**63), -1, 2**53 + 1, 2**80])
def test_counts_that_no_model_has_are_unknown_and_named(home: Path, tmp_path: Path, count: int) -> None:
    session = CodexSession(home)
    session.says("Mend it.")
    session.count(count, 0, 10, record="r1")
    session.count(1_000, 0, 10, record="r2")
    ledger = tmp_path / "ledger.sqlite"
    found = audit("--home", home, "--ledger", ledger)
    (codex,) = [each for each in found["sessions"] if each["client"] == "codex"]
    assert (codex["requests"], codex["input_tokens"], codex["uncertain_requests"]) == (2, 1_000, 1)
    assert [note for note in found["notes"] if UNKNOWN in note] == [
        f"{session.file}: {UNKNOWN}, in 1 of 2 requests: it counts as unknown"
    ]
    with closing(SqliteLedger(ledger)) as written:
        assert len(list(written.records())) == 3


@pytest.mark.parametrize(
    "changed",
    [
        {"prompt_tokens": "1e999"},
        {"prompt_tokens": "nan"},
        {"prompt_tokens": -(2**63)},
        {"prompt_tokens": 1e300},
        {"startTime": "1e30", "endTime": "1e30"},
        {"startTime": "nan", "endTime": "nan"},
        {"endTime": "9999-12-31T23:59:59-10:00"},
        {"spend": "inf"},
        {"spend": 1e300},
        {"metadata": '{"a":' * 100_000},
    ],
)
def test_values_of_an_export_that_no_request_has_are_unknown(tmp_path: Path, changed: dict[str, Any]) -> None:
    rows = json.loads((LOGS / "exports/litellm.json").read_text())
    file = tmp_path / "export.json"
    file.write_text(json.dumps(rows))
    usual = audit(file)["total"]
    file.write_text(json.dumps([rows[0] | changed, *rows[1:]]))
    found = audit(file)["total"]
    assert found["requests"] == usual["requests"]
    assert usual["input_tokens"] - rows[0]["prompt_tokens"] <= found["input_tokens"] <= usual["input_tokens"]
    assert 0 <= found["spent"] < 1


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("resource",), "x"),
        (("scopeSpans", 0, "spans", 0, "attributes"), [{"key": "a", "value": {"intValue": "x"}}]),
        (("scopeSpans", 0, "spans", 0, "endTimeUnixNano"), "x"),
        (("scopeSpans", 0, "spans", 0, "endTimeUnixNano"), "9" * 400),
        (("scopeSpans", 0, "spans", 0, "status"), "x"),
    ],
)
def test_spans_of_another_shape_cost_no_others(tmp_path: Path, place: tuple[Any, ...], value: object) -> None:
    lines = (LOGS / "exports/otel.jsonl").read_text().splitlines()
    changed = json.loads(lines[0])
    *folders, last = place
    inner = changed["resourceSpans"][0]
    for each in folders:
        inner = inner[each]
    inner[last] = value
    file = tmp_path / "otel.jsonl"
    file.write_text("\n".join([json.dumps(changed), *lines]))
    found = audit(file)["total"]
    assert found["requests"] >= audit(LOGS / "exports/otel.jsonl")["total"]["requests"]


def test_a_log_that_fails_in_an_unforeseen_way_is_a_note_each_time(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSMAN_CACHE_DIR", str(tmp_path / "cache"))
    file = history(home)

    def fail(*_: object) -> Iterator[Session]:
        raise ZeroDivisionError

    monkeypatch.setattr(Aider, "read", fail)
    for _ in range(2):
        found = audit("--home", home, "--incremental")
        assert found["total"]["requests"] == 1
        (note,) = found["notes"]
        assert note.startswith(f"left out from where it cannot be read: {file}: ZeroDivisionError in test_")
    monkeypatch.setattr(Aider, "find", fail)
    (note,) = audit("--home", home)["notes"]
    assert note.startswith("left out from where it cannot be read: the logs of aider: ZeroDivisionError in")


def test_a_session_that_cannot_be_read_costs_opencode_no_other(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSMAN_CACHE_DIR", str(tmp_path / "cache"))
    storage = home / ".local/share/opencode/storage"
    step = {"type": "step-finish", "tokens": {"input": 700, "output": 5}}
    texts = {
        "session/p/ses_1.json": "{",
        "session/p/ses_2.json": '{"id": "ses_2"}',
        "message/ses_2/msg_1.json": '{"role": "assistant", "modelID": "gpt-5", "providerID": "openai"}',
        "part/msg_1/prt_1.json": json.dumps(step),
    }
    for name, text in texts.items():
        (storage / name).parent.mkdir(parents=True, exist_ok=True)
        (storage / name).write_text(text)
    for _ in range(2):
        found = audit("--home", home, "--incremental")
        assert found["total"]["requests"] == 2
        (note,) = found["notes"]
        assert note.startswith(f"left out: {storage}/session/p/ses_1.json: Input data was truncated")
