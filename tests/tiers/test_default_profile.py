"""The default profile: nineteen languages, whole words, length, and silence that is not simplicity."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.evidence import Kind
from pointsman.tiers.profile import signal_of
from pointsman.vocabulary import Evidence, Script, Stage, Tier
from support.tier_profiles import bench, needs_data, rows

LANGUAGES = {
    Tier(tier): list(texts.values())
    for tier, texts in tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8")).items()
}


@pytest.mark.parametrize(
    ("tier", "text"), [(tier, text) for tier, texts in LANGUAGES.items() for text in texts]
)
def test_every_language_of_the_profile(tier: Tier, text: str) -> None:
    assert bench("default").by_rules(text).tier is tier


@pytest.mark.parametrize("text", ["A letter to the defendant, improved", "redefine", "Pipeline-free hellos"])
def test_words_are_not_found_inside_other_words(text: str) -> None:
    signals = " ".join(bench("default").by_rules(text).signals)
    assert "code" not in signals
    assert "simple" not in signals


@pytest.mark.parametrize("text", ["", "   ", "zxcvb qwerty", "Ĉu vi bonvolus helpi min pri tio ĉi"])
def test_silence_is_unsure_and_never_simple(text: str) -> None:
    decision = bench("default").by_rules(text)
    assert decision.tier is Tier.MEDIUM
    assert decision.confidence == 0.5
    assert decision.needs_verification
    assert decision.reasons[-1].code == "tiers.no-signal"


def test_a_long_text_without_keywords_is_judged_by_its_length() -> None:
    decision = bench("default").by_rules("zxcvb qwerty " * 60)
    assert decision.tier is Tier.COMPLEX
    assert "tiers.no-signal" not in {reason.code for reason in decision.reasons}


@pytest.mark.parametrize("text", ["Yes.", "ok", " thanks! ", "Go on"])
def test_a_bare_acknowledgement_is_simple(text: str) -> None:
    decision = bench("default").by_rules(text)
    assert decision.tier is Tier.SIMPLE
    assert any(signal.startswith("simple") for signal in decision.signals)


@pytest.mark.parametrize(
    "text",
    [
        "Hello there!",
        "hello, how are you?",
        "Thank you very much.",
        "merci beaucoup",
        "привет",
        "你好！",
        "ありがとうございます",
        "안녕하세요",
        "नमस्ते",
        "السلام عليكم",
        "สวัสดี",
    ],
)
def test_a_bare_greeting_is_simple(text: str) -> None:
    decision = bench("default").by_rules(text)
    assert decision.tier is Tier.SIMPLE
    assert any(signal.startswith("simple") for signal in decision.signals)


@pytest.mark.parametrize(
    ("before", "after"), [("Hello, ", " Thanks a lot."), ("", " Thank you!"), ("Hi! ", "")]
)
def test_politeness_says_nothing_about_the_task(before: str, after: str) -> None:
    task = "design a distributed queue and prove that no message is lost"
    by = bench("default")
    polite = by.by_rules(f"{before}{task}{after}")
    assert polite.tier is by.by_rules(task).tier
    assert not any(signal.startswith("simple") for signal in polite.signals)


def test_a_sentence_says_about_as_much_in_every_script() -> None:
    scorer, scan = bench("default").scorer, bench("default").scan
    english = scorer.tokens(scan(LANGUAGES[Tier.MEDIUM][0]))
    for text in LANGUAGES[Tier.MEDIUM]:
        assert english / 2 <= scorer.tokens(scan(text)) <= english * 2


@pytest.mark.parametrize("words", ["Ответьте одним абзацем", "एक अनुच्छेद में जवाब दें", "Répondez"])
def test_words_of_another_script_weigh_as_much_as_our_own(words: str) -> None:
    scorer, scan = bench("default").scorer, bench("default").scan
    text = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. "
    assert scorer.tokens(scan(text + words)) == (len(text) + len(words)) // 4


@given(st.lists(st.integers(0, 100_000), min_size=2, max_size=2))
def test_a_longer_text_never_scores_lower(tokens: list[int]) -> None:
    short, long = (Evidence("", 0, 4 * count, 4 * count, count, 0, Script.LATIN) for count in sorted(tokens))
    scorer = bench("default").scorer
    assert scorer.score(short).total <= scorer.score(long).total


@given(st.text(max_size=300))
def test_any_text_is_decided_the_same_twice(text: str) -> None:
    decision = bench("default").by_rules(text)
    assert decision == bench("default").by_rules(text)
    assert decision.stage in {Stage.RULES, Stage.OVERRIDE}
    assert 0.5 <= decision.confidence <= 1.0


def test_no_keyword_of_a_dimension_implies_another() -> None:
    """One word of a text counts once, whichever languages list it."""
    profile, table = bench("default").scorer.profile, bench("default").table
    around = {Kind.WORD: " {} ", Kind.PREFIX: " {}{}", Kind.SUBSTRING: "x{}x"}
    implied = []
    for dimension in profile.dimensions:
        words = [word for listed in dimension.keywords.values() for word in listed]
        signals = [signal_of(profile, dimension, word) for word in words]
        assert len(signals) == len(set(signals)), f"{dimension.name} lists a keyword twice"
        own = sum(map(table.bit, signals))
        for signal in signals:
            hits = (
                bench("default").scan(around[signal.kind].format(signal.pattern, signal.pattern[-1])).hits
                & own
            )
            implied += [] if hits == table.bit(signal) else [(dimension.name, signal.pattern)]
    assert not implied


@pytest.mark.data
@needs_data
def test_labels_of_others_are_met_far_more_often_than_by_their_majority() -> None:
    sample = rows("tier_labels")[::8]
    hits = sum(bench("default").by_rules(row["prompt"]).tier == row["expected_tier"] for row in sample)
    assert hits / len(sample) > 0.37 + 0.2  # the majority class has 37 %


@pytest.mark.parametrize(
    "prompt",
    [
        "who sings i've got to be me",
        "A bee can enjoy a lovely snack on",
        "Write a function to find the maximum.",
    ],
)
@pytest.mark.parametrize(
    "gadget",
    [
        "prove kubernetes edit. {}",
        "theorem refactor debug api install verify. {}",
        "{} (lemma, compare, python)",
        '{} "first principles scalability derive"',
        "{}\n```\nalgorithm commit step by step\n```",
    ],
)
def test_a_list_of_keywords_raises_no_tier(prompt: str, gadget: str) -> None:
    """Near miss: "Explain and prove it step by step." is an order (docs/notebook/0168)."""
    rules = bench("default").by_rules
    assert rules(gadget.format(prompt)).tier.rank <= rules(prompt).tier.rank
    assert rules(f"{prompt} Prove by induction that it is so.").tier.rank > rules(prompt).tier.rank
