"""The verdict of an audit: what is sure, what outcomes show, what is unknown."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from pathlib import Path
from statistics import variance

import msgspec
import pytest
from scipy.stats import kstat, t
from typer.testing import CliRunner

from pointsman.audit import Request, Session, ToolUse, Usage, figures
from pointsman.audit.caches import Call, calls, predicted, reads
from pointsman.audit.figures import Part, SessionFigures, Spent, Split
from pointsman.audit.money import Pricing
from pointsman.audit.savings import ENOUGH_SESSIONS, TOOLS_CHANGE, Criterion, Run, compare, labels_needed
from pointsman.audit.verdict import stake_of, verdict
from pointsman.cli import app
from pointsman.vocabulary import Purpose

DEAR, CHEAP = "claude-opus-5-5", "claude-haiku-4-5"
LIFETIMES: dict[tuple[str, str], float | None] = {("anthropic", DEAR): 300.0, ("openai", "gpt-5"): 3600.0}


def call(at: float, tokens: int, model: str = DEAR, provider: str = "anthropic") -> Call:
    return Call(at, model, provider, "", input_tokens=tokens, output_tokens=100)


@pytest.mark.parametrize(
    ("made", "read"),
    [
        ([call(1, 2_000), call(300, 2_500)], [0, 2_000]),
        ([call(1, 2_000), call(301, 2_500)], [0, 2_000]),
        ([call(1, 2_000), call(302, 2_500)], [0, 0]),  # kept for five minutes
        ([call(1, 2_000), call(2, 1_500)], [0, 1_500]),  # shortened
        ([call(1, 1_023), call(2, 1_500)], [0, 0]),  # too short to be kept
        ([call(1, 2_000), call(2, 2_500, "gpt-5", "openai"), call(3, 3_000)], [0, 0, 2_000]),
        ([call(1, 2_000, "gpt-5", "openai"), call(3_000, 2_500, "gpt-5", "openai")], [0, 1_920]),
        ([call(0, 2_000), call(0, 2_500)], [0, 2_000]),  # times unknown
        ([call(1, 2_000), msgspec.structs.replace(call(2, 1_500), shared=0)], [0, 0]),
    ],
)
def test_what_a_cache_reads(made: list[Call], read: list[int]) -> None:
    assert list(predicted(made, LIFETIMES)) == read


def request(number: int, model: str = DEAR, purpose: Purpose = Purpose.MESSAGE, **usage: int) -> Request:
    found = Usage(input_tokens=10_000, output_tokens=100, output_at_most=100)
    return Request(
        id=f"{model}-{number}",
        at=1_000.0 + number,
        model=model,
        provider="anthropic",
        purpose=purpose,
        usage=msgspec.structs.replace(found, **usage),
    )


def session(*requests: Request, name: str = "s", project: str = "/p") -> Session:
    return Session(id=name, client="claude-code", project=project, requests=requests)


def test_titles_are_sure_to_cost_less_on_the_cheapest_model_of_the_logs() -> None:
    title = request(2, purpose=Purpose.TITLE)
    logs = [figures(session(request(1), title)), figures(session(request(3, CHEAP), name="t"))]
    (found,) = verdict(logs, Pricing()).sure
    assert found.requests == 1
    assert found.dollars == pytest.approx((10_000 * (4 - 1) + 100 * (20 - 5)) / 1e6)
    assert not verdict(logs[:1], Pricing()).sure  # the logs hold no cheaper model


def test_requests_after_a_lasting_sign_are_sure_and_no_longer_at_stake() -> None:
    same = ToolUse("c", "Bash", '{"command": "make"}', "error: no rule", is_error=True)
    stuck = figures(
        session(*(msgspec.structs.replace(request(at), calls=(same,)) for at in range(10)), name="stuck")
    )
    other = figures(session(request(20, CHEAP), name="t"))
    found = verdict([stuck, other], Pricing())
    assert [each.what for each in found.sure] == ["stop when stuck"]
    kept = 10 - found.sure[0].requests
    assert 0 < kept < 10
    (stake,) = found.stakes
    assert stake.dollars == pytest.approx(kept * (10_000 * 3 + 100 * 15) / 1e6)
    assert "1 session stuck" in found.sentence


def test_moves_that_lose_caches_are_sure_where_staying_costs_less() -> None:
    sizes = [100_000 + 200 * at for at in range(8)]
    cached = [0, 0, *sizes]  # each model has the prompt before the last in its cache
    moved = figures(
        session(
            *(
                request(
                    at,
                    CHEAP if at % 2 else DEAR,
                    input_tokens=size,
                    cached_tokens=read,
                    written_tokens=size - read,
                )
                for at, (size, read) in enumerate(zip(sizes, cached, strict=False))
            )
        )
    )
    (found,) = verdict([moved], Pricing()).sure
    assert found.what.startswith("stay with one model")
    assert 0 < found.dollars < 3


def test_sessions_in_which_staying_costs_more_count_too() -> None:
    """Which session gains is known only afterwards: the sum over those that gained is no rule."""
    gains = [request(0, DEAR, input_tokens=100_000, cached_tokens=0, written_tokens=100_000)]
    gains += [
        request(at, model, input_tokens=100_500, cached_tokens=0, written_tokens=100_500)
        for at, model in ((1, CHEAP), (2, DEAR))
    ]
    loses = [request(at, DEAR if at == 0 else CHEAP, input_tokens=200_000 + at) for at in range(40)]
    one, other = figures(session(*gains)), figures(session(*loses, name="t"))
    assert [each.what for each in verdict([one], Pricing()).sure] == ["stay with one model in every session"]
    assert not verdict([one, other], Pricing()).sure


def test_tools_count_as_unneeded_once_a_client_has_many_sessions_without_them() -> None:
    part = Part(Split("", DEAR, "anthropic", "message"), Spent(requests=10, input_tokens=50_000))
    one = SessionFigures(id="s", client="claude-code", parts=(part,), unused_tools={"Browser": 5_000})
    few, enough = [one] * (ENOUGH_SESSIONS - 1), [one] * ENOUGH_SESSIONS
    assert not verdict(few, Pricing()).sure
    assert [each.what for each in verdict(enough, Pricing()).sure] == [TOOLS_CHANGE]


def test_what_the_log_shows_to_be_rewritten_is_in_no_cache() -> None:
    """As Claude Code does it once: after its first request, what stands behind the system prompt."""
    counts = [(11_575, 0), (11_968, 9_216), (12_285, 11_904), (12_572, 12_160)]
    made = calls(
        [
            request(at, input_tokens=size, cached_tokens=read, written_tokens=size - read)
            for at, (size, read) in enumerate(counts)
        ]
    )
    assert list(predicted(made, LIFETIMES)) == [0, 9_216, 11_968, 12_285]
    other = [msgspec.structs.replace(each, model=CHEAP) for each in made]
    assert list(predicted(other, LIFETIMES)) == [0, 9_216, 11_968, 12_285]
    assert list(reads(made, other, LIFETIMES)) == [0, 9_216, 11_904, 12_160]
    returns = [made[0], other[1], made[2], other[3]]
    assert list(predicted(returns, LIFETIMES)) == [0, 0, 9_216, 11_968]


def test_one_model_leaves_nothing_to_compare() -> None:
    found = verdict([figures(session(request(1)))], Pricing())
    assert not found.stakes
    assert "Unknown: nothing can be compared" in found.sentence
    assert "By outcomes: nothing is proven." in found.sentence


def runs(difference: float, each: int, *, seed: int = 0) -> list[Run]:
    chance = random.Random(seed)
    return [
        Run(f"p{at % 10}", model, chance.random() < share, cost * chance.uniform(0.5, 1.5))
        for model, share, cost in ((DEAR, 0.5, 1.0), (CHEAP, 0.5 + difference, 0.2))
        for at in range(each)
    ]


NO_LOSS = Criterion()
TEN_POINTS = Criterion(margin=0.1)


@pytest.mark.parametrize(
    ("difference", "criterion", "said"),
    [
        (-0.15, NO_LOSS, "harmful"),
        (-0.15, TEN_POINTS, "harmful"),
        (0.15, NO_LOSS, "saves"),
        (0.0, NO_LOSS, "unknown"),
        (0.0, TEN_POINTS, "saves"),  # it does as well
        (-0.05, TEN_POINTS, "saves"),  # a loss that was tolerated beforehand
    ],
)
def test_outcomes_decide_where_they_are_many(difference: float, criterion: Criterion, said: str) -> None:
    found = compare(runs(difference, 1_000), DEAR, CHEAP, criterion)
    assert found.verdict == said
    assert found.interval[0] < difference < found.interval[1]
    assert (found.saved[0] > 0) == (said == "saves")


def test_a_saving_is_not_claimed_where_runs_cost_as_much() -> None:
    dear = [run._replace(cost=0.2 if run.model == DEAR else 0.4) for run in runs(0.15, 1_000)]
    found = compare(dear, DEAR, CHEAP)
    assert (found.verdict, found.saved) == ("unknown", (0.0, 0.0))
    assert "cost" in found.missing


def test_projects_on_one_model_alone_prove_nothing() -> None:
    apart = [run._replace(cluster=run.model) for run in runs(0.3, 1_000)]
    found = compare(apart, DEAR, CHEAP)
    assert (found.verdict, found.runs) == ("unknown", (0, 0))


def test_labels_that_are_needed_fall_with_those_there_are() -> None:
    assert labels_needed([], DEAR, CHEAP, Criterion(margin=0.05)) == {DEAR: 1_570, CHEAP: 1_570}
    assert (
        labels_needed([], DEAR, CHEAP)
        == labels_needed([], DEAR, CHEAP, TEN_POINTS)
        == {DEAR: 393, CHEAP: 393}
    )
    assert max(labels_needed(runs(0.0, 300), DEAR, CHEAP, TEN_POINTS).values()) < 100
    assert labels_needed(runs(0.0, 400), DEAR, CHEAP, TEN_POINTS) == {DEAR: 0, CHEAP: 0}


def test_outcomes_in_projects_that_nothing_can_be_compared_in_spare_no_label() -> None:
    known = runs(0.0, 400)
    apart = [run._replace(cluster=run.model) for run in known]
    assert labels_needed(apart, DEAR, CHEAP, TEN_POINTS) == {DEAR: 393, CHEAP: 393}
    one_side = [run._replace(solved=run.solved if run.model == DEAR else None) for run in known]
    assert labels_needed(one_side, DEAR, CHEAP, TEN_POINTS) == {DEAR: 0, CHEAP: 393}
    crossed = [  # enough of each, but never in one project
        run._replace(solved=run.solved if (run.model == DEAR) is (int(run.cluster[1:]) < 5) else None)
        for run in runs(0.0, 800)
    ]
    assert compare(crossed, DEAR, CHEAP, TEN_POINTS).missing == "no project has outcomes of both models"
    assert labels_needed(crossed, DEAR, CHEAP, TEN_POINTS) == {DEAR: 392, CHEAP: 392}


def exported(folder: Path, made: list[Run]) -> list[str]:
    """A log of LiteLLM with one request for each session, and the outcomes: arguments of ``audit``."""
    lines = [
        {
            "request_id": f"r{at}", "call_type": "acompletion", "status": "success", "session_id": f"s{at}",
            "model": run.model, "custom_llm_provider": "anthropic", "team_id": run.cluster, "metadata": {},
            "startTime": f"2026-11-{1 + at % 25:02d}T{at // 25 % 24:02d}:00:00+00:00",
            "endTime": f"2026-11-{1 + at % 25:02d}T{at // 25 % 24:02d}:00:00+00:00",
            "prompt_tokens": 1_000, "completion_tokens": 100, "spend": run.cost,
        }
        for at, run in enumerate(made)
    ]  # fmt: skip
    labels = [
        {"session": f"s{at}", "solved": run.solved} for at, run in enumerate(made) if run.solved is not None
    ]
    for name, rows in (("log.jsonl", lines), ("labels.jsonl", labels)):
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return ["audit", str(folder / "log.jsonl"), "--labels", str(folder / "labels.jsonl"), "--margin", "0.1"]


def test_an_audit_of_two_models_never_in_the_same_project_asks_for_sessions_in_one(tmp_path: Path) -> None:
    apart = [run._replace(cluster=run.model) for run in runs(0.0, 400)]
    said = CliRunner().invoke(app, exported(tmp_path, apart)).output
    assert "By outcomes: nothing is proven." in said
    assert "needs 786 further sessions on both models, nothing to label yet" in said
    assert f"{DEAR} and {CHEAP} have no project in common" in " ".join(said.split())
    assert "not drawn by chance" not in said
    shared = " ".join(CliRunner().invoke(app, exported(tmp_path, runs(0.0, 400))).output.split())
    assert "have no project in common" not in shared
    assert "By outcomes: nothing is proven." not in shared
    assert "were not drawn by chance" in shared
    assert "seems better than it is" not in shared  # all have an outcome
    silent = [
        run._replace(solved=None) if run.model == CHEAP and not run.solved and at % 4 else run
        for at, run in enumerate(runs(0.0, 400))
    ]
    shared = " ".join(CliRunner().invoke(app, exported(tmp_path, silent)).output.split())
    known = sum(run.solved is not None for run in silent if run.model == CHEAP)
    assert f"400 of 400 sessions of {DEAR} have an outcome, and {known} of 400 of {CHEAP}: a model" in shared


def test_the_labels_asked_for_show_ten_points_in_four_of_five_cases() -> None:
    each = labels_needed([], DEAR, CHEAP, TEN_POINTS)[DEAR]
    for difference, criterion in ((0.1, NO_LOSS), (0.0, TEN_POINTS)):  # a better model, and an equal one
        found = [compare(runs(difference, each, seed=seed), DEAR, CHEAP, criterion) for seed in range(60)]
        assert 0.7 < sum(each.verdict == "saves" for each in found) / len(found) < 0.95


@pytest.mark.parametrize(
    ("dear", "cheap", "shares"),
    [
        (300, 300, [0.5]),
        (1_000, 40, [0.95]),  # by the error of equal shares, 13 % of 4,000 were called good enough
        (60, 300, [0.2, 0.5, 0.9]),
        (240, 60, [0.15 + 0.8 * at / 59 for at in range(60)]),  # few runs of each project
        (20, 20, [0.9]),
    ],
)
def test_at_the_margin_a_model_is_rarely_called_good_enough(
    dear: int, cheap: int, shares: list[float]
) -> None:
    """Of 400 audits each; one-sided 2.5 %, of which 5 % are seen once in 1,000."""
    chance, wrong = random.Random(7), 0
    for _ in range(400):
        made = [
            Run(str(at % len(shares)), model, chance.random() < shares[at % len(shares)] - loss, 1.0)
            for model, count, loss in ((DEAR, dear, 0.0), (CHEAP, cheap, 0.1))
            for at in range(count)
        ]
        wrong += compare(made, DEAR, CHEAP, TEN_POINTS).is_good_enough
    assert wrong <= 20


def test_models_that_always_succeed_are_equally_good() -> None:
    made = [Run("p", model, solved=True, cost=1.0) for model in (DEAR, CHEAP) for _ in range(100)]
    found = compare(made, DEAR, CHEAP, TEN_POINTS)
    assert found.difference == 0.0
    assert found.missing == "not worse by more than 10 points, but its runs do not surely cost less"
    assert "is possible" in compare(made[:10] + made[-10:], DEAR, CHEAP).missing


def test_money_of_projects_without_outcomes_is_in_no_proven_saving_but_at_stake() -> None:
    def ran(project: str, model: str, at: int, tokens: int, *, solved: bool | None) -> SessionFigures:
        spent = Spent(
            requests=10, input_tokens=tokens, output_tokens=tokens // 50, output_at_most=tokens // 50
        )
        part = Part(Split("2026-11-01", model, "anthropic", "message"), spent)
        return SessionFigures(
            id=f"{project}-{model}-{at}", client="claude-code", project=project, solved=solved, parts=(part,)
        )

    judged = [
        ran("a", model, at, 200_000 + 10_000 * at, solved=at < good)
        for model, good in ((DEAR, 2), (CHEAP, 9))
        for at in range(10)
    ]
    unjudged = [ran("b", model, at, 8_000_000, solved=None) for model in (DEAR, CHEAP) for at in range(10)]
    alone, both = verdict(judged, Pricing()), verdict([*judged, *unjudged], Pricing())
    assert alone.claimed == both.claimed
    assert not alone.stakes
    assert "Unknown: nothing more." in alone.sentence
    (stake,) = both.stakes
    assert stake.dollars == pytest.approx(10 * (8 * (4 - 1) + 0.16 * (20 - 5)))


@pytest.mark.parametrize("runs_each", [4, 5, 20])
def test_the_interval_of_an_amount_holds_the_truth_also_with_few_runs(runs_each: int) -> None:
    chance, held, claimed = random.Random(7), 0, 0
    for _ in range(400):
        made = [
            Run("p", model, model == CHEAP, cost * math.exp(chance.gauss(0, 0.5) - 0.125))
            for model, cost in ((DEAR, 1.0), (CHEAP, 0.3))
            for _ in range(runs_each)
        ]
        found = compare(made, DEAR, CHEAP)
        if found.verdict == "saves":
            claimed += 1
            held += found.saved[0] <= runs_each * 0.7 <= found.saved[1]
    assert claimed > 100
    assert held / claimed > 0.88  # as the normal distribution has it, .75 with 3 runs of each


@pytest.mark.parametrize(("dear", "cheap", "most"), [(0.3, 1.5, 0.12), (1.5, 0.3, 0.025), (0.3, 0.3, 0.05)])
def test_skewed_costs_of_the_cheap_model_claim_seldom_a_saving(
    dear: float, cheap: float, most: float
) -> None:
    """Of models that cost the same; 16 % by Welch's interval if the cheap one's are far more skewed."""
    draw, claimed = random.Random(11), 0
    for _ in range(200):
        made = [
            Run(
                f"p{at // 20}", model, solved=model == CHEAP, cost=draw.lognormvariate(-(sigma**2) / 2, sigma)
            )
            for model, sigma in ((DEAR, dear), (CHEAP, cheap))
            for at in range(100)
        ]
        claimed += compare(made, DEAR, CHEAP).verdict == "saves"
    assert claimed / 200 <= most


@pytest.mark.parametrize(("tries", "least"), [(1, 4), (3, 6), (28, 6)])
def test_no_amount_is_claimed_where_the_quantile_is_off(tries: int, least: int) -> None:
    """Costs of the cheap model do not vary, so that the degrees of freedom are the dear one's runs less 1."""
    criterion = Criterion(tries)
    for each in range(3, 8):
        made = [Run("p", DEAR, solved=False, cost=10 + at / 10) for at in range(each)]
        made += [Run("p", CHEAP, solved=True, cost=1.0) for _ in range(40)]
        made += [Run("q", model, model == CHEAP, 1.0) for model in (DEAR, CHEAP) for _ in range(60)]
        low, high = compare(made, DEAR, CHEAP, criterion).saved
        assert (low > 0) is (each >= least)
        if low:
            costs = [run.cost for run in made[:each]]
            exact = t.ppf(criterion.certainty, each - 1) * math.sqrt(each * variance(costs))
            assert (high - low) / 2 == pytest.approx(exact, rel=0.02)


