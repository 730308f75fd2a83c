"""Every engine finds the same signals; the oracle says which those are."""

import gzip
import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.errors import LexiconError, MissingExtra
from pointsman.evidence import Kind, Matcher, PatternSet, Signal, SignalTable, build_matcher
from pointsman.evidence._chars import is_word
from pointsman.evidence._engines import engine_names
from support.examples import share
from support.oracle import ReMatcher

ENGINES = engine_names()  # one of them only where CI has taken the other away
needs_hyperscan = pytest.mark.skipif("hyperscan" not in ENGINES, reason="Hyperscan is not installed")


def table_of(kind: Kind, *patterns: str) -> SignalTable:
    return SignalTable(Signal("test", "group", pattern, kind) for pattern in patterns)


def matchers(table: SignalTable) -> list[Matcher]:
    patterns = PatternSet(table)
    return [ReMatcher(table), *(build_matcher(patterns, engine=engine) for engine in ENGINES)]


def found(table: SignalTable, text: str) -> set[str]:
    """The patterns found, after making sure that every engine finds the same."""
    masks = [matcher.match(text.lower()) for matcher in matchers(table)]
    assert len(set(masks)) == 1
    return {signal.pattern for signal in table.of(masks[0])}


@pytest.mark.parametrize(
    ("pattern", "text", "is_hit"),
    [
        ("python", "Python", True),
        ("python", "use python.", True),
        ("python", "(python)", True),
        ("python", "pythonic", False),
        ("python", "cpython", False),
        ("python", "python3", False),
        ("python", "snake_python", False),
        ("python", "python-like", True),
        ("python", "pythonic but python", True),
        # scripts without spaces, and marks outside words, are a boundary
        ("python", "用python写", True),
        ("python", "パイソンpythonで", True),
        ("python", "파이썬python을", True),
        ("python", "ใช้pythonเขียน", True),
        ("python", "“python”", True),
        ("python", "«python»", True),
        ("python", "¿python?", True),
        ("python", "ｐｙｔｈｏｎ", False),
        ("python", "（python）", True),
        ("python", "—python…", True),
        ("python", "🐍python🐍", True),
        ("python", "\U0002a6d6python\U0002a6d6", True),
        # letters and marks of other spaced scripts are not
        ("caf", "café", False),
        ("tude", "étude", False),
        ("caf", "cafe\u0301", False),
        ("cafe", "cafe\u0301", False),
        ("python", "яpython", False),
        ("python", "pythonα", False),
        ("python", "pythonم", False),
        ("python", "हpython", False),
        ("café", "un CAFÉ noir", True),
        ("étude", "l’étude", True),
        ("étude", "d'étude", True),
        ("étude", "préétude", False),
        ("теорема", "Теорема.", True),
        ("теорема", "теоремами", False),
        ("теорема", "—теорема—", True),
        ("λόγος", "ο λόγος·", True),
        ("λόγος", "λόγος;", True),
        ("مرحبا", "مرحبا، كيف", True),
        ("سلام", "سلامي", False),
        ("नमस्ते", "नमस्ते।", True),
        ("नमस्ते", "नमस्तेजी", False),
        ("שלום", "שלום־עליכם", True),
        # a literal is bounded only where its own edge is part of a word
        ("c++", "c++17", True),
        ("c++", "objc++", False),
        (".net", "asp.net", True),
        (".net", "用.net写", True),
        (".net", ".network", False),
        ("```", "```python", True),
        ("算法", "快速排序算法的", True),
        ("don't", "don't", True),
        ("don’t", "i don’t.", True),
        ("don’t", "don’ts", False),
        ("step by step", "step by step", True),
        ("step by step", "misstep by step", False),
        ("i/o", "用i/o的", True),
        ("a b", "a\nb", False),
    ],
)  # fmt: skip
def test_word(pattern: str, text: str, is_hit: bool) -> None:
    assert bool(found(table_of(Kind.WORD, pattern), text)) is is_hit


