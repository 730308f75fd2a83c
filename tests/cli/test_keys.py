"""``pointsman keys``: new, list, revoke."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.config import load
from pointsman.config.files import trust
from pointsman.errors import ConfigError, PointsmanError
from pointsman.stores.budgets import Claim, ValkeyBudgets
from pointsman.stores.ledger import SqliteLedger
from pointsman.testing import a_decision, an_attempt
from pointsman.upstreams.port import hash_key
from support.engines import Valkey
from support.limited import NOON

BASE = """\
# mine
[upstreams.main]
base_url = "https://llm.example.com/v1"
[models]
m = { upstream = "main", id = "s", input_per_million = 0, output_per_million = 1000 }  # dear
[teams.research]
budget = { money = 5, per = "month" }
[ledger]
path = "ledger.sqlite"
"""
ALICE = f"""
[keys.alice]
sha256 = "{hash_key("alice").hex()}"
team = "research"
budget = {{ money = 1 }}
requests_per_minute = 60
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POINTSMAN_CONFIG", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("pointsman.cli.config.time", SimpleNamespace(time=lambda: NOON))
    (tmp_path / "pointsman.toml").write_text(BASE)
    return tmp_path / "pointsman.toml"


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["keys", *args])


def done(*args: str) -> Result:
    result = run(*args)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.mark.usefixtures("file")
def test_a_new_key_is_printed_once_with_its_table() -> None:
    result = done("new", "alice", "--team", "research")
    key, *table = result.stdout.splitlines()
    assert key.startswith("pm-")
    assert table == ["[keys.alice]", f'sha256 = "{hash_key(key).hex()}"', 'team = "research"']
    assert "shown once" in result.stderr
    assert done("new", "alice").stdout.splitlines()[0] != key


def test_a_new_key_can_be_written(file: Path) -> None:
    made = done("new", "alice", "--team", "research", "--write")
    key = made.stdout.strip()
    assert "from now on agents and the console must send a key" in made.stderr
    assert file.read_text().startswith(BASE)
    found = load(file)
    assert found.keys["alice"].team == "research"
    assert (found.server.keys, found.server.names) == ((hash_key(key),), ("alice",))
    assert key not in file.read_text()
    assert "from now on" not in done("new", "alice", "--write").stderr


def test_a_further_key_of_a_name_is_valid_beside_the_first(file: Path) -> None:
    keys = [done("new", "a.b", "--write").stdout.strip() for _ in range(3)]
    found = load(file)
    assert found.server.keys == tuple(map(hash_key, keys))
    assert set(found.server.names) == {"a.b"}
    assert not found.server.has_several_callers


def test_json_has_the_key_and_where_it_was_written(file: Path) -> None:
    made = json.loads(done("new", "ci", "--write", "--json").stdout)
    assert made == {
        "name": "ci",
        "key": made["key"],
        "sha256": hash_key(made["key"]).hex(),
        "written": str(file),
    }


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("new", "a/b"), '"a/b" cannot name a key'),
        (
            ("new", "alice", "--team", "reserch", "--write"),
            'unknown team "reserch"; did you mean "research"?',
        ),
        (("revoke", "bob"), 'unknown key "bob"'),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(
    file: Path, args: tuple[str, ...], message: str
) -> None:
    error = run(*args).exception
    assert isinstance(error, ConfigError)
    assert message in str(error)
    assert file.read_text() == BASE


@pytest.mark.parametrize(("team", "table"), [("research", "research"), ("ml 2.0", '"ml 2.0"')])
def test_the_first_team_is_shown_the_table_that_it_needs(file: Path, team: str, table: str) -> None:
    file.write_text(BASE.replace('[teams.research]\nbudget = { money = 5, per = "month" }\n', ""))
    error = run("new", "alice", "--team", team, "--write").exception
    assert isinstance(error, ConfigError)
    assert error.hint == f"there are: none; add [teams.{table}]"


def test_a_further_key_cannot_change_the_team(file: Path) -> None:
    file.write_text(BASE + ALICE)
    error = run("new", "alice", "--team", "other", "--write").exception
    assert isinstance(error, PointsmanError)
    assert "has another team" in str(error)


def test_a_folder_that_is_none_is_named_with_the_way_out(tmp_path: Path) -> None:
    error = run("revoke", "alice", "--config", str(tmp_path / "none/pointsman.toml")).exception
    assert isinstance(error, ConfigError)
    assert error.hint == "pointsman config init writes one"


