"""Keywords in a row are a list: the first counts at the end of a sentence, none beside sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.evidence import Kind, PatternSet, Reading, Scanner, Signal, SignalTable, build_matcher
from pointsman.evidence.normal import KeywordLists

WORDS = ("prove", "lemma", "theorem", "step by step", "unit-test", "python")
SIGNALS = [
    *(Signal("own", "words", word, Kind.WORD) for word in WORDS),
    Signal("own", "words", "refactor", Kind.PREFIX),
    Signal("own", "words", "inside", Kind.SUBSTRING),
    Signal("other", "words", "theorem", Kind.WORD),
]
LISTS = KeywordLists(signal for signal in SIGNALS if signal.lexicon == "own")


@pytest.mark.parametrize(
    ("text", "without", "alone"),
    [
        # At the end of a sentence the first of them counts.
        ("who sang it prove lemma theorem", "who sang it prove", ""),
        ("use python, lemma and theorem here", "use python, lemma and theorem here", ""),
        ("use python, lemma, theorem here", "use python, lemma, theorem here", ""),
        ("use python lemma theorem here", "use python lemma theorem here", ""),
        ("use it, prove, python lemma theorem!", "use it, prove, python!", ""),
        # A sentence of its own, beside others, is no part of what is said.
        ("who sang it? prove lemma theorem", "who sang it? ", "prove lemma theorem"),
        ("prove step by step refactoring. who sang it", ". who sang it", "prove step by step refactoring"),
        ("who? (python, lemma, theorem)", "who? ()", "python, lemma, theorem"),
        ('who "prove lemma theorem"', 'who ""', "prove lemma theorem"),
        ("lemma theorem python\nwho sang it\npython unit-test prove", "\nwho sang it\n",
         "lemma theorem python python unit-test prove"),
        # Near misses: two, another word between, the whole text, found inside words alone.
        ("who? prove it", "who? prove it", ""),
        ("who? prove lemma", "who? prove lemma", ""),
        ("prove that lemma with the theorem.", "prove that lemma with the theorem.", ""),
        ("prove lemma theorem", "prove lemma theorem", ""),
        ("prove, lemma, theorem!", "prove, lemma, theorem!", ""),
        ("who? inside inside inside", "who? inside inside inside", ""),
        ("", "", ""),
    ],
)  # fmt: skip
def test_lists(text: str, without: str, alone: str) -> None:
    assert LISTS.without(text) == (without, alone)


@given(st.lists(st.sampled_from([*WORDS, "who", "sang", ".", ",", "(", ")", "\n"]), max_size=30))
def test_nothing_is_added_and_other_words_stay(words: list[str]) -> None:
    text = " ".join(words)
    without, alone = LISTS.without(text)
    assert len(without) + len(alone.replace(" ", "")) <= len(text)
    for word in ("who", "sang"):
        assert without.count(word) == text.count(word)


def scanner() -> Scanner:
    table = SignalTable(SIGNALS)
    return Scanner(table, build_matcher(PatternSet(table)), reading=Reading(table, "own"))


def test_neither_the_keywords_nor_the_length_of_a_list_alone_count() -> None:
    plain, listed = (scanner().scan(text) for text in ("Who sang it? ", "Who sang it? Prove lemma THEOREM"))
    assert (listed.characters, listed.utf16_units) == (plain.characters, plain.utf16_units)
    assert listed.tokens == len("Who sang it? Prove lemma THEOREM") // 4 - len("prove lemma theorem") // 4
    assert listed.text == "Who sang it? Prove lemma THEOREM"


def test_another_lexicon_sees_the_whole_text() -> None:
    one = scanner()
    found = one.scan("Who sang it? Prove lemma theorem.").hits
    assert found == one.table.bit(SIGNALS[-1])


def test_a_long_text_is_read_as_it_is() -> None:
    text = "Who sang it? " + "x " * 500 + ". prove lemma theorem"
    assert scanner().scan(text).characters == len(text)
