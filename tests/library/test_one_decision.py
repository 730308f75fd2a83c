"""One message at the gateway, in the library, and in a run under asyncio and LangGraph: one decision."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman import Pointsman
from pointsman.capabilities import CapabilityRegistry, capability
from pointsman.config import load
from pointsman.decision.decision import Decision
from pointsman.gateway.build import Builder
from pointsman.orchestrator import Agent, Application
from pointsman.orchestrator.langgraph import build_graph, new_turn
from pointsman.upstreams.port import DEMO_URL
from pointsman.vocabulary import AgentRole
from support.servers import gateway

CAPABILITIES = [
    {
        "name": "weather",
        "instructions": "Activate when user requests weather information",
        "examples": [{"query": "What's the weather like?"}, {"query": "Will it rain in Rome?"}],
    },
    {
        "name": "mail",
        "instructions": "Read and send e-mail",
        "examples": [{"query": "Email Ida"}, {"query": "Write to the office that I am ill"}],
    },
]
MESSAGES = [
    "What is the weather like in Oslo?",
    "now fix this bug in the login function of the API",
    "Prove step by step that the algorithm terminates, and derive its complexity",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "capabilities.json").write_text(json.dumps(CAPABILITIES))
    written = tmp_path / "pointsman.toml"
    written.write_text(
        f'[upstreams.demo]\nbase_url = "{DEMO_URL}"\n'
        '[models]\nsmall = { upstream = "demo", id = "s" }\nlarge = { upstream = "demo", id = "l" }\n'
        '[tiers]\nsimple = "small"\nreasoning = "large"\n'
        '[domains]\nmode = "on"\n[guidance]\nmode = "on"\ncontrol = 0.0\n'
        '[capabilities]\nfile = "capabilities.json"\n'
        '[ledger]\npath = "ledger.sqlite"\n[server]\nport = 0\n'
    )
    return written


def at_the_gateway(file: Path, said: str) -> Decision:
    builder = Builder(partial(load, file))
    state = builder()
    with gateway(state) as running:
        body = {"model": "auto", "messages": [{"role": "user", "content": said}]}
        answer = httpx.post(f"{running.url}/v1/chat/completions", json=body, timeout=60)
    assert answer.status_code == 200
    decision = state.runtime.ledger.get(answer.headers["x-pointsman-decision-id"])
    builder.close()
    assert decision is not None
    return decision


def in_the_library(file: Path, said: str) -> Decision:
    with Pointsman.from_config(file) as pointsman:
        return pointsman.decide(said)


def application() -> Application:
    async def work(step: Any, results: Any) -> str:
        return "snow"

    return Application(CapabilityRegistry([capability("weather", "weather")(work)]))


def in_a_run(file: Path, said: str) -> Decision:
    with Pointsman.from_config(file) as pointsman:
        asyncio.run(Agent(pointsman.application(application())).run(f"/chat {said}", session="agent"))
        [decision] = pointsman.runtime.ledger.decisions(session="agent")
        return decision


def in_a_graph(file: Path, said: str) -> Decision:
    with Pointsman.from_config(file) as pointsman:
        graph = build_graph(pointsman.application(application()))
        asyncio.run(graph.ainvoke(new_turn(f"/chat {said}", session="graph")))
        [decision] = pointsman.runtime.ledger.decisions(session="graph")
        return decision


def parts(decision: Decision) -> dict[str, Any]:
    """The policy, the four parts, and what follows from them."""
    names = ("policy", "tier", "domains", "guidance", "capabilities", "chain", "injections", "refused")
    return {name: getattr(decision, name) for name in names}


@pytest.mark.parametrize("said", MESSAGES)
def test_one_message_gets_one_decision_wherever_it_is_asked(file: Path, said: str) -> None:
    decided = [ask(file, said) for ask in (at_the_gateway, in_the_library, in_a_run, in_a_graph)]
    first = parts(decided[0])
    assert all(first[name] is not None for name in ("tier", "domains", "guidance", "capabilities"))
    for other in decided[1:]:
        assert parts(other) == first
    assert [decision.input.role for decision in decided] == [None, None, AgentRole.MAIN, AgentRole.MAIN]
    assert [decision.abstained for decision in decided] == [()] * 4
