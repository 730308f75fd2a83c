"""Costs beside tokens at list prices: fast mode, one region, web searches, a cache of an hour."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from support.agent_logs import ClaudeSession, CodexSession

#: They cost 8 cents at the list prices of Claude Opus 4.8, and of 4.6.
COUNTS = {"input_tokens": 8_000, "cache_read_input_tokens": 0, "output_tokens": 1_600}


def audit(home: Path) -> dict[str, Any]:
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--json"])
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize(
    ("model", "more", "dollars"),
    [
        ("claude-opus-4-8", {}, 0.08),
        ("claude-opus-4-8", {"speed": "standard", "inference_geo": ""}, 0.08),
        ("claude-opus-4-8", {"speed": "fast"}, 0.16),
        ("claude-opus-4-6", {"speed": "fast"}, 0.48),
        ("claude-opus-4-6-20260205", {"speed": "fast"}, 0.48),
        ("claude-opus-4-5", {"speed": "fast"}, 0.08),  # no price of its fast mode was published
        ("claude-opus-4-8", {"inference_geo": "us"}, 0.088),
        ("claude-opus-4-8", {"speed": "fast", "inference_geo": "us"}, 0.176),
        ("claude-opus-4-8", {"server_tool_use": {"web_search_requests": 3}}, 0.11),
        ("claude-opus-4-8", {"server_tool_use": {"web_search_requests": 10**12}}, 0.08),
        ("claude-opus-4-8", {"server_tool_use": {"web_search_requests": None}, "speed": None}, 0.08),
    ],
)
def test_a_request_of_claude_costs_what_its_usage_says(
    tmp_path: Path, model: str, more: dict[str, Any], dollars: float
) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Fix it.")
    session.answers("m1", model=model, usage=COUNTS | more, stop="end_turn")
    assert audit(tmp_path)["total"]["spent"] == pytest.approx(dollars, abs=1e-9)


def test_a_session_partly_in_fast_mode_has_one_row_for_its_model(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Fix it.")
    session.answers("m1", model="claude-opus-4-8", usage=COUNTS)
    session.answers("m2", model="claude-opus-4-8", usage=COUNTS | {"speed": "fast"}, stop="end_turn")
    (model,) = audit(tmp_path)["by_model"]
    assert (model["requests"], model["spent"]) == (2, pytest.approx(0.24, abs=1e-9))


@pytest.mark.parametrize(
    ("model", "tier", "times"),
    [
        ("gpt-5", "priority", 2),
        ("gpt-5-mini", "fast", 1.8),
        ("gpt-5-nano", "fast", 1),  # no price of its fast mode was published
        ("gpt-5.5", "fast", 2.5),
        ("gpt-5.5-pro", "fast", 1),
        ("gpt-6-astra", "ultrafast", 6),
        ("gpt-5", "flex", 1),
    ],
)
def test_fast_mode_of_codex_holds_until_it_is_changed(
    tmp_path: Path, model: str, tier: str, times: float
) -> None:
    session = CodexSession(tmp_path)
    session.line("turn_context", model=model)
    session.says("Fix it.")
    session.count(10_000, 0, 1_000)
    plain = audit(tmp_path)["total"]["spent"]
    session.line("event_msg", type="thread_settings_applied", thread_settings={"service_tier": tier})
    session.count(10_000, 0, 1_000)
    assert audit(tmp_path)["total"]["spent"] == pytest.approx(plain * (1 + times))
    session.line("event_msg", type="thread_settings_applied", thread_settings={"service_tier": None})
    session.count(10_000, 0, 1_000)
    assert audit(tmp_path)["total"]["spent"] == pytest.approx(plain * (2 + times))


def test_a_record_of_codex_names_its_tier(tmp_path: Path) -> None:
    session = CodexSession(tmp_path)
    session.says("Fix it.")
    usage = {"input_tokens": 10_000, "cached_input_tokens": 0, "output_tokens": 1_000}
    session.line("token_usage_record", response_id="r1", usage=usage, service_tier="priority")
    assert audit(tmp_path)["total"]["spent"] == pytest.approx(0.045)


def _writes(read: int, written: int) -> dict[str, Any]:
    """Usage of a client that asks for a cache of an hour."""
    return {
        "input_tokens": 0,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "cache_creation": {"ephemeral_1h_input_tokens": written},
        "output_tokens": 0,
    }


def test_a_cheaper_model_would_pay_for_an_hour_of_its_cache_too(tmp_path: Path) -> None:
    for name, model, written in (("s1", "claude-opus-4-8", 100_000), ("s2", "claude-haiku-4-5", 10)):
        session = ClaudeSession(tmp_path, name)
        session.says("Fix it.")
        session.answers(f"m-{name}", model=model, usage=_writes(0, written), stop="end_turn")
    (stake,) = audit(tmp_path)["verdict"]["unknown"]
    assert stake["dollars"] == pytest.approx(1.0 - 0.2)  # twice the price of input, of both


def test_a_session_that_stays_with_its_model_pays_for_an_hour_of_its_cache_too(tmp_path: Path) -> None:
    session = ClaudeSession(tmp_path)
    session.says("Fix it.")
    opus, haiku = "claude-opus-4-8", "claude-haiku-4-5"
    for number, (model, read, written) in enumerate(
        [(opus, 0, 100_000), (haiku, 0, 101_000), (opus, 100_000, 2_000), (opus, 102_000, 1_000)]
    ):
        session.answers(f"m{number}", model=model, usage=_writes(read, written), stop="end_turn")
    (saved,) = audit(tmp_path)["verdict"]["sure"]
    was = (100_000 + 2_000 + 1_000) * 10e-6 + 202_000 * 0.5e-6 + 101_000 * 2e-6
    stayed = (100_000 + 3 * 1_000) * 10e-6 + (100_000 + 101_000 + 102_000) * 0.5e-6
    assert saved["dollars"] == pytest.approx(was - stayed)


def test_a_rounded_count_makes_no_logged_cost_higher(tmp_path: Path) -> None:
    """Aider rounds the tokens; what it says of the cost does not depend on them."""
    tokens = "Tokens: 12k sent, 1.2k received."
    lines = ["# aider chat started at 2026-11-20 10:00:00", "> Main model: claude-sonnet-4-5", "#### fix it"]
    (tmp_path / ".aider.chat.history.md").write_text(
        "\n".join([*lines, f"> {tokens} Cost: $0.05 message, $0.05 session.", ""])
    )
    total = audit(tmp_path)["total"]
    assert (total["spent"], total["more_at_most"]) == (0.05, 0)
    (tmp_path / ".aider.chat.history.md").write_text("\n".join([*lines, f"> {tokens}", ""]))
    assert audit(tmp_path)["total"]["more_at_most"] == pytest.approx(50 * 15e-6)
