"""``pointsman config``: check, show, init."""

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.config import examine, load
from pointsman.config.draft import PROVIDERS, Found, ModelDraft
from pointsman.errors import ConfigError
from support.servers import gateway, state_for

GOOD = """\
[upstreams.main]
base_url = "https://llm.example.com/v1"
api_key = "${MAIN_API_KEY}"
[models]
small = { upstream = "main", id = "s", input_per_million = 0.5, output_per_million = 2.5 }
"my.model" = { upstream = "main", id = "m", features = ["tools"] }
[server]
keys = ["${MAIN_API_KEY}"]
[guidance]
mode = "on"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    # Named: one that is only found needs trust.
    monkeypatch.setenv("POINTSMAN_CONFIG", str(tmp_path / "pointsman.toml"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("MAIN_API_KEY", "canary")
    monkeypatch.setattr("pointsman.cli.config.find_local", list)
    for provider in PROVIDERS:
        monkeypatch.delenv(provider.variable, raising=False)
        monkeypatch.delenv(provider.address_variable or "none", raising=False)
    (tmp_path / "pointsman.toml").write_text(GOOD)
    return tmp_path / "pointsman.toml"


def run(*args: str) -> Result:
    return CliRunner().invoke(app, ["config", *args])


def test_check_of_a_right_file(file: Path) -> None:
    result = run("check")
    assert (result.exit_code, result.output.splitlines()[0]) == (0, f"{file}: no errors")
    shown = json.loads(run("check", "--json").stdout)
    assert (shown["file"], shown["ok"], shown["errors"]) == (str(file), True, [])


def test_check_says_which_clients_will_work(file: Path) -> None:
    """Without tiers none does; that is no error of the file."""
    assert "Codex             does not work: [tiers] names no model\n" in run("check").output
    file.write_text(GOOD + "[tiers]\nsimple = 'small'\n")
    assert (
        "Codex             configured, not tried: responses, as the upstream speaks it\n"
        in run("check").output
    )
    [codex] = [
        client
        for client in json.loads(run("check", "--json").stdout)["clients"]
        if client["client"] == "Codex"
    ]
    assert codex == {
        "client": "Codex",
        "format": "responses",
        "fits": True,
        "detail": "responses, as the upstream speaks it",
        "hint": "",
        "warning": "",
        "refused": [],
    }


def test_check_tells_every_mistake_with_the_way_out(file: Path) -> None:
    file.write_text("[guidance]\nmode = 'onn'\n[domain]\nkey = '${NO}'\n")
    result = run("check")
    assert result.exit_code == 1
    assert 'pointsman.toml:2: "mode" in [guidance] must be one of' in result.stderr
    assert 'pointsman.toml:3: unknown key "domain"; did you mean "domains"?' in result.stderr
    errors = json.loads(run("check", "--json").stdout)["errors"]
    assert [error["place"] for error in errors] == [f"{file}:2", f"{file}:3"]
    file.write_text("[upstreams.a]\nbase_url = 'http://a'\napi_key = '${NO_SUCH}'\n")
    assert "  hint: export NO_SUCH=…" in run("check").stderr


def test_without_a_file_the_way_out_is_init(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POINTSMAN_CONFIG")
    file.unlink()
    result = run("check")
    assert isinstance(result.exception, ConfigError)
    assert result.exception.hint == "pointsman config init writes one; pointsman serve --demo needs none"


def test_show_prints_what_takes_effect_and_no_key(file: Path) -> None:
    result = run("show")
    assert result.exit_code == 0
    assert "canary" not in result.output
    shown = tomllib.loads(result.output)
    assert shown["upstreams"]["main"]["api_key"] == "${MAIN_API_KEY}"
    assert shown["models"]["my.model"]["features"] == ["tools"]
    assert shown["guidance"]["mode"] == "on"
    assert shown["ledger"]["text"] == "off"  # a default
    assert json.loads(run("show", "--json").stdout) == shown


def test_what_show_prints_means_the_same(file: Path) -> None:
    before = examine(file).config
    again = file.with_name("again.toml")
    again.write_text(run("show").output)
    after = examine(again).config
    assert before is not None
    assert after is not None
    for part in ("upstreams", "models", "tiers", "guidance", "domains", "server", "ledger", "sessions"):
        assert getattr(before, part) == getattr(after, part)


def test_show_of_a_wrong_file_is_its_first_mistake(file: Path) -> None:
    file.write_text("[guidance]\nmode = 1\n")
    result = run("show")
    assert isinstance(result.exception, ConfigError)
    assert result.exception.place == f"{file}:2"


def test_init_writes_a_file_that_passes_check(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    file.unlink()
    result = run("init")
    assert result.exit_code == 0
    assert "wrote pointsman.toml: " in result.output
    assert "anthropic" in result.output
    assert run("check").exit_code == 0
    assert "canary" not in file.read_text()


@pytest.mark.parametrize(
    ("key", "options", "written"),
    [
        ("", [], "ollama"),  # nothing else to ask
        ("canary", [], "openai"),
        ("canary", ["--local"], "openai, ollama"),
    ],
)
def test_init_looks_for_local_servers(
    file: Path, monkeypatch: pytest.MonkeyPatch, key: str, options: list[str], written: str
) -> None:
    found = Found("ollama", "http://127.0.0.1:11434/v1", ("chat",), (ModelDraft("ollama", "x", (0, 0)),))
    monkeypatch.setattr("pointsman.cli.config.find_local", lambda: [found])
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert f"wrote pointsman.toml: {written}\n" in run("init", "--force", *options).output


@pytest.mark.parametrize(
    ("name", "given", "base_url"),
    [
        ("openai", "https://llm.corp.example/openai/", "https://llm.corp.example/openai"),
        ("anthropic", "https://llm.corp.example", "https://llm.corp.example/v1"),
        ("anthropic", "https://llm.corp.example/v1", "https://llm.corp.example/v1"),
        ("openai", "https://me:canary-word@llm.corp.example/v1", "https://llm.corp.example/v1"),
    ],
)
def test_init_takes_the_address_of_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, given: str, base_url: str
) -> None:
    """A company's endpoint: its key and its prompts do not leave for the public API."""
    monkeypatch.setenv(f"{name.upper()}_API_KEY", "canary")
    monkeypatch.setenv(f"{name.upper()}_BASE_URL", given)
    said = run("init", "--force").output
    assert f"{name}: base_url is that of {name.upper()}_BASE_URL; formats must be those" in said
    assert f"# base_url is that of {name.upper()}_BASE_URL" in file.read_text()
    assert "canary-word" not in said + file.read_text()
    assert ("its user name and password are left out" in said) is ("@" in given)
    config = load(file)
    assert config.upstreams[name].base_url == base_url
    assert all(model.is_priced for model in config.models.values()), "by the provider's catalogue"
    assert run("check").exit_code == 0


