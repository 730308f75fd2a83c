"""The table [capabilities]: what it makes of the policy, and what is wrong with it."""

import json
from pathlib import Path

import pytest

from pointsman.capabilities import CapabilityPolicy, OnFailure, Strategy
from pointsman.config import AnyKey, examine, load
from pointsman.config.edit import as_toml, plain
from pointsman.errors import ConfigError
from pointsman.factory import build_policy
from pointsman.vocabulary import Mode

MODELS = """\
[upstreams.up]
base_url = "http://127.0.0.1:9/v1"
[upstreams.theirs]
base_url = "http://127.0.0.1:9/v1"
forward_auth = true
[models]
small = { upstream = "up", id = "s" }
borrowed = { upstream = "theirs", id = "b" }
[tiers]
simple = "small"
"""
LISTED = [{"name": "mail", "instructions": "Read and send e-mail"}]


def policy(directory: Path, table: str) -> CapabilityPolicy | None:
    (directory / "caps.json").write_text(json.dumps(LISTED))
    file = directory / "pointsman.toml"
    file.write_text(f"{MODELS}[capabilities]\n{table}\n")
    return build_policy(load(file, AnyKey())).capabilities


def test_nothing_is_selected_unasked(tmp_path: Path) -> None:
    assert policy(tmp_path, "") is None
    assert policy(tmp_path, 'strategy = "local"\nthreshold = 0.5') is None
    assert policy(tmp_path, 'mode = "off"\ntools = 3\nfile = "caps.json"') is None


@pytest.mark.parametrize(
    ("table", "mode"),
    [("tools = 3", Mode.ON), ('file = "caps.json"', Mode.ON), ('mode = "observe"\ntools = 3', Mode.OBSERVE)],
)
def test_tools_or_a_file_turn_it_on(tmp_path: Path, table: str, mode: Mode) -> None:
    found = policy(tmp_path, table)
    assert found is not None
    assert (found.mode, found.strategy) == (mode, Strategy.LOCAL)


def test_every_key_is_the_policys(tmp_path: Path) -> None:
    found = policy(
        tmp_path,
        """
        file = "caps.json"
        mode = "observe"
        strategy = "hybrid"
        model = "small"
        threshold = 0.3
        unsure = [0.2, 0.5]
        max_questions = 2
        timeout_ms = 900
        on_failure = "list"
        fallback = ["mail"]
        bypass = true
        always_active = ["run_shell"]
        """,
    )
    assert found is not None
    assert [each.name for each in found.registry.get_all_capabilities()] == ["mail"]
    assert (found.strategy, found.model, found.threshold, found.unsure) == (
        "hybrid",
        "small",
        0.3,
        (0.2, 0.5),
    )
    assert (found.max_questions, found.timeout_ms, found.on_failure) == (2, 900, OnFailure.LIST)
    assert (found.fallback, found.bypass, found.always_active) == (("mail",), True, ("run_shell",))


APPLICATION = """
from pointsman.capabilities import CapabilityRegistry, capability
from pointsman.orchestrator import Application

@capability("weather", "{guide}")
async def weather(step, results):
    return "snow"

application = Application(CapabilityRegistry([weather]))
"""


def test_an_application_names_the_capabilities(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APPLICATION.format(guide="Weather"))
    found = policy(tmp_path, 'application = "app.py"')
    assert found is not None
    assert [each.name for each in found.registry.get_all_capabilities()] == ["weather"]
    assert found.mode is Mode.ON
    assert load(tmp_path / "pointsman.toml", AnyKey()).capabilities.application == str(tmp_path / "app.py")
    (tmp_path / "app.py").write_text(APPLICATION.format(guide="The weather of a town"))
    changed = policy(tmp_path, 'application = "app.py"')
    assert changed is not None
    assert changed.registry.version != found.registry.version


def test_an_entry_point_names_the_capabilities(tmp_path: Path) -> None:
    named = 'application = "support.own_application:application"'
    found = policy(tmp_path, named)
    assert found is not None
    assert [each.name for each in found.registry.get_all_capabilities()] == ["weather"]
    assert policy(tmp_path, named.replace(":application", ":REGISTRY")) == found


def test_another_capability_is_another_policy(tmp_path: Path) -> None:
    versions = set()
    for instructions in ("Read mail", "Send mail"):
        policy(tmp_path, "")
        (tmp_path / "caps.json").write_text(json.dumps([{"name": "mail", "instructions": instructions}]))
        file = tmp_path / "pointsman.toml"
        file.write_text(f'{MODELS}[capabilities]\nfile = "caps.json"\n')
        versions.add(build_policy(load(file, AnyKey())).version())
    assert len(versions) == 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('file = "none.json"', "none.json does not exist"),
        ('money_per_day = 1\nmodel = "small"', 'the price of "small" is unknown'),
        ('application = "none.py"', "none.py: no such Python file"),
        ('application = "app"', '"app" names no application'),
        ('application = "no.such:app"', 'cannot import "no.such": ModuleNotFoundError'),
        ('application = "json:no"', '"json" has no "no"'),
        ('application = "json:dumps"', '"json:dumps" is no application: a function'),
        ('application = "json:dumps"\nfile = "caps.json"', "`file` names capabilities too"),
        ('calibration = "caps.json"', "not JSON"),
        ('strategy = "hybrid"', 'strategy "hybrid" asks a model, and none is named'),
        ('strategy = "llm"\nmodel = "smal"', 'unknown model "smal"; did you mean "small"'),
        ('model = "borrowed"', '"borrowed" cannot serve here'),
        ("unsure = [0.9, 0.1]", "the unsure band must be two probabilities"),
        ("threshold = 2", '"threshold" in [capabilities] must be a number from 0 to 1, not 2'),
        ('strategy = "loca"', 'did you mean "local"'),
        ('fallback = ["mail"]', "`fallback` counts only with another policy"),
        ('on_failures = "all"', 'unknown key "on_failures" in [capabilities]; did you mean "on_failure"'),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, table: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        policy(tmp_path, table)
    line = MODELS.count("\n") + 2
    assert message in str(caught.value)
    assert f"pointsman.toml:{line}" in str(caught.value) or f"pointsman.toml:{line + 1}" in str(caught.value)


def test_the_table_is_shown_as_it_is_read(tmp_path: Path) -> None:
    table = 'tools = 3\nstrategy = "llm"\nmodel = "small"\nunsure = [0.2, 0.5]\nalways_active = ["run"]'
    policy(tmp_path, table)
    loaded = examine(tmp_path / "pointsman.toml", AnyKey())
    assert loaded.file is not None
    shown = as_toml(plain(loaded.file))
    again = examine(tmp_path / "pointsman.toml", AnyKey(), text=shown)
    assert again.file is not None, again.errors
    assert again.file.capabilities == loaded.file.capabilities
