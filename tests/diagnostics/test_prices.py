"""Models without a price are told of, and those with half of one warned of."""

from pathlib import Path

import pytest

from pointsman.config import load
from pointsman.diagnostics import describe_check, diagnose
from pointsman.diagnostics.explained import half_priced, refused_by_price, unpriced
from pointsman.gateway.build import WatchedFile
from pointsman.vocabulary import ModelSpec
from support.limited import config_of

FULL = ModelSpec("full", "up", "f", input_per_million=1.0, output_per_million=2.0)
FREE = ModelSpec("free", "up", "g", input_per_million=0.0, output_per_million=0.0)
LOCAL = ModelSpec("local", "up", "l")
HALF = ModelSpec("half", "up", "h", input_per_million=1.0)
CACHED = ModelSpec("cached", "up", "c", cached_input_per_million=1.0)


@pytest.mark.parametrize(
    ("model", "is_unknown", "warning"),
    [
        (FULL, False, ""),
        (FREE, False, ""),
        (LOCAL, True, ""),  # nobody said it has a price
        (HALF, True, 'model "half" has no output_per_million, so its costs are unknown'),
        (
            CACHED,
            True,
            'model "cached" has no input_per_million and output_per_million, so its costs are unknown',
        ),
    ],
)
def test_which_prices_are_missing(model: ModelSpec, is_unknown: bool, warning: str) -> None:
    assert unpriced([model]) == ([model.name] if is_unknown else [])
    assert half_priced([model]) == ([warning] if warning else [])


CONFIG = """
[ledger]
path = "ledger.sqlite"
[upstreams.up]
base_url = "http://127.0.0.1:9/v1"
[models]
"""
PRICED = "m = { upstream = 'up', id = 'm', input_per_million = 0, output_per_million = 0 }"


@pytest.mark.parametrize(
    ("models", "line"),
    [
        (PRICED, "ok   prices: 1 models have a price"),
        ("m = { upstream = 'up', id = 'm' }", "note prices: unknown: m; reports leave their requests out"),
    ],
)
def test_the_doctor_names_what_has_no_price(tmp_path: Path, models: str, line: str) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIG + models, encoding="utf-8")
    checks = {check.name: describe_check(check) for check in diagnose(file, ask_upstreams=False)}
    assert checks["prices"].splitlines()[0] == line


@pytest.mark.parametrize(
    ("upstream", "id_", "hint"),
    [
        (
            "",
            "gpt-5-mini",
            'provider = "openai" under [upstreams.up]: prices and windows then come from the catalogue',
        ),
        ("", "claude-sonnet-4-5-20250929", 'provider = "anthropic" under [upstreams.up]: prices'),
        ("", "qwen3:8b", "set input_per_million and output_per_million"),  # a price of nobody's
        ('provider = ""', "gpt-5-mini", "set input_per_million"),  # said: nobody of the catalogue
        ('provider = "anthropic"', "gpt-5-mini", "set input_per_million"),
    ],
)
def test_behind_an_address_of_ones_own_the_hint_names_the_provider(
    tmp_path: Path, upstream: str, id_: str, hint: str
) -> None:
    file = tmp_path / "pointsman.toml"
    text = CONFIG.replace("[models]", f"{upstream}\n[models]") + f"m = {{ upstream = 'up', id = '{id_}' }}"
    file.write_text(text, encoding="utf-8")
    [check] = [check for check in diagnose(file, ask_upstreams=False) if check.name == "prices"]
    assert check.hint.startswith(hint)


def test_a_new_catalogue_is_noticed_as_a_new_configuration_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file, own = tmp_path / "pointsman.toml", tmp_path / "pointsman" / "models.json"
    file.write_text(
        CONFIG.replace("http://127.0.0.1:9", "https://api.openai.com") + "m = { upstream = 'up', id = 'x-1' }"
    )
    watch = WatchedFile(file, own)
    assert (watch.has_changed(), load(file).models["m"].context_window) == (False, None)
    own.parent.mkdir()
    own.write_text(
        '{"as_of": "2026-01-31", "models": [{"provider": "openai", "id": "x-1", "context_window": 7}]}'
    )
    assert (watch.has_changed(), watch.has_changed()) == (True, False)
    assert load(file).models["m"].context_window == 7


def test_a_model_that_a_budget_refuses_is_named_with_the_keys() -> None:
    key = f'sha256 = "{64 * "0"}"\n'
    other = f'sha256 = "{64 * "1"}"\n'
    budget = "budget = { money = 1 }\n"
    assert refused_by_price(config_of(f"[keys.a]\n{key}")) == []
    assert refused_by_price(config_of(f'[keys.a]\n{key}{budget}models = ["small"]')) == []
    assert refused_by_price(config_of(f"[keys.a]\n{key}{budget}[keys.b]\n{other}")) == [
        'the price of "dark" is unknown: it is refused for keys with a budget (a)'
    ]
