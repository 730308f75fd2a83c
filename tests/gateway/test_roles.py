"""What the gateway reads of an agent's request beside its words: role, purpose, project and client."""

import asyncio
from typing import Any

import msgspec
import pytest

from pointsman.gateway._conversation_memory import ConversationMemory
from pointsman.gateway._reading import read_turn
from pointsman.vocabulary import AgentRequest, AgentRole, Purpose, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.body import Body

CLAUDE = {b"x-claude-code-session-id": b"s1", b"user-agent": b"claude-cli/2.1.197 (external)"}
TOOL = {"name": "Bash", "input_schema": {"type": "object"}}
AT = "# Environment\n - Primary working directory: /home/a/shop\n"


def read(
    headers: dict[bytes, bytes],
    system: str = "",
    *,
    wire: WireFormat = WireFormat.MESSAGES,
    caller: str = "",
    **more: Any,
) -> AgentRequest:
    said = [{"role": "user", "content": "Do it"}]
    given: dict[str, Any] = {"model": "auto", "messages": said, **more}
    if wire is WireFormat.MESSAGES:
        given["system"] = system
    elif system:
        given["messages"] = [{"role": "system", "content": system}, *said]
    body = Body(FORMATS[wire], msgspec.json.encode(given))
    return asyncio.run(read_turn(headers, body, ConversationMemory(), caller=caller))[0]


def test_an_agents_request_has_all_four() -> None:
    found = read(CLAUDE, AT, tools=[TOOL])
    assert (found.role, found.purpose, found.client) == (AgentRole.MAIN, Purpose.MESSAGE, "claude-cli")
    assert found.project.startswith("p-")
    assert found.session == "s1"


def test_callers_are_apart_and_programs_in_one_directory_are_not() -> None:
    mine, theirs = read(CLAUDE, AT, caller="a"), read(CLAUDE, AT, caller="b")
    assert mine.project != theirs.project
    opencode = {b"x-session-affinity": b"s2", b"user-agent": b"opencode/1.18"}
    assert read(opencode, AT, caller="a").project == mine.project


@pytest.mark.parametrize(
    ("system", "more", "role", "project"),
    [
        ("You are helpful.", {}, None, "c-"),
        ("You are helpful.", {"tools": [TOOL]}, None, "c-"),
        (AT, {"tools": [TOOL]}, None, "c-"),  # no agent that is known: its words name no project
        ("You are Cline, an agent.\n4. Working Directory: /w\n", {"tools": [TOOL]}, AgentRole.MAIN, "p-"),
        ("Act as an expert software developer.", {}, AgentRole.MAIN, "c-"),
    ],
)  # fmt: skip
def test_programs_without_a_session(
    system: str, more: dict[str, Any], role: AgentRole | None, project: str
) -> None:
    found = read({b"user-agent": b"OpenAI/Python 2.0"}, system, wire=WireFormat.CHAT, **more)
    assert found.role is role
    assert found.project.startswith(project)
    assert found.session.startswith("f-")


def test_nobody_knows_a_caller_that_says_nothing() -> None:
    found = read({}, wire=WireFormat.CHAT)
    assert (found.role, found.purpose, found.project, found.client) == (None, None, "", "")
