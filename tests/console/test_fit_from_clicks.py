"""From clicks on the page Label to a request that another model serves, and back."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.labelling import CONFIG, PROMPTS, LabelledGateway, a_prompt, by_kind, labelled_gateway
from support.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[LabelledGateway]:
    """A gateway that keeps the answers of two models."""
    with labelled_gateway(tmp_path) as made:
        yield made


def test_clicks_end_in_a_request_that_another_model_serves_and_are_taken_back(
    gateway: LabelledGateway,
) -> None:
    hard, easy = a_prompt(100_001), a_prompt(100_000)
    assert (gateway.served(hard), gateway.served(easy)) == ("small", "small")
    gateway.label(by_kind)
    counted = gateway.http.get("/console/label.json").json()["pairs"]
    assert counted == {"models": ["large", "small"], "prompts": PROMPTS, "single": 0}

    page = gateway.fit()
    found = gateway.http.get(f"{page}.json").json()
    assert found["state"] == "done", found
    assert (found["models"], found["prompts"]) == (["small", "large"], PROMPTS)
    assert any(line.startswith("improvement: held out") for line in found["lines"])
    assert "Use it" in gateway.http.get(page).text
    assert gateway.file.read_text() == CONFIG  # nothing is used before somebody says so

    assert gateway.post(f"{page}/use").status_code == 303
    assert "# kept as it is" in gateway.file.read_text()
    until(lambda: gateway.served(hard) == "large")
    assert gateway.served(easy) == "small"
    assert "Take back" in gateway.http.get(page).text

    gateway.stop()
    gateway.start()
    assert gateway.http.get(page).status_code == 404  # a fit is kept by the process that made it
    assert "Take back" in gateway.http.get("/console/label").text
    assert gateway.served(hard) == "large"
    assert gateway.post("/console/fits/back").status_code == 303
    assert gateway.file.read_text() == CONFIG
    until(lambda: gateway.served(hard) == "small")
    assert gateway.post("/console/fits/back").status_code == 400  # nothing is left to take back


def test_too_few_labels_and_labels_by_chance_are_refused_in_words(gateway: LabelledGateway) -> None:
    gateway.label(by_kind, prompts=3)
    page = gateway.fit()
    found = gateway.http.get(f"{page}.json").json()
    assert (found["state"], found["is_usable"]) == ("refused", False)
    assert "3 prompts with labels of two models are too few: 97 more" in found["error"]
    assert gateway.post(f"{page}/use").status_code == 400

    chance = random.Random(5)
    gateway.label(lambda _: chance.choice([(0, 1), (1, 1)]))
    page = gateway.fit()
    found = gateway.http.get(f"{page}.json").json()
    assert (found["state"], found["is_usable"]) == ("refused", False), found
    assert "not better than every rival below" in found["error"]
    assert any("no improvement shown" in line for line in found["lines"])
    assert gateway.file.read_text() == CONFIG
    assert not list(gateway.file.parent.glob("*learned-router*"))
