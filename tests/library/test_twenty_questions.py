"""Twenty questions, asked at every door: one answer."""

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from pointsman import Pointsman
from pointsman.capabilities import CapabilityRegistry, capability
from pointsman.cli import app
from pointsman.config import load
from pointsman.decision.decision import Decision
from pointsman.factory import build_runtime
from pointsman.gateway.build import Builder
from pointsman.integrations.hooks import HookState, read_event
from pointsman.integrations.hooks.decisions import decide_event
from pointsman.orchestrator import Agent, Application
from pointsman.orchestrator.langgraph import build_graph, new_turn
from pointsman.upstreams.port import DEMO_URL
from support.servers import gateway

CONFIG = f"""
[upstreams.demo]
base_url = "{DEMO_URL}"
[models]
small = {{ upstream = "demo", id = "s", input_per_million = 0.1, output_per_million = 0.4 }}
large = {{ upstream = "demo", id = "l", input_per_million = 3.0, output_per_million = 15.0 }}
[tiers]
simple = "small"
medium = "small"
complex = "large"
reasoning = "large"
[domains]
mode = "on"
[guidance]
mode = "on"
control = 0.0
[capabilities]
file = "capabilities.json"
[ledger]
path = "ledger.sqlite"
[server]
port = 0
router_command = true
"""
CAPABILITIES: list[dict[str, Any]] = [
    {
        "name": "weather",
        "instructions": "Tells the weather",
        "examples": [{"query": "What's the weather like?"}, {"query": "Will it rain in Rome tomorrow?"}],
    },
    {
        "name": "mail",
        "instructions": "Reads and sends e-mail",
        "examples": [{"query": "Send an e-mail to Ida"}, {"query": "Write an e-mail to the office"}],
    },
]
TEXTS = [
    "hello",
    "thanks",
    "What is 2 + 2?",
    "What is the capital of Peru?",
    "What's the weather like in Oslo?",
    "Send an e-mail to Tom about the weather",
    "now fix this bug in the login function of the API",
    "Prove step by step that the algorithm terminates, and derive its complexity",
    "Write a function that sorts a list of dates",
    (
        "Design a distributed architecture, implement the database migration, optimise the API, deploy it to "
        "kubernetes and write tests for the authentication module"
    ),
    "ls -la /home/user",
    "git commit the changes and push them",
    "plan the sprint for the next two weeks",
    "investigate Acme Corporation and its owners",
    "translate 'good morning' into Spanish",
    "Explique la différence entre un processus et un fil d'exécution",
    "/caps:off What's the weather like in Oslo?",
    "/CAPS:OFF:session hello",
]
CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"c": "pytset"}'}}
FAILING: list[dict[str, Any]] = [
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "Error: command not found: pytset"},
]
CONVERSATIONS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": TEXTS[6]}, *FAILING * 4],
    [
        {"role": "user", "content": TEXTS[13]},
        {"role": "assistant", "content": "They are known."},
        {"role": "user", "content": "and what do they own? Prove it step by step"},
    ],
]
QUESTIONS: list[list[dict[str, Any]]] = [
    *([{"role": "user", "content": text}] for text in TEXTS),
    *CONVERSATIONS,
]

Answer = dict[str, Any]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("twenty")
    (folder / "capabilities.json").write_text(json.dumps(CAPABILITIES))
    written = folder / "pointsman.toml"
    written.write_text(CONFIG)
    return written


def answer(decision: Decision) -> Answer:
    tier, domains, chosen = decision.tier, decision.domains, decision.capabilities
    assert tier is not None
    assert domains is not None
    assert chosen is not None
    guidance = decision.guidance
    return {
        "tier": tier.tier,
        "score": tier.score,
        "stage": tier.stage,
        "domains": domains.signature,
        "selected": list(chosen.selected),
        "bypass": chosen.bypass,
        "fired": [each.classifier for each in guidance.firings] if guidance else [],
        "models": list(decision.chain),
        "added": [each.source for each in decision.injections],
    }


@pytest.fixture(scope="module")
def answers(file: Path) -> list[Answer]:
    """What the gateway answers over HTTP."""
    builder = Builder(partial(load, file))
    state, found = builder(), []
    with gateway(state) as running, httpx.Client(timeout=60) as client:
        for number, messages in enumerate(QUESTIONS):
            body, session = {"model": "auto", "messages": messages}, {"x-session-id": f"http-{number}"}
            sent = client.post(f"{running.url}/v1/chat/completions", json=body, headers=session)
            assert sent.status_code == 200
            decision = state.runtime.ledger.get(sent.headers["x-pointsman-decision-id"])
            assert decision is not None
            found.append(answer(decision))
    builder.close()
    return found


def only(names: str, answers: list[Answer]) -> list[Answer]:
    return [{name: each[name] for name in names.split()} for each in answers]


def test_they_are_twenty_and_not_one_question(answers: list[Answer]) -> None:
    assert len(answers) == len(QUESTIONS) == 20
    assert {each["tier"] for each in answers} == {"SIMPLE", "MEDIUM", "COMPLEX", "REASONING"}
    assert {tuple(each["selected"]) for each in answers} >= {(), ("weather",), ("weather", "mail")}
    assert answers[-2]["fired"]
    assert answers[16]["bypass"]


