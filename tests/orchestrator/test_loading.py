"""Capabilities from files and packages: what is read, and where a mistake is."""

import importlib.metadata
from pathlib import Path

import pytest

from pointsman.capabilities import Capability, TaskClassifierGuide
from pointsman.errors import ConfigError
from pointsman.orchestrator import installed_capabilities, load_application, load_capabilities


def test_a_file_of_the_contract(tmp_path: Path) -> None:
    file = tmp_path / "caps.json"
    file.write_text(
        '[{"name": "weather", "instructions": "weather", "requires": ["PLACE"],'
        '  "examples": [{"query": "rain?", "result": true, "reason": "r"},'
        '               {"query": "time?", "result": false}]},'
        ' {"name": "respond", "instructions": "answer", "always_active": true, "provides": ["TEXT"]}]'
    )
    registry = load_capabilities(file)
    weather, respond = registry.get_all_capabilities()
    assert weather.guide.positives == ("rain?",)
    assert weather.guide.negatives == ("time?",)
    assert weather.requires == ("PLACE",)
    assert respond.always_active


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "caps.json: not a JSON list"),
        ("[", "caps.json: not a JSON list"),
        ('[{"name": "a"}]', "caps.json: capability 1: .*instructions"),
        ('[{"name": "a", "instructions": "x", "exmples": []}]', "caps.json: capability 1: .*exmples"),
        ('[{"name": "", "instructions": "x"}]', "caps.json: capability 1: a capability needs a name"),
        (
            '[{"name": "a", "instructions": "x", "examples": [{"query": ""}]}]',
            "capability 1: an example needs",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "caps.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_capabilities(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone.json: cannot be read"):
        load_capabilities(tmp_path / "gone.json")


ONE = Capability("one", TaskClassifierGuide("x"))
TWO = Capability("two", TaskClassifierGuide("x"))


def test_packages_offer_capabilities_through_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    def offer(**entries: str) -> None:
        made = [importlib.metadata.EntryPoint(n, v, "pointsman.capabilities") for n, v in entries.items()]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: made)

    monkeypatch.setattr("os.linesep", [TWO, ONE], raising=True)
    monkeypatch.setattr("os.sep", ONE, raising=True)
    offer(b="os:linesep")
    assert [each.name for each in installed_capabilities()] == ["two", "one"]
    offer(a="os:sep")
    assert installed_capabilities() == [ONE]
    offer(wrong="os:environ")
    with pytest.raises(ConfigError, match=r'"wrong" .* offers something else'):
        installed_capabilities()
    offer(broken="no_such_module:x")
    with pytest.raises(ConfigError, match=r'"broken" .* cannot be loaded'):
        installed_capabilities()


def test_an_application_file_must_define_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such Python file"):
        load_application(tmp_path / "gone.py")
    empty = tmp_path / "empty.py"
    empty.write_text("application = 1\n")
    with pytest.raises(ConfigError, match=r"defines no `application`"):
        load_application(empty)
