"""``pointsman models``: what is known, where it comes from, and a catalogue of one's own."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.config import load
from pointsman.errors import PointsmanError

CONFIG = """
[upstreams.openai]
base_url = "https://api.openai.com/v1"
[upstreams.proxy]
base_url = "https://llm.example.com/v1"
provider = "openai"
[upstreams.box]
base_url = "http://127.0.0.1:9/v1"
[models]
mini = { upstream = "openai", id = "gpt-5-mini" }
own = { upstream = "openai", id = "gpt-5", input_per_million = 1, output_per_million = 2 }
proxied = { upstream = "proxy", id = "gpt-5-mini" }
local = { upstream = "box", id = "gpt-5-mini" }
[models.dated]
upstream = "box"
id = "x"
input_per_million = 1
output_per_million = 2
prices_as_of = 2026-01-31
"""
LITELLM: dict[str, Any] = {
    "sample_spec": {"litellm_provider": "one of …", "max_output_tokens": "a number"},
    "gpt-5-mini": {
        "litellm_provider": "openai",
        "mode": "chat",
        "max_input_tokens": 300_000,
        "max_output_tokens": 1_000,
        "input_cost_per_token": 3e-07,
        "output_cost_per_token": 2.5e-06,
        "cache_read_input_token_cost": 0.0,
        "supports_vision": True,
    },
    "gemini/gemini-x": {"litellm_provider": "gemini", "mode": "chat", "max_input_tokens": 0},
    "tts-1": {"litellm_provider": "openai", "mode": "audio_speech", "input_cost_per_token": -1},
}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "pointsman" / "models.json"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIG, encoding="utf-8")
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["models", *map(str, arguments)])


def shown(config: Path, name: str) -> Any:
    result = run("show", name, "--config", config, "--json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def test_models_are_listed_with_what_is_unknown(config: Path) -> None:
    lines = run("list", "--config", config).stdout.splitlines()
    assert lines[1].split()[:3] == ["mini", "gpt-5-mini", "openai"]
    assert "400,000" in lines[1]
    assert lines[5].split()[-1] == "2026-01-31"
    assert lines[4].split()[-6:] == ["unknown"] * 5 + ["-"]
    listed = json.loads(run("list", "--config", config, "--json").stdout)["models"]
    assert listed[3]["input_per_million"] is None


def test_each_value_says_where_it_comes_from(config: Path) -> None:
    own = shown(config, "own")
    assert own["input_per_million"] == {"value": 1.0, "origin": "configuration"}
    assert own["prices_as_of"] is None
    assert shown(config, "dated")["prices_as_of"] == {"value": "2026-01-31", "origin": "configuration"}
    assert own["cached_input_per_million"] is None
    assert own["context_window"]["origin"].startswith("catalogue of ")
    lines = run("show", "own", "--config", config).stdout
    assert "cached_input_per_million that of input" in lines
    assert "1 per million tokens" in lines
    assert ") configuration" in lines


def test_a_proxy_may_name_its_provider_and_a_local_server_has_no_price(config: Path) -> None:
    assert shown(config, "proxied")["input_per_million"]["value"] == 0.25
    assert shown(config, "local")["input_per_million"] is None


def test_an_unknown_model_is_named(config: Path) -> None:
    error = run("show", "none", "--config", config).exception
    assert isinstance(error, PointsmanError)
    assert error.message == 'no model "none"'
    assert error.hint.startswith("models here: mini, own, proxied, local, dated; pointsman models list --all")


def test_the_catalogue_is_shown_without_a_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One wants it before the models are chosen."""
    monkeypatch.chdir(tmp_path)
    everything = run("list", "--all")
    assert (everything.exit_code, everything.stdout.split()[:2]) == (0, ["provider", "id"])
    assert any(
        line.split()[:3] == ["openai", "gpt-5-mini", "400,000"] for line in everything.stdout.splitlines()
    )
    listed = json.loads(run("list", "--all", "--json").stdout)["models"]
    assert {"anthropic", "openai", ""} <= {each["provider"] for each in listed}
    lines = run("show", "claude-sonnet-4-5").stdout.splitlines()
    assert lines[0] == "claude-sonnet-4-5: of the catalogue; provider: anthropic"
    assert "200,000 tokens" in lines[1]
    [known] = json.loads(run("show", "qwen3:8b", "--json").stdout)["models"]
    assert (known["provider"], known["context_window"]["value"]) == ("", 32_768)
    for error in (run("list").exception, run().exception, run("show", "no-such").exception):
        assert isinstance(error, PointsmanError)
        assert "pointsman models list --all" in error.hint


