"""What another policy would have done with logged sessions: decided again, priced, judged in three parts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from support.agent_logs import ClaudeSession

DEAR, CHEAP = "claude-opus-4-8", "claude-haiku-4-5"
HARD = "Prove step by step that the scheduler is free of deadlocks, and derive its worst-case latency."
MODELS = """
[upstreams.anthropic]
base_url = "https://api.anthropic.com"
formats = ["messages"]

[models.small]
upstream = "anthropic"
id = "claude-haiku-4-5"

[models.large]
upstream = "anthropic"
id = "claude-opus-4-8"
"""


def policy(folder: Path, *, name: str = "own.toml", models: str = MODELS, **tiers: str) -> Path:
    file = folder / name
    lines = [f'{tier} = "{model}"' for tier, model in tiers.items()]
    file.write_text("\n".join([models, "[tiers]", *lines]))
    return file


def session(
    home: Path,
    name: str,
    model: str,
    *prompts: str,
    project: str = "/home/ana/code/shop",
    passes: bool = True,
) -> ClaudeSession:
    """A session that edits and runs tests; every prompt has two requests, each 1,000 tokens longer."""
    log, at = ClaudeSession(home, name, project), 0
    for number, prompt in enumerate(prompts):
        log.says(prompt)
        for step in range(2):
            at += 1
            tokens = {
                "input_tokens": 0,
                "cache_read_input_tokens": 18_000 + 1_000 * at if at > 1 else 0,
                "cache_creation_input_tokens": 1_000 if at > 1 else 20_000,
                "output_tokens": 100,
            }
            call, edits = f"{name}-{number}-{step}", step == 0
            edit: dict[str, Any] = {"name": "Edit", "input": {"file_path": "a.py"}}
            test: dict[str, Any] = {"name": "Bash", "input": {"command": "pytest"}}
            use = {"type": "tool_use", "id": call, **(edit if edits else test)}
            log.answers(call, use, usage=tokens, model=model)
            ran = "1 passed" if passes else "FAILED test_a.py::test_a - assert 1 == 2"
            log.result(call, "The file was updated." if edits else ran, error=not passes and not edits)
    return log


def audit(home: Path, *policies: Path) -> dict[str, Any]:
    options = [part for file in policies for part in ("--policy", str(file))]
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), "--json", *options])
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    return {each["name"]: each for each in json.loads(ran.stdout)["policies"]}


def test_a_policy_of_one_dear_model_claims_no_saving(tmp_path: Path) -> None:
    session(tmp_path, "a", DEAR, "Hello!", HARD)
    session(tmp_path, "b", CHEAP, "Hello!")
    file = policy(tmp_path, simple="large", medium="large", complex="large", reasoning="large")
    found = audit(tmp_path, file)[str(file)]
    assert (found["requests"], found["moved"]) == (6, 2)
    assert found["sure"] == 0
    assert found["claimed"] == found["stakes"] == []
    assert found["costs_more"] == pytest.approx(found["after"] - found["before"])
    assert found["costs_more"] == pytest.approx(
        4 * (20_000 * 1.25 + 20_000 * 0.1 + 1_000 * 1.25 + 200 * 5) / 1e6
    )
    assert "Unknown: nothing is at stake." in found["sentence"]


def test_what_a_cheap_model_would_save_is_unknown_but_for_roles(tmp_path: Path) -> None:
    session(tmp_path, "a", DEAR, "Hello!", HARD)
    file = policy(tmp_path, simple="small", medium="small", complex="small", reasoning="small")
    found = audit(tmp_path, file)[str(file)]
    assert (found["moved"], found["sure"], found["claimed"]) == (4, 0, [])
    (stake,) = found["stakes"]
    assert (stake["dear"], stake["cheap"]) == (DEAR, CHEAP)
    assert stake["dollars"] == pytest.approx(found["before"] - found["after"])
    assert found["after"] == pytest.approx(found["before"] / 5)
    assert stake["labels"] > 100
    assert "Sure to save: $0.00." in found["sentence"]
    assert f"needs {stake['labels']} further sessions on both models, nothing to label" in found["sentence"]


def test_the_shipped_policy_has_the_models_of_the_logs_as_its_tiers(tmp_path: Path) -> None:
    session(tmp_path, "a", DEAR, "Hello!", HARD)
    session(tmp_path, "b", "claude-sonnet-4-5", "Hello!")
    session(tmp_path, "c", CHEAP, "Hello!")
    found = audit(tmp_path)["shipped"]
    middle = {"MEDIUM": "claude-sonnet-4-5", "COMPLEX": "claude-sonnet-4-5"}
    assert found["tiers"] == {"anthropic": {"SIMPLE": CHEAP, **middle, "REASONING": DEAR}}
    assert found["decided"] == {"SIMPLE": 6, "REASONING": 2}
    # "Hello!" moves to the cheapest; the proof goes back to the dearest, whose cache is cold: it costs more.
    assert found["moved"] == 2 + 2
    assert [(stake["dear"], stake["cheap"]) for stake in found["stakes"]] == [("claude-sonnet-4-5", CHEAP)]
    assert found["costs_more"] > 0
    assert "Moves that cost more: less than $0.01." in found["sentence"]


def test_a_session_that_changes_models_pays_for_its_cache_again(tmp_path: Path) -> None:
    session(tmp_path, "a", DEAR, "Hello!", HARD)
    session(tmp_path, "b", CHEAP, "Hello!")
    found = audit(tmp_path)["shipped"]
    dear, cheap = (5.0, 6.25, 0.5, 25.0), (1.0, 1.25, 0.1, 5.0)

    def paid(prices: tuple[float, ...], written: int, read: int) -> float:
        _, write, cached, out = prices
        return (written * write + read * cached + 100 * out) / 1e6

    rest = paid(cheap, 20_000, 0) + paid(cheap, 1_000, 20_000)
    assert found["before"] - rest == pytest.approx(
        paid(dear, 20_000, 0) + sum(paid(dear, 1_000, read) for read in (20_000, 21_000, 22_000))
    )
    assert found["after"] - rest == pytest.approx(
        paid(cheap, 20_000, 0)
        + paid(cheap, 1_000, 20_000)
        + paid(dear, 22_000, 0)
        + paid(dear, 1_000, 22_000)
    )


def runs(home: Path, cheap: int, dear: int, each: int) -> None:
    """Runs of one task on both models; of each so many in a hundred pass."""
    for model, share in ((CHEAP, cheap), (DEAR, dear)):
        for number in range(each):
            session(home, f"{model}-{number}", model, "Hello!", passes=number * 100 < share * each)


@pytest.mark.parametrize(
    ("cheap", "dear", "said"), [(90, 30, "saves"), (30, 90, "harmful"), (60, 60, "unknown")]
)
def test_outcomes_judge_a_policy(tmp_path: Path, cheap: int, dear: int, said: str) -> None:
    runs(tmp_path, cheap, dear, 30)
    file = policy(tmp_path, simple="small", medium="small", complex="small", reasoning="small")
    found = audit(tmp_path, file)[str(file)]
    (compared,) = found["compared"]
    assert (compared["dear"], compared["cheap"], compared["verdict"]) == (DEAR, CHEAP, said)
    assert [each["verdict"] for each in found["claimed"]] == (["saves"] if said == "saves" else [])
    assert len(found["stakes"]) == (said == "unknown")
    assert bool(found["refused"]) == (said == "harmful")
    assert found["sure"] == 0
    if said == "harmful":
        assert re.search(rf"refused: {CHEAP} solves fewer than {DEAR} \(-\d+% to -\d+%\)", found["sentence"])


def test_models_without_a_price_are_named(tmp_path: Path) -> None:
    session(tmp_path, "a", DEAR, "Hello!")
    session(tmp_path, "b", "own-model-7b", "Hello!")
    unpriced = MODELS.replace("claude-haiku-4-5", "my-own-model")
    file = policy(tmp_path, models=unpriced, simple="small", reasoning="large")
    found = audit(tmp_path, file)
    assert found[str(file)]["refused"] == [
        "its models have no price: my-own-model (2 requests); give them one in the policy's file"
    ]
    assert "own-model-7b (2 requests)" in " ".join(found[str(file)]["left_out"])
    assert "own-model-7b (2 requests)" in " ".join(found["shipped"]["left_out"])


@pytest.mark.parametrize(
    ("text", "said"),
    [("[tiers]\nsimpel = 1\n", "simpel"), ("{", "own.toml"), (None, "own.toml")],
)
def test_a_policy_that_cannot_be_read_is_an_error(tmp_path: Path, text: str | None, said: str) -> None:
    session(tmp_path, "a", DEAR, "Hello!")
    file = tmp_path / "own.toml"
    if text is not None:
        file.write_text(text)
    ran = CliRunner().invoke(app, ["audit", "--home", str(tmp_path), "--policy", str(file)])
    assert ran.exit_code != 0
    assert said in str(ran.exception)
    assert str(file) in str(ran.exception)


def test_policies_stand_in_the_report_and_on_the_page(tmp_path: Path) -> None:
    session(tmp_path, "a", DEAR, "Hello!")
    session(tmp_path, "b", CHEAP, "Hello!")
    page = tmp_path / "audit.html"
    ran = CliRunner().invoke(app, ["audit", "--home", str(tmp_path), "--html", str(page)])
    assert ran.exit_code == 0, repr(ran.exception)
    sentence = "Policy shipped moves 2 of 4 requests: $0.18 before, $0.06 after"
    assert sentence in ran.stdout
    assert f"Tiers of anthropic: SIMPLE {CHEAP}, MEDIUM {CHEAP}, COMPLEX {DEAR}" in ran.stdout
    assert sentence in page.read_text()


def test_with_figures_kept_the_logs_are_read_again_for_a_named_policy_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POINTSMAN_CACHE_DIR", str(tmp_path / "cache"))
    session(tmp_path, "a", DEAR, "Hello!")
    file = policy(tmp_path, simple="small")
    for options, names in (([], []), (["--policy", str(file)], ["shipped", str(file)])):
        ran = CliRunner().invoke(app, ["audit", "--home", str(tmp_path), "--json", "--incremental", *options])
        assert [each["name"] for each in json.loads(ran.stdout)["policies"]] == names


def test_requests_without_words_are_not_decided(tmp_path: Path) -> None:
    log = ClaudeSession(tmp_path, "a")
    log.calls("m1", "Bash", "ok", command="ls")
    log.says("Hello!")
    log.calls("m2", "Bash", "ok", command="ls")
    found = audit(tmp_path)["shipped"]
    assert found["decided"] == {"SIMPLE": 1}
    assert found["left_out"] == ["Not decided, for the log holds nobody's words: 1 request."]
