"""Every code block of the founding document on compound domains, executed on our domains."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict as asdict_of

import pointsman.compat.domains as ours
from pointsman.domains import DomainMemory, ModelProfile
from pointsman.domains.data import Compound, MomentumStep, Pair, Part
from pointsman.domains.enrichment import EnrichmentPlan
from pointsman.domains.tracker import lines
from support.founding import block, execute, keys

DOCUMENT: Final = "compound-domains.md"
CLASSIFICATION: Final = ours.CompoundClassification(
    primary_domain="bugfix",
    primary_confidence=2,
    primary_signals=["error"],
    secondary_domain="coding",
    secondary_confidence=1,
    secondary_signals=["api"],
    compound_signature="bugfix+coding",
    momentum_turns=2,
    enrichment_plan=asdict_of(EnrichmentPlan(primary_enrichment=True, secondary_enrichment=True)),
)
NAMES: Final = {
    **{name: getattr(ours, name) for name in ours.__all__},
    "re": re,
    "Path": Path,
    "dataclass": dataclass,
    "true": True,
    "null": None,
    "classification": CLASSIFICATION,
    "extras_persistent": {},
}

Left = dict[str, Any]
DOMAINS: Final = sorted(ours.DOMAIN_PRIORITY)
PARTS: Final = st.builds(
    lambda domain, confidence: {"domain": domain, "confidence": confidence, "matched_signals": ["x"]},
    st.sampled_from(DOMAINS),
    st.integers(0, 4),
)
SIGNATURES: Final = st.lists(st.sampled_from(DOMAINS), min_size=1, max_size=2, unique=True).map(
    lambda names: "+".join(sorted(names))
)
MESSAGES: Final = (
    "fix the pip install error",
    "investigate Oracle Corporation credit risk",
    "analyze the stress test logs and fix the domain flip",
    "ls -la /home/user/",
    "what's the best approach for this?",
    "thanks, that is all",
)


def classification(left: Left) -> None:
    theirs = left["CompoundClassification"](**asdict(CLASSIFICATION))
    assert theirs.to_dict() == CLASSIFICATION.to_dict()


def plan(left: Left) -> None:
    part = {"domain": "bugfix", "confidence": 1, "matched_signals": []}
    assert left["value"] == ours.build_enrichment_plan(part, {**part, "domain": "coding"}, None)


def scores(left: Left) -> None:
    for message in MESSAGES:
        theirs = left["score_all_domains"](message, ours.DOMAIN_CONFIGS)
        assert theirs == ours.score_all_domains(message, ours.DOMAIN_CONFIGS)


def extraction(left: Left) -> None:
    """The same where nothing in docs/notebook/0041 applies: no rival that is weak, no small talk."""
    for message in MESSAGES:
        found = ours.score_all_domains(message, ours.DOMAIN_CONFIGS)
        assert left["extract_compound"](found) == ours.extract_compound(found)


def momentum(left: Left) -> None:
    @given(SIGNATURES, PARTS, st.none() | PARTS)
    def same_signatures(signature: str, primary: dict[str, Any], secondary: dict[str, Any] | None) -> None:
        if secondary and secondary["domain"] == primary["domain"]:
            secondary = None
        for name, arguments in (
            ("format_signature", (primary, secondary)),
            ("parse_signature", (signature,)),
            ("restore_from_signature", (signature, primary, secondary)),
        ):
            assert left[name](*arguments) == getattr(ours, name)(*arguments)
        kept = ours.format_signature(primary, secondary)
        again = left["apply_compound_momentum"](primary, secondary, kept, 3)
        assert again == ours.apply_compound_momentum(primary, secondary, kept, 3)

    same_signatures()


def plans(left: Left) -> None:
    """The same for every profile but one that disables the primary (docs/notebook/0041)."""

    @given(PARTS, st.none() | PARTS, st.lists(st.sampled_from(DOMAINS)))
    def same_plans(primary: dict[str, Any], secondary: dict[str, Any] | None, disabled: list[str]) -> None:
        if secondary:
            secondary["confidence"] += 1  # one without a signal comes from memory
        profile = {"disabled_domains": [name for name in disabled if name != primary["domain"]]}
        for each in (None, profile):
            theirs = left["build_enrichment_plan"](primary, secondary, each)
            assert theirs == ours.build_enrichment_plan(primary, secondary, each)

    same_plans()


def enrichment(left: Left) -> None:
    theirs = left["generate_enrichment"](CLASSIFICATION, ours.DOMAIN_CONFIGS)
    assert theirs == ours.generate_enrichment(CLASSIFICATION, ours.DOMAIN_CONFIGS)
    assert theirs.count("[BST] ") == 2


def configurations(left: Left) -> None:
    configs = left["DOMAIN_CONFIGS"]
    assert configs.keys() <= ours.DOMAIN_CONFIGS.keys()
    assert {*configs["coding"]} == {*ours.DOMAIN_CONFIGS["coding"]}


def priorities(left: Left) -> None:
    assert left["DOMAIN_PRIORITY"] == ours.DOMAIN_PRIORITY


def shared_state(left: Left) -> None:
    written = left["extras_persistent"]
    assert written == {ours.DOMAIN_KEY: "bugfix", ours.COMPOUND_KEY: CLASSIFICATION.to_dict()}


def profile(left: Left) -> None:
    agent = SimpleNamespace(config={"chat_model": "no-such-model"})
    assert left["load_model_profile"](agent) is None
    assert ours.load_model_profile(agent) is None


CHECKS: Final[Mapping[str, Callable[[Left], None]]] = {
    "CompoundClassification": classification,
    "EnrichmentPlan": plan,
    "Step 1: Score All Domains": scores,
    "Step 2: Extract Primary and Secondary": extraction,
    "Step 3: Apply Compound Momentum": momentum,
    "Step 4: Build Enrichment Plan": plans,
    "Step 5: Generate Enrichment Injection": enrichment,
    "Add brief_description to Each Domain": configurations,
    "Domain Priority Order": priorities,
    "Shared State Writes (every turn)": shared_state,
    "Model Profile Loading": profile,
}


@pytest.mark.parametrize("key", CHECKS)
def test_a_block_of_the_document_executes(key: str) -> None:
    CHECKS[key](execute(block(DOCUMENT, key), NAMES))


def logged(
    *found: Part,
    before: Pair | None = None,
    turns: int = 0,
    rule: str = "",
    raw: str = "",
    disabled: str = "",
) -> list[str]:
    effective = Compound(*found)
    reason = "disabled_in_profile" if disabled else None
    step = MomentumStep(Compound(Part(raw or found[0].domain, 2 if rule == "R4a" else 1)), effective, 4, rule)
    narrated = lines(
        DomainMemory(pair=before or Pair(), momentum=turns),
        step,
        EnrichmentPlan(
            primary_enrichment=True, secondary_enrichment=not disabled, reason_secondary_skipped=reason
        ),
        ModelProfile(disabled),
    )
    return [ours.LABEL + line for line in narrated]


INVESTIGATION: Final = (Part("investigation", 3), Part("coding", 1))
PAIR: Final = Pair("investigation", "coding")

#: The document's samples of the log, which are no code: ours are those lines, character for character.
LOGGED: Final[Mapping[str, list[str]]] = {
    "Logging": logged(*INVESTIGATION),
    "Logging (2)": logged(*INVESTIGATION, before=PAIR, turns=5, rule="R1a", raw="file_ops"),
    "Logging (3)": logged(Part("planning", 2), before=PAIR, turns=5, rule="R4a", raw="planning"),
    "Logging (4)": logged(Part("analysis", 2), Part("bugfix", 1), disabled="Qwen3-14B"),
}


@pytest.mark.parametrize("key", LOGGED)
def test_a_sample_of_the_log_is_a_line_of_ours(key: str) -> None:
    assert block(DOCUMENT, key).text.strip() in LOGGED[key]


def test_every_block_is_executed() -> None:
    assert keys(DOCUMENT) == [*CHECKS, *LOGGED]
