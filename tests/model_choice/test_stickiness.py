"""When a session changes its model."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.model_choice.choice import InUse, Load, ModelChooser, settle
from pointsman.model_choice.fitness import Requirements
from pointsman.vocabulary import ModelSpec, Tier

BIG = ModelSpec(
    "big", "main", "big", input_per_million=3.0, output_per_million=15.0, cached_input_per_million=0.3
)
MINI = ModelSpec(
    "mini", "main", "mini", input_per_million=0.25, output_per_million=2.0, cached_input_per_million=0.025
)
NO_CACHE = ModelSpec("plain", "main", "plain", input_per_million=1.0, output_per_million=1.0)
LOCAL = ModelSpec("local", "box", "local")
LONG = Load(context=100_000, fresh=500, output=500)


def settled(in_use: ModelSpec, proposed: ModelSpec, **given_: object) -> tuple[str, str]:
    fields: dict[str, object] = {"rise": 0, "in_tool_loop": False, "load": LONG, **given_}
    model, reason = settle(in_use, proposed, **fields)  # type: ignore[arg-type]
    return model, reason.code


@pytest.mark.parametrize(
    ("in_use", "proposed", "given_", "expected"),
    [
        (BIG, MINI, {"in_tool_loop": True}, ("big", "routing.tool-loop")),
        (MINI, BIG, {"in_tool_loop": True, "rise": 1}, ("mini", "routing.tool-loop")),
        (MINI, BIG, {"in_tool_loop": True, "rise": 1, "able": False}, ("big", "routing.unable")),
        (MINI, BIG, {"rise": 1}, ("big", "routing.up")),
        (BIG, MINI, {}, ("mini", "routing.down")),
        (BIG, LOCAL, {}, ("big", "routing.price-unknown")),
        (LOCAL, MINI, {}, ("local", "routing.price-unknown")),
        (LOCAL, MINI, {"rise": 1}, ("mini", "routing.up")),
        (BIG, LOCAL, {"rise": -1}, ("local", "routing.down")),  # without prices the tiers' own order counts
        (LOCAL, MINI, {"rise": -2}, ("mini", "routing.down")),
        (LOCAL, MINI, {"rise": -2, "in_tool_loop": True}, ("local", "routing.tool-loop")),
        (LOCAL, MINI, {"able": False}, ("mini", "routing.unable")),
        (MINI, BIG, {"rise": 1, "switching": "weighed"}, ("mini", "routing.session")),
        (BIG, MINI, {"rise": -1, "switching": "weighed"}, ("mini", "routing.down")),
        (BIG, MINI, {"rise": -1, "switching": "session"}, ("big", "routing.session")),
        (LOCAL, MINI, {"rise": 1, "switching": "weighed"}, ("local", "routing.session")),
        (MINI, BIG, {"rise": 1, "switching": "session", "able": False}, ("big", "routing.unable")),
    ],
)
def test_the_rule(
    in_use: ModelSpec, proposed: ModelSpec, given_: dict[str, object], expected: tuple[str, str]
) -> None:
    assert settled(in_use, proposed, **given_) == expected


@pytest.mark.parametrize("given_", [{"in_tool_loop": True}, {"in_tool_loop": False, "switching": "session"}])
def test_a_session_that_has_the_tiers_model_keeps_it(given_: dict[str, bool]) -> None:
    in_use = InUse("big", load=LONG, **given_)  # type: ignore[arg-type]
    choice = ModelChooser({Tier.SIMPLE: ("big", "mini")}, {"big": BIG, "mini": MINI}).choose(
        Tier.SIMPLE, Requirements(), in_use
    )
    assert choice.models == ("big", "mini")
    assert [reason.code for reason in choice.reasons] == ["routing.first"]


def test_a_warm_cache_can_be_worth_more_than_a_cheaper_model() -> None:
    """Worked by hand: a turn costs .03 cached on BIG and .1 uncached on NO_CACHE."""
    load = Load(context=100_000)
    assert settled(BIG, NO_CACHE, load=load) == ("big", "routing.not-worth")
    reason = settle(BIG, NO_CACHE, rise=0, in_tool_loop=False, load=load)[1]
    assert reason.detail == (
        '"big" stays: a move to "plain" would cost $0.070 more in 1 turn and re-write 100,000 tokens of'
        " context for $0"
    )


def test_the_reason_names_what_has_no_price() -> None:
    def detail(in_use: ModelSpec, proposed: ModelSpec) -> str:
        return settle(in_use, proposed, rise=0, in_tool_loop=False, load=LONG)[1].detail

    assert detail(BIG, LOCAL) == 'the price of "local" is unknown'
    assert detail(LOCAL, ModelSpec("other", "box", "o")) == 'the price of "local" and "other" is unknown'


def test_a_saving_may_need_more_than_one_turn() -> None:
    slightly = ModelSpec(
        "near", "main", "near", input_per_million=2.0, output_per_million=15.0, cached_input_per_million=0.2
    )
    # A turn saves 100,000 * (.3 - .2) / 1e6 = .01; the cache costs 100,000 * (2 - .2) / 1e6 = .18 to rebuild.
    assert settled(BIG, slightly, load=Load(context=100_000, turns=18))[0] == "big"
    assert settled(BIG, slightly, load=Load(context=100_000, turns=19))[0] == "near"


KEPT = msgspec.structs.replace(BIG, cache_seconds=300.0)


@pytest.mark.parametrize(
    ("idle", "expected"),
    [
        (0.0, ("big", "routing.not-worth")),
        (300.0, ("big", "routing.not-worth")),
        (301.0, ("near", "routing.down")),  # the cache is gone: the switch is free
    ],
)
def test_a_switch_is_free_once_the_cache_has_expired(idle: float, expected: tuple[str, str]) -> None:
    near = msgspec.structs.replace(KEPT, name="near", input_per_million=2.0, cached_input_per_million=0.2)
    assert settled(KEPT, near, load=Load(context=100_000), idle=idle) == expected


def test_an_expired_cache_is_told_in_the_reason() -> None:
    """Worked by hand: a turn costs .03 or .1; writing 100,000 tokens costs .27 more for BIG."""
    model, reason = settle(KEPT, NO_CACHE, rise=0, in_tool_loop=False, load=Load(context=100_000), idle=400.4)
    assert reason.detail == (
        'a move to "plain" should cost $0.070 more in 1 turn and re-write 100,000 tokens of context for $0'
        " in place of $0.27 (expired cache, 400 s unused of 300)"
    )
    assert model == "plain"  # one turn: .1 against .3; over ten turns BIG's cache is worth it again
    assert settled(KEPT, NO_CACHE, load=Load(context=100_000, turns=10), idle=400.4)[0] == "big"


def test_a_cache_of_unknown_lifetime_is_taken_to_last() -> None:
    assert settled(BIG, NO_CACHE, load=Load(context=100_000), idle=1e9) == ("big", "routing.not-worth")


def test_a_tool_loop_goes_on_whatever_became_of_the_cache() -> None:
    assert settled(KEPT, MINI, in_tool_loop=True, idle=1e9) == ("big", "routing.tool-loop")


PRICES = (
    "input_per_million",
    "output_per_million",
    "cached_input_per_million",
    "cache_write_per_million",
)
price = st.floats(0, 100)
priced = st.builds(
    ModelSpec,
    st.just("in use"),
    st.just("main"),
    st.just("id"),
    input_per_million=price,
    output_per_million=price,
    cached_input_per_million=st.none() | price,
    cache_write_per_million=st.none() | price,
    cache_seconds=st.none() | st.just(300.0),
)
loads = st.builds(
    Load, st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**5), st.integers(1, 50)
)


def total(model: ModelSpec, load: Load, *, warm: bool) -> float:
    """What the coming turns cost: the first one writes the cache where there is none."""
    turn = model.cost(load.context + load.fresh, load.context, load.output)
    write = model.rebuild(load.context)
    assert turn is not None
    assert write is not None
    return load.turns * turn + (0.0 if warm else write)


@given(priced, priced, loads, st.sampled_from([0.0, 301.0]))
def test_a_session_never_moves_to_what_costs_more(
    in_use: ModelSpec, other: ModelSpec, load: Load, idle: float
) -> None:
    proposed = msgspec.structs.replace(other, name="proposed")
    warm = in_use.cache_seconds is None or idle <= in_use.cache_seconds
    stay, move = total(in_use, load, warm=warm), total(proposed, load, warm=False)
    moved = settled(in_use, proposed, load=load, idle=idle)[0] == "proposed"
    near = 1e-9 * max(stay, move, 1.0)
    assert move <= stay + near if moved else move >= stay - near


@given(priced, loads)
def test_what_is_cheaper_in_everything_wins_once_the_cache_has_expired(in_use: ModelSpec, load: Load) -> None:
    in_use = msgspec.structs.replace(in_use, cache_seconds=300.0)
    halves = {name: value / 2 for name in PRICES if isinstance(value := getattr(in_use, name), float)}
    cheaper = msgspec.structs.replace(in_use, name="cheaper", **halves)
    if total(in_use, load, warm=False) > 1e-6:  # else there is nothing to save
        assert settled(in_use, cheaper, load=load, idle=301.0) == ("cheaper", "routing.down")


@given(priced, loads, st.booleans())
def test_an_unknown_price_never_moves_a_session(known: ModelSpec, load: Load, swap: bool) -> None:
    local = msgspec.structs.replace(known, name="local", output_per_million=None, cache_seconds=300.0)
    in_use, proposed = (local, known) if swap else (known, local)
    assert settled(in_use, proposed, load=load, idle=301.0) == (in_use.name, "routing.price-unknown")


def test_equal_models_are_not_worth_a_change() -> None:
    twin = ModelSpec(
        "twin", "main", "twin", input_per_million=3.0, output_per_million=15.0, cached_input_per_million=0.3
    )
    assert settled(BIG, twin, load=Load(context=0, fresh=10)) == ("big", "routing.not-worth")


@given(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**5), st.integers(1, 50))
def test_a_tool_loop_never_changes_an_able_model(context: int, fresh: int, output: int, turns: int) -> None:
    load = Load(context, fresh, output, turns)
    assert settled(BIG, MINI, in_tool_loop=True, load=load)[0] == "big"
    assert settled(MINI, BIG, in_tool_loop=True, rise=1, load=load)[0] == "mini"
