"""Of many tools only those the task needs are passed on, and none in use is taken away."""

import json
from typing import Any

import httpx
import pytest

from pointsman.config import Config
from pointsman.decision.policy import Policy
from pointsman.factory import build_engine
from pointsman.gateway._live_state import build_live_state
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import builtin_profile
from pointsman.upstreams.port import ServerSpec, UpstreamSpec
from pointsman.vocabulary import ModelSpec, Tier, WireFormat
from support.servers import Asked, ScriptedUpstream, gateway, reply

TOPICS = [
    "weather",
    "currency",
    "calendar",
    "email",
    "maps",
    "music",
    "recipes",
    "flights",
    "hotels",
    "stocks",
    "news",
    "sports",
]


def tool(topic: str) -> dict[str, Any]:
    function = {
        "name": f"{topic}_tool",
        "description": f"Look up {topic} for the user.",
        "x-kept": [1, {"a": "é"}],
    }
    return {"type": "function", "function": function}


TOOLS = [tool(topic) for topic in TOPICS]


async def answer(asked: Asked, send: Any) -> None:
    await reply(send, 200, b'{"object": "chat.completion", "choices": []}')


def run(*bodies: dict[str, Any]) -> list[Any]:
    """Send bodies in one session; return what arrived."""
    policy = Policy(
        profile=builtin_profile("seed"),
        models={"small": ModelSpec("small", "up", "small")},
        tier_models=dict.fromkeys(Tier, "small"),
        tools=3,
    )
    upstream = ScriptedUpstream(answer)
    with upstream.running() as url:
        spec = UpstreamSpec(name="up", base_url=f"{url}/v1", formats=frozenset(WireFormat), retries=0)
        runtime = Runtime(build_engine(policy), sessions=MemorySessions(), ledger=MemoryLedger())
        config = Config(models=dict(policy.models), upstreams={"up": spec}, server=ServerSpec(port=0))
        with gateway(build_live_state(runtime, config)) as served:
            for body in bodies:
                httpx.post(
                    f"{served.url}/v1/chat/completions", json=body, headers={"x-session-id": "one"}
                ).raise_for_status()
    return [json.loads(asked.body) for asked in upstream.asked]


def request(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "auto", "messages": list(messages), "tools": TOOLS, **more}


def names(body: Any) -> list[str]:
    return [tool["function"]["name"] for tool in body["tools"]]


WEATHER = {"role": "user", "content": "look up the weather in Oslo"}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather_tool", "arguments": "{}"}}
WORKED: list[dict[str, Any]] = [
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
]
STOCKS = {"role": "user", "content": "now look up the stocks of Acme"}


def test_the_tools_needed_are_kept_unchanged_and_stay_within_a_tool_loop() -> None:
    first, second = run(request(WEATHER), request(WEATHER, *WORKED))
    assert first["tools"] == [TOOLS[0]]  # and not two more, which nothing asked for
    assert second["tools"] == first["tools"]


@pytest.mark.parametrize(
    "text",
    [
        "Find every usage of parse_config and rename it",
        "Run the tests and fix what fails",
        "thanks",
        "look up the weather, the stocks, the hotels and the flights for Oslo",  # four, and three may be kept
    ],
)
def test_all_tools_are_passed_on_where_the_scores_do_not_separate(text: str) -> None:
    [sent] = run(request({"role": "user", "content": text}))
    assert sent["tools"] == TOOLS


def test_a_tool_that_was_called_or_is_forced_is_never_taken_away() -> None:
    forced = {"type": "function", "function": {"name": "music_tool"}}
    *_, last = run(request(WEATHER, *WORKED), request(WEATHER, *WORKED, STOCKS, tool_choice=forced))
    assert {"weather_tool", "stocks_tool", "music_tool"} <= set(names(last))
    assert len(last["tools"]) < len(TOOLS)


def test_few_tools_are_all_passed_on() -> None:
    body = {**request(WEATHER), "tools": TOOLS[:3]}
    [arrived] = run(body)
    assert arrived["tools"] == TOOLS[:3]
