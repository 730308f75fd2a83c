"""``Pointsman`` as a program uses it: from a configuration, with its stores and its models."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman import ConfigError, Pointsman, Tier
from pointsman.cli import app
from pointsman.errors import TooManyOutcomes, UnknownDecision
from pointsman.stores.ledger import SqliteLedger
from pointsman.vocabulary import Stage
from support.servers import Asked, ScriptedUpstream, reply

UNSURE = "Write something about the sea for her and me"


async def say_complex(asked: Asked, send: Any) -> None:
    assert json.loads(asked.body)["model"] == "small-1"
    content = {"role": "assistant", "content": "COMPLEX"}
    await reply(send, 200, json.dumps({"choices": [{"message": content}]}).encode())


@pytest.fixture
def upstream() -> Iterator[tuple[ScriptedUpstream, str]]:
    scripted = ScriptedUpstream(say_complex)
    with scripted.running() as url:
        yield scripted, url


@pytest.fixture
def file(tmp_path: Path, upstream: tuple[ScriptedUpstream, str]) -> Path:
    written = tmp_path / "pointsman.toml"
    written.write_text(
        f'[upstreams.main]\nbase_url = "{upstream[1]}/v1"\nformats = ["chat"]\n'
        '[models]\nsmall = { upstream = "main", id = "small-1" }\n'
        'large = { upstream = "main", id = "large-1", input_per_million = 1, output_per_million = 5 }\n'
        '[tiers]\nsimple = "small"\ncomplex = "large"\nverify = { share = 1.0, timeout_ms = 60_000 }\n'
        '[ledger]\npath = "ledger.sqlite"\ntext = "full"\n'
        '[sessions]\nstore = "sqlite"\npath = "sessions.sqlite"\n'
    )
    return written


def test_a_configured_model_verifies_for_synchronous_and_asynchronous_callers(
    file: Path, upstream: tuple[ScriptedUpstream, str]
) -> None:
    with Pointsman.from_config(file) as pointsman:
        decided = [
            pointsman.decide(UNSURE),
            asyncio.run(pointsman.decide_async(UNSURE + "!")),  # each with a loop of its own
            asyncio.run(pointsman.decide_async(UNSURE + "?")),
        ]
    for decision in decided:
        assert decision.tier is not None
        assert (decision.tier.tier, decision.tier.stage) == (Tier.COMPLEX, Stage.VERIFIED)
        assert decision.chain[0] == "large"
    assert len(upstream[0].asked) == 3


def test_half_a_character_loses_no_entry_of_the_ledger(file: Path) -> None:
    """The ledger's thread could not write such an entry, after the program had its decision."""
    half = "\ud83d"
    with Pointsman.from_config(file) as pointsman:
        decided = pointsman.decide("Hello!" + half, session=half, caller=half)
        pointsman.record_outcome(decided.id, 1.0, label=half, comment=half, model="")
    with closing(SqliteLedger(file.parent / "ledger.sqlite")) as ledger:
        [record] = ledger.records()
    assert record.decision.input.session == "\ufffd/\ufffd"
    assert [(each.label, each.comment) for each in record.outcomes] == [("\ufffd", "\ufffd")]


def test_a_provider_asks_the_model_it_names(tmp_path: Path) -> None:
    async def yes(asked: Asked, send: Any) -> None:
        assert json.loads(asked.body)["model"] == "small-1"
        content = {"role": "assistant", "content": "yes"}
        await reply(send, 200, json.dumps({"choices": [{"message": content}]}).encode())

    upstream, written = ScriptedUpstream(yes), tmp_path / "pointsman.toml"
    with upstream.running() as url:
        written.write_text(
            f'[upstreams.main]\nbase_url = "{url}/v1"\nformats = ["chat"]\n'
            '[models]\nsmall = { upstream = "main", id = "small-1" }\n'
            '[tiers]\nsimple = "small"\n[ledger]\npath = "ledger.sqlite"\n[guidance]\nmode = "on"\n'
            'control = 0\n[[guidance.providers]]\npoint = "pre_response"\ntext = "Be brief."\n'
            'classifier = { name = "llm", model = "small", timeout_ms = 60_000 }\n'
        )
        with Pointsman.from_config(written) as pointsman:
            called = [{"function": {"name": "bash", "arguments": "{}"}, "id": "c", "type": "function"}]
            asked: list[dict[str, Any]] = [
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": None, "tool_calls": called},
                {"role": "tool", "tool_call_id": "c", "content": "done"},
            ]
            decisions = [pointsman.decide(asked), asyncio.run(pointsman.decide_async(asked))]
            unasked = pointsman.decide("hello")  # nothing was called: there is nothing to judge
    assert not unasked.injections
    for decision in decisions:
        assert decision.guidance is not None
        assert [hint.classifier for hint in decision.guidance.hints] == ["llm(small)"]
        assert decision.injections[0].text == "Be brief."


