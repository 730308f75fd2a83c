"""The text of each policy is kept in the ledger with its first decision: no secret is in it."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.config import load
from pointsman.factory import build_engine, build_policy, policy_toml, read_policy_text
from pointsman.gateway.build import Builder
from pointsman.reports.replay_period import decide_again
from pointsman.runtime import Runtime
from pointsman.stores.ledger import PolicyText, Retention, SqliteLedger
from pointsman.stores.ledger._retention import LEAST_POLICIES, MOST_POLICIES
from pointsman.stores.ledger.port import MAX_POLICY
from pointsman.testing import a_decision
from pointsman.wire.request import request_from_text

FILE = """
[upstreams.main]
base_url = "https://main.example/v1"
api_key = "${MAIN_KEY}"
headers = { authorization = "Bearer ${OTHER}", x-plain = "sk-0123456789abcdef0123456789" }
query = { token = "${OTHER}" }
body = { user = "${OTHER}" }
[models]
small = { upstream = "main", id = "small-1" }
large = { upstream = "main", id = "large-1" }
[tiers]
simple = "small"
[ledger]
path = "ledger.sqlite"
keep_days = 0
[[guidance.providers]]
classifier = "error_streak"
text = "Use password = 'a-secret-of-the-team' to log in."
"""
SECRETS = ("of-the-main-key", "of-another-secret", "sk-0123456789", "a-secret-of-the-team")


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values behind the references of the file."""
    monkeypatch.setenv("MAIN_KEY", "of-the-main-key")
    monkeypatch.setenv("OTHER", "of-another-secret")


def decided(file: Path, text: str) -> str:
    """Start as the gateway does, decide a text, and return the version of the policy."""
    with closing(Builder(lambda: load(file), file)) as builder:
        runtime = builder().runtime
        assert isinstance(runtime, Runtime)
        runtime.decide_sync(request_from_text(text))
        return runtime.engine.version


def test_a_policy_of_before_a_restart_decides_again_and_holds_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(FILE)
    before = decided(file, "Hello!")
    file.write_text(FILE.replace('simple = "small"', 'simple = "large"'))
    now = decided(file, "Good morning!")
    assert before != now
    with closing(SqliteLedger(tmp_path / "ledger.sqlite")) as ledger:
        assert {each.version: (each.decisions, each.has_text) for each in ledger.policies()} == {
            before: (1, True),
            now: (1, True),
        }
        text = ledger.policy(before) or ""
        assert [secret for secret in SECRETS if secret in text] == []
        newest = next(ledger.decisions())
        engine = build_engine(read_policy_text(text, file, build_policy(load(file))))
        again = decide_again(ledger, newest.id, engine)
        assert (again.then.model, again.now.model) == ("large", "small")
    assert b"of-the-main-key" not in (tmp_path / "ledger.sqlite").read_bytes()


def test_the_text_of_a_policy_is_that_policy(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(FILE.partition("[[guidance")[0])  # nothing in it is redacted
    policy = build_policy(load(file))
    assert read_policy_text(policy_toml(load(file)), file, policy).version() == policy.version()


def test_replay_takes_the_version_of_an_earlier_policy(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    text = FILE.partition("[[guidance")[0]
    text = text.replace("[tiers]\n", "[tiers]\nboundaries = [0, 0.35, inf]\n")  # as fit policy writes them
    file.write_text(text)
    before = decided(file, "Hello!")
    file.write_text(text.replace('simple = "small"', 'simple = "large"'))
    decided(file, "Good morning!")
    ledger = str(tmp_path / "ledger.sqlite")
    found = CliRunner().invoke(app, ["replay", ledger, "--policy", before])
    assert found.exit_code == 0, found.output
    assert f"replayed 2 of 2 turns under policy {before}" in found.output
    assert "large -> small: 1" in found.output
    unknown = CliRunner().invoke(app, ["replay", ledger, "--policy", "0123456789ab"])
    assert unknown.exit_code != 0


def test_a_policy_that_decides_nothing_makes_no_file(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    ledger.append(PolicyText(version="p1", text="[tiers]"))
    ledger.flush()
    assert not (tmp_path / "ledger.sqlite").exists()
    ledger.append(PolicyText(version="p1", text="x" * (MAX_POLICY + 1)))
    ledger.append(a_decision("d"))
    assert (ledger.policy("p1"), ledger.policies()[0].has_text) == (None, False)
    ledger.close()


@pytest.mark.parametrize(("keep_days", "kept"), [(None, MOST_POLICIES), (1, LEAST_POLICIES + 1)])
def test_old_policies_go(tmp_path: Path, keep_days: float | None, kept: int) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(SqliteLedger(path, retention=Retention(None, None), clock=lambda: 0.0)) as ledger:
        for number in range(MOST_POLICIES + 20):
            ledger.append(replace(a_decision(f"d{number}", at=float(number)), policy=f"p{number}"))
    late = 10 * 86_400.0
    with closing(SqliteLedger(path, retention=Retention(keep_days, None), clock=lambda: late)) as ledger:
        ledger.append(replace(a_decision("new", at=late), policy="new"))
    with closing(SqliteLedger(path)) as ledger:
        found: Mapping[str, int] = {each.version: each.decisions for each in ledger.policies()}
    assert abs(len(found) - kept) <= 1
    assert {"new", f"p{MOST_POLICIES + 19}"} <= found.keys()
