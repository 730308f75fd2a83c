"""What holds for every conversation."""

import os
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.domains import DomainDecision, DomainMemory, DomainTracker, default_domains, parse_domains
from pointsman.domains.data import DomainClass
from pointsman.evidence import Scanner, SignalTable
from pointsman.vocabulary import Evidence
from support.oracle import ReMatcher

DOMAINS = default_domains()
TABLE = SignalTable(DOMAINS.signals())
TRACKER = DomainTracker(DOMAINS, TABLE)
TASKS = [domain.name for domain in DOMAINS if domain.kind is DomainClass.TASK]
NULL = next(domain for domain in DOMAINS if domain.kind is DomainClass.NULL)

NO_SIGNALS = SignalTable(())
SILENCE = Scanner(NO_SIGNALS, ReMatcher(NO_SIGNALS)).scan("")


def hit(*names: str) -> Evidence:
    """A message with one signal for each time a domain is named."""
    hits = 0
    for name in set(names):
        for concept in DOMAINS[name].concepts[: names.count(name)]:
            hits |= TABLE.bit(concept.signals[0])
    return msgspec.structs.replace(SILENCE, hits=hits)


#: Any set of hits at all, which is more than any text can say.
evidence = st.builds(
    lambda hits: msgspec.structs.replace(SILENCE, hits=hits), st.integers(0, (1 << len(TABLE)) - 1)
)
sparse = st.lists(st.sampled_from([d.name for d in DOMAINS]), max_size=4).map(lambda names: hit(*names))
conversations = st.lists(st.one_of(sparse, sparse, evidence), max_size=14)


def run(
    messages: list[Evidence], memory: DomainMemory | None = None
) -> tuple[list[DomainDecision], DomainMemory]:
    memory, decisions = memory or DomainMemory(), []
    for number, message in enumerate(messages):
        decision, memory = TRACKER.decide(message, memory, f"{memory.key}{number}")
        decisions.append(decision)
    return decisions, memory


@given(conversations)
def test_at_most_two_domains_and_never_the_same_twice(messages: list[Evidence]) -> None:
    for decision in run(messages)[0]:
        for compound in (decision.raw, decision.effective):
            primary, secondary = compound.domains
            assert primary in DOMAINS
            assert secondary == "" or secondary in DOMAINS
            assert primary != secondary
            assert secondary != NULL.name
        assert decision.momentum >= 0


@given(conversations, st.sampled_from(TASKS), st.integers(1, 3))
def test_a_new_subject_that_is_repeated_is_taken(messages: list[Evidence], task: str, signals: int) -> None:
    _, memory = run(messages)
    if task in memory.pair:
        return
    message = hit(*[task] * signals)
    _, memory = TRACKER.decide(message, memory, "new")
    decision, _ = TRACKER.decide(message, memory, "again")
    assert decision.effective.primary.domain == task


@given(conversations, st.integers(1, 20))
def test_quiet_turns_never_create_a_domain(messages: list[Evidence], quiet: int) -> None:
    decisions, memory = run(messages)
    seen = {name for d in decisions for c in (d.raw, d.effective) for name in c.domains} | {NULL.name, ""}
    later, _ = run([SILENCE, hit(NULL.name)] * quiet, memory)
    for decision in later:
        assert set(decision.effective.domains) <= seen
        assert decision.rule == "R0"
        assert decision.effective.primary.domain == NULL.name or decision.effective.primary.carried


@given(conversations, evidence, evidence)
def test_the_same_user_message_twice_changes_nothing(
    messages: list[Evidence], message: Evidence, anything: Evidence
) -> None:
    """Tool iterations: whatever text comes with them."""
    _, memory = run(messages)
    first, after = TRACKER.decide(message, memory, "same")
    second, again = TRACKER.decide(anything, after, "same")
    assert second == first
    assert again == after


@given(conversations, conversations)
def test_a_restart_in_the_middle_changes_nothing(before: list[Evidence], after: list[Evidence]) -> None:
    _, memory = run(before)
    stored = msgspec.json.encode(memory)
    assert len(stored) < 10_000
    restored = msgspec.json.decode(stored, type=DomainMemory)
    assert restored == memory
    assert run(after, restored) == run(after, memory)


@given(conversations)
def test_confidence_is_the_number_of_signals_and_carried_means_none(messages: list[Evidence]) -> None:
    for decision in run(messages)[0]:
        for part in filter(None, (decision.effective.primary, decision.effective.secondary)):
            assert part.confidence == len(part.signals)
            assert not (part.carried and part.confidence)


@given(conversations)
def test_memory_of_domains_that_are_gone_is_forgotten(messages: list[Evidence]) -> None:
    _, memory = run(messages)
    other = parse_domains('extends = "none"\n[domains.x]\nclass = "task"\nsignals = {x = "xyzzy"}')
    table = SignalTable(other.signals())
    decision, _ = DomainTracker(other, table).decide(
        Scanner(table, ReMatcher(table)).scan("xyzzy"), memory, "new"
    )
    assert decision.effective.domains == ("x", "")


HASH_SCRIPT = """
from pointsman.domains import DomainMemory, DomainTracker, default_domains
from pointsman.stores.pattern_cache import open_scanner
domains = default_domains()
scanner = open_scanner(domains.signals())
tracker, memory = DomainTracker(domains, scanner.table), DomainMemory()
for number, text in enumerate([
    "investigate the filings, query the API and debug the traceback", "ls", "plan the sprint in python",
    "hello, yes", "fix the pip install error in config.yaml and commit the changes",
]):
    decision, memory = tracker.decide(scanner.scan(text), memory, str(number))
    print(decision, memory)
"""


@pytest.mark.slow
def test_no_output_depends_on_the_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", HASH_SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    }
    assert len(outputs) == 1
    assert b"investigation" in outputs.pop()
