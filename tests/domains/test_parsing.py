"""Domain files: what they may say, and what is said about mistakes in them."""

import pytest

from pointsman.domains import (
    DomainClass,
    DomainMemory,
    DomainSet,
    DomainTracker,
    default_domains,
    parse_domains,
)
from pointsman.errors import LexiconError
from pointsman.evidence import PatternSet, Scanner, SignalTable, build_matcher
from support.oracle import ReMatcher

MINIMAL = """
extends = "none"
[domains.law]
class = "task"
priority = 7
aliases = ["legal"]
[domains.law.signals]
statute = ["statute", "statutes", { regex = '\\bu\\.?s\\.?c\\.? \\d+' }]
plead = "plead*"
recht = { substring = "Recht" }
"""


def found(domains: DomainSet, text: str) -> list[str]:
    """``domain/concept`` of everything a text mentions."""
    table = SignalTable(domains.signals())
    decision, _ = DomainTracker(domains, table).decide(
        Scanner(table, ReMatcher(table)).scan(text), DomainMemory(), ""
    )
    parts = filter(None, (decision.raw.primary, decision.raw.secondary))
    return [f"{part.domain}/{name}" for part in parts for name in part.signals]


@pytest.mark.parametrize(
    ("text", "concepts"),
    [
        ("the statute and the Statutes", ["law/statute"]),
        ("statutory", []),
        ("pleading, pleads", ["law/plead"]),
        ("implead", []),
        ("u.s.a. 12", []),
        ("18 U.S.C. 1343", ["law/statute"]),
        ("Strafrecht", ["law/recht"]),
        ("the statute. Then", ["law/statute"]),
        ("the statute", ["law/statute"]),
        ("(statute)", ["law/statute"]),
        ("cat statute.txt", []),
        ("ls law/statute/", []),
        ("pip install statute-tools", []),
        ("my_statute", []),
    ],
)
def test_what_a_signal_matches(text: str, concepts: list[str]) -> None:
    assert found(parse_domains(MINIMAL), text) == concepts


TEXTS = """
investigate Oracle Corporation's credit risk
ls -la /home/user/
run `cat notes.md` and grep -r api src/
Fix it!  The API times out; TypeError: no attribute
change the timeout setting in config.yaml
drwxr-xr-x 2 root root 4096 reports
Write me a small python function, please
CAFÉ crash-free, debug... e-mail
""".strip().splitlines()


def test_the_engines_read_the_same_domains() -> None:
    """The fast engine against one ``re`` search per pattern."""
    table = SignalTable(default_domains().signals())
    fast, oracle = Scanner(table, build_matcher(PatternSet(table))), Scanner(table, ReMatcher(table))
    for text in TEXTS:
        assert fast.scan(text).hits == oracle.scan(text).hits, text


def test_phrases_in_other_scripts() -> None:
    domains = parse_domains(
        'extends = "none"\n[domains.cafe]\nclass = "task"\nsignals = {c = ["café", "кофе*"]}'
    )
    assert found(domains, "un café noir") == ["cafe/c"]
    assert found(domains, "КОФЕЙНЯ") == ["cafe/c"]
    assert found(domains, "декофе, cafés") == []


def test_the_built_in_domains_are_those_of_the_specification() -> None:
    domains = default_domains()
    assert {domain.name: domain.priority for domain in domains} == {
        "investigation": 1, "analysis": 2, "bugfix": 3, "coding": 4, "planning": 5, "system_admin": 6,
        "config_edit": 7, "prompt_engineering": 8, "git_ops": 9, "file_ops": 10, "conversation": 99,
    }  # fmt: skip
    kinds = {kind: [d.name for d in domains if d.kind is kind] for kind in DomainClass}
    assert kinds[DomainClass.OPERATIONAL] == ["system_admin", "config_edit", "git_ops", "file_ops"]
    assert kinds[DomainClass.NULL] == ["conversation"]
    for domain in domains:
        assert domain.concepts
        assert domain.brief_description
        assert domain.enrichment_template or domain.kind is DomainClass.NULL
        assert len(domain.brief_description.split()) <= 20