def test_the_ledger_and_the_sessions_are_those_of_the_file(file: Path) -> None:
    with Pointsman.from_config(str(file)) as pointsman:
        decision = pointsman.decide("What is 2 + 2?", session="s")
        pointsman.record_outcome(decision.id, 0.5, comment="so so")
        asyncio.run(pointsman.record_outcome_async(decision.id, label="good"))
    ledger = SqliteLedger(file.parent / "ledger.sqlite")
    try:
        assert ledger.get(decision.id) is not None
        assert [(each.score, each.label) for each in ledger.outcomes(decision.id)] == [
            (0.5, ""),
            (None, "good"),
        ]
    finally:
        ledger.close()
    with Pointsman.from_config(file) as pointsman:
        assert pointsman.runtime.memories.load("s").turns == 1


def test_outcomes_are_checked_as_at_the_gateway(file: Path) -> None:
    with Pointsman.from_config(file) as pointsman:
        decision = pointsman.decide("What is 2 + 2?").id
        with pytest.raises(UnknownDecision):
            pointsman.record_outcome("d-nobody-1", 1.0)
        with pytest.raises(ValueError, match='"score" must be a number from 0 to 1'):
            pointsman.record_outcome(decision, 5)
        with pytest.raises(ValueError, match='a "score" or a "label"'):
            pointsman.record_outcome(decision)
        for _ in range(20):
            pointsman.record_outcome(decision, 1.0)
        with pytest.raises(TooManyOutcomes):
            pointsman.record_outcome(decision, 1.0)


@pytest.mark.parametrize("text", ["What is 2 + 2?", UNSURE, "prove by induction, step by step"])
def test_explaining_is_what_the_command_prints(file: Path, text: str) -> None:
    with Pointsman.from_config(file) as pointsman:
        explained = pointsman.explain(text)
        again = asyncio.run(pointsman.explain_async(text))
        assert pointsman.runtime.ledger.count() == 0
    printed = CliRunner().invoke(app, ["explain", text, "--config", str(file), "--json"])
    assert printed.exit_code == 0
    assert _plain(explained.to_json()) == json.loads(printed.stdout)
    assert _plain(again.to_json()) == _plain(explained.to_json())
    assert explained.served is not None


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_without_a_file_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("POINTSMAN_CONFIG", raising=False)
    with pytest.raises(ConfigError, match=r"there is no pointsman\.toml") as refused:
        Pointsman.from_config()
    assert refused.value.hint == "pointsman config init writes one"


def test_closing_twice_is_allowed_and_a_library_without_a_file_closes_too(file: Path) -> None:
    pointsman = Pointsman.from_config(file)
    pointsman.decide(UNSURE)
    pointsman.close()
    pointsman.close()
    with Pointsman() as other:
        assert other.explain("hi").served is None


def test_a_program_that_ends_without_close_keeps_its_decisions(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text('[ledger]\npath = "ledger.sqlite"\n')
    code = (
        f"from pointsman import Pointsman; Pointsman.from_config({str(file)!r}).decide('Hello!', session='s')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with closing(SqliteLedger(tmp_path / "ledger.sqlite")) as ledger:
        assert [each.input.session for each in ledger.decisions()] == ["s"]