@pytest.mark.parametrize(
    "given",
    [
        "me:canary-word@llm.corp.example/v1",
        "https://me:canary-word@llm.corp.example:99999/v1",
        "https://llm.corp.example/v1?key=canary-word",
        "https://llm.corp.example/v1#canary-word",
        "ftp://me:canary-word@llm.corp.example",
    ],
)
@pytest.mark.parametrize("name", ["OPENAI", "ANTHROPIC"])
def test_init_writes_no_address_that_cannot_be_one(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, given: str
) -> None:
    monkeypatch.setenv(f"{name}_API_KEY", "canary")
    monkeypatch.setenv(f"{name}_BASE_URL", given)
    before = file.read_text() if file.exists() else None
    error = str(run("init", "--force").exception)
    assert error.startswith(
        f"{name}_BASE_URL must be an http or https address without query and fragment; "
        f"as in {name}_BASE_URL=https"
    )
    assert "canary-word" not in error
    assert (file.read_text() if file.exists() else None) == before


@pytest.mark.parametrize("given", ["http://127.0.0.1:4747", "http://localhost:4747/v1"])
def test_init_ignores_the_address_of_this_gateway(
    file: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """An agent that runs behind a gateway has it in its environment."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", given)
    said = run("init", "--force").output
    assert "anthropic: ANTHROPIC_BASE_URL is not used: it is the address of a Pointsman gateway\n" in said
    assert load(file).upstreams["anthropic"].base_url == "https://api.anthropic.com/v1"


def test_init_ignores_the_address_of_a_gateway_that_runs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any port: that of `pointsman claude` is a free one."""
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    with gateway(state_for()) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.url}/v1")
        said = run("init", "--force").output
    assert "openai: OPENAI_BASE_URL is not used" in said


