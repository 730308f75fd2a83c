"""The table [aliases]: every mistake with its line and the way out."""

from pathlib import Path

import pytest

from pointsman.config import examine, load
from pointsman.config.edit import as_toml, plain
from pointsman.factory import build_policy

FILE = """\
[upstreams.main]
base_url = "demo:"
[models]
small = { upstream = "main", id = "small-1" }
[tiers]
simple = "small"
[aliases]
"""
FIRST = FILE.count("\n") + 1  # the line of the first alias


def examined(directory: Path, aliases: str) -> list[tuple[int, str, str]]:
    file = directory / "pointsman.toml"
    file.write_text(FILE + aliases, encoding="utf-8")
    errors = examine(file, {}).errors
    return [(int(e.place.rpartition(":")[2]) - FIRST, e.message.partition(": ")[2], e.hint) for e in errors]


@pytest.mark.parametrize(
    ("aliases", "line", "message", "hint"),
    [
        (
            '"gpt-*" = "smal"',
            0,
            'unknown target "smal"; did you mean "small"?',
            "",
        ),
        (
            '"a" = "simple"\n"b" = "nothing-like-it"',
            1,
            'unknown target "nothing-like-it"',
            "there are: auto, simple, medium, complex, reasoning, refuse, small, a, ",
        ),
        (
            'a = "b"\nb = "a"',
            0,
            'an alias leads in a circle: "a" -> "b" -> "a"',
            'name a tier, a model or "auto"',
        ),
        ('"*" = "*"', 0, 'an alias leads in a circle: "*" -> "*"', 'name a tier, a model or "auto"'),
        ('"" = "auto"', 0, "an alias has an empty pattern", 'a pattern that matches every name is "*"'),
        ('auto = "simple"', 0, '"auto" cannot be an alias: it asks for a tier', ""),
        ('Simple = "auto"', 0, '"Simple" cannot be an alias: it asks for a tier', ""),
        (
            'small = "auto"',
            0,
            '"small" cannot be an alias: a model has this name, and comes first',
            "",
        ),
        ("a = 3", 0, '"a" in [aliases] must be a string, not 3', ""),
        ('a = "${NOT_SET}"', 0, "environment variable NOT_SET is not set", "export NOT_SET=…"),
    ],
)
def test_a_mistake_and_its_line(tmp_path: Path, aliases: str, line: int, message: str, hint: str) -> None:
    found = examined(tmp_path, aliases)
    assert found[0][:2] == (line, message)
    assert found[0][2].startswith(hint)


def test_an_alias_of_an_alias_that_is_wrong_is_reported_once(tmp_path: Path) -> None:
    found = examined(tmp_path, 'a = "b"\nb = "smal"')
    assert [(line, message) for line, message, _ in found] == [
        (1, 'unknown target "smal"; did you mean "small"?')
    ]


def test_aliases_that_are_no_table(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text("aliases = 3\n" + FILE.replace("[aliases]\n", ""), encoding="utf-8")
    assert [error.message for error in examine(file, {}).errors] == [f"{file}:1: [aliases] must be a table"]


def test_the_order_of_the_file_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(FILE + '"z*" = "auto"\n"a*" = "*claude-*"\n"*" = "refuse"\n', encoding="utf-8")
    config = load(file, {})
    assert list(config.aliases) == ["z*", "a*", "*"]
    assert [pattern for pattern, _ in build_policy(config).aliases][:4] == ["z*", "a*", "*", "*claude*haiku*"]
    tables = examine(file, {}).file
    assert tables is not None
    shown = as_toml(plain(tables))
    again = tmp_path / "again.toml"
    again.write_text(shown, encoding="utf-8")
    assert load(again, {}).aliases == config.aliases
    assert list(load(again, {}).aliases) == list(config.aliases)
