"""``pointsman fit policy``: a file that decides, figures that were held out, and honest refusals."""

import json
import random
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.errors import PointsmanError
from pointsman.factory import default_policy, read_policy
from pointsman.learning.datasets import Features, PromptOutcome
from pointsman.learning.fit import fit_tiers
from pointsman.learning.intervals import Interval
from pointsman.learning.rankers import SKETCH, has_seen, prompt_digest, sketch_of, unseen
from pointsman.reports.quality import PolicySavings, read_curve
from pointsman.tiers.learned_router import read_learned_router
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
    error = run(data, "--quality", "0.9", *PRICES).exception
    assert isinstance(error, PointsmanError)
    assert "50 different prompts are too few" in error.message
    assert "case, spaces and numbers" in error.hint


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
    curve = tmp_path / "curve.json"
    printed = run(file, "--quality", "0.9", *PRICES, "--curve", str(curve)).stdout
    assert "not shown to be better than drawing models at random" in printed
    chosen = read_curve(curve).chosen
    assert chosen
    assert not chosen.shown
    assert set(chosen.verdict.split("; ")) <= {
        part for line in printed.splitlines() for part in line.split("; ")
    }


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
        # A standard error is .06 / 3.92 = .0153 and may be .02 / 2.80: (.0153 * 2.80 / .02) ** 2 = 4.59.
        (
            (0.02, -0.01, 0.05),
            1437,
            "not shown; if the saving is as large as seen, about 1,437 more outcomes show it in 4 of 5 cases",
        ),
        (
            (0.01, -0.02, 0.04),
            None,
            "not shown, and within its error: no number of outcomes is known to show it",
        ),
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
        ([*PRICES, "--quality", "0.9", "--show", "0.95"], "above the quality that is aimed at"),
        ([*PRICES, "--budget", "3", "--show", "2"], "below the money that is aimed at"),
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


def test_prompts_without_a_difference_do_not_prove_that_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    lines = [{"prompt": row.prompt, "weak": True, "strong": True} for row in made_up(100)]
    file.write_text("\n".join(map(json.dumps, lines)))
    report = said(file, "--quality", "0.98", *PRICES)["held_out"]
    assert report["kept"]["value"] == 1
    assert 0.95 < report["kept"]["low"] < 0.97, "3.7 % of failures are compatible with none among 100"
    for name in ("success", "success_minus_strong"):
        assert report["savings"][name]["low"] < report["savings"][name]["value"]
    assert not report["supported"]
    assert "not shown: the interval reaches below 98.0%" in run(file, "--quality", "0.98", *PRICES).stdout
    assert "shown: held out, at least 96.3% is kept" in run(file, "--quality", "0.95", *PRICES).stdout


def noise(count: int, seed: int) -> list[PromptOutcome]:
    """Random words and random outcomes: a router can only remember them."""
    draw = random.Random(seed)
    ends = ("lar", "mox", "nif", "pud")
    words = [begin + end for begin in ("ba", "ko", "li", "mu", "re") for end in ends]
    return [
        PromptOutcome(
            " ".join(draw.choices(words, k=20)), float(draw.random() < 0.5), float(draw.random() < 0.7)
        )
        for _ in range(count)
    ]


def outcomes(folder: Path, rows: list[PromptOutcome]) -> Path:
    file = folder / "noise.jsonl"
    lines = [{"prompt": row.prompt, "weak": row.weak, "strong": row.strong} for row in rows]
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


@pytest.fixture(scope="module")
def of_noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("of_noise") / "mine.json"
    file.write_bytes(msgspec.json.encode(fit_tiers(noise(300, 1)).learned_router))
    return file


@pytest.mark.parametrize("kept", [290, 300])
def test_nothing_is_shown_where_the_router_remembers_most_prompts(
    tmp_path: Path, of_noise: Path, kept: int
) -> None:
    data = outcomes(tmp_path, [*noise(300, 1)[:kept], *noise(1, 2)])
    result = run(data, "--learned-router", str(of_noise), "--quality", "0.95", *PRICES)
    assert "the router was fitted on these prompts: routers fitted on their other parts" in result.stdout
    assert "saved beyond a coin" in result.stdout
    assert ": shown" not in result.stdout.replace("not shown", "")
    options = ["--learned-router", str(of_noise), *PRICES, "--labels", "100", "--margin", "0.1"]
    saved = CliRunner().invoke(app, ["eval", "savings", "--data", str(data), *options])
    assert "its figures flatter" in saved.stderr
    (row,) = [line for line in saved.stdout.splitlines() if line.startswith("mine.json")]
    assert row.split("[")[-1].startswith("+0."), "by what it remembers it looks good"
    assert "no router is shown to save more than a coin of equal success" in saved.stdout


def test_prompts_that_the_router_remembers_are_left_out(tmp_path: Path, of_noise: Path) -> None:
    data = outcomes(tmp_path, [*noise(300, 1), *noise(120, 2)])
    report = said(data, "--learned-router", str(of_noise), "--quality", "0.95", *PRICES)["held_out"]
    assert (report["prompts"], report["left_out"], report["cross_fitted_router"]) == (120, 300, False)
    result = run(data, "--learned-router", str(of_noise), "--quality", "0.95", *PRICES)
    assert "the router was fitted on 300 further prompts, which are left out" in result.stdout


