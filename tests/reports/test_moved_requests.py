"""Whether the cheap model is good enough for the requests that another policy moves to it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.decision.diff import Verdict
from pointsman.decision.memory import Memory
from pointsman.drivers import drive
from pointsman.factory import build_engine, default_policy, read_policy
from pointsman.stores.ledger import Entry, Outcome, PromptText, ShadowDecision, SqliteLedger
from pointsman.testing.ledger_summaries import an_answer
from pointsman.vocabulary import ModelQuery, ModelReply, Tier, WireFormat
from pointsman.wire.request import read_request

CONFIG = """
[upstreams.up]
base_url = "demo:"
[models]
gpt-luna = { upstream = "up", id = "gpt-luna", input_per_million = 0.1, output_per_million = 0.4 }
gpt-sol = { upstream = "up", id = "gpt-sol", input_per_million = 2, output_per_million = 8 }
[tiers]
simple = "gpt-luna"
medium = "gpt-luna"
complex = "gpt-sol"
reasoning = "gpt-sol"
[ledger]
path = "ledger.sqlite"
text = "full"
"""
EASY = "hello"
HARD = "Design a distributed cache with consistent hashing and explain the architecture trade-offs"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A ledger in which "gpt-luna" served 260 easy requests and "gpt-sol" 40 hard ones.

    A shadow asked "gpt-sol" too, and people found both answers of all easy requests right.
    """
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIG, encoding="utf-8")
    (tmp_path / "b.toml").write_text(CONFIG.replace('complex = "gpt-sol"', 'complex = "gpt-luna"'))
    engine = build_engine(read_policy(file, default_policy()))
    entries: list[Entry] = []
    for number in range(300):
        name, text = f"d-{number:03}", EASY if number < 260 else HARD
        request = read_request(
            WireFormat.CHAT,
            {"messages": [{"role": "user", "content": text}]},
            session=f"s-{number}",
            arrived_at=float(number),
        )
        made = drive(engine.decide(request, Memory(), name), _nobody).decision
        answer = an_answer(name, model=made.chain[0], input_tokens=10, output_tokens=5)
        entries += [made, answer, PromptText(decision=name, text=text)]
        if text == HARD:
            said = Verdict(tier=Tier.COMPLEX, model="gpt-luna")
            entries.append(
                ShadowDecision(decision=name, at=0.0, policy="b", verdict=said, changed=("model",))
            )
        else:
            entries += _scores(name, "gpt-sol")
    _append(tmp_path, entries)
    return file


def _nobody(need: ModelQuery) -> ModelReply:
    return ModelReply(error="no-model")


def _scores(name: str, other: str) -> list[Outcome]:
    return [Outcome(decision=name, model=model, score=1.0, at=1.0) for model in ("", other)]


def _append(folder: Path, entries: list[Entry]) -> None:
    ledger = SqliteLedger(folder / "ledger.sqlite", text="full")
    for entry in entries:
        ledger.append(entry)
    ledger.close()


def _shown(*arguments: object) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.stdout


def _good_enough(said: str) -> str:
    lines = said.splitlines()
    return lines[lines.index("  gpt-sol -> gpt-luna: 40") + 1].strip()


@pytest.mark.parametrize("command", ["replay", "shadow"])
def test_pairs_of_requests_that_do_not_move_say_nothing(
    config: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(config.parent)
    asked = ("replay", "--policy", "b.toml") if command == "replay" else ("report", "shadow")
    first = "good enough? Not known yet: 0 of the 40 requests that change have labels of both models; "
    needs = "“gpt-luna” beside “gpt-sol” needs about 960 more pairs (0 of the 30 that the first look takes)."
    way = '[shadow] model = "gpt-luna" asks it beside “gpt-sol”.'
    assert _good_enough(_shown(*asked)) == f"{first}{needs} {way}"
    _append(
        config.parent, [each for number in range(260, 295) for each in _scores(f"d-{number}", "gpt-luna")]
    )
    said = _good_enough(_shown(*asked))
    assert "Not known yet: 35 of the 40 requests that change have labels of both models; " in said
    assert "needs about 445 more pairs (+0.00, 99.4% interval -0.20 to +0.20, from the first 30 of 35" in said


def test_pairs_of_the_requests_that_move_decide(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that moves the easy requests to the strong model is judged by these."""
    monkeypatch.chdir(config.parent)
    (config.parent / "b.toml").write_text(CONFIG.replace('simple = "gpt-luna"', 'simple = "gpt-sol"'))
    [moved] = json.loads(_shown("replay", "--policy", "b.toml", "--json").splitlines()[-1])["summary"][
        "models"
    ]
    assert (moved["then"], moved["now"], moved["turns"]) == ("gpt-luna", "gpt-sol", 260)
    assert moved["quality"] == (
        "Yes: 260 of the 260 requests that change have labels of both models; on requests of SIMPLE (240), "
        "“gpt-luna” beside “gpt-sol” is not worse by more than 0.05 "
        "(+0.00, 99.4% interval -0.03 to +0.03, from the first 240 of 260 pairs)."
    )


def test_the_changes_of_one_replay_share_the_level(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four changes of models, all at the margin, had some false "yes" in 5.6 % of cases."""
    monkeypatch.chdir(config.parent)
    swapped = CONFIG.replace('simple = "gpt-luna"', 'simple = "gpt-sol"')
    (config.parent / "b.toml").write_text(swapped.replace('"gpt-sol"\nreasoning', '"gpt-luna"\nreasoning'))
    asked = ("replay", "--policy", "b.toml")
    alone = _good_enough(_shown(*asked))
    assert "99.4% interval" in _shown(*asked)  # of the one change with labels
    assert "needs about 960 more pairs" in alone
    _append(
        config.parent, [each for number in range(260, 295) for each in _scores(f"d-{number}", "gpt-luna")]
    )
    both = _shown(*asked)
    assert both.count("99.7% interval") == 2
    assert "Not known yet: 35 of the 40 requests that change" in _good_enough(both)


def test_report_quality_names_the_tiers_of_its_pairs(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(config.parent)
    start = "Yes: on requests of SIMPLE (240), “gpt-luna” beside “gpt-sol” is not worse by more than 0.05 ("
    assert _shown("report", "quality").startswith(start)
    [row] = json.loads(_shown("report", "quality", "--json"))
    assert (row["answer"], row["tiers"]) == ("yes", "SIMPLE (240)")
    heading, row = _shown("report", "quality", "--csv").splitlines()
    assert heading.endswith(",tiers")
    assert row.endswith(",SIMPLE (240)")
