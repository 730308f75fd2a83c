"""``pointsman fit policy``: a file that decides, figures that were held out, and honest refusals."""

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.errors import PointsmanError
from pointsman.factory import default_policy, read_policy
from pointsman.learning.datasets import Features
from pointsman.learning.fit import fit_tiers
from pointsman.learning.intervals import Interval
from pointsman.reports.quality import PolicySavings, read_curve
from support.outcomes import made_up

pytestmark = pytest.mark.slow

ROWS = made_up(300)
PRICES = ("--price-weak", "0.001", "--price-strong", "0.01")

CONFIG = """
# mine
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
[models.small]
upstream = "main"
id = "s"
input_per_million = 1.0
output_per_million = 2.0
[models.large]
upstream = "main"
id = "l"
input_per_million = 10.0
output_per_million = 20.0
[tiers]
simple = "small"
complex = "large"
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    file = tmp_path / "data.jsonl"
    lines = [{"prompt": row.prompt, "weak": row.weak, "strong": row.strong} for row in ROWS]
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


@pytest.fixture(scope="module")
def learned_router(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("learned_router") / "mine.json"
    file.write_bytes(msgspec.json.encode(fit_tiers(ROWS).learned_router))
    return file


def run(data: Path, *arguments: str) -> Result:
    out = data.parent / "policy.toml"
    return CliRunner().invoke(app, ["fit", "policy", "--data", str(data), "--out", str(out), *arguments])


def said(data: Path, *arguments: str) -> dict[str, Any]:
    result = run(data, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_a_policy_of_a_head_keeps_quality_for_less_and_can_be_read(data: Path, learned_router: Path) -> None:
    found = said(data, "--learned-router", str(learned_router), "--quality", "0.9", *PRICES)
    report = found["held_out"]
    assert report["cross_fitted_router"], "the learned router has seen these prompts"
    assert report["reached"]
    assert 0.8 < report["kept"]["low"] < report["kept"]["value"] < report["kept"]["high"]
    assert report["cost"]["value"] < 0.8 * report["cost_of_best"]
    assert report["over_mixing"]["low"] > 0
    assert sum(report["shares"].values()) == pytest.approx(1)
    policy = read_policy(data.parent / "policy.toml", default_policy())
    assert policy.learned_router is not None
    assert (
        policy.learned_router.boundaries[0]
        == policy.learned_router.boundaries[1]
        == pytest.approx(found["boundaries"][0], abs=1e-6)
    )
    assert policy.learned_router.boundaries[2] == float("inf")


def test_a_policy_of_a_head_on_the_prior_of_kinds(data: Path) -> None:
    learned_router = data.parent / "kinds.json"
    made = fit_tiers(ROWS, features=Features.KINDS).learned_router
    learned_router.write_bytes(msgspec.json.encode(made))
    report = said(data, "--learned-router", str(learned_router), "--quality", "0.9", *PRICES)["held_out"]
    assert report["cross_fitted_router"], "the learned router has seen these prompts"
    assert report["over_mixing"]["low"] > 0
    policy = read_policy(data.parent / "policy.toml", default_policy()).learned_router
    assert policy is not None
    assert policy.learned_router.head is not None
    assert policy.learned_router.digest() == made.digest()


def test_a_head_that_has_not_seen_the_prompts_scores_them_itself(data: Path) -> None:
    learned_router = data.parent / "other.json"
    learned_router.write_bytes(msgspec.json.encode(fit_tiers(made_up(300, seed=5)).learned_router))
    report = said(data, "--learned-router", str(learned_router), "--quality", "0.9", *PRICES)["held_out"]
    assert not report["cross_fitted_router"]
    assert report["over_mixing"]["low"] > 0


def test_too_few_prompts(data: Path) -> None:
    data.write_text("\n".join(data.read_text().splitlines()[:99]))
    assert "99 prompts are too few" in str(run(data, "--quality", "0.9", *PRICES).exception)


def test_copies_of_prompts_are_no_more_evidence(data: Path) -> None:
    lines = data.read_text().splitlines()

    def width(times: int) -> float:
        data.write_text("\n".join(lines * times))
        kept = said(data, "--quality", "0.9", *PRICES)["held_out"]["kept"]
        return float(kept["high"] - kept["low"])

    assert width(4) > 0.8 * width(1), "drawn one by one, four copies would halve it"
    data.write_text("\n".join(lines[:50] * 4))
    assert "50 different prompts are too few" in str(run(data, "--quality", "0.9", *PRICES).exception)


def test_boundaries_of_the_rules(data: Path) -> None:
    found = said(data, "--budget", "5", "--profile", "seed", *PRICES)
    policy = read_policy(data.parent / "policy.toml", default_policy())
    assert policy.profile.name == "seed"
    assert policy.profile.boundaries[0] == pytest.approx(float(found["boundaries"][0]), abs=1e-6)
    text = (data.parent / "policy.toml").read_text()
    assert text.startswith(
        "# Boundaries by pointsman fit policy from 300 prompts, to spend at most 5 on 1,000"
    )


def test_money_is_not_overspent(data: Path, learned_router: Path) -> None:
    report = said(data, "--learned-router", str(learned_router), "--budget", "5", *PRICES)["held_out"]
    assert report["cost"]["value"] == pytest.approx(5, rel=0.1)
    shown = run(data, "--learned-router", str(learned_router), "--budget", "5", *PRICES).stdout
    assert ("not shown: the interval reaches above 5" in shown) != ("shown: held out, at most" in shown)
    assert (
        "shown: held out, at most"
        in run(data, "--learned-router", str(learned_router), "--budget", "50", *PRICES).stdout
    )


def test_a_safer_target_is_shown_to_be_kept(data: Path, learned_router: Path) -> None:
    shown = run(data, "--learned-router", str(learned_router), "--quality", "0.9", *PRICES).stdout
    assert "not shown: the interval reaches below 90.0%; --quality 0.9" in shown
    assert said(data, "--learned-router", str(learned_router), "--budget", "6.5", *PRICES)["held_out"][
        "supported"
    ] in {
        True,
        False,
    }


def test_a_target_out_of_reach_writes_nothing(data: Path) -> None:
    result = run(data, "--budget", "0.5", *PRICES)
    assert result.exit_code == 1
    assert "the target cannot be reached: 1.87 is the least; no policy is written" in result.stdout
    assert not (data.parent / "policy.toml").exists()


def test_a_score_without_information_is_said_to_be_no_better_than_chance(tmp_path: Path) -> None:
    draw = random.Random(1)
    lines = [
        {"prompt": row.prompt, "weak": draw.random() < 0.5, "strong": draw.random() < 0.8} for row in ROWS
    ]
    file = tmp_path / "noise.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert (
        "not shown to be better than drawing models at random"
        in run(file, "--quality", "0.9", *PRICES).stdout
    )


def test_the_saving_beyond_a_coin_of_equal_success_is_stated(tmp_path: Path) -> None:
    """Every second prompt is short and both models are right; at the long ones the strong one alone is."""
    words = ("".join("abcdefghij"[int(digit)] for digit in f"{number:03}") for number in range(400))
    lines = [
        {"prompt": f"question {word} about tea", "weak": True, "strong": True}
        if number % 2 == 0
        else {"prompt": f"question {word} about tea and {'very ' * 40}long", "weak": False, "strong": True}
        for number, word in enumerate(words)
    ]
    file = tmp_path / "data.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    curve = tmp_path / "curve.json"
    printed = run(
        file, "--quality", "0.99", "--price-weak", "0.2", "--price-strong", "1", "--curve", str(curve)
    )
    chosen = read_curve(curve).chosen
    assert chosen is not None
    assert chosen.savings is not None
    assert chosen.savings.success_minus_strong.value == 0
    # Half of the prompts at .2 of the cost; no coin but always strong has the same success.
    assert chosen.savings.cost.value == pytest.approx(0.6)
    assert chosen.savings.saved_beyond_coin.value == pytest.approx(0.4)
    assert chosen.savings.sentence() in printed.stdout
    assert chosen.savings.sentence().endswith(": shown")


@pytest.mark.parametrize(
    ("saved", "missing", "told"),
    [
        ((0.02, 0.01, 0.03), 0, "shown"),
        # The lower half of the interval is .03 wide and may be .02: (.03 / .02) ** 2 = 2.25 times as many.
        ((0.02, -0.01, 0.05), 500, "not shown, about 500 more outcomes would show it"),
        ((0.0, -0.01, 0.01), None, "a coin saves as much"),
        ((-0.02, -0.03, 0.01), None, "a coin saves as much"),
    ],
)
def test_missing_outcomes_are_named(
    saved: tuple[float, float, float], missing: int | None, told: str
) -> None:
    none = Interval(0.0, 0.0, 0.0)
    found = PolicySavings(400, none, none, Interval(*saved))
    assert found.missing == missing
    assert found.sentence().endswith(f": {told}")


def test_a_configuration_keeps_everything_else(data: Path, learned_router: Path) -> None:
    config = data.parent / "pointsman.toml"
    config.write_text(CONFIG)
    found = said(data, "--config", str(config), "--learned-router", str(learned_router), "--quality", "0.9")
    tokens = sum(len(row.prompt) for row in ROWS) / len(ROWS) / 4
    assert found["held_out"]["cost_of_best"] == pytest.approx((tokens * 10 + 500 * 20) / 1000, rel=0.01)
    text = (data.parent / "policy.toml").read_text()
    assert "# mine" in text
    tiers = tomllib.loads(text)["tiers"]
    named = {key: tiers[key] for key in ("simple", "medium", "complex", "reasoning")}
    assert named == {"simple": "small", "medium": "small", "complex": "large", "reasoning": "large"}
    policy = read_policy(data.parent / "policy.toml", default_policy())
    assert set(policy.models) == {"small", "large"}


def test_the_head_of_a_configuration_is_the_one_that_is_cut(data: Path, learned_router: Path) -> None:
    config = data.parent / "pointsman.toml"
    config.write_text(
        f'{CONFIG}[tiers.learned_router]\nfile = "{learned_router}"\nboundaries = [0.5, 0.5, inf]\n'
    )
    found = said(data, "--config", str(config), "--quality", "0.9")
    policy = read_policy(data.parent / "policy.toml", default_policy())
    assert policy.learned_router is not None
    assert policy.learned_router.boundaries[0] == pytest.approx(float(found["boundaries"][0]), abs=1e-6)
    assert policy.learned_router.boundaries[0] != 0.5
    error = run(data, "--config", str(config), "--quality", "0.9", "--profile", "seed").exception
    assert "--config names the profile already" in str(error)


def test_four_tiers_need_four_models(tmp_path: Path) -> None:
    draw = random.Random(2)
    skills = {"a": 0.3, "b": 0.5, "c": 0.7, "d": 0.9}
    lines = [
        {"prompt": row.prompt, "scores": {name: draw.random() < skill for name, skill in skills.items()}}
        for row in ROWS
    ]
    file = tmp_path / "scores.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    models = [word for at, name in enumerate(skills) for word in ("--model", f"{name}={0.001 * 3**at}")]
    found = said(file, "--tiers", "4", "--quality", "0.8", *models)
    assert len(found["held_out"]["models"]) == 4
    assert found["boundaries"] == sorted(found["boundaries"], key=float)
    error = run(file, "--tiers", "4", "--quality", "0.8", *models[:6]).exception
    assert isinstance(error, PointsmanError)
    assert "four models" in str(error)


def test_the_curve_as_json_and_as_pictures(data: Path) -> None:
    curve, svg, png = (data.parent / name for name in ("curve.json", "curve.svg", "curve.png"))
    said(data, "--quality", "0.9", *PRICES, "--curve", str(curve), "--picture", str(svg))
    points = json.loads(curve.read_text())["points"]
    assert [point["cost"] for point in points] == sorted(point["cost"] for point in points)
    chosen = read_curve(curve).chosen  # the working point, with its interval
    assert chosen is not None
    assert chosen.kept.low <= chosen.kept.value <= chosen.kept.high
    chosen = read_curve(curve).chosen  # the working point, with its interval
    assert chosen is not None
    assert chosen.kept.low <= chosen.kept.value <= chosen.kept.high
    drawn = svg.read_text()
    assert drawn.startswith("<svg ")
    assert drawn.count("<circle") == 3  # two models alone, and the chosen point
    assert drawn.split('stroke-width="2"')[0].rsplit("points=", 1)[1].count(",") == len(points)
    said(data, "--quality", "0.9", *PRICES, "--picture", str(png))
    assert png.read_bytes().startswith(b"\x89PNG")
    error = run(data, "--quality", "0.9", *PRICES, "--picture", "curve.gif").exception
    assert "cannot draw curve.gif" in str(error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*PRICES], "one target"),
        ([*PRICES, "--quality", "0.9", "--budget", "3"], "one target"),
        (["--quality", "0.9"], "needs prices"),
        (["--quality", "0.9", "--price-weak", "2", "--price-strong", "1"], "not more expensive"),
        ([*PRICES, "--quality", "0.9", "--tiers", "3"], "3 tiers"),
        (["--quality", "0.9", "--tiers", "4", *["--model", "a=x"] * 4], '"a=x" is not a model and a price'),
        ([*PRICES, "--quality", "0.9", "--model", "a=1"], "for two tiers use --weak"),
        ([*PRICES, "--quality", "0.9", "--tiers", "4"], "four tiers are named by --model"),
    ],
)
def test_wrong_usage(data: Path, arguments: list[str], message: str) -> None:
    error = run(data, *arguments).exception
    assert isinstance(error, PointsmanError)
    assert message in str(error)


def test_a_configuration_that_lacks_what_is_needed(data: Path) -> None:
    config = data.parent / "pointsman.toml"
    for text, message in (
        (CONFIG.replace('complex = "large"\n', ""), "a tier in use has no model"),
        (
            CONFIG.replace("input_per_million = 1.0\noutput_per_million = 2.0\n", "").replace(
                "input_per_million = 10.0\noutput_per_million = 20.0\n", ""
            ),
            "have no prices",
        ),
    ):
        config.write_text(text)
        error = run(data, "--quality", "0.9", "--config", str(config)).exception
        assert message in str(error)


def test_a_policy_beside_which_its_paths_are_missing_is_taken_back(data: Path) -> None:
    (data.parent / "etc").mkdir()
    config = data.parent / "etc" / "pointsman.toml"
    config.write_text(CONFIG + 'profile = "own.toml"\n')
    (data.parent / "etc" / "own.toml").write_text(
        (Path(__file__).parents[2] / "src/pointsman/tiers/profiles/default.toml").read_text()
    )
    error = run(data, "--quality", "0.9", "--config", str(config)).exception
    assert "could not be read back" in str(error)
    assert not (data.parent / "policy.toml").exists()
