"""The MCP server, by the official client library: in this process, and as the command over stdio."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp import StdioServerParameters
from mcp.client import Client
from mcp_types import TextContent

from pointsman import Pointsman
from pointsman.integrations.mcp import build_server
from pointsman.stores.ledger import SqliteLedger
from support.hosts import HARD, two_models

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def points(tmp_path: Path) -> Iterator[Pointsman]:
    with two_models(tmp_path) as points:
        yield points


def call(points: Pointsman, name: str, **arguments: Any) -> tuple[bool, Any]:
    """Call a tool: whether it failed, and its answer."""

    async def called() -> tuple[bool, Any]:
        async with Client(build_server(points)) as client:
            result = await client.call_tool(name, arguments)
            return bool(result.is_error), text_of(result)

    return asyncio.run(called())


def text_of(result: Any) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def recorded(points: Pointsman) -> int:
    points.runtime.ledger.flush()
    return len(list(points.runtime.ledger.decisions(limit=None)))


def test_only_label_says_that_it_writes(points: Pointsman) -> None:
    async def listed() -> dict[str, Any]:
        async with Client(build_server(points)) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    tools = asyncio.run(listed())
    assert {name: tool.annotations.read_only_hint for name, tool in tools.items()} == {
        "decide": True,
        "explain": True,
        "decisions": True,
        "label": False,
    }
    assert tools["label"].input_schema["required"] == ["decision"]
    assert "self" not in str(tools["decide"].input_schema["properties"])
    assert "No model is asked" in tools["decide"].description


def test_decide_and_explain_leave_no_trace(points: Pointsman) -> None:
    failed, text = call(points, "decide", text=HARD, session="mine")
    decision = json.loads(text)
    assert (failed, decision["tier"]["tier"], decision["id"], decision["chain"]) == (
        False,
        "REASONING",
        "",
        ["large"],
    )
    body = {"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": HARD}]}
    decided = json.loads(call(points, "decide", body=body, format="messages")[1])
    assert decided["input"]["format"] == "messages"
    explained = json.loads(call(points, "explain", text=HARD)[1])
    assert explained["text"] == HARD
    assert explained["contributions"]
    assert explained["served"]["model"] == "large"
    assert recorded(points) == 0
    assert points.runtime.sessions.get("mine") is None


def test_decisions_are_listed_shown_and_labelled(points: Pointsman) -> None:
    ids = [points.decide(text, session="s").id for text in ("Hello!", HARD)]
    listed = json.loads(call(points, "decisions")[1])
    assert [each["id"] for each in listed] == ids[::-1]
    assert [each["tier"] for each in listed] == ["REASONING", "SIMPLE"]
    assert len(json.loads(call(points, "decisions", limit=1, session="s")[1])) == 1
    assert json.loads(call(points, "decisions", session="another")[1]) == []
    assert call(points, "label", decision=ids[0], score=1, label="good") == (
        False,
        json.dumps({"recorded": ids[0]}, separators=(",", ":")),
    )
    shown = json.loads(call(points, "decisions", id=ids[0])[1])
    assert shown["decision"]["id"] == ids[0]
    assert [(each["score"], each["label"]) for each in shown["outcomes"]] == [(1.0, "good")]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("decide", {}, 'give either "text" or "body"'),
        ("decide", {"text": "x", "body": {}}, 'give either "text" or "body"'),
        ("decide", {"text": 1}, "valid string"),
        ("decide", {"body": {"messages": "x"}}, "`$.messages`"),
        ("explain", {"body": {"model": "nobody's", "messages": []}}, "nobody's"),
        ("decide", {"text": "x", "format": "grpc"}, "'chat', 'responses' or 'messages'"),
        ("decisions", {"id": "d-none"}, 'there is no decision "d-none"; decisions without an id lists them'),
        ("decisions", {"limit": 1_000}, "less than or equal to 100"),
        ("label", {"decision": "d-none", "score": 1}, 'there is no decision "d-none"'),
        ("label", {"decision": "d-none", "score": 2}, "less than or equal to 1"),
        ("label", {"decision": "d-none"}, 'needs a "score" or a "label"'),
    ],
)
def test_what_is_wrong_is_said(points: Pointsman, name: str, arguments: dict[str, Any], message: str) -> None:
    failed, text = call(points, name, **arguments)
    assert failed
    assert message in text
    assert recorded(points) == 0


@pytest.mark.slow
def test_the_command_serves_over_stdio(tmp_path: Path) -> None:
    with two_models(tmp_path) as points:
        decision = points.decide(HARD).id
    program = ["-m", "pointsman", "mcp", "--config", str(tmp_path / "pointsman.toml")]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    server = StdioServerParameters(command=sys.executable, args=program, env=environment)

    async def talk() -> list[Any]:
        async with Client(server) as client:
            said = [await client.call_tool("decide", {"text": "Hello!"})]
            said.append(await client.call_tool("decisions", {}))
            said.append(await client.call_tool("label", {"decision": decision, "score": 0.5}))
            return said

    decided, listed, labelled = asyncio.run(talk())
    assert json.loads(text_of(decided))["tier"]["tier"] == "SIMPLE"
    assert [each["id"] for each in json.loads(text_of(listed))] == [decision]
    assert not labelled.is_error
    with closing(SqliteLedger(tmp_path / "ledger.sqlite")) as ledger:
        assert [each.score for each in ledger.outcomes(decision)] == [0.5]
