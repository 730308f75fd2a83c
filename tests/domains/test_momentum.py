"""The rule table, row by row: hits and near misses."""

import pytest

from pointsman.domains import Compound, DomainMemory, DomainSet, DomainTracker, Part
from pointsman.domains.data import MomentumStep, Pair
from pointsman.domains.scoring import Reading
from pointsman.domains.tracker import TRANSITIONS, Insistence, Strength, Subject, remember
from pointsman.evidence import Scanner

#: What each letter of a script says: domain and confidence of the parts, best first.
MESSAGES = {
    "I": [("investigation", 1)],
    "C": [("coding", 1)],
    "IC": [("investigation", 1), ("coding", 1)],
    "CI": [("coding", 2), ("investigation", 1)],
    "IB": [("investigation", 1), ("bugfix", 1)],
    "IBB": [("investigation", 2), ("bugfix", 2)],
    "A=C": [("analysis", 1), ("coding", 1)],
    "P": [("planning", 1)],
    "PP": [("planning", 2), ("coding", 1)],
    "P=C": [("planning", 1), ("coding", 1)],
    "P=I": [("planning", 1), ("investigation", 1)],
    "ls": [("file_ops", 1)],
    "pip": [("system_admin", 1)],
    "lsC": [("file_ops", 2), ("coding", 1)],
    ".": [],
}


def read(word: str, *, cue: bool = False) -> Reading:
    parts = tuple(Part(domain, confidence) for domain, confidence in MESSAGES[word])
    return Reading(parts, Compound(*parts) if parts else Compound(Part("conversation")), cue)


def run(domains: DomainSet, script: str) -> list[tuple[str, str, int]]:
    """Rule, effective domains and momentum of every turn; a word with ``!`` announces a change."""
    memory, seen = DomainMemory(), []
    for number, word in enumerate(script.split()):
        reading = read(word.rstrip("!"), cue=word.endswith("!"))
        outcome, memory = remember(reading, memory, domains, str(number))
        assert memory.outcome is outcome
        seen.append((outcome.rule, " ".join(filter(None, outcome.effective.domains)), outcome.momentum))
    return seen


