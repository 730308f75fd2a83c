"""One message at the gateway, in the library, in a run, in LangGraph and in a hook: one decision."""

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
from pointsman.factory import build_runtime
from pointsman.gateway.build import Builder
from pointsman.integrations.hooks import HookState, read_event
from pointsman.integrations.hooks.decisions import decide_event
from pointsman.orchestrator import Agent, Application
from pointsman.orchestrator.langgraph import build_graph, new_turn
from pointsman.stores.ledger import Ledger
from pointsman.upstreams.port import DEMO_URL
from pointsman.vocabulary import AgentRole, WireFormat
from pointsman.wire.items import mark
from support.requests_by_format import answer, post
from support.servers import Asked, ScriptedUpstream, gateway, reply

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


#: What the agent of a hook always offers.
TOOLS = [{"type": "function", "function": {"name": "Bash", "parameters": {"type": "object"}}}]


def at_the_gateway(file: Path, said: str, **more: Any) -> Decision:
    builder = Builder(partial(load, file))
    state = builder()
    with gateway(state) as running:
        body = {"model": "auto", "messages": [{"role": "user", "content": said}], **more}
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


def in_order(ledger: Ledger, session: str) -> list[Decision]:
    return sorted(ledger.decisions(session=session), key=lambda each: each.input.messages)


def in_the_hook(file: Path, *events: dict[str, Any]) -> tuple[list[Decision], list[Any]]:
    """The decisions and answers of a hook that runs once for each event, as Claude Code starts it."""
    answers: list[Any] = []
    for event in events:
        runtime = build_runtime(load(file))  # each event is a process of its own
        data = json.dumps({"session_id": "hook", "cwd": "/w", **event}).encode()
        answers.append(decide_event(read_event(data), HookState(file.with_name("hook.sqlite")), runtime))
        runtime.close()
    runtime = build_runtime(load(file))
    decided = in_order(runtime.ledger, "hook")
    runtime.close()
    return decided, answers


def prompt(said: str) -> dict[str, Any]:
    return {"hook_event_name": "UserPromptSubmit", "prompt": said}


def parts(decision: Decision) -> dict[str, Any]:
    """The policy, the four parts, and what follows from them."""
    names = ("policy", "tier", "domains", "guidance", "capabilities", "chain", "injections", "refused")
    return {name: getattr(decision, name) for name in names}


def without_tools(decision: Decision) -> dict[str, Any]:
    """The parts but for what an agent offers: it is scored too, and an event of a hook does not name it."""
    assert decision.capabilities is not None
    return {**parts(decision), "capabilities": set(decision.capabilities.selected) - {"Bash"}}


@pytest.mark.parametrize("said", MESSAGES)
def test_one_message_gets_one_decision_wherever_it_is_asked(file: Path, said: str) -> None:
    decided = [ask(file, said) for ask in (at_the_gateway, in_the_library, in_a_run, in_a_graph)]
    first = parts(decided[0])
    assert all(first[name] is not None for name in ("tier", "domains", "guidance", "capabilities"))
    for other in decided[1:]:
        assert parts(other) == first
    assert [decision.input.role for decision in decided] == [None, None, *[AgentRole.MAIN] * 2]
    assert [decision.abstained for decision in decided] == [()] * 4


@pytest.mark.parametrize("said", MESSAGES)
def test_a_hook_decides_as_the_gateway_decides_a_request_with_tools(file: Path, said: str) -> None:
    asked = at_the_gateway(file, said, tools=TOOLS)
    [hooked], [answer] = in_the_hook(file, prompt(said))
    assert without_tools(hooked) == without_tools(asked)
    assert hooked.tier is not None
    assert "tiers.tools" in {reason.code for reason in hooked.tier.reasons}
    assert hooked.input.role is AgentRole.MAIN
    assert hooked.abstained == ()
    told = "\n\n".join(mark(each.source, each.text) for each in hooked.injections)
    expected = {"hookEventName": "UserPromptSubmit", "additionalContext": told}
    assert answer == ({"hookSpecificOutput": expected} if told else None)


