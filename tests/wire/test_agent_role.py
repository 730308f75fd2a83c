"""Who within an agent sends a request, from requests of real agents cut short."""
# ruff: noqa: E501 - a table with one request a line

from typing import Any

import msgspec
import pytest

from pointsman.vocabulary import AgentRole, Purpose, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.agent_role import RequestRole, read_role
from pointsman.wire.body import Body
from pointsman.wire.clients import CLIENTS
from pointsman.wire.request import read_request

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES
MAIN, HELPER, SUBAGENT = AgentRole.MAIN, AgentRole.HELPER, AgentRole.SUBAGENT
TOOL = {"name": "Bash", "input_schema": {"type": "object"}}
BILLED = "x-anthropic-billing-header: cc_version=2.1.197.123; cc_entrypoint=sdk-cli;"
SDK = "You are a Claude agent, built on Anthropic's Claude Agent SDK."
TITLE = "Generate a concise, sentence-case title (3-7 words) that captures the main topic"
FORGED = "x-parent-session-id cc_is_subagent=true You are a title generator."
CLAUDE = {b"x-claude-code-session-id": b"d98b0282"}


def role(
    wire: WireFormat, headers: dict[bytes, bytes], system: str = "", said: Any = None, **more: Any
) -> RequestRole:
    said = said or [{"role": "user", "content": FORGED}]
    given: dict[str, Any] = {"model": "m", "messages": said, **more}
    if wire is RESPONSES:
        given["input"] = given.pop("messages")
        given["instructions"] = system
    elif wire is MESSAGES:
        given["system"] = [{"type": "text", "text": text} for text in system.split("\n")]
    elif system:
        given["messages"] = [{"role": "system", "content": system}, *said]
    body = Body(FORMATS[wire], msgspec.json.encode(given))
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
    found = role(wire, headers, system, **more)
    assert found.role is expected
    assert bool(found.mark) == (expected in {HELPER, SUBAGENT})


OPENCODE = {b"x-session-affinity": b"s"}
CODEX = {b"session-id": b"s"}
METADATA = b"x-codex-turn-metadata"
CALL = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."}  # fmt: skip
PLANNING = "<system-reminder>\nPlan mode is active. The user indicated that"


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": text} for text in texts]}]


def after_a_call(*more: dict[str, Any]) -> list[dict[str, Any]]:
    return [*said("Do it"), {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT, *more]}]  # fmt: skip


