"""One request, asked at the gateway and in the library: one decision with all four parts."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pointsman import Decision, Pointsman
from pointsman.config import load
from pointsman.gateway.build import Builder
from pointsman.stores.ledger import SqliteLedger
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS
from support.requests_by_format import PATHS, answer, format_of, post
from support.servers import Asked, ScriptedUpstream, gateway, reply

FAILED = "Error: command not found: pytset"
TOOLS = ("bash", "read_file", "search_web", "send_mail")
CONFIG = """
[upstreams.main]
base_url = "{url}/v1"

[models]
small = {{ upstream = "main", id = "small-1", input_per_million = 0.1, output_per_million = 0.4 }}
large = {{ upstream = "main", id = "large-3", input_per_million = 3.0, output_per_million = 15.0 }}

[tiers]
simple = "small"
complex = {{ model = "large", temperature = 0.2 }}

[guidance]
mode = "on"
control = 0.0

[domains]
mode = "on"

[capabilities]
tools = 2
strategy = "local"

[server]
port = 0

[ledger]
path = "{name}.sqlite"
"""


def items(wire: WireFormat, calls: int) -> list[Any]:
    """A person who asks for a fix, and an agent that fails at it the same way each time."""
    said: list[Any] = [{"role": "user", "content": "fix this bug in the login function, then run the tests"}]
    for number in range(calls):
        name, arguments = f"c{number}", '{"c": "pytset"}'
        if wire is WireFormat.CHAT:
            function = {"id": name, "type": "function", "function": {"name": "bash", "arguments": arguments}}
            said += [
                {"role": "assistant", "content": None, "tool_calls": [function]},
                {"role": "tool", "tool_call_id": name, "content": FAILED},
            ]
        elif wire is WireFormat.RESPONSES:
            said += [
                {"type": "function_call", "call_id": name, "name": "bash", "arguments": arguments},
                {"type": "function_call_output", "call_id": name, "output": FAILED},
            ]
        else:
            use = {"type": "tool_use", "id": name, "name": "bash", "input": json.loads(arguments)}
            back = {"type": "tool_result", "tool_use_id": name, "content": FAILED, "is_error": True}
            said += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [back]}]
    return said


def tools(wire: WireFormat) -> list[Any]:
    schema = {"type": "object", "properties": {}}
    named = [{"name": name, "description": name.replace("_", " ")} for name in TOOLS]
    if wire is WireFormat.CHAT:
        return [{"type": "function", "function": {**each, "parameters": schema}} for each in named]
    if wire is WireFormat.RESPONSES:
        return [{"type": "function", **each, "parameters": schema} for each in named]
    return [{**each, "input_schema": schema} for each in named]


def requests(wire: WireFormat) -> list[dict[str, Any]]:
    """An agent's first four requests: with the last it counts as stuck."""
    common = {"model": "auto", "tools": tools(wire)} | (
        {"max_tokens": 100} if wire is WireFormat.MESSAGES else {}
    )
    return [{**common, FORMATS[wire].items: items(wire, calls)} for calls in range(4)]


def configured(directory: Path, name: str, url: str = "http://127.0.0.1:1") -> Path:
    file = directory / f"{name}.toml"
    file.write_text(CONFIG.format(url=url, name=name))
    return file


def at_the_gateway(directory: Path, wire: WireFormat) -> list[Decision]:
    async def serve(asked: Asked, send: Any) -> None:
        await reply(send, 200, answer(format_of(asked.path)))

    upstream = ScriptedUpstream(serve)
    with upstream.running() as url:
        file = configured(directory, "gateway", f"{url}")
        builder = Builder(lambda: load(file))
        with gateway(builder()) as running:
            for asked in requests(wire):
                got = post(running.url + PATHS[wire], json=asked, headers={"x-session-id": "one"})
                assert got.status_code == 200, got.text
        builder.close()
    ledger = SqliteLedger(directory / "gateway.sqlite")
    try:
        return list(ledger.decisions())
    finally:
        ledger.close()


def in_the_library(directory: Path, wire: WireFormat) -> list[Decision]:
    with Pointsman.from_config(configured(directory, "library")) as pointsman:
        for asked in requests(wire):
            pointsman.decide(asked, format=wire, session="one")
        return list(pointsman.runtime.ledger.decisions())


def decided(decision: Decision) -> dict[str, Any]:
    """A decision without what differs each time: its id, the time of day, the time it took, the bytes by
    which two encoders of JSON differ, and what headers alone say: the client, and its project.
    """
    plain: dict[str, Any] = msgspec.to_builtins(decision)
    for name in ("id", "elapsed_us"):
        plain.pop(name)
    for name in ("arrived_at", "size", "steps", "client", "project"):
        plain["input"].pop(name, None)
    return plain


@pytest.mark.parametrize("wire", WireFormat)
def test_the_gateway_and_the_library_decide_alike(tmp_path: Path, wire: WireFormat) -> None:
    one, other = at_the_gateway(tmp_path, wire), in_the_library(tmp_path, wire)
    assert len(one) == len(other) == 4
    for gatewayed, asked in zip(one, other, strict=True):
        assert decided(gatewayed) == decided(asked)
    last = max(one, key=lambda each: each.input.messages)
    assert last.tier is not None
    assert last.chain
    assert last.domains is not None
    assert "bugfix" in last.domains.signature
    assert last.guidance is not None
    assert last.guidance.firing is not None
    assert last.capabilities is not None
    assert last.capabilities.tools is not None
    assert "bash" in last.capabilities.tools.kept
