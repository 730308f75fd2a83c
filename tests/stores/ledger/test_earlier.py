"""A ledger and session memories written by an earlier version, read by this one.

``data/*_2cff89a.sqlite`` hold what commit 2cff89a wrote, of every kind, by ``data/write_2cff89a.py.txt``.
"""

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.decision.decision import Decision
from pointsman.decision.memory import Memory
from pointsman.errors import StoreUnavailable
from pointsman.factory import build_engine, default_policy
from pointsman.guidance import Arm
from pointsman.reports.replay import Replay
from pointsman.runtime import decode_memory
from pointsman.stores.ledger import ShadowAnswer, ShadowDecision, SqliteLedger
from pointsman.stores.ledger._bodies import decision_in
from pointsman.stores.ledger._retention import Retention
from pointsman.stores.sessions import SqliteSessions
from pointsman.testing.ledger import a_decision, a_run_entry
from pointsman.tiers.learned_router import ScoreSource
from pointsman.vocabulary import Stage

HERE = Path(__file__).parent
WRITTEN = HERE / "data" / "ledger_2cff89a.sqlite"
FOREVER = Retention(keep_days=None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return Path(shutil.copy(WRITTEN, tmp_path / "ledger.sqlite"))


def bodies(file: Path) -> list[dict[str, object]]:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return [
            json.loads(body) for (body,) in connection.execute("SELECT body FROM decisions WHERE id != 'new'")
        ]


def test_runs_are_added_to_a_ledger_of_an_earlier_version(file: Path) -> None:
    ledger = SqliteLedger(file, retention=FOREVER)
    assert list(ledger.runs()) == []
    ledger.append(a_run_entry("r"))
    assert ledger.run("r") == (a_run_entry("r"),)
    assert ledger.count() == 24
    ledger.close()


def test_every_decision_is_read_with_everything_it_held(file: Path) -> None:
    old = {str(body["id"]): body for body in bodies(file)}
    ledger = SqliteLedger(file, retention=FOREVER)
    found = {decision.id: decision for decision in ledger.decisions(limit=None)}
    assert found.keys() == old.keys()
    assert len(found) == ledger.count() == 24
    same = {"session", "format", "model_asked", "arrived_at", "size", "user_message", "person_spoke"}
    same |= {"signals", "characters", "tokens", "utf16_units", "questions", "steps"}
    for decision in found.values():
        body, now = old[decision.id], json.loads(msgspec.json.encode(decision))
        then = {name: body[name] for name in same}
        then["steps"] = [[*step, []] for step in then["steps"]]  # type: ignore[attr-defined]  # what a call did
        assert {name: now["input"][name] for name in same} == then
        assert now["input"]["features"] == body["abilities"]
        assert now["chain"] == body["chain"]
        assert len(decision.injections) == len(body["additions"])  # type: ignore[arg-type]
        assert ledger.get(decision.id) == decision
    ledger.close()


def test_names_are_those_of_today(file: Path) -> None:
    ledger = SqliteLedger(file, retention=FOREVER)
    found = list(ledger.decisions(limit=None))
    tiers = [decision.tier for decision in found if decision.tier]
    codes = {reason.code for tier in tiers for reason in tier.reasons}
    codes |= {reason.code for decision in found for reason in decision.reasons}
    assert Stage.LEARNED in {tier.stage for tier in tiers}
    assert {tier.learned_router.source for tier in tiers if tier.learned_router} == set(ScoreSource)
    assert all(tier.learned_router_version for tier in tiers if tier.learned_router)
    assert {"tiers.learned.ngrams", "tiers.learned.blend", "tiers.learned.unfamiliar"} <= codes
    assert {"routing.skipped.feature", "routing.skipped.context_window"} <= codes
    assert {decision.guidance.arm for decision in found if decision.guidance} == set(Arm)
    assert {decision.input.thread for decision in found} == {0, 1, 2}
    assert max(decision.input.tools for decision in found) == 4
    ledger.close()


def test_what_belongs_to_a_decision_is_read_with_it(file: Path) -> None:
    ledger = SqliteLedger(file, retention=FOREVER)
    records = list(ledger.records())
    kinds = Counter(type(shadow) for record in records for shadow in record.shadows)
    assert kinds[ShadowDecision] == len(records)
    assert kinds[ShadowAnswer] == sum(bool(record.outcomes) for record in records) > 0
    assert {record.attempts[-1].status for record in records} == {200}
    assert any(record.text and "build" in record.text for record in records)
    ledger.close()


def test_commands_read_it(file: Path) -> None:
    run = CliRunner()
    shown = run.invoke(app, ["decisions", "list", "--ledger", str(file)])
    assert shown.exit_code == 0, shown.output
    assert len(shown.output.splitlines()) == 1 + 20  # a heading, and the newest
    for body in bodies(file):
        result = run.invoke(app, ["decisions", "show", str(body["id"]), "--ledger", str(file)])
        assert result.exit_code == 0, result.output
    exported = run.invoke(app, ["decisions", "export", "--ledger", str(file)])
    lines = [json.loads(line) for line in exported.output.splitlines()]
    assert len(lines) == 24
    assert {line["version"] for line in lines} == {3}
    assert all(line["decision"]["input"]["session"] is not None for line in lines)
    policy = file.with_name("pointsman.toml")
    policy.write_text("[guidance]\nmode = 'on'\n")
    replayed = run.invoke(app, ["replay", str(file), "--policy", str(policy)])
    assert replayed.exit_code == 0, replayed.output


def test_its_turns_are_decided_again(file: Path) -> None:
    """The rules, the domains and the guidance of the same policy say the same of them."""
    ledger = SqliteLedger(file, retention=FOREVER)
    replay = Replay(build_engine(default_policy()))
    records = [record for record in ledger.records() if record.decision.input.session == "s-observed"]
    lines = list(replay.turns(records))
    assert lines
    assert not any({"domains", "guidance"} & set(line.changed) for line in lines)
    ledger.close()


def test_it_is_written_on_and_no_row_is_rewritten(file: Path) -> None:
    before = bodies(file)
    ledger = SqliteLedger(file, retention=FOREVER)
    ledger.append(a_decision("new", at=2e9))
    ledger.flush()
    assert next(iter(ledger.decisions())).id == "new"
    assert ledger.count() == 25
    ledger.close()
    assert bodies(file) == before
    with closing(sqlite3.connect(file)) as connection:
        shapes = Counter(shape for (shape,) in connection.execute("SELECT shape FROM decisions"))
    assert shapes == {1: 24, 3: 1}


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"tier": 1}', b"null", b'{"reasons": [1], "tier": null}', b"\xff"]
)
def test_a_damaged_row_of_an_earlier_version_is_an_outage_that_says_so(file: Path, body: bytes) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE decisions SET body = ?", (body,))
    with closing(SqliteLedger(file)) as ledger, pytest.raises(StoreUnavailable, match="damaged"):
        list(ledger.decisions())


def test_a_decision_of_today_is_read_as_it_was_written() -> None:
    decision = a_decision("d")
    assert decision_in(msgspec.json.encode(decision)) == decision
    assert isinstance(decision, Decision)


def test_a_row_of_before_roles_were_read_has_none() -> None:
    written = msgspec.json.encode(a_decision("d1"))
    assert b',"role":null' in written
    assert decision_in(written.replace(b',"role":null', b"")) == a_decision("d1")


def test_memories_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    kept = shutil.copy(HERE.parent / "sessions" / "data" / "sessions_2cff89a.sqlite", tmp_path / "s.sqlite")
    sessions = SqliteSessions(Path(kept), clock=lambda: 2e9)
    memories = {name: decode_memory(sessions.get(name)) for name, _ in sessions.sessions()}
    sessions.close()
    assert memories["s-plain"].model
    assert memories["s-plain"].guidance.threads
    assert memories["s-control"].guidance.arm is Arm.CONTROL


def test_a_memory_of_another_shape_starts_afresh() -> None:
    assert decode_memory(b'{"turns": "three"}') == Memory()
    assert decode_memory(b"[]") == Memory()
    assert decode_memory(None) == Memory()
    with pytest.raises(msgspec.DecodeError):
        decode_memory(b"{")
