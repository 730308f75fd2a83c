"""Several models per tier: order, shares by weight, and parameters."""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.model_choice import chains
from pointsman.model_choice.chains import TierModel, TierModels, drawn, model_chain, pools, shares
from pointsman.model_choice.choice import InUse, Load, ModelChooser
from pointsman.model_choice.fitness import Requirements
from pointsman.vocabulary import ModelSpec, Parameters, Tier

MODELS = {
    "mini": ModelSpec("mini", "main", "mini", features=frozenset()),
    "opus": ModelSpec("opus", "one", "opus", features=frozenset({"tools"})),
    "gpt": ModelSpec("gpt", "two", "gpt", features=frozenset({"tools", "vision"})),
}
VISION = Requirements(features=frozenset({"vision"}))
SESSIONS = [f"session-{number}" for number in range(10_000)]


def weighted(*weights: float | None) -> tuple[TierModel, ...]:
    return tuple(TierModel(model=f"m{place}", weight=weight) for place, weight in enumerate(weights))


def test_what_may_be_written() -> None:
    opus = TierModel(model="opus", effort="high")
    assert pools({Tier.COMPLEX: ["gpt", opus], Tier.SIMPLE: "mini", Tier.REASONING: opus}) == {
        Tier.SIMPLE: (TierModel(model="mini"),),
        Tier.COMPLEX: (TierModel(model="gpt"), opus),
        Tier.REASONING: (opus,),
    }


def test_the_first_that_can_and_the_others_behind_it() -> None:
    tiers = {Tier.SIMPLE: "mini", Tier.COMPLEX: ("opus", "gpt"), Tier.REASONING: "opus"}
    assert model_chain(Tier.COMPLEX, tiers, MODELS, Requirements()).models == ("opus", "gpt")
    assert model_chain(Tier.COMPLEX, tiers, MODELS, VISION).models == ("gpt",)
    assert model_chain(Tier.SIMPLE, tiers, MODELS, Requirements()).models == ("mini", "opus", "gpt")
    assert model_chain(Tier.REASONING, tiers, MODELS, VISION).models == ("gpt",)  # a lower tier, and said


