"""Reads who within an agent sends a request: the main conversation, a sub-agent, or a helper call.

Only what the agent's own code writes counts: headers, the beginning of the system prompt, and which fields
are there. Text that a person, a file or a web page may have put into a message is not read. The table names
what Claude Code 2.1, Codex 0.169 and opencode 1.18 sent in November 2026 (docs/how-to/agents.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pointsman.vocabulary import AgentRequest, AgentRole
from pointsman.wire.body import Body

__all__ = ["SUBAGENT_HEADERS", "read_role"]

#: Sent by sub-agents alone: Claude Code (twice), opencode, Codex (twice).
SUBAGENT_HEADERS: Final = (
    b"x-claude-code-agent-id",
    b"x-claude-code-parent-agent-id",
    b"x-parent-session-id",
    b"x-openai-subagent",
    b"x-codex-parent-thread-id",
)
#: In the first line of Claude Code's system prompt, which is its own billing record.
_BILLING: Final = "x-anthropic-billing-header:"
_BILLED_SUBAGENT: Final = "cc_is_subagent=true"
#: How the system prompts of requests for a title begin, by who sends them.
_TITLES: Final = {
    "Claude Code": (
        "Generate a concise, sentence-case title",
        "Analyze if this message indicates a new conversation topic",
    ),
    "opencode": ("You are a title generator.",),
}
#: Characters of a system prompt in which these are looked for: Claude Code says two lines of its own before.
_BEGINNING: Final = 400
#: Tokens of output up to which an agent's call without tools counts as small. Titles, labels and checks of a
#: command ask for 1 to 512; an agent's main requests ask for 8,000 or more.
_SMALL: Final = 1_024
_OUTPUT_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def read_role(
    headers: Mapping[bytes, bytes], request: AgentRequest, body: Body, *, is_agent: bool
) -> tuple[AgentRole | None, str]:
    """Return the role of a request and by what it is recognised; None where nothing tells.

    Args:
        headers: The caller's, by name in lower case.
        request: What was read of the body.
        body: The body itself.
        is_agent: A header names the session, as only agents do.
    """
    for name in SUBAGENT_HEADERS:
        if name in headers:
            return AgentRole.SUBAGENT, f"header {name.decode()}"
    system = request.system[:_BEGINNING]
    if system.startswith(_BILLING) and _BILLED_SUBAGENT in system.partition("\n")[0]:
        return AgentRole.SUBAGENT, f"{_BILLED_SUBAGENT} in the system prompt"
    if not request.tools and (mark := _helper_mark(system, body, is_agent=is_agent)):
        return AgentRole.HELPER, mark
    return (AgentRole.MAIN, "") if is_agent else (None, "")


def _helper_mark(system: str, body: Body, *, is_agent: bool) -> str:
    for agent, beginnings in _TITLES.items():
        if any(beginning in system for beginning in beginnings):
            return f"{agent} asks for a title"
    if not is_agent:
        return ""
    limit = next((found for name in _OUTPUT_LIMITS if (found := _number(body, name))), 0)
    return f"no tools and at most {limit} tokens of output" if 0 < limit <= _SMALL else ""


def _number(body: Body, name: str) -> int:
    """A member that is a plain count; 0 for anything else."""
    value = bytes(body.member(name) or b"")
    return int(value) if value.isdigit() and len(value) < 10 else 0  # digits of any real limit
