"""``pointsman explain`` shows what fired, what it weighed, and what would have changed it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.config import load
from pointsman.decision.memory import Memory
from pointsman.errors import ConfigError, PointsmanError, UnknownModel
from pointsman.factory import build_runtime
from pointsman.runtime import encode_memory
from pointsman.stores.sessions import SqliteSessions
from pointsman.wire.request import request_from_text

CONFIGURATION = """\
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
api_key = "${NOT_SET}"
[models]
small = { upstream = "main", id = "small-1", input_per_million = 1, output_per_million = 2 }
large = { upstream = "main", id = "large-3" }
[tiers]
simple = "small"
medium = "small"
complex = "small"
reasoning = "large"
[domains]
mode = "on"
[sessions]
store = "sqlite"
path = "sessions.sqlite"
[ledger]
path = "ledger.sqlite"
"""
PROMPT = "prove step by step that there are infinitely many primes"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no configuration is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POINTSMAN_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "gateway.toml"
    file.write_text(CONFIGURATION)
    return file


def served(*args: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(explain(*args, "--json"))["served"]
    return found


def explain(*args: str, stdin: str = "") -> str:
    result = CliRunner().invoke(app, ["explain", *args], input=stdin, env={"COLUMNS": "110"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_person_sees_tier_stage_weights_and_the_way_to_another_tier() -> None:
    shown = explain(PROMPT, "--profile", "seed")
    assert shown.startswith("REASONING  score 0.090, confidence 0.85\n")
    assert "decided by an override, profile seed\n" in shown
    assert PROMPT in shown
    assert "reasoningMarkers" in shown
    assert "prove, step by step" in shown
    assert "+0.170" in shown
    assert "without “prove”" in shown


def test_json_has_every_dimension_and_they_sum_to_the_score() -> None:
    shown = json.loads(explain(PROMPT, "--json", "--profile", "seed"))
    assert len(shown["contributions"]) == 15
    total = sum(part["contribution"] for part in shown["contributions"])
    assert abs(total - shown["decision"]["score"]) < 1e-9
    assert shown["changes"][0] == {"tier": "MEDIUM", "without": ["prove"], "tokens": 0, "why": ""}


def test_the_prompt_may_come_from_standard_input() -> None:
    shown = json.loads(explain("-", "--json", stdin="<system-reminder>use json</system-reminder>\nHello!"))
    assert shown["text"] == "Hello!"
    assert shown["extraction"] == ["tag:system-reminder"]


@pytest.mark.parametrize("prompt", ["", " \n", "\udcff\udcfe bytes that were no UTF-8"])
def test_a_prompt_without_words_and_one_of_odd_bytes(prompt: str) -> None:
    """Standard input that is not UTF-8 arrives as half surrogates."""
    shown = json.loads(explain(prompt, "--json"))
    assert shown["decision"]["tier"] == "MEDIUM"
    assert "\n\n\n" not in explain(prompt)


def test_markup_in_a_prompt_is_text() -> None:
    assert "[bold]hi[/] [red]" in explain("[bold]hi[/] [red]")


def test_a_configuration_decides_as_the_gateway_would(file: Path) -> None:
    """The same policy, from the same file."""
    for prompt in ("Hello!", PROMPT, "refactor the parser and fix the failing tests"):
        shown = served(prompt, "--config", str(file))
        runtime = build_runtime(load(file, {"NOT_SET": "x"}))
        decision = runtime.decide_sync(request_from_text(prompt))
        runtime.close()
        assert decision.tier is not None
        assert (shown["tier"], shown["chain"]) == (decision.tier.tier, list(decision.chain))
        assert shown["injections"] == [each.source for each in decision.injections]


def test_it_ends_with_tier_model_upstream_and_price(file: Path) -> None:
    ending = explain("Hello!", "--config", str(file)).splitlines()[-4:]
    assert ending == [
        f"With {file}, for model auto:",
        "  tier      SIMPLE, decided by the weighted score",
        "  model     small: small-1 at upstream main",
        "  price     about 0.001012, for 12 tokens in and 500 out",
    ]


def test_what_serves_comes_first_and_the_rules_are_named_as_such(file: Path) -> None:
    lines = explain("Hello", "--config", str(file), "--model", "complex").splitlines()
    assert lines[0].endswith(" at upstream main; tier COMPLEX, asked for by name")
    assert lines[2].startswith("by the rules: SIMPLE  score ")
    assert explain("Hello").startswith("SIMPLE  score ")  # nothing else is known without a configuration


def test_a_change_names_the_rule_that_gives_the_tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the greeting the score is still below the boundary: the score alone would say SIMPLE."""
    monkeypatch.chdir(tmp_path)
    shown = explain("Hello")
    rule = "no keyword was found, so it is not taken to be simple"
    assert f"  without the pattern of simple: MEDIUM ({rule})\n" in shown
    [line] = [line for line in shown.splitlines() if line.startswith("simple ")]
    assert "(pattern)" in line


