"""Posteriors by project: shrinkage level by level, decay, and a tier only where it is certain."""

import random
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import PointsmanError
from pointsman.learning.projects import (
    PRIOR,
    Beta,
    ProjectOutcome,
    chance_above,
    chance_kept,
    fit_projects,
    posteriors,
    read_project_outcomes,
)
from pointsman.tiers.projects import ProjectPolicy, cell_name, tier_of_project
from pointsman.vocabulary import Tier
from pointsman.wire.project import project_key

DAY = 86_400.0
TIERS = {"simple": ("small",), "complex": ("large",)}


def outcomes(project: str, model: str, good: int, bad: int, *, at: float = 0.0, role: str = "message",
             kind: str = "*") -> list[ProjectOutcome]:  # fmt: skip
    return [
        ProjectOutcome(
            id=f"{project}-{model}-{role}-{kind}-{at}-{n}", project=project, model=model,
            score=float(n < good),            at=at, role=role, kind=kind,
        )
        for n in range(good + bad)
    ]  # fmt: skip


def test_each_level_shrinks_to_the_one_above() -> None:
    found = posteriors([*outcomes("a", "small", 30, 10), *outcomes("b", "small", 0, 2)])
    everywhere = (30 + PRIOR * 0.5) / (42 + PRIOR)
    assert found[cell_name("*")]["small"].mean == pytest.approx(everywhere)
    project = (0 + PRIOR * everywhere) / (2 + PRIOR)
    assert found[cell_name("b")]["small"].mean == pytest.approx(project)
    role = (0 + PRIOR * project) / (2 + PRIOR)
    assert found[cell_name("b", role="message")]["small"].mean == pytest.approx(role)


def test_another_callers_outcomes_move_nothing() -> None:
    def of(caller: str, rows: list[ProjectOutcome]) -> list[ProjectOutcome]:
        return [msgspec.structs.replace(each, caller=caller) for each in rows]

    own = of("alice", [*outcomes("a", "small", 1, 0), *outcomes("b", "small", 3, 3)])
    alone = fit_projects(own, TIERS, target=0.8)
    for flood in (outcomes("c", "small", 2_000, 0), outcomes("c", "small", 0, 2_000)):
        beside = fit_projects([*of("bob", flood), *own], TIERS, target=0.8)
        assert {name: beside.cells[name] for name in alone.cells} == alone.cells
    same = fit_projects([*outcomes("c", "small", 2_000, 0), *own], TIERS, target=0.8)
    assert same.cells[cell_name("a")] == alone.cells[cell_name("a")], "nor those that came without a key"


def test_a_cell_without_own_outcomes_says_what_is_said_above_it() -> None:
    found = posteriors([*outcomes("a", "small", 30, 10), *outcomes("b", "large", 5, 5)])
    assert found[cell_name("b")]["small"].mean == found[cell_name("*")]["small"].mean
    assert found[cell_name("b")]["small"].outcomes == 0


def test_the_same_outcomes_give_the_same_file_in_every_process() -> None:
    """Cells of one width are in the order of their names, not in that of a set."""
    rows = [each for project in "hgfedcba" for each in outcomes(project, "small", 2, 1, kind="law")]
    cells = list(fit_projects(rows, TIERS, target=0.5).cells)
    assert cells[:8] == [cell_name(project) for project in "abcdefgh"]
    assert cells[-8:] == [cell_name(project, "law", "message") for project in "abcdefgh"]


def test_kind_and_role_are_levels_of_their_own() -> None:
    rows = [
        *outcomes("a", "small", 20, 0, kind="law"),
        *outcomes("a", "small", 0, 20, kind="code", role="plan"),
    ]
    found = posteriors(rows)
    law = found[cell_name("a", "law")]["small"].mean
    code = found[cell_name("a", "code", "plan")]["small"].mean
    assert code < found[cell_name("a")]["small"].mean < law


def test_outcomes_decay() -> None:
    old = posteriors([*outcomes("a", "small", 0, 40), *outcomes("a", "small", 10, 0, at=360 * DAY)])
    new = posteriors([*outcomes("a", "small", 0, 40), *outcomes("a", "small", 10, 0, at=DAY)])
    assert old[cell_name("a")]["small"].mean > new[cell_name("a")]["small"].mean + 0.2
    assert old[cell_name("a")]["small"].outcomes == pytest.approx(10 + 40 / 16)