@pytest.fixture(scope="module")
def _drawn_once() -> Iterator[None]:
    """What a session draws for a model does not depend on weights: a hundred examples share it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "_wait", cache(chains._wait))
        yield


@pytest.mark.usefixtures("_drawn_once")
@given(st.lists(st.integers(1, 20), min_size=2, max_size=5))
def test_shares_follow_the_weights(weights: list[int]) -> None:
    pool = weighted(*map(float, weights))
    chances = [shares(pool)]
    first = Counter(drawn(chances, session)[0] for session in SESSIONS)
    for entry, weight in zip(pool, weights, strict=True):
        # Five standard deviations of 10,000 draws are at most 0.025.
        assert first[entry.model] / len(SESSIONS) == pytest.approx(weight / sum(weights), abs=0.025)


def test_an_entry_without_a_weight_counts_one() -> None:
    first = Counter(drawn([shares(weighted(3.0, None))], session)[0] for session in SESSIONS)
    assert first["m0"] / first["m1"] == pytest.approx(3, rel=0.1)


@given(st.text(), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4))
def test_a_session_draws_the_same_every_time(session: str, weights: list[float]) -> None:
    pool = weighted(*weights)
    names = drawn([shares(pool)], session)
    assert names == drawn([shares(pool)], session)
    assert sorted(names) == sorted(entry.model for entry in pool)
    assert all(a < b for a, b in pairwise(names[1:])), "the others follow in order"


def test_a_draw_is_the_same_in_every_process() -> None:
    firsts = [drawn([shares(weighted(1.0, 1.0, 1.0))], session)[0] for session in SESSIONS[:8]]
    assert firsts == ["m0", "m0", "m2", "m0", "m2", "m1", "m2", "m2"]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_model_that_cannot_serve_moves_its_own_sessions_alone(gone: int) -> None:
    pool = weighted(1.0, 1.0, 2.0)
    others = shares((*pool[:gone], *pool[gone + 1 :]))
    for session in SESSIONS[:2_000]:
        first = drawn([shares(pool)], session)[0]
        if first != pool[gone].model:
            assert drawn([others], session)[0] == first


def test_pools_of_other_models_draw_apart() -> None:
    """Else a comparison of two deployments of one tier is one of two deployments of the other."""
    one = shares((TierModel(model="a", weight=1.0), TierModel(model="b", weight=1.0)))
    other = shares((TierModel(model="c", weight=1.0), TierModel(model="d", weight=1.0)))
    pairs = Counter((drawn([one], each)[0], drawn([other], each)[0]) for each in SESSIONS)
    assert {round(count / len(SESSIONS), 1) for count in pairs.values()} <= {0.2, 0.3}
    assert len(pairs) == 4


def test_a_model_that_is_named_twice_has_the_sum_of_its_weights() -> None:
    pool = (TierModel(model="a", weight=1.0), TierModel(model="b", weight=2.0), TierModel(model="a"))
    first = Counter(drawn([shares(pool)], session)[0] for session in SESSIONS)
    assert first["a"] / len(SESSIONS) == pytest.approx(0.5, abs=0.025)


def test_a_share_is_drawn_among_those_that_can() -> None:
    pool = (TierModel(model="opus", weight=99.0), TierModel(model="gpt"))
    chooser = ModelChooser({Tier.COMPLEX: pool}, MODELS)
    firsts = {chooser.choose(Tier.COMPLEX, VISION, None, session).models for session in SESSIONS[:100]}
    assert firsts == {("gpt",)}


HIGH = TierModel(model="gpt", effort="high")
SAME_MODEL: TierModels = {Tier.SIMPLE: "mini", Tier.COMPLEX: "gpt", Tier.REASONING: HIGH}


@pytest.mark.parametrize(
    ("tier", "models", "parameters"),
    [
        (Tier.SIMPLE, ("mini", "gpt"), {}),
        (Tier.COMPLEX, ("gpt",), {}),
        (Tier.REASONING, ("gpt",), {"gpt": Parameters(effort="high")}),
    ],
)
def test_a_model_is_called_as_the_first_tier_of_the_chain_has_it(
    tier: Tier, models: tuple[str, ...], parameters: dict[str, Parameters]
) -> None:
    choice = ModelChooser(SAME_MODEL, MODELS).choose(tier, Requirements(), None)
    assert (choice.models, choice.parameters) == (models, parameters)


def test_a_model_that_stays_beyond_its_tier_keeps_its_parameters() -> None:
    tiers: TierModels = {Tier.SIMPLE: "mini", Tier.REASONING: HIGH}
    in_use = InUse("gpt", in_tool_loop=True, load=Load(100))
    choice = ModelChooser(tiers, MODELS).choose(Tier.SIMPLE, Requirements(), in_use)
    assert choice.models == ("gpt", "mini")
    assert choice.parameters == {"gpt": Parameters(effort="high")}


@pytest.mark.parametrize(
    ("tier", "up"),
    [(Tier.SIMPLE, Tier.COMPLEX), (Tier.MEDIUM, Tier.COMPLEX), (Tier.COMPLEX, Tier.REASONING)],
)
def test_the_next_model_up_may_be_the_same_with_more_effort(tier: Tier, up: Tier) -> None:
    assert ModelChooser(SAME_MODEL, MODELS).next_up(tier) is up


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"weight": 0.0}, "positive"),
        ({"weight": -1.0}, "positive"),
        ({"weight": float("inf")}, "finite"),
        ({"weight": float("nan")}, "positive"),
        ({"thinking_budget": 2_048, "max_tokens": 2_048}, "less than"),
        ({"thinking_budget": 2_048, "effort": "none"}, "contradicts"),
    ],
)
def test_values_that_cannot_be(values: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TierModel(model="gpt", **values)  # type: ignore[arg-type]