def test_init_names_the_file_in_what_comes_next(file: Path) -> None:
    said = run("init", "-o", "other.toml").output
    next_ = "next: pointsman config check --config other.toml && pointsman serve --config other.toml\n"
    assert said.endswith(next_)
    assert "no API key and no model server was found" in said


def test_init_names_the_keys_that_it_does_not_use(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has one is not told that there is none."""
    monkeypatch.setenv("MISTRAL_API_KEY", "canary")
    monkeypatch.setenv("GOOGLE_API_KEY", "canary")
    monkeypatch.setenv("STRIPE_API_KEY", "canary")  # of no model
    said = run("init", "--force").output
    assert "no usable API key and no model server was found" in said
    assert "not used: GOOGLE_API_KEY, MISTRAL_API_KEY; add [upstreams.NAME]" in said
    assert 'for Gemini: export GEMINI_API_KEY="$GOOGLE_API_KEY"' in said
    assert "canary" not in said + file.read_text(encoding="utf-8")
    monkeypatch.setenv("GEMINI_API_KEY", "canary")  # Google's SDKs read either
    said = run("init", "--force").output
    assert "not used: MISTRAL_API_KEY;" in said
    assert "GOOGLE" not in said


def test_init_replaces_nothing_unasked(file: Path) -> None:
    result = run("init")
    assert isinstance(result.exception, ConfigError)
    assert file.read_text() == GOOD
    assert run("init", "--force").exit_code == 0
    assert file.read_text() != GOOD


def test_init_to_standard_output(file: Path) -> None:
    result = run("init", "-o", "-")
    assert result.exit_code == 0
    assert "[tiers]" in result.output
    assert file.read_text() == GOOD


def test_check_says_what_a_model_that_cannot_be_asked_needs(file: Path) -> None:
    responses = GOOD.replace("[models]", 'formats = ["responses"]\n[models]')
    file.write_text(responses + "[tiers]\nverify = { model = 'small' }\n")
    said = run("check").stderr
    assert "its upstream speaks neither chat nor messages\n" in said
    assert (
        '  hint: a second [upstreams.NAME] with formats = ["chat"], and a model of it, can be asked\n' in said
    )


def test_check_warns_of_what_falls_to_a_lower_tier(file: Path) -> None:
    file.write_text(GOOD + "[tiers]\ncomplex = 'small'\n")
    assert "warning: " in run("check").stderr
    told = ["no model is configured for REASONING: a lower tier serves"]
    shown = run("check", "--json")
    assert (shown.exit_code, json.loads(shown.stdout)["warnings"]) == (0, told)
    file.write_text(GOOD + "[tiers]\nreasoning = 'small'\n")
    assert run("check").stderr == ""


def test_check_warns_of_half_a_price(file: Path) -> None:
    file.write_text(GOOD.replace(", output_per_million = 2.5", "") + "[tiers]\nreasoning = 'small'\n")
    warned = 'model "small" has no output_per_million, so its costs are unknown'
    assert run("check").stderr == f"warning: {warned}\n"
    assert json.loads(run("check", "--json").stdout)["warnings"] == [warned]