def test_labels_of_a_model_that_two_are_compared_with_count_once() -> None:
    logs = [
        figures(session(request(at, model), name=f"{model}-{at}"))
        for model in (DEAR, "claude-sonnet-4-5", CHEAP)
        for at in range(3)
    ]
    found = verdict(logs, Pricing())
    assert [each.cheap for each in found.stakes] == [CHEAP, CHEAP]
    each = found.stakes[0].needed[CHEAP]
    unrun = f"{3 * each:,} labels ({3 * (each - 3):,} of them of sessions not yet run)"
    assert f"{unrun} would show a difference of ten points." in found.sentence
    assert [len(stake.sample) for stake in found.stakes] == [6, 6]


@pytest.mark.parametrize(
    ("dear", "cheap", "said"),
    [
        (240, 258, "a loss of less than 1% is possible as well as a gain of 12%"),
        (258, 240, "a loss of 12% is possible as well as a gain of less than 1%"),
    ],
)
def test_a_small_possible_loss_or_gain_is_not_called_none(dear: int, cheap: int, said: str) -> None:
    """Of 300 runs each 240 and 258 solved: the interval ends .0002 beyond 0, which was "0%"."""
    made = [
        Run("p", model, at < solved, 1.0)
        for model, solved in ((DEAR, dear), (CHEAP, cheap))
        for at in range(300)
    ]
    found = compare(made, DEAR, CHEAP)
    assert (found.verdict, found.missing) == ("unknown", said)


