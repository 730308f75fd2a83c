"""What ``config check`` and ``router show`` say about aliases."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.config import load
from pointsman.decision.aliases import CLIENT_ALIASES
from pointsman.diagnostics import describe_aliases, describe_taken_ids, list_aliases, taken_ids

FILE = """\
[upstreams.main]
base_url = "demo:"
[models]
small = { upstream = "main", id = "small-1" }
[tiers]
simple = "small"
[server]
port = 0
[aliases]
"team-*" = "best"
best = "small"
"team-a-*" = "auto"
"gone" = "refuse"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "pointsman.toml"
    file.write_text(FILE, encoding="utf-8")
    return file


def test_each_alias_with_what_it_resolves_to(file: Path) -> None:
    lines = list(describe_aliases(list_aliases(load(file))))
    assert lines[:5] == [
        "aliases, the first that matches counts:",
        '  "team-*"    "best" -> small',
        '  "best"      small',
        '  "team-a-*"  auto; never used, "team-*" comes before it',
        '  "gone"      refuse',
    ]
    assert lines[5].startswith('  shipped: simple for "*claude*haiku*", ')
    assert lines[6].startswith('  shipped: auto for "claude-auto", "*claude-*", ')
    assert len(lines) == 7


def test_a_catch_all_turns_the_shipped_ones_off(file: Path) -> None:
    file.write_text(FILE + '"*" = "refuse"\n', encoding="utf-8")
    rows = list_aliases(load(file))
    assert {row.hidden_by for row in rows if row.is_shipped} == {"*"}
    assert list(describe_aliases(rows))[-1] == "  none of those shipped is used"


def test_no_shipped_alias_hides_another(file: Path) -> None:
    rows = list_aliases(load(file))
    assert [row.pattern for row in rows if row.is_shipped and row.hidden_by] == []
    assert len(rows) == 4 + len(CLIENT_ALIASES)


@pytest.mark.parametrize("command", [("config", "check"), ("router", "show")])
def test_the_commands_print_them(file: Path, command: tuple[str, str]) -> None:
    run = CliRunner()
    assert '  "team-*"    "best" -> small' in run.invoke(app, [*command, "--config", str(file)]).stdout
    listed = json.loads(run.invoke(app, [*command, "--config", str(file), "--json"]).stdout)["aliases"]
    assert listed[0] == {
        "pattern": "team-*",
        "target": "best",
        "resolves_to": "small",
        "is_shipped": False,
        "hidden_by": "",
        "way": ["team-*", "best"],
    }


IDS = """\
[upstreams.main]
base_url = "demo:"
[models]
luna = { upstream = "main", id = "gpt-6-luna" }
sol = { upstream = "main", id = "gpt-6.1-sol" }
opus = { upstream = "main", id = "claude-fable-5" }
own = { upstream = "main", id = "qwen3:8b" }
[tiers]
simple = ["luna", "own"]
complex = "sol"
"""


def test_ids_that_aliases_take_are_told_with_the_way_to_the_model(file: Path) -> None:
    """An operator's alias takes an id; the shipped ones take it from clients that send it by default."""
    file.write_text(IDS, encoding="utf-8")
    assert list(describe_taken_ids(taken_ids(load(file)))) == [
        'ids that clients send unless told otherwise: "gpt-6.1-sol" of codex means auto',
        '  to get the model itself, ask for "sol", or write "gpt-6.1-sol" = "sol" under [aliases]',
    ]
    file.write_text(IDS + '[aliases]\n"gpt-*-luna" = "simple"\n"gpt-6.1*" = "auto"\n', encoding="utf-8")
    assert list(describe_taken_ids(taken_ids(load(file)))) == [
        'ids that aliases take: "gpt-6-luna" means simple, "gpt-6.1-sol" means auto',
        '  to get the model itself, ask for "luna", or write "gpt-6-luna" = "luna" under [aliases]',
    ]
    for command in (("config", "check"), ("router", "show")):
        printed = CliRunner().invoke(app, [*command, "--config", str(file)]).stdout
        assert '"gpt-6.1-sol" means auto' in printed
        listed = json.loads(CliRunner().invoke(app, [*command, "--config", str(file), "--json"]).stdout)
        assert [each["model"] for each in listed["taken_ids"]] == ["luna", "sol"]
    file.write_text(IDS + '[aliases]\n"gpt-6*" = "refuse"\n"gpt-6-luna" = "luna"\n', encoding="utf-8")
    assert [each.means for each in taken_ids(load(file))] == ["refuse", "refuse"]
    file.write_text(IDS + '[aliases]\n"gpt-6-luna" = "luna"\n"gpt-6.1-sol" = "sol"\n', encoding="utf-8")
    assert list(describe_taken_ids(taken_ids(load(file)))) == []
