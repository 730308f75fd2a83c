"""Claude Code."""

from __future__ import annotations

from typing import Final

from pointsman.vocabulary import Purpose
from pointsman.wire.clients._client import Client, Mark

__all__ = ["CLAUDE_CODE"]

CLAUDE_CODE: Final = Client(
    name="Claude Code",
    read="versions 2.1.197 and 2.1.330 on 22 November 2026: requests of `claude -p` and of a session in a "
    "terminal recorded behind a base URL, and the texts that the program holds for the others",
    subagents=(b"x-claude-code-agent-id", b"x-claude-code-parent-agent-id"),
    headers=(b"x-claude-code-session-id",),
    agent=b"claude-cli/",
    system=("x-anthropic-billing-header:", "You are Claude Code", "Claude Agent SDK"),
    folders=("Primary working directory: ", "Working directory: "),
    marks=(
        Mark(
            Purpose.TITLE,
            "Claude Code asks for a title",
            system=("You are naming a coding session", "Generate a concise, sentence-case title"),
            without_tools=True,
        ),
        Mark(
            Purpose.TITLE,
            "Claude Code asks for a title and a branch",
            words=("You are coming up with a succinct title and git branch name",),
            without_tools=True,
        ),
        Mark(
            Purpose.TOPIC,
            "Claude Code asks for the topic",
            system=("Analyze if this message indicates a new conversation topic",),
            without_tools=True,
        ),
        Mark(
            Purpose.SUMMARY,
            "Claude Code asks what tool calls did",
            system=("Write a short summary label describing what these tool calls",),
            without_tools=True,
        ),
        Mark(
            Purpose.SUMMARY,
            "Claude Code asks about a web page",
            words=("Web page content:",),
            without_tools=True,
        ),
        Mark(
            Purpose.CHECK,
            "Claude Code asks whether an action may run",
            system=(
                "You are a security monitor for autonomous AI coding agents",
                "<policy_spec>",
                "You are evaluating a hook condition in Claude Code",
                "You are evaluating a hook in Claude Code",
                "You are evaluating a stop-condition hook in Claude Code",
                "You are verifying a stop condition in Claude Code",
            ),
        ),
        Mark(
            Purpose.COMPACTION,
            "Claude Code compacts the conversation",
            system=("You are a helpful AI assistant tasked with summarizing conversations",),
        ),
        Mark(
            Purpose.COMPACTION,
            "Claude Code compacts the conversation",
            words=(
                "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.",
                "Your task is to create a detailed summary of",
            ),
        ),
        Mark(
            Purpose.SIDE,
            "Claude Code asks beside the conversation",
            words=(
                "[SUGGESTION MODE: ",
                "The user stepped away and is coming back. Recap in under",
                "Describe your most recent action in 3-5 words",
                "Generate a short kebab-case name (2-4 words)",
                "<system-reminder>This is a side question from the user.",
            ),
        ),
        Mark(
            Purpose.SIDE,
            "Claude Code chooses memories, or reads a date",
            system=(
                "You are selecting memories that will be useful to Claude Code",
                "You are a date/time parser that converts natural language",
            ),
            without_tools=True,
        ),
        Mark(
            Purpose.PROBE,
            "Claude Code asks whether key, quota or model are valid",
            words=("quota", "test", "Hi", "."),
            without_tools=True,
            output=1,
        ),
        Mark(
            Purpose.PLAN,
            "Claude Code's sub-agent that plans",
            system=("You are a software architect and planning specialist for Claude Code",),
            is_main=True,
        ),
        Mark(
            Purpose.PLAN,
            "Claude Code is in plan mode",
            words=("<system-reminder>\nPlan mode is active", "Plan mode is active"),
            is_main=True,
        ),
        Mark(
            Purpose.PLAN,
            "Claude Code is in plan mode",
            notes=("Plan mode is active. The user",),
            is_main=True,
        ),
    ),
)