FAILED = "Exit code 1\nno such file"


def turn(number: int) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": f"cat {number}"}}
    back = {"type": "tool_result", "tool_use_id": f"t{number}", "content": FAILED, "is_error": True}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [back]}]


def failure(number: int) -> dict[str, Any]:
    call = {"tool_name": "Bash", "tool_input": {"command": f"cat {number}"}, "tool_use_id": f"t{number}"}
    return {"hook_event_name": "PostToolUseFailure", **call, "error": FAILED, "is_interrupt": False}


def test_the_hook_decides_the_events_of_a_run_as_the_gateway_decides_its_requests(file: Path) -> None:
    said: list[Any] = [{"role": "user", "content": MESSAGES[1]}]
    requests = [[*said, *(each for done in range(count) for each in turn(done))] for count in range(4)]
    then = [{"role": "assistant", "content": "Done."}, {"role": "user", "content": MESSAGES[2]}]
    requests.append([*requests[-1], *then])
    with Pointsman.from_config(file) as pointsman:
        for each in requests:
            body = {"messages": each, "max_tokens": 9, "tools": [{"name": "Bash", "input_schema": {}}]}
            pointsman.decide(body, format="messages", session="requests")
        asked = in_order(pointsman.runtime.ledger, "requests")
    events = [prompt(MESSAGES[1]), *map(failure, range(3)), prompt(MESSAGES[2])]
    hooked, answers = in_the_hook(file, *events)
    assert [without_tools(each) for each in hooked] == [without_tools(each) for each in asked]
    assert [each.input.event for each in hooked] == [event["hook_event_name"] for event in events]
    assert [each.input.user_message for each in hooked] == [1, 1, 1, 1, 2]
    assert [each.abstained for each in hooked] == [()] * 5
    assert [bool(each.guidance and each.guidance.firing) for each in hooked] == [False] * 3 + [True, False]
    assert [[each.source for each in one.injections] for one in asked] == [
        ["domains"],
        [],
        [],
        ["guidance"],
        [],
    ]
    assert [bool(each) for each in answers] == [True, False, False, True, False]


def test_a_text_that_is_said_again_is_a_new_message() -> None:
    """Test 10 of docs/sources/compound-domains.md as it is written: three times the same words."""
    with Pointsman() as pointsman:
        same = [pointsman.decide("investigate Acme Corporation", session="s") for _ in range(3)]
        after = pointsman.decide("ls -la", session="s")
        body = {"messages": [{"role": "user", "content": "investigate Acme Corporation"}]}
        resent = [pointsman.decide(body, session="b") for _ in range(3)]
    assert [each.domains.momentum for each in same if each.domains] == [1, 2, 3]
    assert [each.input.user_message for each in same] == [1, 2, 3]
    assert after.domains is not None
    assert (after.domains.rule, after.domains.signature) == ("R1a", "investigation")
    assert [each.input.user_message for each in resent] == [1, 1, 1]


def test_the_text_of_a_domain_is_in_a_conversation_once(file: Path) -> None:
    """Through the gateway: 24 messages of one investigation, and one of another kind."""
    seen: list[bytes] = []

    async def serve(asked: Asked, send: Any) -> None:
        seen.append(asked.body)
        await reply(send, 200, answer(WireFormat.CHAT))

    with ScriptedUpstream(serve).running() as url:
        file.write_text(file.read_text().replace(f'"{DEMO_URL}"', f'"{url}/v1"'))
        builder = Builder(partial(load, file))
        messages: list[dict[str, str]] = []
        with gateway(builder()) as running:
            said = [f"investigate the owners of company {number}" for number in range(24)]
            for text in [*said, "now let's fix this bug in the login function"]:
                messages += [{"role": "user", "content": text}]
                post(f"{running.url}/v1/chat/completions", json={"model": "auto", "messages": messages})
                messages += [{"role": "assistant", "content": "noted"}]
        builder.close()
    assert [body.count(b"Domain: investigation") for body in seen] == [1] * 25
    assert seen[-1].count(b"Domain: bugfix") == 1
