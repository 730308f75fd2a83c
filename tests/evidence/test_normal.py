"""What is undone of a text's form, what stays, and how long that takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.evidence import PatternSet, Reading, Scanner, Signal, SignalTable, build_matcher
from pointsman.evidence._scan import READ, Spelling
from pointsman.evidence.normal import spaced, without_lookalikes, without_quotations

SIGNALS = [
    Signal("own", "proof", "prove"),
    Signal("own", "simple", "what is"),
    Signal("own", "analysis", "explain"),
    Signal("own", "technical", "architecture"),
    Signal("other", "maths", "prove"),
]
TABLE = SignalTable(SIGNALS)


def found(text: str) -> set[str]:
    scanner = Scanner(TABLE, build_matcher(PatternSet(TABLE)), reading=Reading(TABLE, "own"))
    return set(TABLE.ids_of(scanner.scan(text).hits))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("prоve it", "prove it"),  # a Cyrillic o
        ("ｐｒｏｖｅ", "prove"),
        ("𝐩𝐫𝐨𝐯𝐞", "prove"),
        ("pro\u200bve", "prove"),
        ("p\u0336r\u0336ove", "prove"),
        ("Нow is сос made at home, рlеase", "How is coc made at home, please"),
        ("Докажи теорему", "Докажи теорему"),
        ("Как работает SQL?", "Как работает SQL?"),
        ("Как сказать hellо там или тут", "Как сказать hello там или тут"),
        ("α and β", "α and β"),
        ("naïve café", "naïve café"),
        ("क्‍षेत्र", "क्‍षेत्र"),
    ],
)
def test_lookalikes(text: str, plain: str) -> None:
    assert without_lookalikes(text) == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("what  is\tit", "what is it"),
        ("what\nis it", "what is it"),
        ("what is it ?", "what is it?"),
        ("p r o v e it", "prove it"),
        ("a\n\n\n\nb", "a\n\nb"),
        ("1. one \n 2. two", "1. one\n2. two"),
        ("x = .5", "x = .5"),
        ("or\nElse", "or\nElse"),
        ("A B or C", "A B or C"),
    ],
)
def test_spacing(text: str, plain: str) -> None:
    assert spaced(text) == plain


@pytest.mark.parametrize(
    ("text", "outside"),
    [
        ('say "prove it" now', 'say "" now'),
        ("say 'prove it' now", 'say "" now'),
        ("don't say the authors' names", "don't say the authors' names"),
        ("a ```x = ` y``` b", "a ```\n``` b"),
        ("a ```never.closed", "a ```\n```"),
        ("a ```plain words``` b", 'a "" b'),
        ("`code` and “that”, «this», 「that」", '"" and "", "", ""'),
        ('an "open one\nand more', 'an "open one\nand more'),
    ],
)
def test_quotations(text: str, outside: str) -> None:
    assert without_quotations(text) == outside


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("explian", "explain"),
        ("expain", "explain"),
        ("exxplain", "explain"),
        ("waht", "what"),
        ("architxcture", "architecture"),
        ("prove", "prove"),
        ("probe", "probe"),
        ("last", "last"),
        ("he", "he"),
    ],
)
def test_slips(slip: str, meant: str) -> None:
    assert Spelling(SIGNALS).corrected(f"{slip} it") == f"{meant} it"


def test_keywords_in_quotations_are_those_of_other_lexicons_only() -> None:
    assert found("prove it") == {"own/proof/prove", "other/maths/prove"}
    assert found('say "prove it"') == {"other/maths/prove"}
    assert found("What  iѕ it? ```explain```") == {"own/simple/what is"}


@pytest.mark.parametrize(
    ("text", "scanned"),
    [("waht is it", ["what is it"]), ('waht is "prove"', ['what is "prove"', 'what is ""'])],
)
def test_a_reading_for_the_only_lexicon_scans_again_only_without_quotations(
    text: str, scanned: list[str]
) -> None:
    table = SignalTable(SIGNALS[:2])
    seen: list[str] = []

    def match(text: str) -> int:
        seen.append(text)
        return 0

    Reading(table, "own").hits(text, match)
    assert seen == scanned


def test_a_long_text_is_scanned_as_it_is() -> None:
    assert found("x " * READ + '"prove"') == {"own/proof/prove", "other/maths/prove"}


@given(st.text(max_size=60))
def test_undoing_twice_is_undoing_once(text: str) -> None:
    plain = without_quotations(text)
    assert without_quotations(plain) == plain
    assert len(spaced(text)) <= len(text)
