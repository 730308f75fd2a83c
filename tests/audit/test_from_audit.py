"""From logs to a gateway: ``audit``, ``config init --from-audit``, ``config check``, one request decided."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from pointsman.audit.figures import Part, SessionFigures, Spent, Split
from pointsman.audit.money import LeftOut, Pricing, logged_models
from pointsman.cli import app
from pointsman.config import load
from pointsman.config.draft import PROVIDERS
from pointsman.errors import ConfigError, PointsmanError
from support.agent_logs import ClaudeSession, CodexSession
from support.servers import gateway

SONNET, HAIKU = "claude-sonnet-4-5", "claude-haiku-4-5"


@pytest.fixture(autouse=True)
def no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for provider in PROVIDERS:
        monkeypatch.delenv(provider.variable, raising=False)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def done(*words: str) -> str:
    ran = run(*words)
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    return ran.stdout


def home_of(folder: Path) -> Path:
    """Logs of two models of Anthropic, one of OpenAI and one without a price."""
    home = folder / "a home"
    session = ClaudeSession(home)
    for number, model in enumerate((SONNET, HAIKU, "my-own-model")):
        session.says(f"Mend part {number}.")
        session.answers(f"m{number}", model=model, stop="end_turn")
    codex = CodexSession(home)
    codex.says("Mend it.")
    codex.count()
    return home


def test_from_logs_to_a_decided_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary")
    home = home_of(tmp_path)
    changes = json.loads(done("audit", "--home", str(home), "--json"))["changes"]
    init = shlex.split(next(each for each in changes if "--shadow" in each["command"])["command"])
    first = init[1 : init.index("&&")]
    done(*first[: first.index("--shadow")])
    assert "no errors" in done("config", "check")
    file = tmp_path / "pointsman.toml"
    written = tomllib.loads(file.read_text())
    assert list(written["models"]) == [HAIKU, SONNET]
    assert written["models"][SONNET]["input_per_million"] == 3
    assert written["models"][SONNET]["cached_input_per_million"] == 0.3
    assert [written["tiers"][tier] for tier in ("simple", "medium", "complex", "reasoning")] == [
        HAIKU,
        HAIKU,
        SONNET,
        SONNET,
    ]
    assert "\n# By price: models of the logs, the cheapest first." in file.read_text()
    assert {written[part]["mode"] for part in ("guidance", "domains", "capabilities")} == {"observe"}
    assert "sk-canary" not in file.read_text()
    file.write_text(file.read_text().replace("port = 4747", "port = 0"))
    asked = {"model": "auto", "messages": [{"role": "user", "content": "Hello!"}]}
    with gateway(file) as running:
        decided = httpx.post(f"{running.url}/v1/decide", json=asked)
    assert decided.status_code == 200, decided.text
    assert decided.json()["decision"]["chain"][0] == HAIKU


def test_what_is_left_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    shown = done("config", "init", "--from-audit", "--home", str(home_of(tmp_path)))
    assert "left out: gpt-5, OPENAI_API_KEY is not set" in shown
    assert "left out: my-own-model, its price is unknown" in shown


def test_without_any_key_the_callers_own_credential_is_used(tmp_path: Path) -> None:
    """As of a subscription: of the provider that cost most."""
    home = home_of(tmp_path)
    done("config", "init", "--from-audit", "--home", str(home))
    config = load(tmp_path / "pointsman.toml")
    assert {name: spec.forward_auth for name, spec in config.upstreams.items()} == {"anthropic": True}
    assert "no errors" in done("config", "check")


def claude_and_codex(home: Path, opus: int) -> Path:
    """Logs of one session of each, with the output tokens of Claude's answer."""
    session = ClaudeSession(home)
    session.says("Mend it.")
    session.answers("m1", model=OPUS, stop="end_turn", usage={"output_tokens": opus})
    codex = CodexSession(home)
    codex.says("Mend it.")
    codex.count(1_000_000, 0, 10_000)
    return home


