"""``lexicon check``: each finding, and what is not one."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import LexiconError
from pointsman.evidence import Kind, Signal, SignalTable
from pointsman.evidence._patterns import tree
from pointsman.evidence.lexicon import Lexicon, check, example
from support.oracle import ReMatcher


def ticking() -> Callable[[], float]:
    """A clock on which every measurement takes a microsecond."""
    now: Iterator[int] = iter(range(1_000_000))
    return lambda: next(now) * 1e-6


def lexicon(*terms: tuple[str, str, Kind]) -> Lexicon:
    return Lexicon.of("mine", [Signal("mine", *term) for term in terms], place="mine.toml")


def codes(*terms: tuple[str, str, Kind]) -> list[str]:
    return [finding.code for finding in check([lexicon(*terms)], ticking()).findings]


@pytest.mark.parametrize(
    ("terms", "found"),
    [
        ([("code", "json", Kind.WORD), ("code", "yaml", Kind.WORD)], []),
        ([("code", "json", Kind.WORD), ("code", "json", Kind.WORD)], ["twice"]),
        ([("code", "json", Kind.WORD), ("code", "json", Kind.SUBSTRING)], ["twice"]),
        ([("code", "json", Kind.WORD), ("format", "json", Kind.WORD)], ["overlap"]),
        ([("code", "step", Kind.WORD), ("code", "step by step", Kind.WORD)], ["contained"]),
        ([("code", "step", Kind.WORD), ("code", "misstep", Kind.WORD)], []),
        ([("code", "step", Kind.SUBSTRING), ("code", "misstep", Kind.WORD)], ["contained"]),
        ([("code", "step", Kind.WORD), ("plan", "step by step", Kind.WORD)], []),
        ([("code", r"step\s\d", Kind.REGEX), ("code", "step", Kind.WORD)], ["contained"]),
        ([("code", "(a)\\1", Kind.REGEX), ("code", "fine", Kind.WORD)], ["refused"]),
        ([("code", r"a\bb", Kind.REGEX)], ["refused"]),
        ([("code", "", Kind.WORD)], ["refused"]),
        ([("code", "the ", Kind.WORD)], ["outer-space"]),
        ([("code", r"the\s", Kind.REGEX)], []),
        ([], []),
    ],
)
def test_findings(terms: list[tuple[str, str, Kind]], found: list[str]) -> None:
    assert codes(*terms) == found


def test_different_lexicons_may_share_terms() -> None:
    other = Lexicon.of("other", [Signal("other", "code", "json")])
    assert check([lexicon(("code", "json", Kind.WORD)), other], ticking()).findings == ()


def test_errors_come_first_and_make_it_not_ok() -> None:
    report = check(
        [lexicon(("code", "a", Kind.WORD), ("code", "a", Kind.WORD), ("code", "(?=a)", Kind.REGEX))],
        ticking(),
    )
    assert [finding.level for finding in report.findings] == ["error", "warning"]
    assert "look-around" in report.findings[0].message
    assert report.findings[0].place == "mine.toml"
    assert not report.ok
    assert check([lexicon(("code", "a", Kind.WORD), ("code", "a", Kind.WORD))], ticking()).ok


def test_costs_are_per_byte_of_the_sample_and_dearest_first() -> None:
    terms = lexicon(("code", "json", Kind.WORD), ("code", "yaml", Kind.WORD))
    report = check([terms], ticking(), sample="x" * 998)  # and two marks
    assert report.patterns == 2
    assert [cost.ns_per_byte for cost in report.costs] == pytest.approx([1.0, 1.0])
    assert report.ns_per_byte == pytest.approx(1.0)

    times = iter([0, 1, 0, 1, 0, 1, 0, 5, 0, 4, 0, 9, 0, 2, 0, 2, 0, 2])
    report = check([terms], lambda: next(times) * 1e-6, sample="x" * 998)
    assert [(cost.signal.pattern, round(cost.ns_per_byte)) for cost in report.costs] == [
        ("yaml", 4),
        ("json", 1),
    ]
    assert round(report.ns_per_byte) == 2


@given(
    st.text(st.sampled_from("ab1 .*+?()[]|\\bdsw^$-é用"), min_size=1, max_size=10),
    st.sampled_from(Kind),
)
def test_an_example_is_matched_by_its_pattern(pattern: str, kind: Kind) -> None:
    signal = Signal("l", "g", pattern, kind)
    try:
        matcher = ReMatcher(SignalTable([signal]))
        text = example(tree(signal))
    except LexiconError:
        return
    if "\\b" not in pattern and "^" not in pattern and "$" not in pattern:
        assert matcher.match(text.lower()) == 1