def test_a_router_of_more_prompts_is_not_judged_by_routers_of_few(tmp_path: Path, of_noise: Path) -> None:
    data = outcomes(tmp_path, noise(150, 1))
    result = run(data, "--learned-router", str(of_noise), "--quality", "0.8", *PRICES)
    assert "not shown: the router was fitted on some of these prompts, and on more or fewer" in result.stdout
    assert "saved beyond a coin" not in result.stdout


def test_a_file_without_digests_of_prompts_is_read_and_keeps_its_own_digest(
    tmp_path: Path, learned_router: Path, data: Path
) -> None:
    made = read_learned_router(learned_router.read_bytes(), "mine.json")
    assert isinstance(made.sketch, bytes)
    assert 0 < len(made.sketch) <= 8 * SKETCH
    members = json.loads(learned_router.read_bytes())
    del members["sketch"]
    old = tmp_path / "old.json"
    old.write_text(json.dumps(members))
    found = read_learned_router(old.read_bytes(), "old.json")
    assert found.sketch is msgspec.UNSET
    assert b"sketch" not in msgspec.json.encode(found)
    report = said(data, "--learned-router", str(old), "--quality", "0.9", *PRICES)["held_out"]
    assert report["cross_fitted_router"], "known by number and length of the prompts"


def test_a_sketch_names_a_part_of_many_prompts_and_nothing_of_short_ones() -> None:
    prompts = [row.prompt for row in noise(SKETCH + 500, 3)]
    router = msgspec.structs.replace(fit_tiers(noise(50, 4)).learned_router, sketch=sketch_of(prompts))
    others = [row.prompt for row in noise(300, 5)]
    known = {int(place) for place in unseen(router, [*prompts, *others])}
    assert min(known) >= len(prompts), "no prompt of the training is among them"
    assert 150 < len(known) < 250, "two thirds of the others are known to be others"
    assert has_seen(router, [prompt_digest(each) for each in prompts[:20]], [1])
    assert not has_seen(router, [prompt_digest(each) for each in others], [1])
    assert sketch_of(["go on", "yes"]) == b""


def test_advice_to_aim_higher_ends(tmp_path: Path) -> None:
    draw = random.Random(0)
    rows = [PromptOutcome(row.prompt, float(draw.random() < 0.8), 1.0) for row in made_up(200, seed=3)]
    file = outcomes(tmp_path, rows)
    options = ["--quality", "0.9"]
    for _ in range(5):
        printed = run(file, *options, *PRICES).stdout
        if "shown: held out, at least" in printed:
            break
        (advice,) = re.findall(r"not shown: the interval reaches below 90.0%; (.*) is safer", printed)
        options = advice.split()
        assert options[2:] == ["--show", "0.9"]
    assert len(options) == 4, "the first target is not shown"
    assert "shown: held out, at least 9" in printed
    told = said(file, *options, *PRICES)["held_out"]["target"]
    assert told["level"] == 0.9 < told["quality"]


def test_advice_to_spend_less_ends(tmp_path: Path) -> None:
    file = outcomes(tmp_path, [PromptOutcome(row.prompt, row.weak, row.strong) for row in made_up(200)])
    options = ["--budget", "5"]
    for _ in range(5):
        printed = run(file, *options, *PRICES).stdout
        if "shown: held out, at most" in printed:
            break
        (advice,) = re.findall(r"not shown: the interval reaches above 5; (.*) is safer", printed)
        options = advice.split()
    assert options[2:] == ["--show", "5"]
    assert "shown: held out, at most" in printed


def test_prompts_of_one_session_are_drawn_as_one(tmp_path: Path) -> None:
    """Sessions that fail as a whole are worth one prompt each, whatever number of prompts they have."""
    draw = random.Random(1)
    failed = [draw.random() < 0.1 for _ in range(50)]
    rows = made_up(600, seed=7)
    lines = [
        {"prompt": row.prompt, "weak": not failed[at // 12], "strong": True, "session": f"s{at // 12}"}
        for at, row in enumerate(rows)
    ]
    file = tmp_path / "data.jsonl"

    def kept(written: list[dict[str, Any]], command: str) -> Any:
        file.write_text("\n".join(map(json.dumps, written)))
        if command == "policy":
            return said(file, "--quality", "0.85", *PRICES)["held_out"]["kept"]
        more = ["--data", str(file), *PRICES, "--labels", "200", "--margin", "0.5", "--json"]
        found = json.loads(CliRunner().invoke(app, ["eval", "savings", *more]).stdout)["sources"][0]["rows"]
        return next(row for row in found if row["router"] == "always weak")["success_minus_strong"]

    alone = [{name: value for name, value in line.items() if name != "session"} for line in lines]
    for command in ("policy", "savings"):
        one, whole = kept(alone, command), kept(lines, command)
        assert whole["high"] - whole["low"] > 2 * (one["high"] - one["low"])
    file.write_text("\n".join(json.dumps({**line, "session": f"s{at % 9}"}) for at, line in enumerate(lines)))
    error = run(file, "--quality", "0.9", *PRICES).exception
    assert "prompts of 9 different sessions are too few" in str(error)
