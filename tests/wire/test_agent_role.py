"""Who within an agent sends a request, from requests of real agents cut short."""

from typing import Any

import msgspec
import pytest

from pointsman.vocabulary import AgentRole, WireFormat
from pointsman.wire import WIRES
from pointsman.wire.agent_role import read_role
from pointsman.wire.body import Body
from pointsman.wire.request import read_request

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES
MAIN, HELPER, SUBAGENT = AgentRole.MAIN, AgentRole.HELPER, AgentRole.SUBAGENT
TOOL = {"name": "Bash", "input_schema": {"type": "object"}}
BILLED = "x-anthropic-billing-header: cc_version=2.1.197.123; cc_entrypoint=sdk-cli;"
SDK = "You are a Claude agent, built on Anthropic's Claude Agent SDK."
TITLE = "Generate a concise, sentence-case title (3-7 words) that captures the main topic"
CLAUDE = {b"x-claude-code-session-id": b"d98b0282"}


def role(
    wire: WireFormat, headers: dict[bytes, bytes], system: str = "", **more: Any
) -> tuple[AgentRole | None, str]:
    said = [{"role": "user", "content": "x-parent-session-id cc_is_subagent=true You are a title generator."}]
    given: dict[str, Any] = {"model": "m", "messages": said, **more}
    if wire is RESPONSES:
        given["input"] = given.pop("messages")
        given["instructions"] = system
    elif wire is MESSAGES:
        given["system"] = [{"type": "text", "text": text} for text in system.split("\n")]
    elif system:
        given["messages"] = [{"role": "system", "content": system}, *said]
    body = Body(WIRES[wire], msgspec.json.encode(given))
    return read_role(headers, read_request(wire, body), body, is_agent=bool(headers))


@pytest.mark.parametrize(
    ("wire", "headers", "system", "more", "expected"),
    [
        # Claude Code: main, title, sub-agent by header, sub-agent by its system prompt
        (MESSAGES, CLAUDE, f"{BILLED}\n{SDK}\nYou are", {"tools": [TOOL], "max_tokens": 64_000}, MAIN),
        (MESSAGES, CLAUDE, f"{BILLED}\n{SDK}\n{TITLE}", {"tools": [], "max_tokens": 64_000}, HELPER),
        (MESSAGES, CLAUDE | {b"x-claude-code-agent-id": b"a57"}, "", {"tools": [TOOL]}, SUBAGENT),
        (MESSAGES, CLAUDE, f"{BILLED} cc_is_subagent=true;\n{SDK}", {"tools": [TOOL]}, SUBAGENT),
        (MESSAGES, CLAUDE, SDK, {"max_tokens": 512}, HELPER),
        # near misses
        (MESSAGES, CLAUDE, SDK, {"max_tokens": 512, "tools": [TOOL]}, MAIN),
        (MESSAGES, CLAUDE, SDK, {"max_tokens": 1_025}, MAIN),
        (MESSAGES, CLAUDE, SDK, {}, MAIN),
        (MESSAGES, CLAUDE, f"{SDK}\ncc_is_subagent=true", {}, MAIN),
        (MESSAGES, CLAUDE, f"{BILLED}\ncc_is_subagent=true", {}, MAIN),
        (MESSAGES, CLAUDE, "x" * 400 + TITLE, {}, MAIN),
        (MESSAGES, CLAUDE, TITLE, {"tools": [TOOL]}, MAIN),
        # opencode
        (CHAT, {b"x-session-affinity": b"s"}, "You are a title generator. You output ONLY", {}, HELPER),
        (CHAT, {b"x-session-affinity": b"s", b"x-parent-session-id": b"p"}, "", {}, SUBAGENT),
        # Codex: no limit of output, and its tools stand in the input
        (RESPONSES, {b"session-id": b"s"}, "", {}, MAIN),
        (RESPONSES, {b"session-id": b"s", b"x-openai-subagent": b"review"}, "", {}, SUBAGENT),
        (RESPONSES, {b"thread-id": b"t", b"x-codex-parent-thread-id": b"p"}, "", {}, SUBAGENT),
        (RESPONSES, {b"session-id": b"s"}, "", {"max_output_tokens": 16}, HELPER),
        # an SDK: nothing tells, however small
        (CHAT, {}, "", {"max_tokens": 1}, None),
        (CHAT, {}, "", {"max_completion_tokens": 1}, None),
        # a limit that is no count is nobody's
        (CHAT, {b"thread-id": b"t"}, "", {"max_tokens": "12"}, MAIN),
        (CHAT, {b"thread-id": b"t"}, "", {"max_tokens": -1}, MAIN),
        (CHAT, {b"thread-id": b"t"}, "", {"max_tokens": None}, MAIN),
    ],
)
def test_roles(
    wire: WireFormat,
    headers: dict[bytes, bytes],
    system: str,
    more: dict[str, Any],
    expected: AgentRole | None,
) -> None:
    found, mark = role(wire, headers, system, **more)
    assert found is expected
    assert bool(mark) == (expected in {HELPER, SUBAGENT})
