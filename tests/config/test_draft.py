"""What ``config init`` writes is right as it stands, for whatever the environment holds."""

import re
from itertools import combinations
from pathlib import Path

import pytest

from pointsman.config import examine
from pointsman.config.draft import PROVIDERS, Found, ModelDraft, draft, find_providers
from pointsman.diagnostics import judge_clients

AGENTS = {"Claude Code", "Codex", "opencode", "Qwen Code", "Cline"}
VARIABLES = [provider.variable for provider in PROVIDERS]


@pytest.mark.parametrize("names", [[], *([name] for name in VARIABLES), VARIABLES])
def test_the_draft_loads_and_nothing_changes_a_prompt(tmp_path: Path, names: list[str]) -> None:
    env = dict.fromkeys(names, "canary")
    file = tmp_path / "pointsman.toml"
    text = draft(find_providers(env))
    file.write_text(text)
    loaded = examine(file, env)
    assert loaded.errors == []
    assert loaded.config is not None
    assert len(loaded.config.upstreams) == max(1, len(names))
    assert len(loaded.config.tiers.models) == 4
    modes = (loaded.config.guidance.mode, loaded.config.domains.mode, loaded.config.capabilities.mode)
    assert modes == ("observe", "observe", "observe")
    assert "canary" not in text
    works = {verdict.client.name for verdict in judge_clients(loaded.config) if verdict.fits}
    assert works == {"curl", "OpenAI SDK, chat", "OpenAI SDK", "Anthropic SDK", "aider", *AGENTS}


@pytest.mark.parametrize("names", [[], *([name] for name in VARIABLES), VARIABLES])
def test_the_commented_lines_load_too(tmp_path: Path, names: list[str]) -> None:
    env = dict.fromkeys(names, "x")
    written = draft(find_providers(env))
    text = re.sub(
        r'^# (verify  =|keys|share|model  |\[shadow\]|"my|"\*")', r"\1", written, flags=re.MULTILINE
    )
    assert len(text) == len(written) - 2 * (7 if "# verify  =" in written else 6)
    file = tmp_path / "pointsman.toml"
    file.write_text(text)
    assert examine(file, {"POINTSMAN_KEY": "x", **env}).errors == []


@pytest.mark.parametrize("names", list(combinations(VARIABLES, 2)))
def test_with_two_keys_each_provider_is_the_others_fallback(tmp_path: Path, names: tuple[str, str]) -> None:
    env = dict.fromkeys(names, "x")
    found = find_providers(env)
    file = tmp_path / "pointsman.toml"
    file.write_text(draft(found))
    config = examine(file, env).config
    assert config is not None
    for tier, entries in config.tiers.pools.items():
        served_by = [config.models[entry.model].upstream for entry in entries]
        assert sorted(served_by) == sorted(each.name for each in found), tier


def test_lower_tiers_begin_with_the_cheapest_and_higher_ones_with_the_most_expensive() -> None:
    """By the prices of the catalogue; what runs on this machine is free."""
    local = Found("ollama", "http://127.0.0.1:1/v1", ("chat",), (ModelDraft("ollama", "x", (0.0, 0.0)),))
    text = draft([*find_providers({"GEMINI_API_KEY": "x", "ANTHROPIC_API_KEY": "x"}), local])
    assert 'simple    = ["ollama", "haiku", "flash-lite"]\n' in text
    assert 'complex   = ["sonnet", "flash", "ollama"]\n' in text


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_the_catalogue_knows_every_model_that_is_drafted(tmp_path: Path, provider: Found) -> None:
    """Its price and its window, so that the file need not say them; and it can call tools."""
    file = tmp_path / "pointsman.toml"
    text = draft([provider])
    file.write_text(text)
    config = examine(file, {provider.variable: "x"}).config
    assert config is not None
    assert "_per_million =" not in text
    for model in config.models.values():
        assert model.input_per_million is not None, model.name
        assert model.output_per_million is not None, model.name
        assert model.context_window is not None, model.name
        assert "tools" in (model.features or ()), model.name


def test_a_model_that_verifies_can_be_asked_and_does_not_think_first() -> None:
    """OpenAI has none left; Haiku 5.5 and Gemini 3 may think unless told otherwise."""
    for provider in PROVIDERS:
        written = draft([provider])
        assert ("# verify  =" in written) == (provider.verifier is not None)
        if provider.verifier:
            assert re.search("haiku-4-5|2.5-flash-lite", provider.verifier.id)
            assert {"chat", "messages"} & set(provider.formats)


def test_what_a_server_calls_its_models_is_quoted(tmp_path: Path) -> None:
    local = Found("here", "http://127.0.0.1:1/v1", ("chat",), (ModelDraft("here", 'qwen"3:8b'),))
    file = tmp_path / "pointsman.toml"
    file.write_text(draft([local]))
    config = examine(file, {}).config
    assert config is not None
    assert config.models["here"].id == 'qwen"3:8b'