def test_the_parameters_of_the_tier_are_shown(file: Path) -> None:
    given = '{ model = "large", effort = "high", max_tokens = 4096 }'
    file.write_text(CONFIGURATION.replace('reasoning = "large"', f"reasoning = {given}"))
    assert "  with      effort=high, max_tokens=4096\n" in explain(PROMPT, "--config", str(file))
    assert served(PROMPT, "--config", str(file))["parameters"] == {"effort": "high", "max_tokens": 4096}
    assert served("Hello!", "--config", str(file))["parameters"] is None


def test_a_request_that_would_be_refused(file: Path) -> None:
    file.write_text(CONFIGURATION.replace('id = "large-3"', 'id = "large-3", context_window = 10'))
    shown = explain("Why? " * 100, "--config", str(file), "--model", "large")
    assert "  model     none: no model can serve this request\n" in shown
    assert "do not fit its context window of 10" in shown


def test_an_unknown_price_is_unknown(file: Path) -> None:
    shown = explain(PROMPT, "--config", str(file))
    assert "  model     large: large-3 at upstream main\n  price     unknown, for" in shown
    assert served(PROMPT, "--config", str(file))["price"] is None


def test_the_model_asked_for(file: Path) -> None:
    shown = served("Hello!", "--config", str(file), "--model", "large")
    assert (shown["tier"], shown["model"], shown["requested"]) == (None, "large", "large")
    assert served("Hello!", "--config", str(file), "--model", "reasoning")["stage"] == "forced"
    assert "tier      the model asked for by name" in explain("Hi", "--config", str(file), "--model", "small")
    result = CliRunner().invoke(app, ["explain", "Hello!", "--config", str(file), "--model", "lrge"])
    assert isinstance(result.exception, UnknownModel)


def test_a_name_that_an_alias_resolves(file: Path) -> None:
    """As the gateway resolves it: a small model of a client asks for the cheapest tier."""
    shown = served(PROMPT, "--config", str(file), "--model", "claude-haiku-4-5")
    assert (shown["tier"], shown["model"]) == ("SIMPLE", "small")
    assert "routing.alias" in explain(PROMPT, "--config", str(file), "--model", "claude-haiku-4-5")


def test_what_the_tier_sets_of_the_request(file: Path) -> None:
    tier = 'reasoning = { model = "large", effort = "high", max_tokens = 9000 }'
    file.write_text(CONFIGURATION.replace('reasoning = "large"', tier))
    assert "  with      effort" in explain(PROMPT, "--config", str(file))
    assert "  with      " not in explain("Hello!", "--config", str(file))


def test_a_configuration_here_is_used_unless_a_profile_is_named(file: Path) -> None:
    assert "With pointsman" not in explain("Hello!")
    file.rename(file.with_name("pointsman.toml"))
    assert isinstance(CliRunner().invoke(app, ["explain", "x"]).exception, ConfigError)  # not yet trusted
    assert CliRunner().invoke(app, ["trust"]).exit_code == 0
    assert "small-1 at upstream main" in explain("Hello!")
    assert "small-1 at upstream main" not in explain("Hello!", "--profile", "default")
    result = CliRunner().invoke(app, ["explain", "x", "--profile", "seed", "--config", "pointsman.toml"])
    assert isinstance(result.exception, PointsmanError)
    file.with_name("pointsman.toml").write_text("[tires]\n")
    assert isinstance(CliRunner().invoke(app, ["explain", "x"]).exception, ConfigError)


def test_the_memory_of_a_session(file: Path) -> None:
    """A conversation is not taken from a more expensive model within a tool loop, nor for a small saving."""
    store = SqliteSessions(file.with_name("sessions.sqlite"))
    store.put("known", encode_memory(Memory(model="large", turns=3)))
    store.close()
    alone, known = (
        [reason["code"] for reason in served("Hello!", "--config", str(file), "--session", name)["reasons"]]  # type: ignore[attr-defined]
        for name in ("new", "known")
    )
    assert known != alone
    file.write_text(CONFIGURATION.replace('store = "sqlite"\npath = "sessions.sqlite"', ""))
    result = CliRunner().invoke(app, ["explain", "x", "--config", str(file), "--session", "known"])
    assert isinstance(result.exception, PointsmanError)
    assert 'store = "sqlite"' in result.exception.hint


def test_a_model_that_would_be_asked_is_named(file: Path) -> None:
    verify = '[tiers]\nverify = { model = "small", margin = 1.0 }\n'
    file.write_text(CONFIGURATION.replace("[tiers]\n", verify))
    shown = explain("refactor the parser and fix the failing tests", "--config", str(file))
    assert "the gateway would ask small first" in shown


def test_without_tiers_there_is_no_model(file: Path) -> None:
    file.write_text(
        CONFIGURATION.replace("[tiers]", "[tiers.verify]\nmodel = 'small'\n[x]").split("[tiers.")[0]
    )
    assert "  model     none: no tier has a model" in explain("Hello!", "--config", str(file))
