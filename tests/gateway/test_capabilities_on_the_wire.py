"""The capabilities of a request at the gateway: a model asked, headers, metrics, ledger, shadow policy."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from pointsman.capabilities import CapabilityPolicy, Strategy
from pointsman.cli import app
from pointsman.config import load
from pointsman.decision.policy import Policy
from pointsman.factory import build_engine
from pointsman.gateway.build import Builder
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger, ShadowDecision
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import builtin_profile
from pointsman.vocabulary import ModelQuery, ModelReply, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.request import read_request
from support.servers import Asked, ScriptedUpstream, gateway, reply

CONFIG = """
[upstreams.up]
base_url = "{url}/v1"
formats = ["chat", "responses", "messages"]
retries = 0
[models]
small = {{ upstream = "up", id = "small-1" }}
judge = {{ upstream = "up", id = "judge-1" }}
[tiers]
simple = "small"
medium = "small"
complex = "small"
reasoning = "small"
[capabilities]
tools = 2
strategy = "llm"
model = "judge"
threshold = 1.0
{more}
[server]
port = 0
[ledger]
path = "{folder}/ledger.sqlite"
[shadow]
policy = "other.toml"
"""
OTHER = '[capabilities]\nmode = "observe"\nthreshold = 0.0\n'
TOOLS = {"get_weather": "Weather forecast of a city", "send_mail": "Send an e-mail", "run": "Run a command"}


async def answer(asked: Asked, send: Any) -> None:
    """The judge wants mail only; its first question about anything else is not answered."""
    body = json.loads(asked.body)
    if body["model"] != "judge-1":
        await reply(send, 200, b'{"object": "chat.completion", "choices": []}')
        return
    about_mail = "e-mail" in asked.body.decode()
    if "Run a command" in asked.body.decode():
        await reply(send, 500, b"{}")
        return
    word = json.dumps({"is_match": about_mail, "reason": "the secret words"})
    message = {"role": "assistant", "content": word}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    await reply(send, 200, json.dumps({"object": "chat.completion", "choices": choices}).encode())


def offered(wire: WireFormat) -> list[dict[str, Any]]:
    if wire is WireFormat.CHAT:
        return [
            {"type": "function", "function": {"name": name, "description": text}}
            for name, text in TOOLS.items()
        ]
    key = "input_schema" if wire is WireFormat.MESSAGES else "parameters"
    kind = {} if wire is WireFormat.MESSAGES else {"type": "function"}
    return [
        {**kind, "name": name, "description": text, key: {"type": "object"}} for name, text in TOOLS.items()
    ]


def test_the_log_says_which_signals_scored_and_what_each_judge_was_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At the level debug, as ``serve --log-level debug`` sets it: of which decision, and about what."""
    caplog.set_level(logging.DEBUG, "pointsman.decisions")
    (tmp_path / "other.toml").write_text(OTHER)
    with ScriptedUpstream(answer).running() as url:
        file = tmp_path / "pointsman.toml"
        file.write_text(CONFIG.format(url=url, folder=tmp_path, more=""))
        body = {"model": "auto", "messages": [{"role": "user", "content": "mail it, step by step"}]}
        with gateway(Builder(lambda: load(file))()) as running:
            sent = {**body, "tools": offered(WireFormat.CHAT)}
            found = httpx.post(f"{running.url}/v1/chat/completions", json=sent).raise_for_status()
    decision_id = found.headers["x-pointsman-decision-id"]
    said = [line.getMessage() for line in caplog.records if line.levelno == logging.DEBUG]
    for name, word in (("send_mail", '"is_match": true'), ("get_weather", '"is_match": false')):
        asked = f"{decision_id} judge_capability({name}): judge said "
        [line] = [each for each in said if each.startswith(asked)]
        assert word in line
    [line] = [line.getMessage() for line in caplog.records if line.levelno == logging.INFO]
    told = dict(part.split("=", 1) for part in line.split())
    assert told["decision"] == decision_id
    assert -1 < float(told["score"]) < 1
    assert "length_(5_tokens)" in told["signals"]


