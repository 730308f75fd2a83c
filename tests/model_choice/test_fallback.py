"""From a tier to models: capability first, then the tier, never dearer than its chain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.model_choice.choice import FALLBACK_CHAIN, Requirements, model_chain
from pointsman.vocabulary import ModelSpec, Tier, WireFormat


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
    assert (chain.models, chain.skipped) == (models, ())


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
    assert [reason.detail for reason in chain.skipped] == reasons


def test_nothing_dearer_than_the_chain_is_tried_even_when_it_could() -> None:
    needed = Requirements(features=frozenset({"structured"}))  # only "deep" may have it
    chain = model_chain(Tier.SIMPLE, LADDER, MODELS, needed)
    assert chain.models == ("mini", "mid", "big")
    assert chain.skipped[-1].code == "routing.none-able"
    assert model_chain(Tier.COMPLEX, LADDER, MODELS, needed).models == ("deep",)


def test_a_cheaper_model_that_can_is_better_than_one_that_cannot() -> None:
    models = {**MODELS, "deep": spec("deep", features=frozenset())}
    chain = model_chain(Tier.REASONING, LADDER, models, Requirements(features=frozenset({"tools"})))
    assert chain.models == ("big", "mid")
    assert [reason.detail for reason in chain.skipped] == ['"deep" has no tools', '"mini" has no tools']


def test_another_wire_format() -> None:
    models = {**MODELS, "mini": spec("mini", formats=frozenset({WireFormat.CHAT}))}
    chain = model_chain(Tier.SIMPLE, LADDER, models, Requirements(format=WireFormat.MESSAGES))
    assert chain.models == ("mid", "big")
    assert chain.skipped[0].code == "routing.skipped.format"


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
)
def test_no_chain_exceeds_its_tier_or_repeats_a_model(
    tier: Tier, tier_models: dict[Tier, str], tokens: int, features: frozenset[str]
) -> None:
    chain = model_chain(tier, tier_models, MODELS, Requirements(tokens, features))
    highest = FALLBACK_CHAIN[tier][-1].rank
    allowed = {name for step, name in tier_models.items() if step.rank <= highest}
    assert set(chain.models) <= allowed or not allowed
    assert len(set(chain.models)) == len(chain.models)
    assert bool(chain.models) == bool(tier_models)
