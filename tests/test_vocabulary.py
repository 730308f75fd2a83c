"""The shared vocabulary."""

import msgspec
import pytest

from pointsman.evidence import Kind, Scanner, Signal, SignalTable
from pointsman.prices import Prices
from pointsman.vocabulary import ModelSpec, Tier
from support.oracle import ReMatcher


def test_tiers_are_ordered_from_the_cheapest() -> None:
    assert [tier.rank for tier in Tier] == [0, 1, 2, 3]


def test_a_scan_finds_words_and_substrings_apart() -> None:
    word = Signal("t", "code", "let", Kind.WORD)
    substring = Signal("t", "code", "let", Kind.SUBSTRING)
    table = SignalTable([word, substring])
    scanner = Scanner(table, ReMatcher(table))
    assert list(table.of(scanner.scan("A letter").hits)) == [substring]
    assert scanner.scan("Let it be").hits == table.mask("t", "code")


def test_a_prefix_is_found_only_where_a_word_begins() -> None:
    prefix = Signal("t", "reasoning", "доказ", Kind.PREFIX)
    table = SignalTable([prefix])
    scanner = Scanner(table, ReMatcher(table))
    assert scanner.scan("Доказательство").hits == table.bit(prefix)
    assert not scanner.scan("недоказанный").hits


def test_prices_are_per_million_tokens_and_cached_input_is_part_of_the_input() -> None:
    model = ModelSpec("small", "main", "small-1", input_per_million=2.0, output_per_million=8.0)
    assert model.cost(3_000_000, 1_000_000, 500_000) == 10.0
    cached = ModelSpec(
        "small",
        "main",
        "small-1",
        input_per_million=2.0,
        output_per_million=8.0,
        cached_input_per_million=0.5,
    )
    assert cached.cost(3_000_000, 1_000_000, 500_000) == 8.5


@pytest.mark.parametrize("known", [{}, {"input_per_million": 1.0}, {"output_per_million": 1.0}])
def test_a_cost_is_unknown_where_a_price_is(known: dict[str, float]) -> None:
    model = msgspec.convert(known, Prices)
    assert not model.is_priced
    assert model.cost(1, 0, 1) is None


def test_what_is_free_costs_nothing() -> None:
    free = ModelSpec("m", "main", "m", input_per_million=0.0, output_per_million=0.0)
    assert (free.cost(1, 0, 1), free.rebuild(10)) == (0.0, 0.0)


@pytest.mark.parametrize(("write", "paid"), [(None, 3.0), (4.0, 4.0), (1.0, 3.0)])
def test_writing_to_a_cache_costs_no_less_than_input(write: float | None, paid: float) -> None:
    prices = Prices(input_per_million=3.0, output_per_million=0.0, cache_write_per_million=write)
    assert prices.cost(1_000_000, 0, 0, 1_000_000) == paid


@pytest.mark.parametrize(
    ("prices", "paid"),
    [
        ({}, None),
        ({"input_per_million": 3.0}, 0.0),  # no discount: nothing is lost with the cache
        ({"input_per_million": 3.0, "cached_input_per_million": 0.5}, 2.5),
        ({"input_per_million": 3.0, "cached_input_per_million": 0.5, "cache_write_per_million": 4.0}, 3.5),
        ({"input_per_million": 3.0, "cached_input_per_million": 5.0}, 0.0),  # never a reason to change
    ],
)
def test_rebuilding_a_cache_costs_its_writing_over_its_reading(
    prices: dict[str, float], paid: float | None
) -> None:
    assert msgspec.convert(prices, Prices).rebuild(1_000_000) == paid
