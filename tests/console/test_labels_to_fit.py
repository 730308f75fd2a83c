"""A person labels a hundred decisions in the console, and ``fit`` says what that shows and what not."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.console._label import CHOICES
from pointsman.stores.ledger import SqliteLedger
from support.consoles import Browser, console_gateway
from support.waiting import until

LABELS = 100
#: Near a boundary by the profile ``default``, and so worth a label.
PROMPT = "Run the test suite and fix {}"


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Path]]:
    """A gateway whose queue was labelled, one key each, and its ledger."""
    path = tmp_path_factory.mktemp("labels") / "ledger.sqlite"
    ledger = SqliteLedger(path, text="full")
    with closing(ledger), closing(Browser(console_gateway(ledger=ledger))) as browser:
        for number in range(LABELS):
            browser.chat(prompt(number), session=f"s-{number}")
        settle(ledger)
        queue = browser.get("/console/label.json").json()["queue"]
        token = browser.token("/console/label")
        draw = random.Random(1)  # nothing in a prompt says how good its answer was
        for each in queue:
            label(browser, f"/console/label/{each['decision']}", draw.randrange(len(CHOICES)), token)
        settle(ledger)
        yield browser, path


def settle(ledger: SqliteLedger) -> None:
    """Wait until all is written, however slow the machine."""
    until(lambda: not ledger.waiting)
    ledger.flush()


def prompt(number: int) -> str:
    return PROMPT.format("abcdefghij"[number // 10] + "klmnopqrst"[number % 10])


def label(browser: Browser, path: str, number: int, token: str) -> None:
    choice = CHOICES[number]
    form = {"token": token, "score": str(choice.score), "label": choice.label}
    assert browser.post(path, form).status == 303


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def exported(path: Path) -> list[str]:
    found = run("outcomes", "export", "--ledger", str(path), "--weak", "demo-small", "--strong", "demo-large")
    return found.stdout.splitlines()


def test_a_hundred_labels_of_served_answers_are_not_enough_to_compare_models(
    labelled: tuple[Browser, Path], tmp_path: Path
) -> None:
    browser, path = labelled
    page = browser.get("/console/label").body.decode()
    assert f"{LABELS} labelled" in page
    assert "0 prompts with labels of two models: <strong>40 more</strong>" in page
    assert f"{LABELS} prompts with labels of one model alone" in page
    assert "enough for <code>pointsman fit tiers" not in page
    assert exported(path) == []  # no prompt has labels of both models
    every = tmp_path / "outcomes.jsonl"
    every.write_text(run("outcomes", "export", "--ledger", str(path)).stdout)
    assert len(every.read_text().splitlines()) == LABELS
    refused = run("fit", "tiers", "--data", str(every), "--out", str(tmp_path / "router.json"))
    assert refused.exit_code != 0
    assert not (tmp_path / "router.json").exists()


def test_labels_of_both_models_are_fitted_and_the_report_claims_nothing(
    labelled: tuple[Browser, Path], tmp_path: Path
) -> None:
    browser, path = labelled
    token, draw = browser.token("/console/try"), random.Random(2)
    for number in range(LABELS):  # the same prompts, answered by the other model
        served = browser.chat(prompt(number), session=f"other-{number}", model="demo-large")
        label(browser, f"/console/decisions/{served}/outcome", draw.choice((2, 3, 4)), token)
        if number == LABELS // 2:
            half = browser.get("/console/label").body.decode()
    assert "51 prompts with labels of two models" in half
    assert "<code>pointsman fit tiers</code> works from 40." in half, "however many there are"
    ledger = browser.gateway.state.runtime.ledger
    assert isinstance(ledger, SqliteLedger)
    settle(ledger)
    rows = exported(path)
    assert len(rows) >= LABELS * 0.9
    page = browser.get("/console/label")
    assert (
        f"{len(rows)} prompts with labels of two models (demo-large, demo-small): enough"
        in page.body.decode()
    )
    assert browser.get("/console/label.json").json()["pairs"]["prompts"] == len(rows)
    data = tmp_path / "outcomes.jsonl"
    data.write_text("\n".join(rows))
    found = run(
        "fit", "tiers", "--data", str(data), "--out", str(tmp_path / "router.json"),
        "--weak", "demo-small", "--strong", "demo-large", "--features", "hashed",
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    assert "no improvement shown" in found.output, found.output
    assert "labels show a difference to length of" in found.output
    assert (tmp_path / "router.json").exists()
