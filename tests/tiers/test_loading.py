"""Profiles from TOML: what loads, and what an operator is told."""

from importlib import resources

import pytest

from pointsman.errors import ConfigError, LexiconError
from pointsman.evidence import Kind, SignalTable
from pointsman.tiers import BUILTIN_PROFILES, TierScorer, builtin_profile, load_profile
from pointsman.vocabulary import Tier
from support.tier_profiles import Bench

SMALL = """
name = "small"
description = "Two dimensions."
tokens = "utf8"
matching = "words"
boundaries = [0.0, 0.5, 1.0]
steepness = 12.0

[escalation]
rule = "margin"
within = 0.1

[verification]
rubric = "SIMPLE, MEDIUM, COMPLEX or REASONING?"

[[overrides]]
name = "many"
tier = "COMPLEX"
confidence = 0.9
count_of = ["sport"]
count_from = 2
signal = "{count} sports"

[[dimensions]]
name = "length"
weight = 1.0
measure = "tokens"
curve = [[1, -1.0], [100, 1.0]]

[[dimensions]]
name = "sport"
weight = 0.5
signal = "sport ({keywords})"
steps = [{ at = 1, score = 0.5 }]
keywords.en = ["chess", "row*", "*ball*"]
"""


def test_the_built_in_profiles_load() -> None:
    for name in BUILTIN_PROFILES:
        assert builtin_profile(name).name == name
    assert sum(dimension.weight for dimension in builtin_profile("seed").dimensions) == pytest.approx(1.0)
    assert len(builtin_profile("seed").dimensions) == 15


def test_words_stems_and_parts() -> None:
    judged = Bench(load_profile(SMALL, "small.toml"))
    shown = {
        text: judged.by_rules(text).signals
        for text in ("Chess!", "chessboard", "rowing", "arrow", "footballer")
    }
    assert shown == {
        "Chess!": ("sport (chess)",),
        "chessboard": (),
        "rowing": ("sport (row)",),
        "arrow": (),
        "footballer": ("sport (ball)",),
    }
    assert judged.by_rules("chess and football").tier is Tier.COMPLEX


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("boundaries", "boundries", 'small.toml:6: unknown key "boundries"; did you mean "boundaries"?'),
        ("within", "witin", 'small.toml:11: unknown key "witin" in [escalation]; did you mean "within"?'),
        (
            "count_of",
            "count_off",
            'small.toml:20: unknown key "count_off" in [overrides]; did you mean "count_of"?',
        ),
        (
            "rubric = ",
            "timeout_ms = 5\nrubric = ",
            'small.toml:14: "timeout_ms" in [verification] is now timeout_ms in [tiers.verify]',
        ),
        ("curve", "curv", 'small.toml:28: unknown key "curv" in [dimensions]; did you mean "curve"?'),
        (
            "weight = 0.5",
            "wait = 0.5",
            'small.toml:32: unknown key "wait" in [dimensions]; did you mean "weight"?',
        ),
        ("score = 0.5", "scor = 0.5", 'small.toml:34: unknown key "scor" in [steps]; did you mean "score"?'),
        ("steepness = 12.0", "xyz = 1", 'small.toml:7: unknown key "xyz"'),
        ("weight = 0.5", 'weight = "much"', "small.toml:32: Expected `float`, got `str`"),
        ('tier = "COMPLEX"', 'tier = "HARD"', "small.toml:18: Invalid enum value 'HARD'"),
        ('rule = "margin"', 'rule = "guess"', "small.toml:10: Invalid value 'guess'"),
        ("steepness = 12.0", "steepness = ", "small.toml:7: Invalid value"),
        ("[0.0, 0.5, 1.0]", "[0.0, 0.5, 0.2]", 'small.toml:6: "boundaries" must rise'),
        (
            'count_of = ["sport"]',
            'count_of = ["chess"]',
            'small.toml:20: override "many" names an unknown dimension "chess"',
        ),
        ('count_of = ["sport"]', "", "needs a condition"),
        ("confidence = 0.9", "", "needs either confidence or least_confidence"),
        ('name = "length"', 'name = "sport"', 'small.toml:25: two dimensions are named "sport"'),
        ('measure = "tokens"', 'measure = "hits"', 'belong to measure "hits" alone'),
        ("[1, -1.0]", "[0, -1.0]", "must rise, a curve from 1 on"),
        ("[100, 1.0]", "[1, 1.0]", "must rise, a curve from 1 on"),
        ("curve = [[1, -1.0], [100, 1.0]]", "", "needs either steps or a curve"),
        (
            "{count} sports",
            "{number} sports",
            'signal "{number} sports" names "number"; known are count',
        ),
        ('"chess"', '"*"', 'small.toml:31: dimension "sport" has an empty keyword'),
        (
            '"chess"',
            '"che*ss"',
            'small.toml:35: keyword "che*ss" of dimension "sport": a star belongs at an end',
        ),
        ("sport ({keywords})", "{count} ({keywords})", "may name only one value"),
        ("weight = 0.5", "weight = nan", "small.toml:32: Expected `float` >= -1"),
        ("steepness = 12.0", "steepness = 0.0", "small.toml:7: Expected `float` > 0.0"),
        ("within = 0.1", "within = -0.1", "small.toml:11: Expected `float` > 0.0"),
        ("confidence = 0.9", "confidence = 1.5", "small.toml:19: Expected `float` <= 1.0"),
    ],
)
def test_mistakes_name_their_place_and_the_way_out(old: str, new: str, message: str) -> None:
    assert old in SMALL
    with pytest.raises(ConfigError) as error:
        load_profile(SMALL.replace(old, new, 1), "small.toml")
    assert message in str(error.value)
    assert str(error.value).startswith("small.toml:")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a+)\\1", "it uses a back-reference"),
        ("(?=x)y", "it uses look-around"),
        ("[", "is never closed"),
    ],
)
def test_patterns_that_are_not_linear_time_are_refused(pattern: str, reason: str) -> None:
    text = SMALL.replace("keywords.en", f'patterns = ["ok", "{pattern}"]\nkeywords.en')
    with pytest.raises(LexiconError, match=f"^small.toml:35: small/sport: pattern .* {reason}"):
        load_profile(text, "small.toml")


def test_where_substrings_are_matched_a_star_is_a_star() -> None:
    text = SMALL.replace('matching = "words"', 'matching = "substrings"').replace('"row*"', '"2*3"')
    judged = Bench(load_profile(text, "small.toml"))
    assert judged.by_rules("is 2*3 more?").signals == ("sport (2*3)",)
    assert judged.by_rules("football").signals == ()


def test_a_table_without_the_profiles_signals_is_refused() -> None:
    profile = builtin_profile("seed")
    patterns_missing = SignalTable(signal for signal in profile.signals() if signal.kind is not Kind.REGEX)
    with pytest.raises(KeyError):
        TierScorer(profile, patterns_missing)


def test_an_unknown_profile_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown tier profile") as error:
        builtin_profile("defualt")
    assert "default, seed" in error.value.hint


def test_profiles_are_inside_the_package() -> None:
    inside = {path.name for path in (resources.files("pointsman.tiers") / "profiles").iterdir()}
    assert inside == {f"{name}.toml" for name in BUILTIN_PROFILES}
