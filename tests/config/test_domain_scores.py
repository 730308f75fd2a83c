"""A tier profile that gives task domains a score, and the configuration it is used in."""

from pathlib import Path

import pytest

from pointsman.config import load
from pointsman.errors import ConfigError
from pointsman.factory import build_policy
from pointsman.tiers import builtin_profile


def configured(directory: Path, *, scores: str, mode: str = "observe") -> Path:
    """A configuration with a copy of profile ``default`` that scores some domains."""
    source = Path(__file__).parents[2] / "src/pointsman/tiers/profiles/default.toml"
    profile = directory / "mine.toml"
    profile.write_text(f"{source.read_text('utf-8')}\n[domain_scores]\n{scores}\n", "utf-8")
    file = directory / "pointsman.toml"
    file.write_text(f'[tiers]\nprofile = "mine.toml"\n[domains]\nmode = "{mode}"\n')
    return file


def test_the_built_in_profiles_score_no_domain() -> None:
    assert not builtin_profile("default").domain_scores
    assert not builtin_profile("seed").domain_scores


def test_a_profile_scores_domains(tmp_path: Path) -> None:
    policy = build_policy(load(configured(tmp_path, scores="bugfix = 0.5")))
    assert policy.profile.domain_scores == {"bugfix": 0.5}


@pytest.mark.parametrize(
    ("scores", "mode", "message"),
    [
        ("bugfixes = 0.5", "observe", 'unknown domain "bugfixes"'),
        ("bugfix = 0.5", "off", "domains are off"),
    ],
)
def test_scores_that_no_prompt_could_get_are_refused(
    tmp_path: Path, scores: str, mode: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build_policy(load(configured(tmp_path, scores=scores, mode=mode)))
