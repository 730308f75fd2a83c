"""The seed profile's documented rules, each with a near miss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.vocabulary import Stage, Tier
from support.tier_profiles import bench

ARCHITECTURE = (
    "Build a distributed microservice architecture. First, design the database schema. Then create the API "
    "endpoints and deploy to Kubernetes."
)


@pytest.mark.parametrize(
    ("text", "tier"),
    [
        ("What is the capital of France?", Tier.SIMPLE),
        ("hello", Tier.SIMPLE),
        ("define photosynthesis", Tier.SIMPLE),
        ("Write a function to sort an array in JavaScript", Tier.MEDIUM),
        (ARCHITECTURE, Tier.COMPLEX),
        ("Prove the theorem step by step", Tier.REASONING),
        ("", Tier.SIMPLE),
    ],
)
def test_documented_prompts(text: str, tier: Tier) -> None:
    assert bench("seed").by_rules(text).tier is tier


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("hi", "short (0 tokens)"),
        ("x" * 199, "short (49 tokens)"),
        ("x" * 200, None),
        ("x" * 2003, None),
        ("x" * 2004, "long (501 tokens)"),
        ("a function of a class", "code (function, class)"),
        ("one algorithm", None),  # two technical terms are the least
        ("algorithm, database", "technical (algorithm, database)"),
        ("first this, then that", "multi-step"),
        ("first this\nthen that", None),  # "." stops at a line break
        ("step\u00a03", "multi-step"),  # the original's blanks are Unicode's
        ("step ٣", None),  # and its digits are not
        ("? ? ?", None),
        ("? ? ? ?", "4 questions"),
        ("avoid it", None),
        ("avoid it, never", "negation (avoid, never)"),
        ("edit, fix, debug it", "agentic (edit, fix)"),  # the lower step names two
        ("edit, fix, debug, verify", "agentic (edit, fix, debug)"),
        ("A LETTER", "code (let)"),  # substrings, whatever the case
    ],
)
def test_signals(text: str, signal: str | None) -> None:
    signals = bench("seed").by_rules(text).signals
    if signal is None:
        assert all(shown.startswith(("short", "ambiguous", "code")) for shown in signals)
    else:
        assert signal in signals


def test_tokens_are_counted_in_utf16_units() -> None:
    assert "short (2 tokens)" in bench("seed").by_rules("🙂🙂🙂🙂").signals


def test_a_very_long_prompt_is_complex_whatever_it_says() -> None:
    at, above = bench("seed").by_rules("prove proof " * 33_333 + "abcd"), "prove proof " * 33_334
    assert at.tier is Tier.REASONING
    decision = bench("seed").by_rules(above)
    assert (decision.tier, decision.confidence, decision.stage) == (Tier.COMPLEX, 0.95, Stage.OVERRIDE)
    assert decision.signals[-1] == "large context (100002 tokens) → COMPLEX"


def test_two_reasoning_keywords_are_reasoning() -> None:
    decision = bench("seed").by_rules("prove it formally")
    assert (decision.tier, decision.confidence) == (Tier.REASONING, 0.85)
    assert decision.signals[-1] == "reasoning override (2 markers)"
    assert not decision.needs_verification
    assert bench("seed").by_rules("prove it").stage is Stage.RULES


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        (ARCHITECTURE, Stage.OVERRIDE),
        ("build, create, implement, design", Stage.RULES),  # neither steps nor long
        ("build, create, implement, design" + " " * 268, Stage.RULES),  # 300 is not over 300
        ("build, create, implement, design" + " " * 269, Stage.OVERRIDE),
        ("build, create, implement. 1. go", Stage.RULES),  # three signals
        ("deploy, build, create. 1. go", Stage.OVERRIDE),  # "deploy" is in two lists and counts in both
    ],
)
def test_four_complexity_signals_and_steps_or_length(text: str, stage: Stage) -> None:
    decision = bench("seed").by_rules(text)
    assert decision.stage is stage
    if stage is Stage.OVERRIDE:
        assert decision.tier is Tier.COMPLEX
        assert decision.confidence >= 0.85


def test_the_complexity_override_names_three_keywords_but_no_agentic_one() -> None:
    decision = bench("seed").by_rules("edit, fix, build, design, develop, construct. 1. go")
    assert decision.signals[-1] == "complex override (6 signals: build, design, develop)"


@given(st.text(max_size=400))
def test_any_text_is_decided_within_bounds(text: str) -> None:
    decision = bench("seed").by_rules(text)
    assert -0.19 - 1e-9 <= decision.score <= 1.0
    assert 0.5 <= decision.confidence <= 1.0
    assert decision.needs_verification == any("ambiguous" in signal for signal in decision.signals)