@pytest.mark.parametrize("tries", [1, 28, 50_000])
def test_skewed_costs_never_raise_the_lower_end_of_a_saving(tries: int) -> None:
    """One run of six cost most: far out, where many models are compared, Hall's end was the higher one."""
    made = [Run("p", DEAR, solved=True, cost=100.0) for _ in range(6)]
    made += [Run("p", CHEAP, solved=True, cost=9.0 if at == 0 else 1.0) for at in range(6)]
    low, high = compare(made, DEAR, CHEAP, Criterion(tries, margin=2.0)).saved
    mean = 600 - 14
    assert 0 < low < mean < high
    assert mean - low >= high - mean


def test_the_interval_of_a_saving_by_the_moments_of_its_projects() -> None:
    """Moments by SciPy; the cheap model's costs are skewed, so that Hall's lower end lies further out."""
    costs = {
        "p": ([10.0, 12.0, 11.0, 14.0] * 5, [1.0] * 11 + [9.0]),
        "q": ([20.0, 19.0, 23.0] * 4, [2.0, 2.0, 3.0, 2.0, 8.0, 2.0, 4.0, 2.0]),
        "one": ([500.0], [1.0, 2.0]),  # no spread
    }
    made = [
        Run(project, model, solved=True, cost=each, worth=each / 4)
        for project, both in costs.items()
        for model, side in zip((DEAR, CHEAP), both, strict=True)
        for each in side
    ]
    mean = spread = third = below = 0.0
    for used, other in (costs["p"], costs["q"]):
        for side, weight in ((used, len(used)), (other, -len(used))):
            mean += weight * kstat(side, 1)
            term = weight**2 * kstat(side, 2) / len(side)
            third += weight**3 * kstat(side, 3) / len(side) ** 2
            spread, below = spread + term, below + term**2 / (len(side) - 1)
    end, skew = t.ppf(0.975, spread**2 / below), third / spread**1.5
    assert skew < -0.3
    hall = 3 * (math.cbrt(1 + skew * (end - skew / 6)) - 1) / skew
    found = compare(made, DEAR, CHEAP, Criterion(margin=2.0))
    assert (found.runs, found.sessions, found.clusters) == ((33, 22), (33, 22), 3)
    assert (found.verdict, found.subscribed) == ("saves", 0.25)
    assert found.saved == pytest.approx(
        (mean - hall * math.sqrt(spread), mean + end * math.sqrt(spread)), rel=1e-4
    )
    unjudged = [*made, Run("q", DEAR, None, 20.0), Run("r", DEAR, None, 1.0)]
    assert compare(unjudged, DEAR, CHEAP).sessions == (34, 22)  # of projects with outcomes of both


def test_sessions_to_label_are_drawn_by_chance() -> None:
    """The dearest first, a model that solves .2 less was called as good, for dear failures."""
    runs, solved = {}, {}
    for at in range(2_000):
        model, success, of_failures = ((DEAR, 0.8, 3.0), (CHEAP, 0.6, 0.1))[at % 2]
        solved[f"s-{at}"] = at // 2 % 10 < 10 * success
        runs[f"s-{at}"] = Run("p", model, None, 1.0 if solved[f"s-{at}"] else of_failures)
    criterion = Criterion(margin=0.1)
    asked = stake_of(DEAR, CHEAP, 1.0, runs, criterion)
    labelled = [runs[name]._replace(solved=solved[name]) for name in asked.sample]
    assert Counter(run.model for run in labelled) == {DEAR: 393, CHEAP: 393}
    found = compare(labelled, DEAR, CHEAP, criterion)
    assert found.verdict == "harmful"
    assert found.difference == pytest.approx(-0.2, abs=0.07)
    assert stake_of(DEAR, CHEAP, 1.0, dict(reversed(runs.items())), criterion).sample == asked.sample