@given(st.floats(0.5, 50), st.floats(0.5, 50), st.floats(0, 1))
def test_chances_are_probabilities_that_fall_with_the_target(a: float, b: float, target: float) -> None:
    posterior = Beta(a, b, 0, 0)
    assert 0 <= chance_above(posterior, target) <= 1
    assert chance_above(posterior, target) >= chance_above(posterior, min(target + 0.1, 1.0))
    best = Beta(5, 5, 0, 0)
    assert chance_kept(posterior, best, 0.5) >= chance_kept(posterior, best, 1.0) - 1e-9


def test_two_equal_models_are_each_better_half_of_the_time() -> None:
    posterior = Beta(30, 20, 0, 0)
    assert chance_kept(posterior, posterior, 1.0) == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize(
    ("small", "large", "tier"),
    [
        ((95, 5), (95, 5), "simple"),
        ((40, 60), (95, 5), ""),
        ((4, 0), (4, 0), ""),  # too few to be certain
    ],
)
def test_a_tier_is_named_only_where_it_is_certain(
    small: tuple[int, int], large: tuple[int, int], tier: str
) -> None:
    rows = [*outcomes("a", "small", *small), *outcomes("a", "large", *large)]
    found = fit_projects(rows, TIERS, target=0.9, keep=True)
    assert found.cells[cell_name("a")].tier == tier


def test_what_others_did_is_no_reason_to_save() -> None:
    rows = [*outcomes("a", "small", 500, 0), *outcomes("a", "large", 500, 0), *outcomes("b", "large", 50, 0)]
    found = fit_projects(rows, TIERS, target=0.5)
    assert found.cells[cell_name("a")].tier == "simple"
    assert found.cells[cell_name("b")].tier == "complex"  # the small model was never tried there
    assert fit_projects(rows, TIERS, target=0.5, keep=True).cells[cell_name("b")].tier == ""


@pytest.mark.parametrize(("own", "tier"), [(1, ""), (3, ""), (20, ""), (21, "simple")])
def test_borrowed_outcomes_name_no_tier(own: int, tier: str) -> None:
    """However good a model is elsewhere: 22 outcomes without a failure show .9 with a certainty of .9."""
    rows = [each for number in range(20) for each in outcomes(f"other{number}", "small", 49, 1)]
    found = fit_projects([*rows, *outcomes("a", "small", own, 0)], TIERS, target=0.9)
    assert found.cells[cell_name("a")].chance["simple"] > 0.9
    assert found.cells[cell_name("a")].tier == tier


@pytest.mark.parametrize(
    ("small", "large", "tier"),
    [
        ((10, 0), (0, 1), ""),  # named before: one failure of the last tier's model made it look bad
        ((10, 0), (1, 0), ""),  # and one success left it unknown
        ((10, 0), (3, 0), ""),
        ((60, 0), (3, 0), "simple"),
    ],
)
def test_few_outcomes_of_the_last_tier_are_no_reason_to_save(
    small: tuple[int, int], large: tuple[int, int], tier: str
) -> None:
    """At a success just too low, 28 % of such projects with ten outcomes were given the cheap tier."""
    rows = [
        each for number in range(20) for name in ("small", "large")
        for each in outcomes(f"other{number}", name, 49, 1)
    ]  # fmt: skip
    rows += [*outcomes("a", "small", *small), *outcomes("a", "large", *large)]
    found = fit_projects(rows, TIERS, target=0.9, keep=True).cells[cell_name("a")]
    assert found.chance["simple"] > 0.9
    assert found.tier == tier


def test_bad_projects_among_good_ones_are_rarely_given_the_cheap_tier() -> None:
    """With the borrowed outcomes alone, 62 % of such projects were after one outcome of each model."""
    draw = random.Random(7)
    rows = [each for number in range(20) for each in outcomes(f"other{number}", "small", 39, 1)]
    for number in range(60):
        count = 1 + number % 10
        good = sum(draw.random() < 0.6 for _ in range(count))
        rows += [
            *outcomes(f"bad{number}", "small", good, count - good),
            *outcomes(f"bad{number}", "large", 9, 0),
        ]
    for keep in (False, True):
        found = fit_projects(rows, TIERS, target=0.9, keep=keep)
        assert not [n for n in range(60) if found.cells[cell_name(f"bad{n}")].tier == "simple"]
        assert any(found.cells[cell_name(f"other{n}")].tier == "simple" for n in range(20)) is not keep


