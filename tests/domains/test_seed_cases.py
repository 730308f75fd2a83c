"""The fifteen test cases of the founding specification of compound domains, by their numbers."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pointsman.compat.domains import (
    COMPOUND_KEY,
    DOMAIN_CONFIGS,
    DOMAIN_KEY,
    CompoundClassification,
    apply_compound_momentum,
    build_enrichment_plan,
    extract_compound,
    generate_enrichment,
    load_model_profile,
    score_all_domains,
)
from pointsman.domains import DomainDecision, DomainMemory, DomainTracker, parse_profile
from pointsman.evidence import Scanner

Decide = Callable[..., DomainDecision]

INVESTIGATE = "investigate Oracle Corporation's filings through the EDGAR API"
LS_OUTPUT = "ls -la\ntotal 48\ndrwxr-xr-x 2 root root 4096 Feb 26 10:00 reports"
QWEN = '{"bst": {"disabled_domains": ["bugfix"]}}'


@pytest.fixture
def decide(tracker: DomainTracker, scanner: Scanner) -> Decide:
    def decide(*messages: str, profile: str = "{}") -> DomainDecision:
        memory = DomainMemory()
        read = parse_profile(profile, tracker.domains, model="Qwen3-14B")
        for number, message in enumerate(messages):
            decision, memory = tracker.decide(scanner.scan(message), memory, str(number), read)
        return decision

    return decide


def effective(decision: DomainDecision) -> tuple[str, str]:
    return decision.effective.domains


def test_01_debug_an_api_query_timeout(decide: Decide) -> None:
    primary, secondary = effective(decide("debug the OpenPlanter API query timeout"))
    assert primary == "bugfix"
    assert secondary in {"investigation", "coding"}


def test_02_investigate_a_company(decide: Decide) -> None:
    decision = decide("investigate Oracle Corporation credit risk")
    assert effective(decision) == ("investigation", "")
    assert decision.signature == "investigation"


def test_03_fix_the_pip_install_error(decide: Decide) -> None:
    decision = decide("fix the pip install error")
    assert effective(decision) == ("bugfix", "system_admin")
    assert decision.signature == "bugfix+system_admin"


def test_04_ls(decide: Decide) -> None:
    assert effective(decide("ls -la /home/user/")) == ("file_ops", "")


def test_05_what_is_the_best_approach(decide: Decide) -> None:
    primary, secondary = effective(decide("what's the best approach for this?"))
    assert primary in {"conversation", "planning"}
    assert not secondary


def test_06_analyse_logs_and_fix(decide: Decide) -> None:
    decision = decide("analyze the stress test logs and fix the domain flip")
    assert effective(decision) == ("analysis", "bugfix")
    assert decision.signature == "analysis+bugfix"


def test_07_the_old_key_holds_the_primary_domain(decide: Decide) -> None:
    decision = decide("debug the OpenPlanter API query timeout")
    state: dict[str, Any] = {DOMAIN_KEY: decision.effective.primary.domain, COMPOUND_KEY: decision.to_dict()}
    assert state["_bst_domain"] == "bugfix"
    assert state["_bst_compound"]["primary"]["domain"] == "bugfix"


def test_08_a_reader_of_the_old_key_alone_works_unchanged(decide: Decide) -> None:
    decision = decide("debug the OpenPlanter API query timeout")
    state: dict[str, object] = {DOMAIN_KEY: decision.effective.primary.domain}
    assert state.get("_bst_domain", "conversation") == "bugfix"
    assert state.get("_bst_compound") is None


def test_09_no_profile_enables_everything(decide: Decide) -> None:
    agent = SimpleNamespace(config={"chat_model": "unheard-of"})
    assert load_model_profile(agent) is None
    assert load_model_profile(agent, read=lambda _: None) is None
    plan = build_enrichment_plan(
        {"domain": "bugfix", "confidence": 2}, {"domain": "coding", "confidence": 1}, None
    )
    assert plan["primary_enrichment"]
    assert plan["secondary_enrichment"]


def test_10_strong_momentum_holds_against_ls_output(decide: Decide) -> None:
    decision = decide(*[INVESTIGATE] * 3, LS_OUTPUT)
    assert effective(decision) == ("investigation", "coding")
    assert decision.signature == "coding+investigation"
    assert decision.raw.primary.domain == "file_ops"


def test_11_strong_momentum_breaks_for_a_new_task(decide: Decide) -> None:
    decision = decide(*[INVESTIGATE] * 3, "plan the sprint")
    assert effective(decision) == ("planning", "")
    assert decision.signature == "planning"


def test_12_weak_momentum_accepts_ls_output(decide: Decide) -> None:
    decision = decide(*[INVESTIGATE] * 2, LS_OUTPUT)
    assert effective(decision) == ("file_ops", "")


def test_13_a_disabled_secondary_is_skipped_with_its_reason(
    decide: Decide, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="pointsman.domains"):
        decision = decide("investigate the filings and fix the parser", profile=QWEN)
    assert effective(decision) == ("investigation", "bugfix")
    plan = decision.enrichment_plan
    assert plan.primary_enrichment
    assert not plan.secondary_enrichment
    assert plan.reason_secondary_skipped == "disabled_in_profile"
    assert "[BST] Secondary enrichment skipped for bugfix: disabled_in_profile (Qwen3-14B)" in caplog.messages
    assert "bugfix" not in decision.enrichment


def test_14_a_disabled_primary_means_no_enrichment_at_all(decide: Decide) -> None:
    decision = decide("debug the OpenPlanter API query timeout", profile=QWEN)
    assert effective(decision) == ("bugfix", "coding")
    plan = decision.enrichment_plan
    assert not plan.primary_enrichment
    assert not plan.secondary_enrichment
    assert plan.reason_primary_skipped == "disabled_in_profile"
    assert decision.enrichment == ""


def test_15_both_enabled_without_a_profile(decide: Decide) -> None:
    decision = decide(INVESTIGATE)
    assert effective(decision) == ("investigation", "coding")
    assert decision.enrichment_plan.primary_enrichment
    assert decision.enrichment_plan.secondary_enrichment
    assert decision.enrichment.startswith("[BST] Domain: investigation\n")
    assert "[BST] Secondary context: coding — Tool syntax precision" in decision.enrichment


# The same cases through the specification's own function signatures.


@pytest.mark.parametrize(
    ("message", "primary", "secondaries"),
    [
        ("debug the OpenPlanter API query timeout", "bugfix", {"investigation", "coding"}),
        ("investigate Oracle Corporation credit risk", "investigation", {None}),
        ("fix the pip install error", "bugfix", {"system_admin"}),
        ("ls -la /home/user/", "file_ops", {None}),
        ("analyze the stress test logs and fix the domain flip", "analysis", {"bugfix"}),
        ("Debug The API", "bugfix", {"coding"}),
        ("thanks, that is great", "conversation", {None}),
        ("zzz", "conversation", {None}),
    ],
)
def test_the_seed_functions_classify(message: str, primary: str, secondaries: set[str | None]) -> None:
    first, second = extract_compound(score_all_domains(message, DOMAIN_CONFIGS))
    assert first["domain"] == primary
    assert (second["domain"] if second else None) in secondaries
    assert first["confidence"] == len(first["matched_signals"])


def test_the_seed_functions_remember() -> None:
    inv = {"domain": "investigation", "confidence": 2, "matched_signals": ["a", "b"]}
    coding = {"domain": "coding", "confidence": 1, "matched_signals": ["c"]}
    chore = {"domain": "file_ops", "confidence": 1, "matched_signals": ["d"]}
    plan = {"domain": "planning", "confidence": 2, "matched_signals": ["e", "f"]}
    assert apply_compound_momentum(inv, coding, "coding+investigation", 2) == (
        inv,
        coding,
        "coding+investigation",
        3,
    )
    held = apply_compound_momentum(chore, None, "coding+investigation", 3)
    assert held[2:] == ("coding+investigation", 3)
    assert held[0] == {"domain": "investigation", "confidence": 0, "matched_signals": []}
    assert apply_compound_momentum(chore, None, "coding+investigation", 2) == (chore, None, "file_ops", 1)
    assert apply_compound_momentum(plan, None, "coding+investigation", 3) == (plan, None, "planning", 1)
    assert apply_compound_momentum(coding, None, "coding+investigation", 5)[0]["domain"] == "investigation"


def test_to_dict_has_the_documented_shape() -> None:
    plan = build_enrichment_plan(
        {"domain": "investigation", "confidence": 2},
        {"domain": "bugfix", "confidence": 1},
        {"disabled_domains": ["bugfix"]},
    )
    compound = CompoundClassification(
        "investigation", 2, ["a", "b"], "bugfix", 1, ["c"], "bugfix+investigation", 4, plan
    )
    assert compound.to_dict() == {
        "primary": {"domain": "investigation", "confidence": 2, "matched_signals": ["a", "b"]},
        "secondary": {"domain": "bugfix", "confidence": 1, "matched_signals": ["c"]},
        "compound_signature": "bugfix+investigation",
        "momentum_turns": 4,
        "enrichment_plan": {
            "primary_enrichment": True,
            "secondary_enrichment": False,
            "reason_primary_skipped": None,
            "reason_secondary_skipped": "disabled_in_profile",
        },
    }
    text = generate_enrichment(compound, DOMAIN_CONFIGS)
    assert text.startswith("[BST] Domain: investigation\n")
    assert "bugfix" not in text


def test_a_decision_has_the_same_shape(decide: Decide) -> None:
    shape = decide("debug the OpenPlanter API query timeout").to_dict()
    assert shape == {
        "primary": {"domain": "bugfix", "confidence": 2, "matched_signals": ["debug", "timeout"]},
        "secondary": {"domain": "coding", "confidence": 1, "matched_signals": ["api"]},
        "compound_signature": "bugfix+coding",
        "momentum_turns": 1,
        "enrichment_plan": {
            "primary_enrichment": True,
            "secondary_enrichment": True,
            "reason_primary_skipped": None,
            "reason_secondary_skipped": None,
        },
    }