def test_changes_at_the_same_moment_are_all_kept(file: Path) -> None:
    file.write_text(BASE + ALICE)
    changes = [["revoke", "alice"], ["new", "bob", "--write"]]
    running = [subprocess.Popen([sys.executable, "-m", "pointsman", "keys", *each]) for each in changes]
    assert [process.wait(120) for process in running] == [0, 0]
    found = load(file).keys
    assert set(found) == {"alice", "bob"}
    assert found["alice"].revoked


def test_a_file_in_no_folder_is_an_error_in_words(tmp_path: Path) -> None:
    result = run("revoke", "alice", "--config", str(tmp_path / "none" / "pointsman.toml"))
    assert isinstance(result.exception, ConfigError)
    assert "none/pointsman.toml" in str(result.exception)


def test_a_folder_that_cannot_be_locked_is_changed_all_the_same(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One may write to a folder that one may not list, and some file systems have no locks."""
    file.write_text(BASE + ALICE)
    opened = os.open

    def refused(path: Any, flags: int, *more: Any, **given: Any) -> int:
        if Path(path) == file.parent and flags == os.O_RDONLY:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *more, **given)

    monkeypatch.setattr(os, "open", refused)
    done("revoke", "alice")
    assert load(file).keys["alice"].revoked


@pytest.mark.parametrize("text", [BASE + ALICE, BASE + "[keys]\nalice = { sha256 = '" + 64 * "0" + "' }"])
def test_revoking_changes_one_value(file: Path, text: str) -> None:
    file.write_text(text)
    assert "revoked alice" in done("revoke", "alice").stdout
    assert load(file).keys["alice"].revoked
    assert "# dear" in file.read_text()
    assert json.loads(done("revoke", "alice", "--json").stdout)["revoked"] is True
    [row] = [json.loads(line) for line in done("list", "--json").stdout.splitlines()[:1]]
    assert (row["name"], row["state"]) == ("alice", "revoked")


def test_a_list_without_a_ledger_shows_the_limits(file: Path) -> None:
    file.write_text(BASE + ALICE)
    result = done("list")
    assert "there is no ledger" in result.stderr
    assert result.stdout.splitlines()[1].rpartition("  ")[2].strip() == "60 requests per minute; 1.00 per day"


def test_a_list_adds_up_the_ledger(file: Path, tmp_path: Path) -> None:
    file.write_text(BASE + ALICE)
    ledger, now = SqliteLedger(tmp_path / "ledger.sqlite"), NOON
    for number, (caller, at) in enumerate([("alice", now), ("bob", now), ("alice", now - 86_400 * 40)]):
        decision = a_decision(f"d-{number}")
        asked = msgspec.structs.replace(decision.input, caller=caller, team="research", arrived_at=at)
        ledger.append(msgspec.structs.replace(decision, input=asked))
        attempt = an_attempt(f"d-{number}")
        ledger.append(
            msgspec.structs.replace(attempt, model="m", input_tokens=9, cached_tokens=0, output_tokens=250)
        )
    ledger.close()
    rows = {row["name"]: row for row in map(json.loads, done("list", "--json").stdout.splitlines())}
    (_, budget), (shared,) = rows["alice"]["limits"], rows["research"]["limits"]
    assert (budget["used"], budget["left"], budget["text"]) == (0.25, 0.75, "0.75 of 1.00 per day left")
    assert (shared["used"], shared["text"]) == (0.5, "4.50 of 5.00 per month left")
    assert rows["research"]["keys"] == 1


def test_a_list_asks_valkey_where_that_counts(file: Path, valkey: Valkey) -> None:
    limits = ALICE.replace("requests_per_minute = 60", "")
    sessions = f'[sessions]\nurl = "{valkey.url}"\npassword = "${{VK}}"\n'
    file.write_text(f'{BASE}{limits}[access]\nstore = "valkey"\n{sessions}')
    store = ValkeyBudgets(valkey.url, password=valkey.password, timeout=60.0)
    store._client.redis.flushdb()
    day = f"money/key/alice/day/{int(NOON) - 43_200}"
    store.reserve("r1", [Claim(day, 250_000_000, 10**9, 600.0)])
    trust(file)
    result = CliRunner().invoke(app, ["keys", "list", "--json"], env={"VK": valkey.password})
    assert result.exit_code == 0, result.output
    [budget] = json.loads(result.stdout.splitlines()[0])["limits"]
    assert budget["text"] == "0.75 of 1.00 per day left"
