"""What is refused when a lexicon is loaded, and how the refusal reads."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pointsman.errors import LexiconError
from pointsman.evidence import Kind, PatternSet, Signal, SignalTable, _patterns
from pointsman.evidence._chars import EVERYTHING, charset, complement, intersect, lowered
from pointsman.evidence._pattern import nullable, parse


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a)\1", "a back-reference at 3"),
        (r"(?P<x>a)(?P=x)", "a back-reference at 8"),
        (r"a\k<x>", "a back-reference at 1"),
        (r"a(?=b)", "look-around at 1"),
        (r"a(?!b)", "look-around at 1"),
        (r"(?<=a)b", "look-around at 0"),
        (r"(?<!a)b", "look-around at 0"),
        (r"(?>a)b", "an atomic group at 0"),
        (r"a*+b", "a possessive quantifier at 1"),
        (r"(?(1)a|b)", "a conditional group at 0"),
        (r"(?s)a", "unknown group at 0"),
        (r"a(?i)b", "unknown group at 1"),
        (r"(a", '"(" at 0 is never closed'),
        (r"a)", 'unbalanced ")" at 1'),
        (r"[a", '"[" at 0 is never closed'),
        (r"a" + "\\", "it ends too early"),
        (r"[z-a]", "bad range in the set at 0"),
        (r"[a-\d]", "bad range in the set at 0"),
        (r"[[:alpha:]]", "a POSIX class at 1"),
        (r"[^\s\S]", "has no characters"),
        (r"\xg1", "bad character code at 0"),
        (r"\U00110000", "bad character code at 0"),
        (r"\q", 'unknown escape "\\q" at 0'),
        (r"\p{L}", 'unknown escape "\\p" at 0'),
        (r"\Ba", 'unknown escape "\\B" at 0'),
        (r"*a", '"*" at 0 has nothing to repeat'),
        (r"a|?", '"?" at 2 has nothing to repeat'),
        (r"a**", "two quantifiers in a row at 2"),
        (r"(a*)*b", "the quantifier at 4 repeats something that can be empty"),
        (r"\b?a", "the quantifier at 2 repeats something that can be empty"),
        (r"a{3,2}", "the quantifier at 1 ends below its beginning"),
        (r"a{2000}", "the quantifier at 1 repeats more than 1,000 times"),
        (r"(?:a{40}){40}", "repeats more than 1,000 times"),
        ("(?:abcdefghij){600}", "written out it has 6,000 characters, more than 5,000"),
        (r"a^", "^ can match nothing there"),
        (r"^^a", "^ can match nothing there"),
        (r"\b^a", "^ can match nothing there"),
        (r"a$$", "$ can match nothing there"),
        (r"(?:a|b$)c", "$ can match nothing there"),
        (r"a(?:$|b)\b", "$ can match nothing there"),
        (r"(?:^a)+", "^ can match nothing there"),
        (r"(?:a$)+", "$ can match nothing there"),
        (r"a*", "it matches the empty text"),
        (r"a|", "it matches the empty text"),
        (r"^$", "it matches the empty text"),
        (r"\b", "it matches the empty text"),
        (r"()", "it matches the empty text"),
        ("a\x02", "a control character"),
        (r"[\x03]", "has no characters"),
        (r"\x03", "a control character"),
    ],
)
def test_refused(pattern: str, reason: str) -> None:
    with pytest.raises(LexiconError) as caught:
        parse(pattern)
    assert reason in caught.value.message
    assert repr(pattern) in caught.value.message


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(?:\ba)+", "has \\b inside a repeat"),
        (r"^\b-", "cannot match: no character can match next to its \\b"),
        (r"a\bb", "cannot match"),
        ("".join([r"(?:\ba|b\b|c\bd)"] * 6), "too many alternatives"),
    ],
)
def test_boundaries_refused(pattern: str, reason: str) -> None:
    with pytest.raises(LexiconError) as caught:
        PatternSet(SignalTable([Signal("mine", "code", pattern, Kind.REGEX)]))
    assert reason in caught.value.message
    assert caught.value.message.startswith("mine/code: ")


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("pattern", ["", "  "])
def test_an_empty_pattern_is_refused(kind: Kind, pattern: str) -> None:
    with pytest.raises(LexiconError, match="mine/code: a pattern is empty"):
        PatternSet(SignalTable([Signal("mine", "code", pattern, kind)]))


def test_a_word_with_a_frame_is_refused() -> None:
    with pytest.raises(LexiconError, match="control character"):
        PatternSet(SignalTable([Signal("mine", "code", "a\x02b")]))


@given(st.text(st.sampled_from("ab(|)[]^$*+?{}1,\\bdwsx-.=!<>P: "), max_size=12))
def test_any_text_is_parsed_or_refused(pattern: str) -> None:
    refusal = ""
    try:
        assert not nullable(parse(pattern))
    except LexiconError as error:
        refusal = error.message
    assert not refusal or refusal.startswith("pattern ")


CODES = st.integers(32, 90)
RANGES = st.lists(st.tuples(CODES, CODES).map(lambda pair: (min(pair), max(pair)))).map(charset)


def members(chars: tuple[tuple[int, int], ...]) -> set[int]:
    return {code for first, last in chars for code in range(first, min(last, 100) + 1)}


@given(RANGES, RANGES)
def test_sets(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> None:
    assert members(intersect(one, other)) == members(one) & members(other)
    assert members(complement(one)) == members(EVERYTHING) - members(one)
    assert complement(complement(one)) == one
    assert all(a[1] + 1 < b[0] for a, b in pairwise(one))


@given(st.characters(codec="utf-8"))
def test_lower_case_of_a_set_is_lower_case_of_its_members(char: str) -> None:
    low = char.lower()
    expected = {ord(char), ord(low)} if len(low) == 1 else {ord(char)}
    assert {
        code for first, last in lowered(((ord(char), ord(char)),)) for code in range(first, last + 1)
    } == expected


@given(
    st.text("ab_9+-.` é\u4e00\u2028\xa0\x02", min_size=1, max_size=4),
    st.sampled_from([Kind.WORD, Kind.PREFIX, Kind.SUBSTRING]),
)
@example("c", Kind.PREFIX)
def test_a_plain_text_is_written_as_its_tree(text: str, kind: Kind) -> None:
    signal = Signal("lexicon", "group", text, kind)
    plain = _patterns._plain_source(signal)
    assert plain is None or plain == _patterns._source_of_tree(signal)