def test_the_library_decides_bodies_messages_and_texts_alike(file: Path, answers: list[Answer]) -> None:
    with Pointsman.from_config(file) as points:
        assert [answer(points.decide({"messages": each})) for each in QUESTIONS] == answers
        assert [answer(points.decide(each, dry_run=True)) for each in QUESTIONS] == answers
        assert [answer(points.decide(each)) for each in TEXTS] == answers[: len(TEXTS)]
        assert [answer(asyncio.run(points.decide_async(each))) for each in QUESTIONS] == answers
        assert [answer(points.explain(each).decision) for each in QUESTIONS] == answers
        wires = {"messages": "messages", "responses": "input"}
        for wire, member in wires.items():
            found = [answer(points.decide({member: QUESTIONS[n]}, format=wire)) for n in range(len(TEXTS))]
            assert found == answers[: len(TEXTS)], wire


def test_selecting_alone_selects_the_same(file: Path, answers: list[Answer]) -> None:
    with Pointsman.from_config(file) as points:
        found = [points.select(text) for text in TEXTS]
    expected = only("selected bypass", answers[: len(TEXTS)])
    assert [{"selected": list(each.selected), "bypass": each.bypass} for each in found if each] == expected
    tasks = "".join(json.dumps({"id": n, "task": text}) + "\n" for n, text in enumerate(TEXTS))
    printed = CliRunner().invoke(app, ["select", "--config", str(file)], input=tasks)
    lines = [json.loads(line) for line in printed.stdout.splitlines()]
    assert [line["selected"] for line in lines] == [each["selected"] for each in expected]


def test_classify_says_the_same(file: Path, answers: list[Answer]) -> None:
    given = [{"messages": each, "session": str(number)} for number, each in enumerate(QUESTIONS)]
    text = "".join(json.dumps(line) + "\n" for line in given)
    printed = CliRunner().invoke(app, ["classify", "--config", str(file)], input=text)
    found = [json.loads(line) for line in printed.stdout.splitlines()]
    assert [
        {
            **{name: line[name] for name in ("tier", "score", "stage")},
            "domains": line["domains"]["signature"],
            "selected": line["capabilities"].get("selected", []),
            "fired": [each["classifier"] for each in line.get("guidance", ())],
        }
        for line in found
    ] == only("tier score stage domains selected fired", answers)


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_explain_says_the_same(file: Path, answers: list[Answer], number: int) -> None:
    printed = CliRunner().invoke(app, ["explain", "--config", str(file), "--json", TEXTS[number]])
    found = json.loads(printed.stdout)
    assert {
        **{name: found["decision"][name] for name in ("tier", "score", "stage")},
        "domains": found["domains"]["signature"],
        "selected": found["capabilities"].get("selected", []),
    } == only("tier score stage domains selected", answers)[number]


def hooked(file: Path) -> Iterator[Decision]:
    """The decisions of a hook that runs once for each prompt, each in a session of its own."""
    for number, text in enumerate(TEXTS):
        runtime = build_runtime(load(file))
        event = {"session_id": f"hook-{number}", "cwd": "/w", "hook_event_name": "UserPromptSubmit"}
        data = json.dumps({**event, "prompt": text}).encode()
        decide_event(read_event(data), HookState(file.with_name("hook.sqlite")), runtime)
        [decision] = runtime.ledger.decisions(session=f"hook-{number}")
        runtime.close()
        yield decision


def test_the_hook_decides_the_same(file: Path, answers: list[Answer]) -> None:
    found = [answer(each) for each in hooked(file)]
    parts = "domains selected bypass fired"
    assert only(parts, found) == only(parts, answers[: len(TEXTS)])
    with Pointsman.from_config(file) as points:  # an agent with a hook offers tools
        tools = [{"type": "function", "function": {"name": "Bash"}}]
        asked = [answer(points.decide({"messages": QUESTIONS[n], "tools": tools})) for n in range(len(TEXTS))]
    parts = "tier score stage domains bypass fired models added"
    assert only(parts, found) == only(parts, asked)


async def work(step: Any, results: Any) -> str:
    return "done"


@pytest.mark.parametrize("kind", ["run", "graph"])
def test_a_run_and_a_graph_decide_the_same(file: Path, answers: list[Answer], kind: str) -> None:
    """``/chat`` asks without a plan: the question is the person's. A run takes its commands itself."""
    texts = [text for text in TEXTS if not text.startswith("/")]
    with Pointsman.from_config(file) as points:
        application = points.application(
            Application(CapabilityRegistry([capability("weather", "weather")(work)]))
        )
        for number, text in enumerate(texts):
            session = f"{kind}-{number}"
            if kind == "run":
                asyncio.run(Agent(application).run(f"/chat {text}", session=session))
            else:
                asyncio.run(build_graph(application).ainvoke(new_turn(f"/chat {text}", session=session)))
        ledger = points.runtime.ledger
        found = [answer(*ledger.decisions(session=f"{kind}-{number}")) for number in range(len(texts))]
    assert found == answers[: len(texts)]


def test_the_list_of_decisions_names_what_fired_and_what_was_selected(file: Path) -> None:
    with Pointsman.from_config(file) as points:
        ids = [points.decide(QUESTIONS[number], session=f"list-{number}").id for number in (4, 18, 0)]
    listed = CliRunner().invoke(app, ["decisions", "list", "--ledger", str(file.with_name("ledger.sqlite"))])
    weather, stuck, hello = (
        next(line for line in listed.stdout.splitlines() if each in line) for each in ids
    )
    assert weather.endswith(" selected:weather")
    assert " stuck:doom_loop" in stuck
    assert "stuck:" not in hello
    assert "selected:" not in hello