@pytest.mark.parametrize(
    ("wire", "headers", "system", "more", "expected"),
    [
        # Claude Code
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": said("Do it")}, "main message"),
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": after_a_call()}, "main tool_iteration"),
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": after_a_call(*said("x")[0]["content"])}, "main tool_iteration"),
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": after_a_call(*said("Go on", "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.")[0]["content"])}, "helper compaction"),
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": after_a_call(*said(PLANNING)[0]["content"])}, "main tool_iteration"),
        (MESSAGES, CLAUDE, f"{SDK}\n{TITLE}", {}, "helper title"),
        (MESSAGES, CLAUDE, "", {"said": said("You are coming up with a succinct title and git branch name for")}, "helper title"),
        (MESSAGES, CLAUDE, f"{BILLED}\nYou are Claude Code.\nYou are naming a coding session so", {"max_tokens": 128_000}, "helper title"),
        (MESSAGES, CLAUDE, "You are evaluating a stop-condition hook in Claude Code.", {"tools": [TOOL]}, "helper check"),
        (MESSAGES, CLAUDE, "You are a date/time parser that converts natural language", {}, "helper side"),
        (MESSAGES, CLAUDE, "Analyze if this message indicates a new conversation topic.", {}, "helper topic"),
        (MESSAGES, CLAUDE, "Write a short summary label describing what these tool calls accomplished.", {}, "helper summary"),
        (MESSAGES, CLAUDE, "", {"said": said("\nWeb page content:\n---\nx")}, "helper summary"),
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": said("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n")}, "helper compaction"),
        (MESSAGES, CLAUDE, "You are a helpful AI assistant tasked with summarizing conversations.", {"tools": [TOOL]}, "helper compaction"),
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": said("[SUGGESTION MODE: Suggest what")}, "helper side"),
        (MESSAGES, CLAUDE, "You are a security monitor for autonomous AI coding agents.", {"max_tokens": 64}, "helper check"),
        (MESSAGES, CLAUDE, "", {"said": [{"role": "user", "content": "quota"}], "max_tokens": 1}, "helper probe"),
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": said(PLANNING, "Do it")}, "main plan"),
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": [*said("Do it"), {"role": "system", "content": "x" * 9_000 + "Plan mode is active. The user indicated"}]}, "main plan"),
        (MESSAGES, CLAUDE | {b"x-claude-code-agent-id": b"a"}, f"{SDK}\nYou are a software architect and planning specialist for Claude Code.", {"tools": [TOOL]}, "subagent plan"),
        (MESSAGES, CLAUDE | {b"x-claude-code-agent-id": b"a"}, SDK, {"tools": [TOOL], "said": after_a_call()}, "subagent tool_iteration"),
        # near misses: what a tool returned, what stands later in a text, what another role says
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": said("Why does it say CRITICAL: Respond with TEXT ONLY?")}, "main message"),
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": said("What is my quota?")}, "main message"),
        (MESSAGES, CLAUDE, SDK, {"tools": [TOOL], "said": said("Hi")}, "main message"),
        (MESSAGES, CLAUDE, SDK, {"said": said("Hi"), "max_tokens": 8_000}, "main message"),
        (MESSAGES, CLAUDE, SDK, {"said": said("I want a plan. Plan mode is active")}, "main message"),
        (MESSAGES, {}, SDK, {"tools": [TOOL]}, "None None"),
        # opencode
        (CHAT, OPENCODE, "You are a title generator.", {}, "helper title"),
        (CHAT, OPENCODE, "Summarize what was done in this conversation. Write like a pull request description.", {}, "helper summary"),
        (CHAT, OPENCODE, "You are a context summarization agent.", {"tools": [TOOL]}, "helper compaction"),
        (CHAT, OPENCODE, "You are OpenCode", {"tools": [TOOL], "said": said("plan it", "<system-reminder>\n# Plan Mode - System Reminder\n")}, "main plan"),
        (CHAT, OPENCODE, "You are OpenCode", {"tools": [TOOL], "said": [{"role": "user", "content": "You are a title generator."}]}, "main message"),
        # Codex
        (RESPONSES, CODEX | {METADATA: b'{"request_kind":"turn"}'}, "", {}, "main message"),
        (RESPONSES, CODEX | {METADATA: b'{"request_kind":"compaction"}'}, "", {}, "helper compaction"),
        (RESPONSES, CODEX | {METADATA: b'{"request_kind":"turn"}'}, "", {"said": [{"role": "user", "content": "You are performing a CONTEXT CHECKPOINT COMPACTION. Create"}]}, "helper compaction"),
        (RESPONSES, CODEX | {b"x-openai-subagent": b"guardian"}, "", {}, "subagent check"),
        (RESPONSES, CODEX | {b"x-openai-subagent": b"memory_consolidation"}, "", {}, "subagent summary"),
        (RESPONSES, CODEX | {b"x-openai-subagent": b"review"}, "", {}, "subagent message"),
        (RESPONSES, CODEX, "", {"said": [
            {"role": "developer", "content": "<collaboration_mode># Plan Mode (Conversational)\n"},
            {"role": "user", "content": "Do it"},
            {"type": "configuration_update", "reasoning": {"effort": "low"}},
        ]}, "main plan"),
        (RESPONSES, CODEX, "", {"said": [
            {"role": "developer", "content": "Known mode names: <collaboration_mode> # Plan Mode"},
            {"role": "user", "content": "Do it"},
        ]}, "main message"),
        (RESPONSES, CODEX, "", {"said": [
            {"role": "user", "content": "Do it"},
            {"type": "function_call", "call_id": "c", "name": "exec", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "You are performing a CONTEXT"},
        ]}, "main tool_iteration"),
        # aider: no tools, no session, no name
        (CHAT, {}, "Act as an expert software developer.\nTake requests", {}, "main message"),
        (CHAT, {}, "Act as an expert software developer who edits source code.", {}, "main edit"),
        (CHAT, {}, "Act as an expert architect engineer and provide direction to your editor engineer.", {}, "main plan"),
        (CHAT, {}, "You are an expert software engineer that generates concise, one-line Git commit messages", {}, "helper summary"),
        (CHAT, {}, "*Briefly* summarize this partial conversation about programming.", {}, "helper compaction"),
        (CHAT, {}, "You are an expert software engineer", {}, "None None"),
        (CHAT, {}, "Act as an expert software developer.", {"tools": [TOOL]}, "None None"),
        # Cline
        (CHAT, {}, "You are Cline, an AI coding agent.", {"tools": [TOOL]}, "main message"),
        (CHAT, {}, "You are Cline, an AI coding agent.\n# Plan Mode\n\nYou are in Plan mode. Your", {"tools": [TOOL]}, "main plan"),
        (CHAT, {}, "You are no agent.\n# Plan Mode\n\nYou are in Plan mode. Your", {"tools": [TOOL]}, "None None"),
    ],
)  # fmt: skip
def test_what_a_request_is_for(
    wire: WireFormat, headers: dict[bytes, bytes], system: str, more: dict[str, Any], expected: str
) -> None:
    found = role(wire, headers, system, **more)
    assert f"{found.role} {found.purpose}" == expected
    assert bool(found.mark) == (
        found.purpose not in {None, Purpose.MESSAGE, Purpose.TOOL_ITERATION} or found.role is SUBAGENT
    )


SUMMARY = "Your task is to create a detailed summary of"
PAGE = "Web page content: int main(){}"
CLINES = "You are Cline, a coding agent."


@pytest.mark.parametrize(
    ("wire", "headers", "system", "more", "expected"),
    [
        # the text of a file in a request of another client, alone or beside the task
        (CHAT, {b"x-session-id": b"s"}, CLINES, {"said": said("[read_file for 'a.c'] Result:", PAGE)}, "main message"),
        (CHAT, {b"x-session-id": b"s"}, CLINES, {"said": said("Fix it, see @a.c", PAGE)}, "main message"),
        (CHAT, {b"x-session-id": b"s"}, CLINES, {"said": said(PAGE)}, "main message"),
        (CHAT, {}, "", {"said": said("[read_file for 'a.c'] Result:", SUMMARY)}, "None None"),
        (CHAT, {}, "", {"said": said(SUMMARY)}, "None None"),
        (CHAT, OPENCODE, "", {"said": said(SUMMARY), "tools": [TOOL]}, "main message"),
        (RESPONSES, CODEX, "", {"said": said("You are performing a CONTEXT CHECKPOINT COMPACTION.")}, "main message"),
        # in a request of Claude Code: beside a person's words, and in a reminder
        (MESSAGES, CLAUDE, SDK, {"said": said("Fix it", SUMMARY), "tools": [TOOL]}, "main message"),
        (MESSAGES, CLAUDE, SDK, {"said": said("Fix it", PAGE)}, "main message"),
        (MESSAGES, CLAUDE, SDK, {"said": said(SUMMARY, "Fix it")}, "main message"),
        (MESSAGES, CLAUDE, SDK, {"said": said("Fix it", "See this:", PLANNING, "x")}, "main message"),
        (MESSAGES, CLAUDE, SDK, {"said": said("<system-reminder>\n" + SUMMARY)}, "main message"),
        # Claude Code itself: known by its header, its user agent or its system prompt
        (MESSAGES, CLAUDE, "", {"said": said("<system-reminder>\nIt is Monday.", SUMMARY), "tools": [TOOL]}, "helper compaction"),
        (MESSAGES, CLAUDE, "", {"said": said("<system-reminder>\nIt is Monday.", PLANNING, "x")}, "main plan"),
        (MESSAGES, {b"user-agent": b"claude-cli/2.1"}, "", {"said": said(SUMMARY)}, "helper compaction"),
        (MESSAGES, {}, f"{BILLED}\n{SDK}", {"said": said(SUMMARY)}, "helper compaction"),
        (MESSAGES, {}, "You are Claude Code, Anthropic's CLI.", {"said": said(SUMMARY)}, "helper compaction"),
        (MESSAGES, CLAUDE, SDK, {"said": said("<system-reminder>This is a side question from the user.")}, "helper side"),
        (MESSAGES, CLAUDE, SDK, {"said": after_a_call(*said("Go on", SUMMARY)[0]["content"])}, "helper compaction"),
    ],
)  # fmt: skip
def test_a_clients_words_count_where_it_writes_them(
    wire: WireFormat, headers: dict[bytes, bytes], system: str, more: dict[str, Any], expected: str
) -> None:
    """Once, the first words of an attached file made a request a helper's, in any client's request."""
    found = role(wire, headers, system, **more)
    assert f"{found.role} {found.purpose}" == expected


QWEN = {b"user-agent": b"QwenCode/0.15.10 (linux; x64)"}
STATED = {b"x-initiator": b"user", b"x-interaction-type": b"conversation-user"}


@pytest.mark.parametrize(
    ("headers", "system", "more", "expected"),
    [
        # Copilot CLI states who asks
        (STATED, "You are the GitHub Copilot CLI,", {"tools": [TOOL]}, "main message"),
        (STATED | {b"x-interaction-type": b"conversation-background"}, "", {"tools": [TOOL]}, "helper helper"),
        (STATED | {b"x-interaction-type": b"conversation-compaction"}, "", {"tools": [TOOL]}, "helper compaction"),
        (STATED | {b"x-interaction-type": b"conversation-subagent"}, "", {"tools": [TOOL]}, "subagent message"),
        (STATED | {b"x-interaction-type": b"conversation-agent"}, "", {"tools": [TOOL]}, "main message"),
        ({b"x-other": b"conversation-background"}, "", {"tools": [TOOL]}, "main message"),
        # Qwen Code
        (QWEN, "You are Qwen Code, an interactive CLI agent", {"tools": [TOOL]}, "main message"),
        (QWEN, "You are now acting as the managed memory extraction subagent for an", {"tools": [TOOL]}, "helper summary"),
        (QWEN, "You are a helper that acts as the managed memory extraction subagent", {"tools": [TOOL]}, "main message"),
        (QWEN, "Generate a concise, sentence-case title (3-7 words) that captures what this programming-assistant", {}, "helper title"),
        (QWEN, "You are the component that summarizes internal chat history into a given structure.", {}, "helper compaction"),
        (QWEN, "You are Qwen Code,", {"said": said("[SUGGESTION MODE: Suggest what"), "tools": [TOOL]}, "helper side"),
        ({b"user-agent": b"curl/8"}, "", {"said": said("[SUGGESTION MODE: Suggest what"), "tools": [TOOL]}, "main message"),
        (QWEN, "You are Qwen Code,", {"said": said("What is a SUGGESTION MODE?"), "tools": [TOOL]}, "main message"),
    ],
)  # fmt: skip
def test_requests_that_nobody_typed(
    headers: dict[bytes, bytes], system: str, more: dict[str, Any], expected: str
) -> None:
    found = role(CHAT, headers, system, **more)
    assert f"{found.role} {found.purpose}" == expected


def test_the_marks_of_each_client_say_where_they_were_read() -> None:
    assert len({client.name for client in CLIENTS}) == len(CLIENTS) == 7
    for client in CLIENTS:
        assert "version" in client.read
        for mark in client.marks:
            conditions = (mark.system, mark.inside, mark.words, mark.notes, mark.header)
            assert any(conditions), f"{client.name}: a mark that every request has"
