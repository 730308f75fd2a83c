"""``pointsman lexicon check`` reads the three kinds of files with patterns and says what is wrong in them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.errors import ConfigError, LexiconError

LEXICON = """
name = "mine"
[groups.code]
words = ["python", "rust", "rust async"]
[groups.language]
words = ["rust"]
"""
DOMAINS = """
extends = "none"
[domains.cooking]
class = "task"
priority = 1
brief_description = "Food."
[domains.cooking.signals]
recipe = ["recipe", "bake"]
"""


def run(*args: object) -> Result:
    return CliRunner().invoke(app, ["lexicon", "check", *map(str, args)])


def written(folder: Path, text: str) -> Path:
    file = folder / "some.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_overlaps_are_found_and_costs_measured(tmp_path: Path) -> None:
    result = run(written(tmp_path, LEXICON), "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["patterns"]) == (0, 4)
    assert {finding["code"] for finding in report["findings"]} >= {"overlap"}
    assert len(report["costs"]) == 4
    assert report["ns_per_byte"] > 0


def test_a_person_sees_findings_and_the_dearest_patterns(tmp_path: Path) -> None:
    shown = run(written(tmp_path, LEXICON), "--top", 1, "--notes").stdout
    assert "4 patterns" in shown
    assert "most expensive patterns:" in shown
    assert shown.count("ns per byte  mine/") == 1


def test_domain_files_are_read(tmp_path: Path) -> None:
    assert run(written(tmp_path, DOMAINS)).stdout.startswith("1 patterns, 0 findings")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ('name = "x"\n[groups.a]\npatterns = ["(a)\\\\1"]', LexiconError, "some.toml"),
        ('name = "x"\n[groups.a]\nwrods = ["a"]', LexiconError, 'did you mean "words"'),
        ("name = ", LexiconError, "some.toml:1: Invalid value"),
    ],
)
def test_a_wrong_file_is_one_clear_error(
    tmp_path: Path, text: str, error: type[ConfigError], message: str
) -> None:
    result = run(written(tmp_path, text))
    assert isinstance(result.exception, error)
    assert message in str(result.exception)
