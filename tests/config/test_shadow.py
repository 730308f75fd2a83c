"""``[shadow]``: what is on trial must exist and be right before anything starts."""

from pathlib import Path

import pytest

from pointsman.config import examine, load
from pointsman.errors import ConfigError

LIVE = """\
[upstreams.main]
base_url = "https://llm.example.com/v1"
[models]
small = { upstream = "main", id = "small-1" }
[shadow]
"""
OTHER = """\
[upstreams.main]
base_url = "https://llm.example.com/v1"
api_key = "${A_KEY_THAT_IS_NOT_SET}"
[models]
small = { upstream = "main", id = "small-1" }
[tiers]
simple = "small"
"""
CASES = {
    'policy = "candidate.toml"\nmodel = "small"': (OTHER, ""),
    'policy = "candidate.toml"': (
        OTHER.replace("simple", "simpel"),
        'candidate.toml:7: unknown key "simpel" in [tiers]; did you mean "simple"?',
    ),
    'policy = "absent.toml"': (OTHER, "cannot read "),
    'policy ="candidate.toml"': (OTHER + "[shadow]\n", "candidate.toml has a [shadow] of its own"),
    'policy= "candidate.toml"': ("simple = \n", "candidate.toml:1: Invalid value"),
    'policy  = "candidate.toml"': ('name = "mine"\n', "candidate.toml"),
    'model = "smal"': (OTHER, 'unknown model "smal"; did you mean "small"?'),
    'model = "small"\nshare = 1.5': (OTHER, '"share" in [shadow] must be a number from 0 to 1, not 1.5'),
    'modle = "small"': (OTHER, 'unknown key "modle" in [shadow]; did you mean "model"?'),
}


@pytest.mark.parametrize("written", CASES)
def test_the_table(tmp_path: Path, written: str) -> None:
    candidate, said = CASES[written]
    (tmp_path / "candidate.toml").write_text(candidate, encoding="utf-8")
    file = tmp_path / "pointsman.toml"
    file.write_text(LIVE + written + "\n", encoding="utf-8")
    errors = examine(file, {}).errors
    if not said:
        assert errors == []
        assert load(file, {}).shadow.policy == tmp_path / "candidate.toml"
        return
    [error] = errors
    assert isinstance(error, ConfigError)
    assert str(error).startswith(f"{file}:{6 + written.count(chr(10))}: ")
    assert said in str(error)


def test_a_profile_is_a_policy(tmp_path: Path) -> None:
    profile = Path(__file__).parents[2] / "src" / "pointsman" / "tiers" / "profiles" / "seed.toml"
    file = tmp_path / "pointsman.toml"
    file.write_text(f'{LIVE}policy = "{profile}"\n', encoding="utf-8")
    assert examine(file, {}).errors == []
