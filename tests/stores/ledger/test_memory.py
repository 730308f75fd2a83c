"""The ledger in memory keeps the newest decisions, whatever else is appended."""

from pointsman.stores.ledger import MemoryLedger, Outcome
from pointsman.testing import a_decision, an_attempt


def test_entries_without_a_decision_push_no_decision_out() -> None:
    ledger = MemoryLedger(size=10)
    for number in range(10):
        ledger.append(a_decision(f"d{number}"))
    for number in range(100):
        ledger.append(Outcome(decision=f"none{number}", score=1.0))
        ledger.append(an_attempt(f"none{number}"))
    assert ledger.count() == 10
    assert [bool(ledger.outcomes(f"none{number}")) for number in (0, 89, 90, 99)] == [
        False,
        False,
        True,
        True,
    ]


def test_the_oldest_decision_goes_with_all_that_belongs_to_it() -> None:
    ledger = MemoryLedger(size=2)
    for name in ("a", "b", "c"):
        ledger.append(a_decision(name))
        ledger.add_outcome(Outcome(decision=name, score=1.0))
    assert ledger.count() == 2
    assert ledger.outcomes("a") == ()
    assert len(ledger.outcomes("b")) == 1
