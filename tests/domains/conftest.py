"""What every test of domains needs: the built-in domains, a scanner for them, and a way to talk."""

from collections.abc import Callable

import pytest

from pointsman.compat.domains import LABEL
from pointsman.domains import PERMISSIVE, DomainDecision, DomainMemory, DomainSet, DomainTracker, ModelProfile
from pointsman.domains import default_domains as built_in
from pointsman.evidence import Scanner, SignalTable
from support.oracle import ReMatcher

Say = Callable[..., DomainDecision]


class Session:
    """One conversation: remembers between messages, numbers them."""

    def __init__(self, tracker: DomainTracker, scanner: Scanner, profile: ModelProfile = PERMISSIVE) -> None:
        self.tracker = tracker
        self.scanner = scanner
        self.profile = profile
        self.memory = DomainMemory()
        self.turn = 0

    def say(self, text: str, *, key: str = "") -> DomainDecision:
        self.turn += 1
        decision, self.memory = self.tracker.decide(
            self.scanner.scan(text), self.memory, key or str(self.turn), self.profile
        )
        return decision


@pytest.fixture(scope="session")
def domains() -> DomainSet:
    return built_in()


@pytest.fixture(scope="session")
def table(domains: DomainSet) -> SignalTable:
    return SignalTable(domains.signals())


@pytest.fixture(scope="session")
def scanner(table: SignalTable) -> Scanner:
    return Scanner(table, ReMatcher(table))


@pytest.fixture(scope="session")
def tracker(domains: DomainSet, table: SignalTable) -> DomainTracker:
    return DomainTracker(domains, table, label=LABEL)  # the specification's own lines begin with it


@pytest.fixture
def session(tracker: DomainTracker, scanner: Scanner) -> Session:
    return Session(tracker, scanner)