@pytest.mark.parametrize(
    ("kind", "pattern", "text", "is_hit"),
    [
        (Kind.SUBSTRING, "table", "comfortable", True),
        (Kind.SUBSTRING, "TABLE", "table", True),
        (Kind.SUBSTRING, "用python", "请用Python写", True),
        (Kind.SUBSTRING, " a.b*", "x a.b*y", True),
        (Kind.SUBSTRING, "a.b", "axb", False),
        (Kind.SUBSTRING, "证明", "请证明它", True),
        (Kind.PREFIX, "proof", "proofs", True),
        (Kind.PREFIX, "доказ", "Доказать", True),
        (Kind.PREFIX, "доказ", "недоказанный", False),
        (Kind.PREFIX, "demonstr", "«démonstration»", False),
        (Kind.PREFIX, "démonstr", "«démonstration»", True),
        (Kind.PREFIX, "pro-", "用pro-用", True),
        (Kind.PREFIX, "證明", "不證明", True),
    ],
)
def test_substring_and_prefix(kind: Kind, pattern: str, text: str, is_hit: bool) -> None:
    assert bool(found(table_of(kind, pattern), text)) is is_hit


@pytest.mark.parametrize(
    ("pattern", "text", "is_hit"),
    [
        # the seed's multi-step patterns
        (r"first.*then", "first, do x; then y", True),
        (r"first.*then", "first\nthen", False),
        (r"first.*then", "first\rthen", False),
        (r"first.*then", "first\u2028then", False),
        (r"first.*then", "first\u0085then", True),
        (r"step\s+[0-9]", "Step \t\u3000\ufeff 1", True),
        (r"step\s+[0-9]", "step\u00851", False),
        (r"step\s+[0-9]", "step\x1c1", False),
        (r"step\s+\d", "step ١", False),
        (r"[0-9]\.\s", "1. a", True),
        (r"[0-9]\.\s", "1.5", False),
        # classes
        (r"a\wb", "aéb", True),
        (r"a\wb", "a汉b", False),
        (r"a\Wb", "a汉b", True),
        (r"[^a-z]x", "Ax", False),
        (r"[A-C]x", "bx", True),
        (r"[Å-Ö]", "ö", True),
        (r"[\w.-]+@[\w.-]+", "me@example.org", True),
        (r"[]x]y", "]y", True),
        (r"[a\]-]z", "-z", True),
        (r"\x41\u0062\U00000063", "abc", True),
        (r"a{2,3}b", "aab", True),
        (r"^a{2,3}b", "ab", False),
        (r"a{x}", "a{x}", True),
        (r"(?:ab){2}", "abab", True),
        (r"(?i)ABC", "abc", True),
        (r"(?P<name>a)(b)", "ab", True),
        (r"colou?r", "color", True),
        (r"a.*?b", "axxb", True),
        # ends of the text
        (r"^yes", "yes, go", True),
        (r"^yes", "oh yes", False),
        (r"^yes", "\nyes", False),
        (r"done$", "all done", True),
        (r"done$", "done\n", False),
        (r"\Aone\Z", "one", True),
        (r"(?:^|\n)- ", "- x", True),
        (r"(?:^|\n)- ", "a\n- x", True),
        (r"(?:^|\s)~/", "a~/", False),
        (r"(?:^a)?b$", "ab", True),
        (r".x", "x", False),
        (r"\sx", "x", False),
        (r"x[^y]", "x", False),
        # boundaries
        (r"\bfix(?:es|ed)?\b", "préfixes", False),
        (r"\bfix(?:es|ed)?\b", "fixed!", True),
        (r"\bfix\b.*\bbug\b", "fix the debug", False),
        (r"\bfix\b.*\bbug\b", "fix the bug", True),
        (r"\bfix\b.*\bbug\b", "fix用bug", True),
        (r"\bfix\b\s*\bbug\b", "fixbug", False),
        (r"fix\b", "fix", True),
        (r"\b[\w-]+\.(?:ya?ml)\b", "配置.yaml -a.yml", True),
        (r"\b[\w-]+\.(?:ya?ml)\b", ".yaml", False),
        (r"(?:^|[\n;]\s*|\b(?:run|do)\s+)(?:cat|rm)\b", "please run rm", True),
        (r"(?:^|[\n;]\s*|\b(?:run|do)\s+)(?:cat|rm)\b", "prerun rm", False),
        (r"(?:^|[\n;]\s*|\b(?:run|do)\s+)(?:cat|rm)\b", "x; rm", True),
        (r"(?:\bx)?y", "zy", True),
        (r"\b-\b", "a-b", True),
        (r"\b-\b", "a - b", False),
        (r"a\b$", "a", True),
    ],
)  # fmt: skip
def test_regex(pattern: str, text: str, is_hit: bool) -> None:
    assert bool(found(table_of(Kind.REGEX, pattern), text)) is is_hit


