"""The fit that the page Label begins, in process: figures, refusals in words, use and take back."""

import random
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pointsman.config import load
from pointsman.console import _jobs
from pointsman.stores.ledger import MemoryLedger, Outcome
from support.consoles import Browser, console_gateway, console_state
from support.labelling import CONFIG as LABELLED
from support.labelling import a_prompt, by_kind
from support.waiting import until

PROMPTS = 120
CONFIG = LABELLED.partition("[shadow]")[0]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[tuple[Browser, MemoryLedger, Path]]:
    """A gateway with a configuration file, its ledger, and the file."""
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIG)
    ledger = MemoryLedger(text="full")
    with closing(Browser(console_gateway(ledger=ledger))) as browser:
        browser.gateway.replace(console_state(load(file), browser))
        yield browser, ledger, file


def label(
    browser: Browser, ledger: MemoryLedger, prompts: int, score: Callable[[str], tuple[int, int]]
) -> None:
    for number in range(prompts):
        prompt = a_prompt(number)
        wanted = browser.chat(prompt, session=f"s-{number}", model="small")
        for model, value in zip(("", "large"), score(prompt), strict=True):
            ledger.add_outcome(
                Outcome(decision=wanted, score=value, label="", model=model, source="test", at=1.0)
            )


def fit(browser: Browser, **form: str) -> str:
    sent = {"token": browser.token("/console/try"), "quality": "0.95", **form}
    begun = browser.post("/console/fits", sent)
    assert begun.status == 303, begun.body
    page = begun.headers["location"]
    until(lambda: browser.get(f"{page}.json").json()["state"] != "running", seconds=300)
    return page


def test_too_few_labels_are_refused_in_words(made: tuple[Browser, MemoryLedger, Path]) -> None:
    browser, ledger, file = made
    label(browser, ledger, 3, by_kind)
    page = fit(browser)
    found = browser.get(f"{page}.json").json()
    assert (found["state"], found["is_usable"]) == ("refused", False)
    assert "3 prompts with labels of two models are too few: 97 more" in found["error"]
    assert b"too few" in browser.get(page).body
    for door in (f"{page}/use", "/console/fits/back"):
        assert browser.post(door, {"token": browser.token("/console/try")}).status == 400
    assert file.read_text() == CONFIG


@pytest.mark.parametrize("quality", ["0", "1.5", "much"])
def test_a_share_that_is_none_is_refused(made: tuple[Browser, MemoryLedger, Path], quality: str) -> None:
    browser = made[0]
    answer = browser.post("/console/fits", {"token": browser.token("/console/try"), "quality": quality})
    assert (answer.status, b"is a share above 0" in answer.body) == (400, True)


def test_without_a_file_there_is_nothing_to_write_to() -> None:
    with closing(Browser(console_gateway())) as browser:
        answer = browser.post("/console/fits", {"token": browser.token("/console/try"), "quality": ""})
        assert (answer.status, b"no configuration file" in answer.body) == (400, True)
        assert browser.get("/console/fits/none").status == 404


def test_models_without_a_price_are_refused_by_name(made: tuple[Browser, MemoryLedger, Path]) -> None:
    browser, ledger, _ = made
    for number in range(PROMPTS):
        wanted = browser.chat(a_prompt(number), session=f"s-{number}", model="small")
        for model in ("", "elsewhere"):
            ledger.add_outcome(
                Outcome(decision=wanted, score=1, label="", model=model, source="test", at=1.0)
            )
    found = browser.get(f"{fit(browser)}.json").json()
    assert found["state"] == "refused"
    assert '"elsewhere" has no price' in found["error"]


@pytest.mark.slow
def test_a_fit_is_used_and_taken_back(made: tuple[Browser, MemoryLedger, Path]) -> None:
    browser, ledger, file = made
    label(browser, ledger, PROMPTS, by_kind)
    page = fit(browser)
    found = browser.get(f"{page}.json").json()
    assert (found["state"], found["models"]) == ("done", ["small", "large"]), found
    assert not [line for line in found["lines"] if "router written to" in line], "it is not in use yet"
    assert b"Use it" in browser.get(page).body
    assert browser.post(f"{page}/use", {"token": browser.token("/console/try")}).status == 303
    assert "learned_router" in file.read_text()
    assert browser.post("/console/fits/back", {"token": browser.token("/console/try")}).status == 303
    assert file.read_text() == CONFIG
    file.write_text(CONFIG + "\n")
    changed = browser.post(f"{page}/use", {"token": browser.token("/console/try")})
    assert (changed.status, b"has changed since the fit began" in changed.body) == (400, True)


@pytest.mark.slow
def test_a_policy_that_is_not_shown_to_keep_the_quality_is_not_offered(
    made: tuple[Browser, MemoryLedger, Path],
) -> None:
    """The router ranks better than all rivals, and what the boundaries keep may be less than was asked."""
    browser, ledger, file = made
    chance = random.Random(1)

    def noisy(prompt: str) -> tuple[int, int]:
        weak = 0.9 if by_kind(prompt) == (1, 1) else 0.3
        return int(chance.random() < weak), int(chance.random() < 0.92)

    label(browser, ledger, 150, noisy)
    page = fit(browser)
    found = browser.get(f"{page}.json").json()
    assert any(line.startswith("improvement: held out") for line in found["lines"])
    assert (found["state"], found["is_usable"], found["safer"]) == ("refused", False, 1.0), found
    assert found["error"].startswith("not shown: the interval reaches below 95.0%")
    text = browser.get(page).body
    assert b"Use it" not in text
    assert b"Fit again, aiming at 1.0" in text
    assert b"written to" not in text, "no such file is left"
    assert f"--config {file} --quality 0.95 --show 0.95 --out policy.toml" in text.decode()  # as chosen here
    assert browser.post(f"{page}/use", {"token": browser.token("/console/try")}).status == 400
    assert sorted(each.name for each in file.parent.iterdir()) == [file.name]

    again = browser.get(f"{fit(browser, aim='1.0')}.json").json()
    assert (again["state"], again["is_usable"]) == ("refused", False)
    more = re.search(r"at the quality measured, about (\d+) more prompts show it", again["error"])
    assert more, again["error"]
    label(browser, ledger, 150 + int(more[1]), noisy)
    assert browser.get(f"{fit(browser, aim='1.0')}.json").json()["is_usable"]


def test_what_another_changes_meanwhile_is_not_taken_back(
    made: tuple[Browser, MemoryLedger, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that was revoked while this waited for the file would be valid again."""
    browser, _, file = made
    for of in (_jobs._BEFORE, _jobs._WRITTEN):
        _jobs._next_to(file, of).write_text(CONFIG)

    @contextmanager
    def waiting(_: Path) -> Iterator[None]:
        file.write_text(f"{CONFIG}# changed\n")
        yield

    monkeypatch.setattr(_jobs, "changing", waiting)
    assert browser.post("/console/fits/back", {"token": browser.token("/console/try")}).status == 400
    assert file.read_text() == f"{CONFIG}# changed\n"
