"""When a session changes its model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.model_choice.choice import Load, settle
from pointsman.vocabulary import ModelSpec

BIG = ModelSpec(
    "big", "main", "big", input_per_million=3.0, output_per_million=15.0, cached_input_per_million=0.3
)
MINI = ModelSpec(
    "mini", "main", "mini", input_per_million=0.25, output_per_million=2.0, cached_input_per_million=0.025
)
NO_CACHE = ModelSpec("plain", "main", "plain", input_per_million=1.0, output_per_million=1.0)
LOCAL = ModelSpec("local", "box", "local")
LONG = Load(context=100_000, fresh=500, output=500)


def settled(in_use: ModelSpec | None, proposed: ModelSpec, **given_: object) -> tuple[str, str]:
    fields: dict[str, object] = {"up": False, "in_tool_loop": False, "load": LONG, **given_}
    result = settle(in_use, proposed, **fields)  # type: ignore[arg-type]
    return result.model, result.reason.code


@pytest.mark.parametrize(
    ("in_use", "proposed", "given_", "expected"),
    [
        (None, BIG, {}, ("big", "routing.first")),
        (BIG, BIG, {"in_tool_loop": True}, ("big", "routing.first")),
        (BIG, MINI, {"in_tool_loop": True}, ("big", "routing.tool-loop")),
        (MINI, BIG, {"in_tool_loop": True, "up": True}, ("mini", "routing.tool-loop")),
        (MINI, BIG, {"in_tool_loop": True, "up": True, "able": False}, ("big", "routing.unable")),
        (MINI, BIG, {"up": True}, ("big", "routing.up")),
        (BIG, MINI, {}, ("mini", "routing.down")),
        (BIG, LOCAL, {}, ("big", "routing.price-unknown")),
        (LOCAL, MINI, {}, ("local", "routing.price-unknown")),
        (LOCAL, MINI, {"up": True}, ("mini", "routing.up")),
        (LOCAL, MINI, {"able": False}, ("mini", "routing.unable")),
    ],
)
def test_the_rule(
    in_use: ModelSpec | None, proposed: ModelSpec, given_: dict[str, object], expected: tuple[str, str]
) -> None:
    assert settled(in_use, proposed, **given_) == expected


def test_a_warm_cache_can_be_worth_more_than_a_cheaper_model() -> None:
    """Worked by hand: a turn costs .03 cached on BIG and .1 uncached on NO_CACHE."""
    load = Load(context=100_000)
    assert settled(BIG, NO_CACHE, load=load) == ("big", "routing.not-worth")
    reason = settle(BIG, NO_CACHE, up=False, in_tool_loop=False, load=load).reason
    assert reason.detail == "saving -0.070000, rebuilding the cache 0.000000"


def test_the_reason_names_what_has_no_price() -> None:
    def detail(in_use: ModelSpec, proposed: ModelSpec) -> str:
        return settle(in_use, proposed, up=False, in_tool_loop=False, load=LONG).reason.detail

    assert detail(BIG, LOCAL) == 'the price of "local" is unknown'
    assert detail(LOCAL, ModelSpec("other", "box", "o")) == 'the price of "local" and "other" is unknown'


def test_a_saving_may_need_more_than_one_turn() -> None:
    slightly = ModelSpec(
        "near", "main", "near", input_per_million=2.0, output_per_million=15.0, cached_input_per_million=0.2
    )
    # A turn saves 100,000 * (.3 - .2) / 1e6 = .01; the cache costs 100,000 * (2 - .2) / 1e6 = .18 to rebuild.
    assert settled(BIG, slightly, load=Load(context=100_000, turns=18))[0] == "big"
    assert settled(BIG, slightly, load=Load(context=100_000, turns=19))[0] == "near"


def test_equal_models_are_not_worth_a_change() -> None:
    twin = ModelSpec(
        "twin", "main", "twin", input_per_million=3.0, output_per_million=15.0, cached_input_per_million=0.3
    )
    assert settled(BIG, twin, load=Load(context=0, fresh=10)) == ("big", "routing.not-worth")


@given(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**5), st.integers(1, 50))
def test_a_tool_loop_never_changes_an_able_model(context: int, fresh: int, output: int, turns: int) -> None:
    load = Load(context, fresh, output, turns)
    assert settled(BIG, MINI, in_tool_loop=True, load=load)[0] == "big"
    assert settled(MINI, BIG, in_tool_loop=True, up=True, load=load)[0] == "mini"
