"""Every place where the specification's code contradicts its own tests: the code as given, and what is done.

``as_given`` is that code's momentum, condensed; docs/notebook/0041 and 0042 give the reasons.
"""

from collections.abc import Callable
from typing import Any

import pytest

from pointsman.compat.domains import (
    DOMAIN_CONFIGS,
    CompoundClassification,
    build_enrichment_plan,
    extract_compound,
    format_signature,
    generate_enrichment,
    parse_signature,
    restore_from_signature,
    score_all_domains,
)
from pointsman.domains import DomainDecision, DomainMemory, DomainTracker, ModelProfile
from pointsman.evidence import Scanner

Talk = Callable[..., list[DomainDecision]]

COMPOUND = "investigate Oracle's filings through the EDGAR API"
SINGLE = "investigate Oracle Corporation"


def part(domain: str, confidence: int = 1) -> dict[str, Any]:
    return {"domain": domain, "confidence": confidence, "matched_signals": []}


def as_given(
    primary: dict[str, Any], secondary: dict[str, Any] | None, signature: str, momentum: int
) -> tuple[dict[str, Any], dict[str, Any] | None, str, int]:
    new = format_signature(primary, secondary)
    if new == signature:
        return primary, secondary, new, momentum + 1
    if momentum >= 3 and primary["domain"] in parse_signature(signature):
        return *restore_from_signature(signature, primary, secondary), signature, momentum + 1
    return primary, secondary, new, 1


@pytest.fixture
def talk(tracker: DomainTracker, scanner: Scanner) -> Talk:
    def talk(*messages: str, profile: ModelProfile | None = None) -> list[DomainDecision]:
        memory, decisions = DomainMemory(), []
        for number, message in enumerate(messages):
            decision, memory = tracker.decide(
                scanner.scan(message), memory, str(number), profile or ModelProfile()
            )
            decisions.append(decision)
        return decisions

    return talk


def test_given_momentum_never_changes_the_primary_here_it_does(talk: Talk) -> None:
    for momentum in range(8):
        for primary in ("investigation", "coding", "file_ops", "planning"):
            assert as_given(part(primary), None, "coding+investigation", momentum)[0]["domain"] == primary
    last = talk(COMPOUND, COMPOUND, COMPOUND, "ls -la")[-1]
    assert last.raw.primary.domain == "file_ops"
    assert last.effective.primary.domain == "investigation"


def test_given_momentum_fails_test_10(talk: Talk) -> None:
    assert as_given(part("file_ops"), None, "coding+investigation", 3)[2] == "file_ops"
    assert talk(COMPOUND, COMPOUND, COMPOUND, "ls -la")[-1].signature == "coding+investigation"


def test_given_a_strong_single_domain_never_widens_here_at_once(talk: Talk) -> None:
    _, secondary, signature, _ = as_given(part("investigation"), part("coding"), "investigation", 3)
    assert (secondary, signature) == (None, "investigation")
    assert talk(SINGLE, SINGLE, SINGLE, COMPOUND)[-1].signature == "coding+investigation"


def test_given_a_compound_never_narrows_here_after_three_silent_turns(talk: Talk) -> None:
    state: tuple[Any, ...] = (part("investigation"), part("coding"), "coding+investigation", 3)
    for _ in range(50):
        state = as_given(part("investigation"), None, *state[2:])
    assert state[1] == part("coding", 0)
    decisions = talk(COMPOUND, COMPOUND, COMPOUND, SINGLE, SINGLE, SINGLE)
    assert [d.signature for d in decisions[3:]] == ["coding+investigation"] * 2 + ["investigation"]


def test_given_a_secondary_without_signals_is_injected_here_not(talk: Talk) -> None:
    _, secondary, _, _ = as_given(part("investigation"), None, "coding+investigation", 3)
    assert secondary == part("coding", 0)
    carried = talk(COMPOUND, COMPOUND, COMPOUND, SINGLE)[-1]
    assert carried.effective.secondary is not None
    assert carried.effective.secondary.carried
    assert "coding" not in carried.enrichment
    assert carried.enrichment_plan.reason_secondary_skipped == "below_threshold"