@pytest.mark.parametrize("wire", WireFormat)
def test_a_model_judges_and_everything_is_written_down(wire: WireFormat, tmp_path: Path) -> None:
    upstream = ScriptedUpstream(answer)
    (tmp_path / "other.toml").write_text(OTHER)
    with upstream.running() as url:
        file = tmp_path / "pointsman.toml"
        file.write_text(CONFIG.format(url=url, folder=tmp_path, more=""))
        builder = Builder(lambda: load(file))
        state = builder()
        with gateway(state) as running:
            body = {
                "model": "auto",
                FORMATS[wire].items: [{"role": "user", "content": "mail it"}],
                "max_tokens": 9,
            }
            found = httpx.post(
                f"{running.url}/v1{FORMATS[wire].path.decode()}",
                json={**body, "tools": offered(wire)},
                headers={"x-session-id": "s", "x-pointsman-debug": "1"},
            )
            found.raise_for_status()
            metrics = httpx.get(f"{running.url}/metrics").text
        assert state.shadow_policy is not None
        state.shadow_policy.flush()
        decision_id = found.headers["x-pointsman-decision-id"]
        ledger = state.runtime.ledger
        decision, shadows = ledger.get(decision_id), ledger.shadows(decision_id)
        builder.close()
    assert found.headers["x-pointsman-capabilities"] == "send_mail"
    assert 'pointsman_capabilities_total{result="abstained",strategy="llm"} 1.0' in metrics
    assert decision is not None
    part = decision.capabilities
    assert part is not None
    assert [(each.name, each.needed, bool(each.error)) for each in part.asked_model] == [
        ("get_weather", False, False),
        ("send_mail", True, False),
        ("run", None, True),
    ]
    assert part.tools is not None
    assert part.tools.kept[:1] != ()
    assert "send_mail" in part.tools.kept
    assert len(part.tools.kept) == 2
    arrived = [json.loads(asked.body) for asked in upstream.asked]
    [relayed] = [each for each in arrived if each["model"] == "small-1"]
    assert len(relayed["tools"]) == 2
    [shadow] = shadows
    assert isinstance(shadow, ShadowDecision)
    assert "capabilities" in shadow.changed
    assert shadow.verdict.capabilities == "get_weather send_mail run"
    shown = CliRunner().invoke(
        app, ["decisions", "show", decision_id, "--ledger", str(tmp_path / "ledger.sqlite")]
    )
    assert "capabilities (strategy llm): send_mail" in shown.output
    assert "capabilities.model: get_weather: a model says not needed" in shown.output
    assert "capabilities send_mail | " in shown.output  # of the shadow policy's line
    assert "secret" not in shown.output


def test_questions_about_capabilities_are_asked_at_the_same_time() -> None:
    """No question is answered before all have been asked: one after the other would wait forever."""
    waiting, everyone = list[str](), asyncio.Event()

    async def ask(need: ModelQuery) -> ModelReply:
        waiting.append(need.about)
        if len(waiting) == len(TOOLS):
            everyone.set()
        await everyone.wait()
        return ModelReply("yes")

    policy = Policy(
        profile=builtin_profile("default"),
        capabilities=CapabilityPolicy(strategy=Strategy.LLM, model="judge"),
    )
    runtime = Runtime(build_engine(policy), sessions=MemorySessions(), ledger=MemoryLedger(), ask=ask)
    body = {"messages": [{"role": "user", "content": "mail it"}], "tools": offered(WireFormat.CHAT)}
    request = read_request(WireFormat.CHAT, body, session="s")

    async def decide() -> tuple[str, ...]:
        decision = await asyncio.wait_for(runtime.decide(request), timeout=60)
        again = await asyncio.wait_for(runtime.decide(request), timeout=60)
        assert again.capabilities is not None
        assert again.capabilities.continued
        return decision.capabilities.selected if decision.capabilities else ()

    assert asyncio.run(decide()) == tuple(TOOLS)
    assert sorted(waiting) == sorted(TOOLS)
