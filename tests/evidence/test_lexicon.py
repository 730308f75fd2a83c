"""Lexicon files: what they say, and how a mistake in one is told."""

import pytest

from pointsman.errors import LexiconError
from pointsman.evidence import Kind, Signal
from pointsman.evidence.lexicon import Lexicon, load_lexicon

GOOD = r"""
name = "mine"

[groups.code]
words = ["Kubectl", "terraform*", "café"]
substrings = ["```"]

[groups."multi step"]
patterns = ['step\s+[0-9]', "first.*then"]
"""


def test_a_lexicon_file() -> None:
    lexicon = load_lexicon(GOOD, "mine.toml")
    assert lexicon.name == "mine"
    assert list(lexicon.signals()) == [
        Signal("mine", "code", "kubectl", Kind.WORD),
        Signal("mine", "code", "terraform", Kind.PREFIX),
        Signal("mine", "code", "café", Kind.WORD),
        Signal("mine", "code", "```", Kind.SUBSTRING),
        Signal("mine", "multi step", r"step\s+[0-9]", Kind.REGEX),
        Signal("mine", "multi step", "first.*then", Kind.REGEX),
    ]
    assert [term.place for term in lexicon.terms] == [f"mine.toml:{line}" for line in (5, 5, 5, 6, 9, 9)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "mine.toml:1: Invalid value"),
        ("groups = {}", "mine.toml:1: Object missing required field `name` at `$`"),
        ('name = "x"\n', "mine.toml:1: Object missing required field `groups` at `$`"),
        ('name = "x"\ngruops = {}\ngroups = {}', 'mine.toml:2: unknown key "gruops"; did you mean "groups"?'),
        (
            'name = "x"\n[groups.code]\nwords = ["a"]\nwrods = ["b"]',
            'mine.toml:4: unknown key "wrods"; did you mean "words"?',
        ),
        (
            'name = "x"\n[groups.code]\nzzz = ["b"]',
            'mine.toml:3: unknown key "zzz"; known are words, substrings, patterns',
        ),
        ("name = 5\ngroups = {}", "mine.toml:1: Expected `str`, got `int` at `$.name`"),
        (
            'name = "x"\n[groups.code]\nwords = "a"',
            "mine.toml:3: Expected `array`, got `str` at `$.groups[...].words`",
        ),
        (
            'name = "x"\n[groups.code]\nwords = [\n  "a",\n  "b",\n  "a",\n]',
            'mine.toml:6: "a" is twice in group "code"',
        ),
        (
            'name = "x"\n[groups.code]\nwords = [\n  "a",\n  "b",\n  "A",\n]',
            'mine.toml:6: "A" is twice in group "code"',
        ),
        (
            'name = "x"\n[groups.one]\nwords = ["a"]\n[groups.two]\npatterns = [\n  "(a)\\\\1",\n]',
            "mine.toml:6: x/two: pattern '(a)\\\\1' cannot be used: it uses a back-reference at 3",
        ),
        ('name = "x"\n[groups.one]\nwords = [\n  "b", ""]', "mine.toml:4: x/one: a pattern is empty"),
    ],
)  # fmt: skip
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(LexiconError) as caught:
        load_lexicon(text, "mine.toml")
    assert caught.value.message.startswith(message)


def test_a_lexicon_from_signals_knows_only_its_origin() -> None:
    lexicon = Lexicon.of("seed", [Signal("seed", "code", "json")], place="built in")
    assert [(term.signal.pattern, term.place) for term in lexicon.terms] == [("json", "built in")]