def test_one_pattern_in_several_groups_sets_every_bit() -> None:
    table = SignalTable([Signal("a", "x", "json"), Signal("b", "y", "json"), Signal("a", "x", "yaml")])
    patterns = PatternSet(table)
    assert len(patterns.sources) == 2
    for matcher in matchers(table):
        assert {s.id for s in table.of(matcher.match("as json"))} == {"a/x/json", "b/y/json"}


def test_an_empty_table_matches_nothing() -> None:
    table = SignalTable([])
    for engine in ENGINES:
        assert build_matcher(PatternSet(table), engine=engine).match("anything") == 0


@pytest.mark.parametrize(
    "text", ["", "\0", "a\0python\0b", "\x02python\x03", "\ud800python", "x" * 70_000 + " python"]
)
def test_odd_texts(text: str) -> None:
    table = SignalTable(
        [*table_of(Kind.WORD, "python").signals, *table_of(Kind.REGEX, ".python", r"[^x]").signals]
    )
    found(table, text)


@needs_hyperscan
def test_an_engine_that_refuses_names_the_pattern() -> None:
    table = SignalTable(
        [Signal("mine", "code", "fine"), Signal("mine", "code", "(?:[^é]x){400}", Kind.REGEX)]
    )
    with pytest.raises(LexiconError, match=r"mine/code/.*: Hyperscan does not take the pattern: .*too large"):
        build_matcher(PatternSet(table), engine="hyperscan")


@needs_hyperscan
def test_matching_may_be_reentered() -> None:
    """Several scans under way at once, as in several threads, each have a space of their own."""
    from pointsman.evidence._hyperscan_matcher import HyperscanMatcher

    matcher = HyperscanMatcher.compile(PatternSet(table_of(Kind.WORD, "python")))
    taken = matcher._scratches.pop()
    assert matcher.match("python") == 1
    matcher._scratches.append(taken)
    assert matcher.match("python") == 1


def test_a_missing_engine_is_named() -> None:
    with pytest.raises(MissingExtra, match="re3") as caught:
        build_matcher(PatternSet(table_of(Kind.WORD, "x")), engine="re3")
    assert "pip install" in caught.value.hint


LETTERS = "ab é\u0301яم用ー한ไ’«.-_1 \n\r\u2028\u3000\u0085\0\x02\x03\x1d\x1e\x1f\xa0\ud800😀ＡIÅ"
TEXTS = st.text(st.sampled_from(LETTERS), max_size=14)
LITERALS = st.text(st.sampled_from("ab éя用’.-_1 "), min_size=1, max_size=4).filter(str.strip)
ATOMS = st.sampled_from(["a", "b", "é", "用", "_", "-", "’", ".", "[ab]", "[^a]", r"\s", r"\w", r"\W", r"\d"])
EDGES = st.sampled_from([r"\b", "^", "$", ""])
QUANTIFIERS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,3}"])


