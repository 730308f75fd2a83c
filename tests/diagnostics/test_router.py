"""The seed's ``/router`` command."""

from pathlib import Path

import pytest

from pointsman.config import load
from pointsman.diagnostics import (
    Check,
    answer_in_band,
    choose_classifier,
    describe_aliases,
    describe_routing,
    describe_taken_ids,
    list_aliases,
    taken_ids,
)
from pointsman.diagnostics import _doctor as doctor
from pointsman.errors import ConfigError

TEXT = """\
[upstreams.main]  # where it all goes
base_url = "demo:"
[upstreams.codex]
base_url = "demo:"
formats = ["responses"]
[models]
mute = { upstream = "codex", id = "m" }
[models.small]
upstream = "main"
id = "google/gemini-2.5-flash"
input_per_million = 0.1
output_per_million = 0.4
[models.large]
upstream = "main"
id = "large-3"
input_per_million = 3
output_per_million = 15
[tiers]
simple = "small"      # the cheap one
reasoning = "large"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "pointsman.toml").write_text(TEXT)
    return tmp_path / "pointsman.toml"


def test_show(file: Path) -> None:
    assert describe_routing(load(file)).splitlines() == [
        f"profile default, from {file}",
        "  SIMPLE     small: google/gemini-2.5-flash at main, 0.1 in, 0.4 out",
        "  MEDIUM     -",
        "  COMPLEX    -",
        "  REASONING  large: large-3 at main, 3 in, 15 out",
        "classifier none: the rules decide alone",
        "guidance observe, domains observe, capabilities off",
        *describe_aliases(list_aliases(load(file))),
        *describe_taken_ids(taken_ids(load(file))),
    ]


def test_show_names_every_model_of_a_tier(file: Path) -> None:
    pool = '[{ model = "large", weight = 3, effort = "high" }, "small"]'
    file.write_text(TEXT.replace('reasoning = "large"', f"reasoning = {pool}"))
    assert describe_routing(load(file)).splitlines()[4:6] == [
        "  REASONING  large: large-3 at main, 3 in, 15 out, weight 3, effort=high",
        "             small: google/gemini-2.5-flash at main, 0.1 in, 0.4 out",
    ]


def test_the_seeds_command_takes_a_models_id(file: Path) -> None:
    assert choose_classifier(file, "google/gemini-2.5-flash") == "small"
    verify = load(file).tiers.verify
    assert verify is not None
    assert (verify.model, verify.share) == ("small", 0.15)
    assert "# the cheap one" in file.read_text()
    assert file.read_text().startswith("[upstreams.main]  # where it all goes\n")
    assert verify.margin is None
    limits = "the profile's margin, at most 15% of requests, 500 ms"
    assert f"classifier small: {limits}" in describe_routing(load(file))


def test_a_classifier_that_was_chosen_can_be_changed_and_keeps_its_limits(file: Path) -> None:
    file.write_text(TEXT + 'verify = { model = "small", share = 0.5, money_per_day = 2.5 } # why\n')
    choose_classifier(file, "large")
    assert file.read_text().endswith('verify = { model = "large", share = 0.5, money_per_day = 2.5 } # why\n')
    assert "at most 50% of requests, 2.5 a day" in describe_routing(load(file))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("smal", 'unknown model "smal"; did you mean "small"?'),
        ("nothing-like-it", 'unknown model "nothing-like-it"'),
        ("mute", "cannot be asked: its upstream speaks neither chat nor messages"),
    ],
)
def test_a_model_that_cannot_be_the_classifier_changes_nothing(file: Path, wanted: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        choose_classifier(file, wanted)
    assert message in str(refused.value)
    assert file.read_text() == TEXT


def test_what_is_wrong_already_does_not_stand_in_the_way(file: Path) -> None:
    file.write_text("[upstreams.other]\nbase_url = 'http://a'\napi_key = '${NO_SUCH}'\n" + TEXT)
    assert choose_classifier(file, "small") == "small"
    with pytest.raises(ConfigError, match="NO_SUCH"):
        load(file)


def test_in_band(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(doctor, "_engine", lambda _: Check("engine", ok=True, detail="not looked at"))
    config = load(file)
    assert (
        answer_in_band("", config, file) == answer_in_band(" show ", config, file) == describe_routing(config)
    )
    assert answer_in_band("classifier small", config, file) == 'classifier is now "small"'
    assert "ok   engine" in answer_in_band("doctor", load(file), file)
    for text in ("classifier", "classifier a b", "frobnicate"):
        assert answer_in_band(text, config, file).startswith("/router [show] | /router classifier MODEL")
    assert answer_in_band("classifier small", config, None).startswith("/router [show]")
