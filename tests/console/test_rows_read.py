"""How much of a large ledger a page reads: rows and decisions are counted, not seconds."""

from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from pointsman.console import _quality
from pointsman.reports import labels
from pointsman.stores.ledger import MemoryLedger, Outcome, PromptText, ShadowAnswer, _bodies
from pointsman.testing import a_decision, an_attempt
from support.consoles import Browser, console_gateway

MADE, NEWEST = 60, 20
#: Decisions before the newest that have a label; every other one of them has words, and another answer.
LABELLED = range(0, 20, 2)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of decisions that were read whole."""
    found: list[str] = []
    read = _bodies.read_decision

    def noted(body: bytes, shape: int) -> object:
        decision, attempts = read(body, shape)
        found.append(decision.id)
        return decision, attempts

    monkeypatch.setattr("pointsman.stores.ledger._reader.read_decision", noted)
    return found


@pytest.fixture
def large() -> Iterator[Browser]:
    """A browser at a gateway that has decided more than a page reads."""
    ledger = MemoryLedger(text="full")
    for number in range(MADE):
        name = f"d{number:02}"
        ledger.append(a_decision(name, at=float(number), session=f"s{number}"))
        ledger.append(msgspec.structs.replace(an_attempt(name), output_tokens=5))
        if number in LABELLED:
            ledger.append(Outcome(decision=name, score=1.0, label="good", at=float(number)))
        if number in LABELLED[::2]:
            ledger.append(PromptText(decision=name, text="Hello!"))
            ledger.append(
                ShadowAnswer(decision=name, at=float(number), model="demo-small", upstream="u", status=200)
            )
            ledger.append(Outcome(decision=name, score=0.5, model="demo-small", at=float(number)))
    with closing(Browser(console_gateway(ledger=ledger))) as browser:
        yield browser


def test_quality_reads_the_newest_and_labelled_pairs_before_them(
    large: Browser, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_quality, "_LOOKED_AT", NEWEST)
    monkeypatch.setattr(_quality, "_PAIRED", 3)
    page = large.get("/console/quality.json")
    assert page.json()["observed"]["point"]["labels"] == len(LABELLED)
    assert len(decoded) == len(set(decoded)) == NEWEST + 3
    assert {name for name in decoded if int(name[1:]) < MADE - NEWEST} == {"d16", "d12", "d08"}
    large.get("/console/quality")
    assert len(decoded) == NEWEST + 3  # cached


def test_label_reads_the_newest_and_labelled_words_before_them(
    large: Browser, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "NEWEST", NEWEST)
    found = large.get("/console/label.json").json()
    assert (found["labelled"], len(found["queue"]), found["is_complete"]) == (len(LABELLED), NEWEST, True)
    assert found["pairs"]["single"] + found["pairs"]["prompts"] == 1
    shown = ["d59"]
    worded = [f"d{number:02}" for number in LABELLED[::2]]
    newest = [f"d{number}" for number in range(MADE - NEWEST - 1, MADE)]
    assert sorted(decoded) == sorted(newest + worded + shown)


@pytest.mark.parametrize("asked", ["", "&tier=COMPLEX"])
def test_a_list_reads_no_decision_whole(large: Browser, decoded: list[str], asked: str) -> None:
    assert large.get(f"/console/decisions?limit=20{asked}").body.count(b"/console/decisions/d") >= 20
    assert decoded == []
