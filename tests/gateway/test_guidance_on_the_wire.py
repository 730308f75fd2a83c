"""A stuck agent is told so once, in its own format, at the end of what the model sees."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from pointsman.config import Config
from pointsman.decision.policy import Policy
from pointsman.factory import build_engine
from pointsman.gateway._live_state import LiveState, build_live_state
from pointsman.guidance import GuidancePolicy
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import EscalationPolicy, builtin_profile
from pointsman.upstreams.port import ServerSpec, UpstreamSpec
from pointsman.vocabulary import Mode, ModelSpec, Tier, WireFormat
from support.servers import Asked, ScriptedUpstream, gateway, reply

FAILED = "Error: command not found: pytset"


def chat(calls: int) -> list[Any]:
    items: list[Any] = [{"role": "user", "content": "run the tests"}]
    for n in range(calls):
        call = {
            "id": f"c{n}",
            "type": "function",
            "function": {"name": "bash", "arguments": '{"c": "pytset"}'},
        }
        items += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": FAILED},
        ]
    return items


def responses(calls: int) -> list[Any]:
    items: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "run the tests"}]}]
    for n in range(calls):
        items += [
            {"type": "function_call", "call_id": f"c{n}", "name": "bash", "arguments": '{"c": "pytset"}'},
            {"type": "function_call_output", "call_id": f"c{n}", "output": FAILED},
        ]
    return items


def messages(calls: int) -> list[Any]:
    items: list[Any] = [{"role": "user", "content": "run the tests"}]
    for n in range(calls):
        use = {"type": "tool_use", "id": f"c{n}", "name": "bash", "input": {"c": "pytset"}}
        result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": FAILED, "is_error": True}
        items += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return items


FORMATS: list[tuple[str, str, Callable[[int], list[Any]]]] = [
    ("/v1/chat/completions", "messages", chat),
    ("/v1/responses", "input", responses),
    ("/v1/messages", "messages", messages),
]


def state(url: str, guidance: GuidancePolicy, escalation: EscalationPolicy | None = None) -> LiveState:
    upstream = UpstreamSpec(name="up", base_url=url, formats=frozenset(WireFormat), retries=0)
    models = {name: ModelSpec(name, "up", name) for name in ("small", "large")}
    tier_models = {Tier.SIMPLE: "small", Tier.MEDIUM: "small", Tier.COMPLEX: "large", Tier.REASONING: "large"}
    policy = Policy(
        profile=builtin_profile("seed"),
        models=models,
        tier_models=tier_models,
        guidance=guidance,
        escalation=escalation,
    )
    runtime = Runtime(build_engine(policy), sessions=MemorySessions(), ledger=MemoryLedger())
    return build_live_state(
        runtime, Config(models=models, upstreams={"up": upstream}, server=ServerSpec(port=0))
    )


async def answer(asked: Asked, send: Any) -> None:
    await reply(send, 200, b'{"object": "whatever", "choices": [], "content": [], "output": []}')


def run(
    path: str, field: str, history: Callable[[int], list[Any]], guidance: GuidancePolicy, calls: int
) -> list[tuple[bytes, bytes]]:
    """Resend a growing history after every failing call; return what was sent and what arrived."""
    upstream = ScriptedUpstream(answer)
    sent = []
    with upstream.running() as url, gateway(state(f"{url}/v1", guidance)) as served, httpx.Client() as client:
        for n in range(calls + 1):
            body = json.dumps({"model": "auto", field: history(n), "max_tokens": 10}).encode()
            headers = {"content-type": "application/json", "x-session-id": "one"}
            assert client.post(served.url + path, content=body, headers=headers).status_code == 200
            sent.append(body)
    return [(body, asked.body) for body, asked in zip(sent, upstream.asked, strict=True)]


def with_model(body: bytes, model: bytes = b"small") -> bytes:
    return body.replace(b'"auto"', b'"%s"' % model)


@pytest.mark.parametrize(("path", "field", "history"), FORMATS, ids=["chat", "responses", "messages"])
def test_the_hint_comes_once_per_streak_at_the_end_and_stays_there(
    path: str, field: str, history: Callable[[int], list[Any]]
) -> None:
    guidance = GuidancePolicy(mode=Mode.ON, escalate=())
    exchanged = run(path, field, history, guidance, calls=6)
    changed = [n for n, (sent, arrived) in enumerate(exchanged) if arrived != with_model(sent)]
    assert changed == [3, 4, 5, 6]
    assert {arrived.count(b"<pointsman") for _, arrived in exchanged[3:]} == {1}
    sent, arrived = exchanged[3]
    assert b"bash" in arrived[arrived.index(b"<pointsman") :]
    # Everything up to the last message has its bytes: the provider's prompt cache stays warm.
    last = json.dumps(history(3)[-1]).encode()
    before = with_model(sent)[: with_model(sent).rindex(last)]
    assert arrived.startswith(before)
    assert json.loads(arrived)["max_tokens"] == 10


@pytest.mark.parametrize(("path", "field", "history"), FORMATS, ids=["chat", "responses", "messages"])
def test_observing_changes_no_byte(path: str, field: str, history: Callable[[int], list[Any]]) -> None:
    for sent, arrived in run(path, field, history, GuidancePolicy(mode=Mode.OBSERVE), calls=4):
        assert arrived == with_model(sent)


def test_a_control_session_is_decided_and_withheld() -> None:
    for sent, arrived in run(*FORMATS[0], GuidancePolicy(mode=Mode.ON, control=1.0), calls=4):
        assert arrived == with_model(sent)


def test_an_agent_that_stays_stuck_gets_a_higher_tier_when_configured() -> None:
    guidance = GuidancePolicy(mode=Mode.ON, escalate=("raise_tier",), escalate_after=1)
    exchanged = run(*FORMATS[0], guidance, calls=6)
    models = [json.loads(arrived)["model"] for _, arrived in exchanged]
    assert models[:4] == ["small"] * 4
    assert models[-1] == "large"