@pytest.mark.parametrize(
    ("script", "last"),
    [
        # R0: nothing said; the pair, else the last chore, else conversation
        (".", ("R0", "conversation", 0)),
        ("IC .", ("R0", "investigation coding", 1)),
        ("ls .", ("R0", "file_ops", 0)),
        ("IC ls .", ("R0", "investigation coding", 1)),
        ("IC . . . . . .", ("R0", "investigation coding", 1)),
        ("IC . . . . . . .", ("R0", "investigation coding", 0)),
        ("IC . . . . . . I . . . . . .", ("R0", "investigation", 2)),
        ("ls . . . . . . .", ("R0", "file_ops", 0)),
        ("IC IC IC . . . . . . ls", ("R1a", "investigation coding", 3)),
        ("IC IC IC . . . . . . . ls", ("R1b", "file_ops", 0)),
        ("IC IC IC . . . . . . . I", ("R2a", "investigation", 1)),
        # R1a: a strong pair is held against chores; R1b: a weak one is parked
        ("IC IC IC ls", ("R1a", "investigation coding", 3)),
        ("IC IC IC lsC", ("R1a", "investigation coding", 3)),
        ("IC IC ls", ("R1b", "file_ops", 2)),
        ("IC IC lsC", ("R1b", "file_ops coding", 2)),
        ("ls", ("R1b", "file_ops", 0)),
        # R1c: the third chore in a row, the sixth against a strong pair
        ("IC IC ls pip", ("R1b", "system_admin", 2)),
        ("IC IC ls pip ls", ("R1c", "file_ops", 0)),
        ("IC IC IC ls pip ls pip ls", ("R1a", "investigation coding", 3)),
        ("IC IC IC ls pip ls pip ls ls", ("R1c", "file_ops", 0)),
        ("IC IC IC ls pip ls pip ls ls .", ("R0", "file_ops", 0)),
        ("IC IC IC ls pip ls I pip ls ls", ("R1a", "investigation coding", 4)),
        # R2a: a weak pair is confirmed by either of its domains; R2b: replaced by any other
        ("IC I", ("R2a", "investigation", 2)),
        ("IC C", ("R2a", "coding", 2)),
        ("CI IC", ("R2a", "coding investigation", 2)),
        ("IC CI", ("R2a", "coding investigation", 2)),
        ("IC P", ("R2b", "planning", 1)),
        ("I", ("R2b", "investigation", 1)),
        ("IC IC ls I", ("R2a", "investigation", 3)),
        # R3: a strong pair keeps its primary
        ("IC IC IC C", ("R3", "investigation coding", 4)),
        ("IC IC IC CI", ("R3", "investigation coding", 4)),
        ("IC IC IC C C", ("R3", "coding investigation", 5)),
        ("IC IC IC C I C", ("R3", "investigation coding", 6)),
        ("IC IC IC C C C", ("R3", "coding", 6)),
        # ... its secondary comes at once, yields to a rival of two signals or one that repeats, and fades
        ("I I I IC", ("R3", "investigation coding", 4)),
        ("IC IC IC IB", ("R3", "investigation coding", 4)),
        ("IC IC IC IBB", ("R3", "investigation bugfix", 4)),
        ("IC IC IC IB IB", ("R3", "investigation bugfix", 5)),
        ("IC IC IC IB IC IB", ("R3", "investigation coding", 6)),
        ("IC IC IC I I", ("R3", "investigation coding", 5)),
        ("IC IC IC I I I", ("R3", "investigation", 6)),
        ("IC IC IC I I IC I I", ("R3", "investigation coding", 8)),
        # R4a: more signals, the same again, or an announced change break a strong pair; R4b: a tie does not
        ("IC IC IC P", ("R4a", "planning", 1)),
        ("IC IC IC PP", ("R4a", "planning coding", 1)),
        ("IC IC IC P=C", ("R4b", "investigation coding", 3)),
        ("IC IC IC P=I", ("R4b", "investigation coding", 3)),
        ("IC IC IC P=C!", ("R4a", "planning coding", 1)),
        ("IC IC IC P=C P=C", ("R4a", "planning coding", 1)),
        ("IC IC IC P=C . P=C", ("R4a", "planning coding", 1)),
        ("IC IC IC P=C ls P=C", ("R4b", "investigation coding", 3)),
        ("IC IC IC P=C A=C P=C", ("R4b", "investigation coding", 3)),
    ],
)
def test_a_script_ends_under_its_rule(domains: DomainSet, script: str, last: tuple[str, str, int]) -> None:
    assert run(domains, script)[-1] == last


def test_every_situation_has_one_rule() -> None:
    assert len(TRANSITIONS) == len(Subject) * len(Strength) * len(Insistence)
    assert {rule.name for rule in TRANSITIONS.values()} == {
        "R0", "R1a", "R1b", "R1c", "R2a", "R2b", "R3", "R4a", "R4b",
    }  # fmt: skip


def test_what_memory_restores_is_marked(domains: DomainSet) -> None:
    memory = DomainMemory()
    for word in ("IC", "IC", "IC", "C"):
        outcome, memory = remember(read(word), memory, domains, word)
    effective = outcome.effective
    assert effective.primary == Part("investigation", 0, (), carried=True)
    assert effective.secondary == Part("coding", 1)
    assert effective.carried


@pytest.mark.parametrize(
    "memory",
    [
        DomainMemory(pair=Pair("law")),
        DomainMemory(pair=Pair("coding", "law")),
        DomainMemory(operational="law"),
        DomainMemory(
            key="1", outcome=MomentumStep(Compound(Part("coding")), Compound(Part("law")), 1, "R2b")
        ),
        DomainMemory(
            key="1",
            outcome=MomentumStep(Compound(Part("coding")), Compound(Part("coding"), Part("law")), 1, "R2b"),
        ),
    ],
)
def test_memory_of_a_domain_that_was_taken_out_of_the_file_is_dropped(
    tracker: DomainTracker, scanner: Scanner, memory: DomainMemory
) -> None:
    decision, after = tracker.decide(scanner.scan(""), memory, "1")
    assert "law" not in f"{decision.to_json()} {after}"