def test_an_id_is_shown_beside_a_configuration_and_models_alone_lists(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("show", "claude-sonnet-4-5", "--config", config).stdout.startswith("claude-sonnet-4-5: of the")
    monkeypatch.chdir(config.parent)
    alone = run()
    assert (alone.exit_code, alone.stdout) == (0, run("list").stdout)


def test_an_origin_is_named_once_and_a_provider_that_is_missing_is_hinted_at(config: Path) -> None:
    lines = run("show", "local", "--config", config).stdout.splitlines()
    assert lines[-1].startswith('hint: provider = "openai" under [upstreams.box]')
    own = run("show", "own", "--config", config).stdout
    assert (own.count("LiteLLM"), own.count("(configuration)")) == (1, 0)
    assert "  (a) " in own
    assert "hint" not in own


def test_the_price_map_of_litellm_goes_before_what_is_shipped(config: Path, home: Path) -> None:
    source = config.with_name("prices.json")
    source.write_text(json.dumps(LITELLM), encoding="utf-8")
    result = run("update", "--from", source, "--as-of", "2026-10-01", "--json")
    printed = json.loads(result.stdout)
    assert printed == {"file": str(home), "models": 2, "priced": 1, "as_of": "2026-10-01"}
    mini = shown(config, "mini")
    assert mini["context_window"]["value"] == 300_000
    assert mini["input_per_million"]["value"] == 0.3
    assert mini["input_per_million"]["origin"].startswith("catalogue of 2026-10-01: prices.json")
    assert mini["cached_input_per_million"] is None  # a zero there is no price
    assert mini["cache_seconds"]["value"] == 3600.0  # from the one shipped
    assert load(config).models["mini"].output_per_million == 2.5


def test_a_catalogue_can_be_written_by_hand(config: Path) -> None:
    source = config.with_name("mine.json")
    models = [{"provider": "openai", "id": "gpt-5-mini", "context_window": 5}]
    source.write_text(json.dumps({"as_of": "2026-02-01", "origin": "me", "models": models}))
    assert run("update", "--from", source).exit_code == 0
    assert shown(config, "mini")["context_window"] == {"value": 5, "origin": "catalogue of 2026-02-01: me"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "neither a catalogue nor a price map"),
        ("{}", "neither a catalogue nor a price map"),
        ('{"as_of": "2026-01-31", "models": [{"input_per_million": 1}]}', "models[0]"),
        (
            json.dumps({"bad": {**LITELLM["gpt-5-mini"], "input_cost_per_token": -1e-6}}),
            '"bad": Expected `float` >= 0.0',
        ),
        (
            json.dumps({"bad": {**LITELLM["gpt-5-mini"], "output_cost_per_token": "1e-6"}}),
            '"bad": Expected `float | null`, got `str`',
        ),
        (json.dumps({"ok": LITELLM["gpt-5-mini"], "bad": 3}), '"bad" is not an object'),
    ],
)
def test_what_is_wrong_is_not_written(config: Path, home: Path, text: str, message: str) -> None:
    source = config.with_name("bad.json")
    source.write_text(text, encoding="utf-8")
    error = run("update", "--from", source).exception
    assert isinstance(error, PointsmanError)
    assert message in str(error)
    assert not home.exists()


def test_a_file_that_is_not_there_or_too_large(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cannot read" in str(run("update", "--from", config.with_name("none.json")).exception)
    monkeypatch.setattr("pointsman.catalogue._update.LARGEST", 10)
    assert "at most 10 bytes" in str(run("update", "--from", config).exception)
