"""Two kept answers to one prompt are labelled blind, one after the other, and are then a pair for ``fit``."""

import re
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from pointsman.config import ShadowSpec
from pointsman.config.shapes import demo_config
from pointsman.decision.decision import Decision, RequestInput
from pointsman.reports.outcomes import kept_answers
from pointsman.stores.ledger import Attempt, MemoryLedger, Outcome, Record, ShadowAnswer
from pointsman.vocabulary import WireFormat
from support.consoles import Browser, console_gateway
from support.waiting import until

SMALL, LARGE = "the words of one model", "the words of the other"
PROMPT = "Run the test suite and fix it"


@pytest.fixture
def compared() -> Iterator[tuple[Browser, str]]:
    """A gateway that served one request, and asked a shadow model the same; the decision's id."""
    shadow = ShadowSpec(model="demo-large", share=1.0, text="full")
    config = msgspec.structs.replace(demo_config(), shadow=shadow)
    ledger = MemoryLedger(text="full")
    with closing(Browser(console_gateway(config, ledger))) as browser:
        wanted = browser.chat(PROMPT, model="demo-small")

        def is_kept() -> bool:
            browser.get("/console/decisions")  # the loop of the shadow runs while something is asked
            return bool(ledger.shadows(wanted))

        until(is_kept)
        yield browser, wanted


def test_a_shadow_is_no_cost_of_the_model_that_served(compared: tuple[Browser, str]) -> None:
    """Quality has the price of the answer; a list has all that was paid for the request, and says so."""
    browser, wanted = compared
    ledger = browser.gateway.state.runtime.ledger
    ledger.append(Outcome(decision=wanted, score=1.0))
    [row] = browser.get("/console/decisions.json").json()["decisions"]
    own = demo_config().models["demo-small"].cost(row["input"], row["cached"], row["output"])
    assert own
    assert row["cost"] > 5 * own
    found = browser.get("/console/quality.json").json()["observed"]
    assert [found["point"]["cost"], found["models"][0]["cost"]] == [pytest.approx(1_000 * own)] * 2
    for page in ("/console/decisions", "/console/now"):
        assert ">cost with shadow</span>" in browser.get(page).body.decode()


def test_both_answers_are_shown_without_names_and_their_labels_are_a_pair(
    compared: tuple[Browser, str],
) -> None:
    browser, wanted = compared
    page = browser.get("/console/label").body.decode()
    main = page[page.index('<div id="label">') :]
    assert "answers of two models are kept" in main
    assert "Answer 1</h2>" in main
    assert "Answer 2</h2>" in main
    assert "How good is answer 1?" in main
    words = re.findall(r'aria-label="Answer \d">(.*?)</div>', main, re.DOTALL)
    assert len(words) == 2
    assert all(words)
    head = main[: main.index('aria-label="Answer 1"')]
    assert "demo-" not in head
    assert "demo-" not in main[main.index("How good is answer") : main.index("<details>")]

    token = browser.token("/console/label")
    for number in (1, 2):
        form = {"token": token, "score": str(number / 2), "label": "", "answer": str(number)}
        assert f"How good is answer {number}?" in browser.get("/console/label").body.decode()
        assert browser.post(f"/console/label/{wanted}", form).status == 303
        page = browser.get("/console/label").body.decode()
        assert "labels of one model alone" not in page, "the other answer is on the screen"
    assert b"Nothing waits for a label" in browser.get("/console/label").body
    outcomes = browser.get(f"/console/decisions/{wanted}.json").json()["outcomes"]
    assert {each["model"] for each in outcomes} == {"", "demo-large"}
    page = browser.get(f"/console/decisions/{wanted}").body.decode()
    assert (
        page.count('<span class="dim">of the answer of demo-large, by ') == 1
    )  # the other is of the model that served
    pairs = browser.get("/console/label.json").json()["pairs"]
    assert pairs == {"models": ["demo-large", "demo-small"], "prompts": 1, "single": 0}


def test_a_request_without_a_second_answer_says_why(compared: tuple[Browser, str]) -> None:
    """The shadow model served it itself; what is configured is not asked for."""
    browser, wanted = compared
    token = browser.token("/console/label")
    assert browser.post(f"/console/label/{wanted}", {"token": token, "skip": "1"}).status == 303
    browser.chat("Run the test suite and mend it", model="demo-large")
    page = browser.get("/console/label").body.decode()
    assert "No second answer is kept for this request" in page
    assert "two answers to the same prompt appear here" not in page


def test_the_decision_page_labels_one_of_them_and_the_other_waits(compared: tuple[Browser, str]) -> None:
    browser, wanted = compared
    page = browser.get(f"/console/decisions/{wanted}").body.decode()
    assert '<select name="answer">' in page
    form = {"token": browser.token("/console/try"), "score": "1", "label": "", "answer": "2"}
    assert browser.post(f"/console/decisions/{wanted}/outcome", form).status == 303
    assert "How good is answer 1?" in browser.get("/console/label").body.decode()


@pytest.mark.parametrize("answer", ["0", "3", "demo-large", "-1"])
def test_an_answer_that_is_not_kept_is_refused(compared: tuple[Browser, str], answer: str) -> None:
    browser, wanted = compared
    form = {"token": browser.token("/console/try"), "score": "1", "label": "", "answer": answer}
    refused = browser.post(f"/console/decisions/{wanted}/outcome", form)
    assert refused.status == 400
    assert f"no answer &#34;{answer}&#34; is kept" in refused.body.decode()


def kept() -> Record:
    """A decision of which both answers are kept."""
    asked = RequestInput(format=WireFormat.CHAT, model_asked="auto", session="s", arrived_at=0.0)
    decision = Decision(id="d", input=asked, policy="p", tier=None, chain=("small",))
    attempt = Attempt(
        decision="d", number=1, model="small", upstream="u", status=200, started_at=0.0, total_ms=1.0
    )
    shadow = ShadowAnswer(decision="d", at=0.0, model="large", upstream="u", text=LARGE, beside_text=SMALL)
    return Record(decision, (attempt,), (), PROMPT, (shadow,))


def test_the_order_is_stable_and_drawn_per_decision() -> None:
    first = kept()
    orders = set()
    for number in range(40):
        each = msgspec.structs.replace(
            first, decision=msgspec.structs.replace(first.decision, id=f"d-{number}")
        )
        found = kept_answers(each)
        assert found == kept_answers(each)
        assert {answer.text for answer in found} == {SMALL, LARGE}
        orders.add(tuple(answer.model for answer in found))
    assert orders == {("", "large"), ("large", "")}


@pytest.mark.parametrize("change", [{"error": "timeout"}, {"text": None}, {"beside_text": "sha256:00"}])
def test_what_is_not_kept_of_both_is_not_shown(change: dict[str, object]) -> None:
    found = kept()
    shadow = msgspec.structs.replace(found.shadows[0], **change)
    assert kept_answers(msgspec.structs.replace(found, shadows=(shadow,))) == ()


def test_an_implicit_outcome_labels_no_answer() -> None:
    found = kept()
    implicit = (Outcome(decision="d", score=0.0, source="implicit:retry"),)
    answers = kept_answers(msgspec.structs.replace(found, outcomes=implicit))
    assert [each.is_labelled for each in answers] == [False, False]
