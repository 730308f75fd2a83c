"""The JSON Schema of the configuration: what an editor accepts and refuses is what ``config check`` does."""

import json
import re
import tomllib
from datetime import date
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from pointsman import __version__
from pointsman.cli import app
from pointsman.config import AnyKey
from pointsman.config.convert import Converter
from pointsman.config.draft import draft
from pointsman.config.json_schema import schema
from pointsman.config.shapes import Config
from pointsman.errors import ConfigError

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
VALIDATOR = jsonschema.Draft7Validator(schema(__version__))


def plain(value: object) -> object:
    """As an editor sees TOML: dates are strings."""
    return json.loads(
        json.dumps(value, default=lambda of: of.isoformat() if isinstance(of, date) else str(of))
    )


def is_accepted(text: str) -> bool:
    return bool(VALIDATOR.is_valid(plain(tomllib.loads(text))))


def converts(text: str, folder: Path) -> bool:
    converter = Converter(AnyKey(), folder)
    return converter.struct(tomllib.loads(text), Config, ()) is not None


def documented() -> list[tuple[str, str]]:
    """Every block of TOML in the documentation that is a configuration, or a part of one."""
    found = []
    for page in PAGES:
        for text in BLOCK.findall(page.read_text("utf-8")):
            try:
                tables = tomllib.loads(text)
            except tomllib.TOMLDecodeError:
                continue
            if tables and tables.keys() <= {*Config.__struct_encode_fields__}:
                found.append((str(page.relative_to(ROOT)), text))
    return found


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(schema(__version__))


def test_every_documented_configuration_is_accepted(tmp_path: Path) -> None:
    right = [(page, text) for page, text in documented() if converts(text, tmp_path)]
    assert len(right) >= 35
    assert [page for page, text in right if not is_accepted(text)] == []


def test_what_init_writes_is_accepted() -> None:
    assert is_accepted(draft([]))


WRONG = [
    "[upstream.main]\nbase_url = 'x'",
    "[upstreams.main]\nbase_ur = 'x'",
    "[upstreams.main]\nformats = ['chat']",
    "[upstreams.main]\nbase_url = 'x'\nformats = ['chats']",
    "[upstreams.main]\nbase_url = 'x'\napi_key = 'sk-in-the-open'",
    "[upstreams.main]\nbase_url = 'x'\nretries = 'two'",
    "[upstreams.main]\nbase_url = 'x'\ntimeouts = { connect = 0 }",
    "[models.small]\nupstream = 'main'",
    "[tiers]\nsimple = []",
    "[tiers]\nsimple = [{ modle = 'small' }]",
    "[tiers]\nboundaries = [0.1, 0.2]",
    "[guidance]\nmode = 'yes'",
    "[ledger]\nkeep_days = -1",
    "[[guidance.providers]]\ncooldown = 3",
    "[server]\nport = 4747.5",
]


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_configuration_is_refused_by_both(text: str, tmp_path: Path) -> None:
    assert not is_accepted(text)
    assert not converts(text, tmp_path)


def test_an_unknown_key_is_refused_in_every_table() -> None:
    def tables(of: dict[str, object]) -> list[dict[str, object]]:
        below = [each for member in of.values() for each in tables_in(member)]
        return [of, *below] if of.get("type") == "object" and "properties" in of else below

    def tables_in(member: object) -> list[dict[str, object]]:
        if isinstance(member, list):
            return [each for item in member for each in tables_in(item)]
        return tables(member) if isinstance(member, dict) else []

    found = tables(schema(__version__))
    assert len(found) > 25
    assert all(table["additionalProperties"] is False for table in found)


def test_the_root_is_no_file_to_write() -> None:
    said = CliRunner().invoke(app, ["config", "schema", "-o", "/"])
    assert isinstance(said.exception, ConfigError)
    assert str(said.exception).startswith("cannot write /: ")


def test_the_command_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.schema.json"
    assert CliRunner().invoke(app, ["config", "schema", "-o", str(file)]).exit_code == 0
    written = json.loads(file.read_text("utf-8"))
    assert written == schema(__version__) == json.loads(CliRunner().invoke(app, ["config", "schema"]).stdout)
    assert written["$id"] == f"urn:pointsman:config:{__version__}"
    tiers = written["properties"]["tiers"]["properties"]
    assert tiers["kinds"] == {
        "type": "string",
        "default": "off",
        "description": tiers["kinds"]["description"],
    }