def test_a_file_adds_domains_and_replaces_those_of_the_same_name() -> None:
    domains = parse_domains(
        """
        [cues]
        switch = ["next matter"]
        [domains.law]
        class = "task"
        signals = {statute = "statute"}
        [domains.coding]
        class = "task"
        priority = 4
        signals = {cobol = "cobol"}
        """
    )
    assert len(domains.domains) == 12
    assert [concept.name for concept in domains["coding"].concepts] == ["cobol"]
    assert domains["bugfix"] == default_domains()["bugfix"]
    assert len(domains.cues) == len(default_domains().cues) + 1
    assert domains.null == "conversation"
    assert domains["conversation"] == default_domains()["conversation"]


def test_a_file_can_stand_alone() -> None:
    domains = parse_domains(MINIMAL)
    assert list(domains.domains) == ["law", "conversation"]
    assert domains.resolve("legal") == "law"
    assert domains.resolve("unheard-of") == "unheard-of"


LAW = "[domains.law]\nclass = 'task'\n"
CONCEPT = LAW + "[domains.law.signals]\n"
IN_CONCEPT = 'my.toml:4: concept "x" of domain "law": '


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            LAW + "prioritty = 3",
            'my.toml:3: unknown key "prioritty" in [domains.law]; did you mean "priority"?',
        ),
        ("domain = 1", 'my.toml:1: unknown key "domain" at the top level; did you mean "domains"?'),
        ("zzz = 1", 'my.toml:1: unknown key "zzz" at the top level'),
        ("[cues]\nswich = []", 'my.toml:2: unknown key "swich" in [cues]; did you mean "switch"?'),
        ("[domains.law]\nclass = 'chore'", "my.toml:2: Invalid enum value 'chore' at \"class\""),
        ("[domains.'a+b']\nclass = 'task'", "my.toml:1: "),
        ("[domains.law]", "my.toml:1: Object missing required field `class` in [domains.law]"),
        ("domains = 3", "my.toml:1: Expected `object`, got `int`"),
        ("\n[domains", "my.toml:2: Expected"),
        (
            LAW + "priority = 1\n[domains.tax]\nclass = 'task'\npriority = 'x'",
            'my.toml:6: Expected `int`, got `str` at "priority"',
        ),
        (CONCEPT + "x = 3", IN_CONCEPT),
        (CONCEPT + "x = [{regexp = 'a'}]", IN_CONCEPT),
        (CONCEPT + "x = []", IN_CONCEPT + "Expected `array` of length >= 1"),
        (CONCEPT + "x = ['']", IN_CONCEPT + "an empty phrase"),
        (CONCEPT + "x = '*'", IN_CONCEPT + "an empty phrase"),
        (CONCEPT + "x = {regex='a', substring='b'}", IN_CONCEPT + 'either "regex" or "substring"'),
        (
            CONCEPT + "x = {regex='a(?=b)'}",
            IN_CONCEPT + "domains/law: pattern 'a(?=b)' cannot be used: it uses look-around",
        ),
        (CONCEPT + r"x = {regex='(a)\1'}", IN_CONCEPT),
        (CONCEPT + "x = {regex='a*'}", IN_CONCEPT),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, message: str) -> None:
    with pytest.raises(LexiconError) as error:
        parse_domains(text, place="my.toml")
    assert str(error.value).startswith(message)


def test_signals_have_short_names_of_their_own() -> None:
    """A decision is kept with the ids of its signals: they must be few bytes, and tell signals apart."""
    ids = [signal.id for signal in default_domains().signals()]
    assert len(set(ids)) == len(ids)
    assert max(map(len, ids)) < 60
    assert "domains/coding/api#words" in ids
    assert "domains/bugfix/fix#1" in ids
