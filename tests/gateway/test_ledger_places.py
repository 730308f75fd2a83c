"""A gateway whose ledger is in PostgreSQL, or JSON lines: configured, served, and read by commands."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.config import Config, load
from pointsman.config.shapes import LedgerSpec, demo_config
from pointsman.diagnostics import diagnose
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.stores.ledger.lines import JsonLinesLedger
from support.in_process import ask

if TYPE_CHECKING:
    from support.engines import Postgres

BODY = {"model": "auto", "messages": [{"role": "user", "content": "Hello!"}]}


@contextmanager
def serving(ledger: LedgerSpec) -> Iterator[Gateway]:
    def config() -> Config:
        return msgspec.structs.replace(demo_config(), ledger=ledger)

    with closing(Builder(config)) as builder:
        gateway = Gateway(builder())
        yield gateway
        gateway.state.close()


def served(gateway: Gateway) -> str:
    answer = asyncio.run(ask(gateway, "/v1/chat/completions", BODY))
    assert answer.status == 200, answer.body
    return answer.headers["x-pointsman-decision-id"]


def test_a_gateway_serves_without_its_database_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("psycopg")
    url = "postgresql://ann@127.0.0.1:1/decisions?connect_timeout=2"
    with caplog.at_level(logging.WARNING), serving(LedgerSpec(url=url)) as gateway:
        assert 'cannot reach the ledger in PostgreSQL at host "127.0.0.1:1"' in caplog.text
        assert 'database "decisions", user "ann"' in caplog.text
        assert served(gateway)
        assert "127.0.0.1:1" in gateway.state.faults["ledger"]
        ready = asyncio.run(ask(gateway, "/health/ready", b"", method="GET"))
        assert "ledger" in ready.json()["failing"]


def test_what_a_gateway_writes_into_postgres_is_read_by_commands(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from support.engines import PASSWORD

    url = postgres.database().replace(f":{PASSWORD}@", "@")
    monkeypatch.setenv("PGPASSWORD_OF_TEST", PASSWORD)
    file = tmp_path / "pointsman.toml"
    file.write_text(f'[ledger]\nurl = "{url}"\npassword = "${{PGPASSWORD_OF_TEST}}"\n')
    spec = load(file).ledger
    with serving(spec) as gateway:
        decision = served(gateway)
        outcome = {"score": 1.0, "label": "good"}
        said = asyncio.run(ask(gateway, f"/v1/decisions/{decision}/outcome", outcome))
        assert said.status < 300
    run = CliRunner()
    listed = run.invoke(app, ["decisions", "list", "--config", str(file)])
    assert decision in listed.output
    shown = run.invoke(app, ["decisions", "show", decision, "--config", str(file), "--json"])
    assert json.loads(shown.output)["outcomes"][0]["label"] == "good"
    named = run.invoke(app, ["decisions", "list", "--ledger", url, "--config", str(file), "--json"])
    assert json.loads(named.output)["id"] == decision
    checked = next(check for check in diagnose(file) if check.name == "ledger")
    assert (checked.ok, checked.detail) == (True, f"{url}, in use")


def test_a_gateway_that_writes_lines_knows_its_newest_decisions(tmp_path: Path) -> None:
    file = tmp_path / "made" / "ledger.jsonl"
    with serving(LedgerSpec(jsonl=file)) as gateway:
        assert isinstance(gateway.state.runtime.ledger, JsonLinesLedger)
        decision = served(gateway)
        shown = asyncio.run(ask(gateway, f"/v1/decisions/{decision}", b"", method="GET"))
        assert shown.json()["decision"]["id"] == decision
    rows = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert [row["row"] for row in rows if row["row"] != "policy"] == ["decision", "attempt"]
    config = tmp_path / "pointsman.toml"
    config.write_text(f'[ledger]\njsonl = "{file}"\n')
    refused = CliRunner().invoke(app, ["decisions", "list", "--config", str(config)])
    assert "which no command reads" in str(refused.exception)
    assert load(config).ledger.place == str(file)


def test_standard_output_is_no_file(tmp_path: Path) -> None:
    config = tmp_path / "pointsman.toml"
    config.write_text('[ledger]\njsonl = "-"\n')
    spec = load(config).ledger
    assert (spec.is_output, spec.place) == (True, "standard output")
