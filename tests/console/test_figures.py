"""Savings and Quality: the figures are those of the reports, and what is not known is said."""

from pointsman.console._savings import _dearest
from pointsman.gateway.build import demo_config
from pointsman.reports.savings import savings
from pointsman.stores.ledger import MemoryLedger
from support.consoles import Browser


def _ledger(browser: Browser) -> MemoryLedger:
    ledger = browser.gateway.state.runtime.ledger
    assert isinstance(ledger, MemoryLedger)
    return ledger


def test_savings_are_those_of_the_report(browser: Browser) -> None:
    browser.chat("Hello!")
    browser.chat("Prove this theorem step by step, and then prove it again formally.")
    models = demo_config().models
    expected = savings(_ledger(browser).totals(), models, "demo-large").to_json()
    found = browser.get("/console/savings.json").json()
    assert found["total"] == expected
    assert found["total"]["net"] > 0
    assert len(found["days"]) == len(found["x"]) == 1
    assert set(found["models"]) == {"demo-small", "demo-large"}
    page = browser.get("/console/savings").body.decode()
    assert "saved against always &#34;demo-large&#34;, over 2 of 2 turns" in page
    assert browser.get("/console/savings.csv").body.count(b"\n") == 2


def test_another_baseline_is_asked_for_by_the_address(browser: Browser) -> None:
    browser.chat("Hello!")
    assert browser.get("/console/savings.json?baseline=demo-small").json()["total"]["net"] == 0
    page = browser.get("/console/savings?baseline=nothing")
    assert (page.status, b"no model &#34;nothing&#34; to compare with" in page.body) == (400, True)
    assert browser.get("/console/savings?zone=99").status == 400


def test_the_baseline_is_the_dearest_model() -> None:
    assert _dearest(demo_config().models) == "demo-large"
    assert _dearest({}) == ""


def test_an_empty_period_is_said_to_be(browser: Browser) -> None:
    assert b"No request in this period" in browser.get("/console/savings").body


def test_quality_says_what_labels_say(browser: Browser) -> None:
    assert b"No decision has a label with a score yet" in browser.get("/console/quality").body
    for score in ("1", "0.5"):
        path = f"/console/decisions/{browser.chat('Hello!')}"
        browser.post(f"{path}/outcome", {"token": browser.token(path), "score": score})
    found = browser.get("/console/quality.json").json()
    assert (found["observed"]["point"]["score"], found["observed"]["point"]["labels"]) == (0.75, 2)
    page = browser.get("/console/quality").body.decode()
    assert "too few labels to tell" in page
    assert "Too little data: 30 sessions a side are needed" in page
    assert browser.get("/console/quality.csv").body.count(b"\n") == 3