def test_every_model_of_a_tier_must_be_good_enough() -> None:
    rows = [*outcomes("a", "small", 90, 10), *outcomes("a", "tiny", 10, 90), *outcomes("a", "large", 90, 10)]
    tiers = {"simple": ("small", "tiny"), "complex": ("large",)}
    assert fit_projects(rows, tiers, target=0.7).cells[cell_name("a")].tier == "complex"


@pytest.mark.parametrize(
    ("role", "tier"),
    [("message", "SIMPLE"), ("plan", None), ("edit", "SIMPLE"), ("never seen", "SIMPLE")],
)
def test_a_role_that_is_known_to_fail_does_not_get_the_tier_of_its_project(
    role: str, tier: str | None
) -> None:
    rows = [
        *outcomes("a", "small", 285, 15), *outcomes("a", "large", 285, 15),
        *outcomes("a", "small", 2, 28, role="plan"), *outcomes("a", "large", 24, 6, role="plan"),
        *outcomes("a", "small", 1, 0, role="edit"),  # too few to say anything against the project
    ]  # fmt: skip
    found = fit_projects(rows, TIERS, target=0.8)
    assert found.cells[cell_name("a")].tier == "simple"
    assert found.cells[cell_name("a", role="plan")].tier == ""
    policy = ProjectPolicy(projects=found)
    said = tier_of_project(policy, "a", role, "*", message="m", tiers=(Tier.SIMPLE, Tier.COMPLEX))
    assert (said.tier if said else None) == tier


def test_lines_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "o.jsonl"
    rows = outcomes(project_key("", "a"), "small", 1, 1)
    file.write_bytes(b"\n".join(map(msgspec.json.encode, [*rows, rows[0]])))
    assert read_project_outcomes(file) == rows  # the same line twice says the same
    file.write_bytes(
        b"\n".join(map(msgspec.json.encode, [*rows, msgspec.structs.replace(rows[0], score=0.0)]))
    )
    with pytest.raises(PointsmanError, match=r"o\.jsonl:3: .* has score 0 for .small., and 1 at .*:1"):
        read_project_outcomes(file)
    file.write_text('{"id": "x", "project": "a", "model": "m", "score": 2}')
    with pytest.raises(PointsmanError, match="from 0 to 1, not 2"):
        read_project_outcomes(file)
    with pytest.raises(PointsmanError, match="no outcome belongs to a project"):
        fit_projects([], TIERS, target=0.5)
    with pytest.raises(PointsmanError, match="no tier has a model"):
        fit_projects(rows, {}, target=0.5)


def test_outcomes_of_one_session_count_as_far_as_they_differ() -> None:
    """A model that just fails the target in sessions of ten that are alike was named in one case of four."""
    draw, named = random.Random(5), {"told": 0, "untold": 0}
    for _ in range(60):
        rows = []
        for session in range(10):
            success = draw.betavariate(0.8 * 7 / 3, 0.2 * 7 / 3)
            rows += [
                ProjectOutcome(id=f"{session}-{n}", project="p", model="small",
                               score=float(draw.random() < success), session=f"s{session}")
                for n in range(10)
            ]  # fmt: skip
        alone = [msgspec.structs.replace(each, session="") for each in rows]
        for name, outcomes_said in (("told", rows), ("untold", alone)):
            named[name] += bool(fit_projects(outcomes_said, TIERS, target=0.8).cells[cell_name("p")].tier)
    assert named["told"] <= 6 < 9 <= named["untold"]


def test_sessions_that_are_not_alike_lose_little() -> None:
    """Of 30 sessions of five outcomes each, 19 in 20 of them good, more than a third count."""
    draw = random.Random(6)
    rows = [
        ProjectOutcome(id=str(n), project="p", model="small", score=float(draw.random() < 0.95),
                       session=str(n % 30))
        for n in range(150)
    ]  # fmt: skip
    found = posteriors(rows)[cell_name("p")]["small"]
    assert found.outcomes > 50
    assert found.successes / found.outcomes == pytest.approx(sum(each.score for each in rows) / 150)
    assert fit_projects(rows, TIERS, target=0.8).cells[cell_name("p")].tier == "simple"
