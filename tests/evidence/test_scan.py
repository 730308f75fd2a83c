"""What one scan says of a text, and how long it is remembered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.evidence import PatternSet, Scanner, Signal, SignalTable
from pointsman.evidence._patterns import framed, separated, without_marks
from pointsman.vocabulary import Script
from support.oracle import ReMatcher

TABLE = SignalTable([Signal("test", "code", "python"), Signal("test", "simple", "what is")])


class CountingMatcher:
    """Counts the texts it is shown."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def match(self, lowered: str, /) -> int:
        self.texts.append(lowered)
        return 0


@pytest.mark.parametrize(
    ("text", "characters", "utf16", "tokens", "questions", "script"),
    [
        ("", 0, 0, 0, 0, Script.NONE),
        ("What is Python?", 15, 15, 3, 1, Script.LATIN),
        ("¿Qué?", 5, 5, 1, 1, Script.LATIN),
        ("你好吗??", 5, 5, 2, 2, Script.HAN),
        ("😀a", 2, 3, 1, 0, Script.LATIN),
        ("a\ud800", 2, 2, 1, 0, Script.LATIN),
    ],
)
def test_measures(
    text: str, characters: int, utf16: int, tokens: int, questions: int, script: Script
) -> None:
    evidence = Scanner(TABLE, ReMatcher(TABLE)).scan(text)
    assert evidence.text == text
    assert (evidence.characters, evidence.utf16_units, evidence.tokens) == (characters, utf16, tokens)
    assert (evidence.questions, evidence.script) == (questions, script)


def test_hits_are_found_without_regard_to_case() -> None:
    evidence = Scanner(TABLE, ReMatcher(TABLE)).scan("WHAT IS Python")
    assert [signal.pattern for signal in TABLE.of(evidence.hits)] == ["python", "what is"]


def test_a_text_is_examined_once() -> None:
    matcher = CountingMatcher()
    scanner = Scanner(TABLE, matcher)
    first = scanner.scan("Hello")
    assert scanner.scan("Hel" + "lo") is first
    assert matcher.texts == ["hello"]


def test_what_was_asked_for_lately_outlives_what_was_not() -> None:
    matcher = CountingMatcher()
    scanner = Scanner(TABLE, matcher, cache_entries=2)
    for text in ["a", "b", "a", "c", "a", "d", "a"]:
        scanner.scan(text)
    assert matcher.texts == ["a", "b", "c", "d"]  # "a" stayed while others came and went
    scanner.scan("b")
    assert matcher.texts[-1] == "b"


@given(st.lists(st.integers(0, 30)), st.integers(1, 5), st.integers(100, 400))
def test_the_cache_is_bounded_by_entries_and_bytes(sizes: list[int], entries: int, limit: int) -> None:
    scanner = Scanner(TABLE, CountingMatcher(), cache_entries=entries, cache_bytes=limit)
    for size in sizes:
        assert scanner.scan("x" * size * 10).characters == size * 10
        for generation in (scanner._young, scanner._old):
            assert len(generation) <= entries
            assert sum(text.__sizeof__() for text in generation) <= limit


def test_a_text_larger_than_the_cache_is_scanned_every_time() -> None:
    matcher = CountingMatcher()
    scanner = Scanner(TABLE, matcher, cache_bytes=100)
    for _ in range(2):
        scanner.scan("x" * 1000)
    assert len(matcher.texts) == 2


@pytest.mark.parametrize(
    ("text", "apart"),
    [
        ("plain ascii, only", "plain ascii, only"),
        ("café d'étude", "café d'étude"),
        ("用python写", "|用|python|写|"),
        ("“a” b", "|“|a|”| b"),
        ("한국어 문장", "|한국어| |문장|"),
        ("a\u00a0b\u2028用\u3000", "a\x1eb\x1d|用|\x1e"),
        ("a\u2029b\u202ac", "a\x1db|\u202a|c"),  # a paragraph's end is white space, a direction mark is not
    ],
)
def test_separated(text: str, apart: str) -> None:
    assert separated(text).replace("\x1f", "|") == apart


@given(st.text())
def test_separating_only_adds_marks(text: str) -> None:
    clean = without_marks(text)
    apart = separated(clean)
    assert [char for char in apart if char.isprintable()] == [char for char in clean if char.isprintable()]
    assert framed(apart).count(b"\x02") == framed(apart).count(b"\x03") == 1


def test_equal_patterns_share_a_source() -> None:
    assert PatternSet(TABLE).digest != PatternSet(SignalTable([])).digest
    renamed = SignalTable([Signal("other", "x", "python"), Signal("other", "y", "what is")])
    assert PatternSet(TABLE).digest == PatternSet(renamed).digest


def test_the_masks_of_groups_share_no_bit_and_leave_none_out() -> None:
    groups = {(signal.lexicon, signal.group) for signal in TABLE.signals}
    masks = [TABLE.mask(*group) for group in groups]
    assert len(groups) > 1
    assert sum(masks) == (1 << len(TABLE)) - 1
    assert sum(mask.bit_count() for mask in masks) == len(TABLE)
    assert TABLE.mask("nobody's", "group") == 0