def test_a_shadow_model_beside_a_subscription(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of the shadow model does not take away the model that it is compared with."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    home = claude_and_codex(tmp_path / "home", 1_000_000)
    shown = done("config", "init", "--from-audit", "--home", str(home), "--shadow", "gpt-5")
    assert "left out" not in shown
    config = load(tmp_path / "pointsman.toml")
    assert {name: spec.forward_auth for name, spec in config.upstreams.items()} == {
        "openai": False,
        "anthropic": True,
    }
    tiers = [[entry.model for entry in pool] for pool in config.tiers.pools.values()]
    assert tiers == [["gpt-5"], ["gpt-5"], [OPUS], [OPUS]]
    assert config.shadow.model == "gpt-5"
    assert "no errors" in done("config", "check")


def test_a_shadow_model_needs_another_one_that_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    home = claude_and_codex(tmp_path / "home", 1)
    ran = run("config", "init", "--from-audit", "--home", str(home), "--shadow", "gpt-5")
    assert isinstance(ran.exception, ConfigError)
    assert ran.exception.message.startswith('"gpt-5" is the only model of the tiers')
    assert ran.exception.hint == "to have another model, set ANTHROPIC_API_KEY"
    assert not (tmp_path / "pointsman.toml").exists()


def test_the_address_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://llm.corp.example")
    done("config", "init", "--from-audit", "--home", str(home_of(tmp_path)))
    upstream = load(tmp_path / "pointsman.toml").upstreams["anthropic"]
    assert (upstream.base_url, upstream.provider) == ("https://llm.corp.example/v1", "anthropic")


def test_a_shadow_model_of_the_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    done("config", "init", "--from-audit", "--home", str(home_of(tmp_path)), "--shadow", HAIKU)
    shadow = load(tmp_path / "pointsman.toml").shadow
    assert (shadow.model, shadow.share) == (HAIKU, 0.05)


@pytest.mark.parametrize(
    ("key", "shadow", "said", "hint"),
    [
        (
            "ANTHROPIC_API_KEY",
            "gpt-5",
            '"gpt-5" cannot be asked in the background: OPENAI_API_KEY is not',
            "set OPENAI_API_KEY",
        ),
        (
            "ANTHROPIC_API_KEY",
            "gpt-7",
            '--shadow names an unknown model "gpt-7"',
            f"models: {HAIKU}, {SONNET}",
        ),
        ("", HAIKU, "with the credential of a caller", "set ANTHROPIC_API_KEY"),
    ],
)
def test_a_shadow_model_that_cannot_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, shadow: str, said: str, hint: str
) -> None:
    if key:
        monkeypatch.setenv(key, "x")
    ran = run("config", "init", "--from-audit", "--home", str(home_of(tmp_path)), "--shadow", shadow)
    assert isinstance(ran.exception, ConfigError)
    assert said in ran.exception.message
    assert (ran.exception.hint or "") == hint
    assert not (tmp_path / "pointsman.toml").exists()


def test_the_draft_for_keys_takes_a_shadow_model_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    said = done("config", "init", "--shadow", "haiku")
    assert '[ledger] text and [shadow] text are "redacted"' in said
    config = load(tmp_path / "pointsman.toml")
    assert (config.shadow.model, config.shadow.text, config.ledger.text) == ("haiku", "redacted", "redacted")
    done("config", "init", "--force")
    config = load(tmp_path / "pointsman.toml")
    assert (config.shadow.model, config.shadow.text, config.ledger.text) == (None, "off", "off")


def test_logs_that_are_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    row = {"request_id": "r1", "model": "gpt-5", "startTime": "2026-11-20T10:00:00Z", "spend": 0.1}
    counts = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    rows = [row | counts | {"call_type": "acompletion"}]
    export = tmp_path / "spend logs.json"
    export.write_text(json.dumps(rows))
    done("config", "init", "--from-audit", "--logs", str(export))
    assert list(load(tmp_path / "pointsman.toml").models) == ["gpt-5"]


def test_logs_are_named_for_an_audit_alone() -> None:
    ran = run("config", "init", "--home", ".")
    assert isinstance(ran.exception, PointsmanError)
    assert ran.exception.message == "--home and --logs are for --from-audit"


def of(*parts: tuple[str, str, int]) -> SessionFigures:
    made = (
        Part(
            Split("2026-11-20", model, provider, "message"),
            Spent(requests=1, input_tokens=size, output_tokens=9),
        )
        for provider, model, size in parts
    )
    return SessionFigures(id="s", client="opencode", parts=tuple(made))


OPUS = "claude-opus-5-5"
LADDERS: list[tuple[list[str], list[str]]] = [
    ([SONNET], [SONNET] * 4),
    ([SONNET, HAIKU], [HAIKU, HAIKU, SONNET, SONNET]),
    ([OPUS, SONNET, HAIKU], [HAIKU, SONNET, SONNET, OPUS]),
    ([OPUS, SONNET, HAIKU, "gpt-5"], [HAIKU, "gpt-5", SONNET, OPUS]),
]


@pytest.mark.parametrize(("models", "tiers"), LADDERS, ids=lambda names: str(len(names)))
def test_tiers_are_ordered_by_price(models: list[str], tiers: list[str]) -> None:
    found = logged_models([of(*(("", model, 1_000) for model in models))], Pricing())
    assert list(found.tiers) == tiers


def test_a_model_of_two_providers_is_one_model() -> None:
    found = logged_models([of(("anthropic", SONNET, 10), ("", SONNET, 10))], Pricing())
    assert [model.name for each in found.found for model in each.models] == [SONNET]
    assert found.names == {("anthropic", SONNET): SONNET, ("", SONNET): SONNET}


@pytest.mark.parametrize(
    ("provider", "model", "why"),
    [
        ("", "my-own-model", "its price is unknown"),
        ("", "claude-sonnet-4-5\x1b[2J", "its price is unknown"),
        ("", "", "its price is unknown"),
        ("deepseek", "deepseek-v4-pro", "no address of deepseek is known; add [upstreams.NAME]"),
    ],
)
def test_a_model_that_no_configuration_can_have(provider: str, model: str, why: str) -> None:
    with pytest.raises(PointsmanError, match="name no model that a configuration can have"):
        logged_models([of((provider, model, 10))], Pricing())
    found = logged_models([of((provider, model, 10), ("", SONNET, 10))], Pricing())
    assert found.left_out == {model or "(not named)": LeftOut(why)}


def test_a_name_that_toml_must_quote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    session: Any = ClaudeSession(tmp_path)
    session.says("Mend it.")
    session.answers("m", model="gemini-2.5-pro", stop="end_turn")
    done("config", "init", "--from-audit", "--home", str(tmp_path))
    assert list(load(tmp_path / "pointsman.toml").models) == ["gemini-2.5-pro"]
