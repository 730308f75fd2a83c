"""From a tier to models: capability first, then the tier, never dearer than its chain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.model_choice.chains import FALLBACK_CHAIN, LOWER_TIER, model_chain
from pointsman.model_choice.fitness import Requirements, lacks
from pointsman.vocabulary import ModelSpec, Reason, Tier, WireFormat


def spec(name: str, **fields: object) -> ModelSpec:
    return ModelSpec(name=name, upstream="main", id=name, **fields)  # type: ignore[arg-type]


LADDER = {Tier.SIMPLE: "mini", Tier.MEDIUM: "mid", Tier.COMPLEX: "big", Tier.REASONING: "deep"}
MODELS = {
    "mini": spec("mini", context_window=8_000, features=frozenset()),
    "mid": spec("mid", context_window=100_000, features=frozenset({"tools"})),
    "big": spec("big", context_window=200_000, features=frozenset({"tools", "vision"})),
    "deep": spec("deep"),
}


@pytest.mark.parametrize(
    ("tier", "models"),
    [
        (Tier.SIMPLE, ("mini", "mid", "big")),
        (Tier.MEDIUM, ("mid", "big")),
        (Tier.COMPLEX, ("big", "deep")),
        (Tier.REASONING, ("deep",)),
    ],
)
def test_a_request_any_model_can_serve(tier: Tier, models: tuple[str, ...]) -> None:
    chain = model_chain(tier, LADDER, MODELS, Requirements())
    assert (chain.models, chain.reasons) == (models, ())


@pytest.mark.parametrize(
    ("needed", "models", "reasons"),
    [
        (Requirements(tokens=8_000), ("mini", "mid", "big"), []),
        (
            Requirements(tokens=8_001),
            ("mid", "big"),
            ['"mini": 8001 tokens do not fit its context window of 8000'],
        ),
        (Requirements(features=frozenset({"tools"})), ("mid", "big"), ['"mini" has no tools']),
        (
            Requirements(features=frozenset({"tools", "vision"})),
            ("big",),
            ['"mini" has no tools, vision', '"mid" has no vision'],
        ),
    ],
)
def test_models_that_cannot_are_skipped_and_named(
    needed: Requirements, models: tuple[str, ...], reasons: list[str]
) -> None:
    chain = model_chain(Tier.SIMPLE, LADDER, MODELS, needed)
    assert chain.models == models
    assert [reason.detail for reason in chain.reasons] == reasons


def test_nothing_dearer_than_the_chain_is_tried_while_anything_else_can() -> None:
    needed = Requirements(features=frozenset({"structured"}))  # only "deep" may have it
    chain = model_chain(Tier.SIMPLE, LADDER, MODELS, needed)
    assert chain.models == ("deep",)
    assert chain.reasons[-1] == Reason(
        "routing.only-dearer", "the tiers up to COMPLEX cannot serve this request: REASONING comes next"
    )
    assert model_chain(Tier.COMPLEX, LADDER, MODELS, needed).models == ("deep",)


def test_a_request_that_every_model_is_known_to_be_unable_for() -> None:
    models = {**MODELS, "deep": spec("deep", features=frozenset())}
    chain = model_chain(Tier.MEDIUM, LADDER, models, Requirements(features=frozenset({"structured"})))
    assert (chain.models, chain.refused) == ((), True)
    details = [f'"{name}" has no structured' for name in ("mid", "big", "mini", "deep")]
    assert [reason.detail for reason in chain.reasons] == details


def test_models_that_only_seem_too_small_are_tried() -> None:
    models = {**MODELS, "deep": spec("deep", features=frozenset())}
    needed = Requirements(tokens=300_000, features=frozenset({"tools"}))
    chain = model_chain(Tier.MEDIUM, LADDER, models, needed)
    assert (chain.models, chain.doubtful) == (("mid", "big"), True)
    assert chain.reasons[-1].code == "routing.none-able"


def test_a_cheaper_model_that_can_is_better_than_one_that_cannot() -> None:
    models = {**MODELS, "deep": spec("deep", features=frozenset())}
    chain = model_chain(Tier.REASONING, LADDER, models, Requirements(features=frozenset({"tools"})))
    assert chain.models == ("big", "mid")
    assert [reason.detail for reason in chain.reasons] == [
        '"deep" has no tools',
        '"mini" has no tools',
        "tier REASONING cannot serve this request: COMPLEX comes next",
    ]
    assert chain.reasons[-1].code == LOWER_TIER


@pytest.mark.parametrize(
    ("tier_models", "tier", "features", "models"),
    [
        (LADDER, Tier.REASONING, {"tools"}, ()),  # "deep" has none: neither higher nor lower ones instead
        (LADDER, Tier.SIMPLE, {"tools"}, ()),
        (LADDER, Tier.SIMPLE, set(), ("mini", "mid", "big")),  # the others for when its provider fails
        (LADDER, Tier.COMPLEX, {"tools"}, ("big",)),
        ({Tier.SIMPLE: "mini", Tier.MEDIUM: "mid"}, Tier.REASONING, set(), ()),
        ({Tier.MEDIUM: "mid"}, Tier.SIMPLE, set(), ("mid",)),
        ({Tier.REASONING: "deep"}, Tier.SIMPLE, set(), ("deep",)),
        ({}, Tier.SIMPLE, set(), ()),
    ],
)
def test_a_forced_tier(
    tier_models: dict[Tier, str], tier: Tier, features: set[str], models: tuple[str, ...]
) -> None:
    known = {**MODELS, "deep": spec("deep", features=frozenset())}
    needed = Requirements(features=frozenset(features))
    chain = model_chain(tier, tier_models, known, needed, forced=True)
    assert chain.models == models
    assert chain.refused == (not models and bool(tier_models))


def test_another_wire_format() -> None:
    models = {**MODELS, "mini": spec("mini", formats=frozenset({WireFormat.CHAT}))}
    chain = model_chain(Tier.SIMPLE, LADDER, models, Requirements(format=WireFormat.MESSAGES))
    assert chain.models == ("mid", "big")
    assert chain.reasons[0].code == "routing.skipped.format"


def test_a_model_of_two_tiers_is_tried_once() -> None:
    tier_models = {**LADDER, Tier.MEDIUM: "mini"}
    assert model_chain(Tier.SIMPLE, tier_models, MODELS, Requirements()).models == ("mini", "big")


@pytest.mark.parametrize(
    ("tier_models", "tier", "models"),
    [
        ({Tier.COMPLEX: "big"}, Tier.SIMPLE, ("big",)),
        ({Tier.SIMPLE: "mini", Tier.MEDIUM: "mid"}, Tier.REASONING, ("mid", "mini")),
        ({Tier.REASONING: "deep"}, Tier.SIMPLE, ("deep",)),  # the only one there is
        ({}, Tier.MEDIUM, ()),
    ],
)
def test_tiers_without_a_model(tier_models: dict[Tier, str], tier: Tier, models: tuple[str, ...]) -> None:
    assert model_chain(tier, tier_models, MODELS, Requirements()).models == models


@given(
    st.sampled_from(list(Tier)),
    st.dictionaries(st.sampled_from(list(Tier)), st.sampled_from(sorted(MODELS))),
    st.integers(0, 300_000),
    st.frozensets(st.sampled_from(["tools", "vision", "structured"])),
    st.booleans(),
)
def test_a_chain_holds_the_best_of_what_can(
    tier: Tier, tier_models: dict[Tier, str], tokens: int, features: frozenset[str], forced: bool
) -> None:
    needed = Requirements(tokens, features)
    chain = model_chain(tier, tier_models, MODELS, needed, forced=forced)
    assert len(set(chain.models)) == len(chain.models)
    assert bool(chain.models) != (chain.refused or not tier_models)
    able = {name for name in tier_models.values() if not any(lacks(MODELS[name], needed))}
    assert chain.doubtful or set(chain.models) <= able
    if forced:
        lower = [tier_models.get(step) for step in Tier if step.rank < tier.rank]
        higher = [tier_models.get(step) for step in Tier if step.rank >= tier.rank]
        assert all(name in higher for name in chain.models if name in lower)
        return
    assert chain.doubtful or bool(chain.models) == bool(able)
    own = {tier_models.get(step) for step in FALLBACK_CHAIN[tier]} & able
    assert not own or set(chain.models) == own
