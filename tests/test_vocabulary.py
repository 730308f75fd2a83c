"""The shared vocabulary."""

from pointsman.evidence import Kind, ReMatcher, Scanner, Signal, SignalTable
from pointsman.vocabulary import ModelSpec, Tier


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
