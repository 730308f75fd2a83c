"""Why one period cost more than another."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pointsman.reports.change import Change, ModelUse, Side, change
from pointsman.stores.ledger.reading import Usage
from pointsman.vocabulary import ModelSpec


def spec(name: str, price: float, cached: float | None = None) -> ModelSpec:
    return ModelSpec(
        name,
        "main",
        name,
        input_per_million=price,
        output_per_million=4 * price,
        cached_input_per_million=cached,
        cache_write_per_million=1.25 * price,
    )


SMALL, LARGE = spec("small", 1.0, 0.1), spec("large", 10.0)


#: Requests; input tokens, those read from the cache, output tokens; the model's prices.
Use = tuple[int, int, int, int, ModelSpec]


def side(models: Mapping[str, Use], beside: float = 0.0, written: float = 0.0) -> Side:
    """``written``: the share of what was not read from the cache that is written to it, half for an hour."""
    used = {}
    for name, (requests, sent, cached, output, prices) in models.items():
        to_cache = round(written * (sent - cached))
        used[name] = ModelUse(requests, Usage(sent, cached, output, to_cache, to_cache // 2), prices)
    return Side(0.0, 3_600.0, used, beside, sum(each.requests for each in used.values()))


def amounts(found: Change) -> dict[str, float]:
    return {each.name: each.amount for each in found.contributions}


BASE: dict[str, Use] = {
    "small": (10, 100_000, 50_000, 10_000, SMALL),
    "large": (10, 100_000, 0, 10_000, LARGE),
}


@pytest.mark.parametrize(
    ("after", "name"),
    [
        (
            {"small": (20, 200_000, 100_000, 20_000, SMALL), "large": (20, 200_000, 0, 20_000, LARGE)},
            "requests",
        ),
        ({"small": (5, 50_000, 25_000, 5_000, SMALL), "large": (15, 150_000, 0, 15_000, LARGE)}, "model mix"),
        ({"large": (20, 200_000, 0, 20_000, LARGE)}, "model mix"),
        (
            {"small": (10, 200_000, 100_000, 10_000, SMALL), "large": (10, 300_000, 0, 9_000, LARGE)},
            "tokens per request",
        ),
        ({"small": (10, 100_000, 0, 10_000, SMALL)}, "cache share"),
        ({"small": (10, 100_000, 50_000, 10_000, spec("small", 2.0, 0.1))}, "prices"),
    ],
)
def test_what_alone_has_changed_has_all_of_the_difference(after: dict[str, Use], name: str) -> None:
    kept = BASE if name in {"cache share", "prices"} else {}
    found = change(side(BASE), side({**kept, **after}))
    assert found.difference > 0
    assert found.contributions[0].name == name
    assert found.contributions[0].amount == pytest.approx(found.difference)
    assert all(abs(each.amount) < 1e-9 for each in found.contributions[1:])


def test_the_same_twice_has_no_difference() -> None:
    found = change(side(BASE), side(BASE))
    assert set(amounts(found).values()) == {0.0}
    assert found.headline().startswith("no difference: $1.50")
    assert change(side(BASE, 0.3), side(BASE, 0.3 + 1e-9)).headline().startswith("no difference: $")


def test_what_is_paid_beside_the_answers_is_told_apart() -> None:
    found = change(side(BASE), side(BASE, 0.5))
    assert (found.contributions[0].name, found.contributions[0].amount) == ("beside the answers", 0.5)
    assert found.headline().startswith("$0.50 more: $1.50, then $2.00; above all by beside the answers")


@pytest.mark.parametrize(
    ("requests", "input_", "price", "said"),
    [
        (500, 8_000_000, 1.4, "$1.20 more: $10.00, then $11.20; above all by tokens per request ("),
        (500, 8_000_000, 1.0, "$2.00 less: $10.00, then $8.00; above all by requests ("),
        (500, 10_000_000, 1.0, "no difference: $10.00 in both"),  # half the requests, twice as long
    ],
)
def test_the_headline_names_what_moved_the_cost_its_own_way(
    requests: int, input_: int, price: float, said: str
) -> None:
    before = side({"small": (1_000, 10_000_000, 0, 0, spec("small", 1.0))})
    found = change(before, side({"small": (requests, input_, 0, 0, spec("small", price))}))
    assert found.contributions[0].name == "requests"  # the largest in absolute value
    assert found.headline().startswith(said)


def test_writing_to_a_cache_is_of_the_cache_share() -> None:
    found = change(side(BASE), side(BASE, written=0.5))
    assert [name for name, amount in amounts(found).items() if amount] == ["cache share"]
    small, large = 12_500 * (0.25 + 1.0) / 1e6, 10 * 25_000 * (0.25 + 1.0) / 1e6
    assert found.difference == pytest.approx(small + large)
    assert found.contributions[0].detail.endswith("of the input from caches; 0%, then 38% written to them")


def test_another_price_of_writing_to_a_cache_is_named() -> None:
    dearer = {**BASE, "large": (10, 100_000, 0, 10_000, replace(LARGE, cache_write_per_million=20.0))}
    found = change(side(BASE, written=0.5), side(dearer, written=0.5))
    [prices] = [each for each in found.contributions if each.amount]
    assert (prices.name, prices.detail) == ("prices", "large $10/$12.5/$40, then $10/$20/$40")


def test_out_of_nothing_all_is_more_requests() -> None:
    found = change(side({}), side(BASE))
    assert amounts(found)["requests"] == pytest.approx(found.difference) == pytest.approx(side(BASE).cost)
    assert change(side({}), side({})).headline() == "no request in either period"
    unknown = Side(0.0, 3_600.0, {}, 0.0, 60)  # sixty answers without usage
    assert change(unknown, unknown).headline().startswith("no request with a known cost in either period")
    beside = Side(0.0, 3_600.0, {}, 0.5, 60)
    assert change(unknown, beside).headline().startswith("$0.50 more: $0, then $0.50;")
    assert change(beside, unknown).headline().startswith("$0.50 less: $0.50, then $0;")


@pytest.mark.parametrize(
    ("until", "said"), [(9.5, "2026-01-31 08:00 to 09:30"), (24, "2026-01-31 08:00 to 2026-02-01 00:00")]
)
def test_the_periods_are_named_in_the_zone_of_the_machine(until: float, said: str) -> None:
    midnight = time.mktime((2026, 1, 31, 0, 0, 0, 0, 0, -1))
    of = Side(midnight + 8 * 3_600, midnight + until * 3_600, {}, 0.0, 1)
    assert list(change(of, of).blocks())[1] == f"{said}, beside {said}"


uses = st.builds(
    lambda requests, sent, share, out, price: (
        requests, sent, round(sent * share), out, spec("m", price, price / 10 if requests % 2 else None)
    ),
    st.integers(1, 10_000), st.integers(0, 10**9), st.floats(0, 1), st.integers(0, 10**8),
    st.floats(0.01, 100),
)  # fmt: skip
sides = st.builds(
    side,
    st.dictionaries(st.sampled_from(["a", "b", "c"]), uses),
    st.floats(0, 1_000),
    st.floats(0, 1),
)


@given(sides, sides)
def test_contributions_add_up_to_the_difference(before: Side, after: Side) -> None:
    found = change(before, after)
    scale = max(before.cost, after.cost, 1.0)
    assert sum(amounts(found).values()) == pytest.approx(found.difference, abs=1e-9 * scale)
    for each in found.contributions:
        if each.models:
            assert sum(each.models.values()) == pytest.approx(each.amount, abs=1e-9 * scale)
    # The other way round it is the same with the sign turned.
    back = amounts(change(after, before))
    assert all(
        back[name] == pytest.approx(-amount, abs=1e-9 * scale) for name, amount in amounts(found).items()
    )


@given(sides)
def test_a_side_costs_what_its_tokens_cost(of: Side) -> None:
    spent = sum(each.spec.cost(*each.used) or 0.0 for each in of.models.values())
    assert of.answers == pytest.approx(spent, rel=1e-9)
