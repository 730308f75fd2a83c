"""What the engine remembers about tools between the requests of one session."""

from collections.abc import Sequence

from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive, no_model
from pointsman.factory import build_engine
from pointsman.tiers import builtin_profile
from pointsman.vocabulary import ModelSpec, Tier, WireFormat
from pointsman.wire.request import read_request

TOOLS = {"get_weather": "Forecast of a city", "send_mail": "Send an e-mail", "run_shell": "Run a command"}
OFFERED = [{"type": "function", "function": {"name": n, "description": t}} for n, t in TOOLS.items()]
ASKED = {"role": "user", "content": "the weather forecast of a city: Rome"}


def called(tool: str) -> list[dict[str, object]]:
    made = {"id": tool, "type": "function", "function": {"name": tool, "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": tool, "content": "done"},
    ]


def refused(*requests: Sequence[object]) -> list[tuple[str, ...]]:
    """Of each request of one session, the tools called since the last one without being offered."""
    policy = Policy(
        profile=builtin_profile("seed"),
        models={"small": ModelSpec("small", "up", "small")},
        tier_models=dict.fromkeys(Tier, "small"),
        tools=1,
    )
    engine, memory, said = build_engine(policy), Memory(), []
    for messages in requests:
        agent_request = read_request(
            WireFormat.CHAT, {"model": "auto", "messages": messages, "tools": OFFERED}
        )
        decided = drive(engine.decide(agent_request, memory, "d"), no_model)
        memory = decided.memory
        part = decided.decision.capabilities
        assert part is not None
        assert part.tools is not None
        said.append(part.tools.refused)
    return said


def test_a_tool_called_without_being_offered_is_named_once() -> None:
    once, twice = [ASKED, *called("send_mail")], [ASKED, *called("send_mail"), *called("get_weather")]
    assert refused([ASKED], once, twice) == [(), ("send_mail",), ()]


def test_a_shortened_history_is_read_from_its_beginning() -> None:
    long = [ASKED, *called("get_weather"), *called("get_weather")]
    assert refused([ASKED], long, [ASKED, *called("run_shell")]) == [(), (), ("run_shell",)]