@pytest.mark.parametrize("word", ["yes, go ahead", "thanks", "continue", "hm", ""])
def test_given_small_talk_breaks_momentum_here_it_is_quiet(talk: Talk, word: str) -> None:
    assert as_given(part("conversation", 0), None, "coding+investigation", 5)[2:] == ("conversation", 1)
    *_, strong, quiet = talk(COMPOUND, COMPOUND, COMPOUND, word)
    assert quiet.effective.domains == ("investigation", "coding")
    assert quiet.rule == "R0"
    assert quiet.effective.carried
    assert quiet.momentum == strong.momentum
    assert quiet.raw.primary.domain == "conversation"


@pytest.mark.parametrize(
    "message",
    [
        "investigate who owns it, then pip install requests",
        "debug this, and git rebase the branch",
        "plan the week, then ls",
    ],
)
def test_a_command_counts_once_so_it_cannot_outweigh_a_task(talk: Talk, message: str) -> None:
    """As given, a command that two patterns match beats a task that one pattern matches."""
    (decision,) = talk(message)
    assert decision.raw.primary.domain in {"investigation", "bugfix", "planning"}


def test_one_concept_is_one_signal_as_test_1_needs() -> None:
    """With "api", "query" and "endpoint" apart, coding would beat the bug report."""
    scores = {name: score for name, score, _ in score_all_domains("api query endpoint", DOMAIN_CONFIGS)}
    assert scores == {"coding": 1}


def test_tests_3_and_6_hold_by_more_than_priority_where_they_can(talk: Talk) -> None:
    (analysis,) = talk("analyze the stress test logs and fix the domain flip")
    assert analysis.raw.primary.confidence == 2
    assert analysis.raw.secondary is not None
    assert analysis.raw.secondary.confidence == 1
    (fix,) = talk("fix the pip install error")  # a tie: bugfix has the smaller priority
    assert fix.raw.secondary is not None
    assert fix.raw.primary.confidence == fix.raw.secondary.confidence == 1


def test_below_threshold_can_be_reached(talk: Talk) -> None:
    """A second domain with under a third of the first one's signals is passed over, and the plan says so."""
    rich = "debug the bug: a crash with a traceback and a timeout, fix the api"
    (decision,) = talk(rich)
    assert decision.raw.primary.confidence > 3 * 1
    assert decision.raw.secondary is None
    assert decision.enrichment_plan.reason_secondary_skipped == "below_threshold"
    plan = build_enrichment_plan(part("bugfix", 4), part("coding", 0), None)
    assert plan["reason_secondary_skipped"] == "below_threshold"
    assert extract_compound([("bugfix", 4, []), ("coding", 1, [])])[1] is None
    assert extract_compound([("bugfix", 3, []), ("coding", 1, [])])[1] == part("coding")


def test_the_sample_line_of_a_hold_can_be_logged(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="pointsman.domains"):
        talk(*[COMPOUND] * 5, "ls -la")
    assert (
        "[BST] Momentum held: coding+investigation (5 turns) resisted file_ops (1 signal)" in caplog.messages
    )


def test_given_a_disabled_primary_leaves_the_secondary_on_here_both_are_off() -> None:
    """Test 14 of the specification against its own plan, which switches the secondary on."""
    plan = build_enrichment_plan(part("bugfix"), part("coding"), {"bst": {"disabled_domains": ["bugfix"]}})
    assert plan == {
        "primary_enrichment": False,
        "secondary_enrichment": False,
        "reason_primary_skipped": "disabled_in_profile",
        "reason_secondary_skipped": "primary_disabled_in_profile",
    }


def test_given_skip_lines_enter_the_prompt_here_only_the_log(
    talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="pointsman.domains"):
        (decision,) = talk(
            "debug the API", profile=ModelProfile("Qwen3-14B", frozenset({"bugfix", "coding"}))
        )
    assert decision.enrichment == ""
    assert "[BST] Primary enrichment skipped for bugfix: disabled_in_profile (Qwen3-14B)" in caplog.messages
    assert "[BST] Secondary enrichment skipped for coding: disabled_in_profile (Qwen3-14B)" in caplog.messages
    classification = CompoundClassification(
        "bugfix", 1, [], "coding", 1, [], "bugfix+coding", 1,
        build_enrichment_plan(part("bugfix"), part("coding"), {"disabled_domains": ["bugfix", "codegen"]}),
    )  # fmt: skip
    assert generate_enrichment(classification, DOMAIN_CONFIGS) == ""


def test_small_talk_never_outweighs_a_task(talk: Talk) -> None:
    """As given, two greetings beat one task signal."""
    (decision,) = talk("hello, thanks, yes please: plan the week")
    assert decision.raw.primary.domain == "planning"
    assert decision.raw.secondary is None