def regexes() -> st.SearchStrategy[str]:
    unit = st.builds("{}{}{}".format, ATOMS, QUANTIFIERS, EDGES)
    group = st.builds("(?:{}{}|{}{}){}".format, EDGES, unit, unit, EDGES, st.sampled_from(["", "?"]))
    return st.builds("".join, st.lists(EDGES | unit | group, min_size=1, max_size=5))


def signals(patterns: st.SearchStrategy[str], *kinds: Kind) -> st.SearchStrategy[Signal]:
    return st.builds(Signal, st.just("l"), st.just("g"), patterns, st.sampled_from(kinds))


SIGNALS = signals(LITERALS, Kind.SUBSTRING, Kind.WORD, Kind.PREFIX) | signals(regexes(), Kind.REGEX)


def accepted(signals: list[Signal]) -> SignalTable:
    """The signals that are not refused; the first engine has limits of its own on size."""
    good = []
    for signal in signals:
        try:
            build_matcher(PatternSet(SignalTable([signal])))
        except LexiconError:
            continue
        good.append(signal)
    return SignalTable(good)


@pytest.mark.slow
@given(st.lists(SIGNALS, min_size=1, max_size=6), st.lists(TEXTS, min_size=1, max_size=8))
def test_every_engine_agrees_with_the_oracle(signals: list[Signal], texts: list[str]) -> None:
    table = accepted(signals)
    oracle, *engines = matchers(table)
    for text in texts:
        expected = oracle.match(text.lower())
        for engine in engines:
            assert engine.match(text.lower()) == expected, (text, list(table.signals))


@settings(max_examples=share(2))
@given(regexes(), st.text(st.sampled_from("ab .-_1\n"), max_size=10))
def test_on_plain_ascii_the_oracle_is_re(pattern: str, text: str) -> None:
    """The oracle itself, held against Python's own reading of the pattern."""
    try:
        table = SignalTable([Signal("l", "g", pattern, Kind.REGEX)])
        oracle = ReMatcher(table)
    except LexiconError:
        return
    own = re.sub(r"(?<!\\)\$", r"\\Z", pattern)
    assert bool(oracle.match(text)) is bool(re.search(own, text, re.ASCII))


@pytest.mark.parametrize(
    ("word", "outside"),
    [
        ("azé_09ßÿāőǆəπωѐяјґאתابيकहवि0à", " -.,;:!?'\"()[]«»¿¡“”‘’„–—…·×÷ ©®°"),
        ("მოდსისቃል", "；？。，、「」（）ＡｂｃＺ０９"),
        ("ﬁﬀﷲﻼ", "用漢一龥ぁんァヶー가힣ㄱแไ็"),
        ("\u0301\u0327\u05b0\u064b\u093c", "؟،؛।॥־׀׃\u037e\u0387€₽🐍\U0002a6d6"),
    ],
)
def test_word_characters(word: str, outside: str) -> None:
    assert [char for char in word if not is_word(char)] == []
    assert [char for char in outside if is_word(char)] == []


SHARED = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[3] / "shared"))


@pytest.mark.data
@pytest.mark.skipif(not (SHARED / "data").is_dir(), reason="no ../shared/data")
def test_engines_agree_on_real_prompts() -> None:
    from pointsman.domains import default_domains
    from pointsman.tiers import BUILTIN_PROFILES, builtin_profile

    signals = [s for name in BUILTIN_PROFILES for s in builtin_profile(name).signals()]
    signals += default_domains().signals()
    table = SignalTable(signals)
    oracle, *engines = matchers(table)
    with gzip.open(SHARED / "data/tiers/tier_labels.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["prompt"].lower() for line in lines][::20]
    for text in texts:
        expected = oracle.match(text)
        for engine in engines:
            assert engine.match(text) == expected
