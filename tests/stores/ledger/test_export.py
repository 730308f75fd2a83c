"""Exports: every record once, readable by what reads that format, and nothing a spreadsheet would run."""

import csv
import io
import json
from typing import Any

import msgspec
import pytest

from pointsman.decision.decision import run_mark
from pointsman.stores.ledger import MemoryLedger, Outcome, PromptText
from pointsman.stores.ledger.export import COLUMNS, Format, export
from pointsman.stores.ledger.port import COMPARED
from pointsman.testing import a_decision, a_run_entry, an_attempt
from pointsman.vocabulary import Reason


@pytest.fixture
def ledger() -> MemoryLedger:
    made = MemoryLedger(text="full")
    made.append(a_decision("d2", at=2.5, session="=cmd()"))
    made.append(msgspec.structs.replace(a_decision("d1", at=1.0), tier=None, domains=None, guidance=None))
    made.append(an_attempt("d2", 1))
    made.append(an_attempt("d2", 2))
    made.append(Outcome(decision="d2", score=0.5, label='said, "so"'))
    made.append(PromptText(decision="d2", text="two\nlines"))
    return made


def text(ledger: MemoryLedger, form: Format, **kwargs: Any) -> str:
    return "".join(export(ledger.records(**kwargs), form))


def test_lines_of_json(ledger: MemoryLedger) -> None:
    first, second = map(json.loads, text(ledger, Format.JSONL).splitlines())
    assert (first["decision"]["id"], second["decision"]["id"]) == ("d1", "d2")
    assert [attempt["number"] for attempt in second["attempts"]] == [1, 2]
    assert (second["outcomes"][0]["score"], second["text"], first["text"]) == (0.5, "two\nlines", None)


def test_one_array(ledger: MemoryLedger) -> None:
    assert json.loads(text(ledger, Format.JSON)) == [
        json.loads(line) for line in text(ledger, Format.JSONL).splitlines()
    ]
    assert json.loads(text(MemoryLedger(), Format.JSON)) == []


def test_a_table(ledger: MemoryLedger) -> None:
    first, second = csv.DictReader(io.StringIO(text(ledger, Format.CSV)))
    assert tuple(first) == COLUMNS
    assert (first["id"], first["tier"], first["model"], first["attempts"]) == ("d1", "", "", "0")
    assert (second["tier"], second["stage"], second["model"], second["attempts"]) == (
        "COMPLEX",
        "learned",
        "large",
        "2",
    )
    assert (second["arrived_at"], second["total_ms"]) == ("1970-01-01T00:00:02.500+00:00", "80.0")
    assert second["outcome_label"] == 'said, "so"'
    assert second["abstained"] == "domains.failed"
    assert (second["capabilities"], second["tools_kept"]) == ("mail run", "1")
    assert (second["role"], second["run"], second["node"]) == ("", "", "")


def test_runs_follow_the_decisions_with_what_their_questions_took(ledger: MemoryLedger) -> None:
    asked = a_decision("d3", at=3.0)
    mark = Reason("agent.helper", run_mark("classifier", "r-1"))
    ledger.append(msgspec.structs.replace(asked, reasons=(mark,)))
    ledger.append(an_attempt("d3"))
    ledger.append(a_run_entry("r-1", 1))
    rows = [json.loads(line) for line in export(ledger.records(), Format.JSONL, ledger.runs())]
    assert [row.get("run") for row in rows] == [None, None, None, "r-1"]
    assert (len(rows[3]["entries"]), rows[3]["session"], rows[3]["version"]) == (1, "s", rows[0]["version"])
    assert rows[3]["usage"] == {
        "questions": 1,
        "attempts": 1,
        "input_tokens": 10,
        "cached_tokens": 0,
        "output_tokens": 0,
        "without_usage": 1,
    }
    assert json.loads("".join(export(ledger.records(), Format.JSON, ledger.runs()))) == rows
    *_, last = csv.DictReader(io.StringIO("".join(export(ledger.records(), Format.CSV, ledger.runs()))))
    assert (last["id"], last["run"], last["node"]) == ("d3", "r-1", "classifier")


def test_no_cell_is_a_formula(ledger: MemoryLedger) -> None:
    _, second = csv.DictReader(io.StringIO(text(ledger, Format.CSV)))
    assert second["session"] == "'=cmd()"


def test_one_session_and_a_limit(ledger: MemoryLedger) -> None:
    assert '"d1"' not in text(ledger, Format.JSONL, session="=cmd()")
    assert '"d2"' not in text(ledger, Format.JSONL, limit=1)


def test_a_row_is_about_the_attempt_that_answered(ledger: MemoryLedger) -> None:
    """Of two models asked at once the one that serves may be the first of the attempts."""
    ledger.append(a_decision("d3", at=3.0))
    ledger.append(msgspec.structs.replace(an_attempt("d3", 1), model="small", output_tokens=7))
    ledger.append(msgspec.structs.replace(an_attempt("d3", 2), error=COMPARED, output_tokens=900))
    *_, row = csv.DictReader(io.StringIO(text(ledger, Format.CSV)))
    assert (row["model"], row["output_tokens"], row["attempts"]) == ("small", "7", "2")
