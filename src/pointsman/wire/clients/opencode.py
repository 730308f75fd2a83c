"""opencode."""

from __future__ import annotations

from typing import Final

from pointsman.vocabulary import Purpose
from pointsman.wire.clients._client import Client, Mark

__all__ = ["OPENCODE"]

OPENCODE: Final = Client(
    name="opencode",
    read="version 1.18.33 of 22 November 2026: requests of `opencode run` recorded behind a base URL, "
    "and the texts that the program holds for the others",
    subagents=(b"x-parent-session-id",),
    headers=(b"x-session-affinity", b"x-opencode-session"),
    agent=b"opencode/",
    system=("You are OpenCode",),
    folders=("Workspace root folder: ", "Working directory: "),
    marks=(
        Mark(
            Purpose.TITLE,
            "opencode asks for a title",
            system=("You are a title generator.",),
            without_tools=True,
        ),
        Mark(
            Purpose.SUMMARY,
            "opencode asks for a summary of a session",
            system=("Summarize what was done in this conversation. Write like a pull request",),
            without_tools=True,
        ),
        Mark(
            Purpose.COMPACTION,
            "opencode compacts the conversation",
            system=("You are a context summarization agent.",),
        ),
        Mark(
            Purpose.COMPACTION,
            "opencode compacts the conversation",
            words=("Create a new anchored summary from the conversation history",),
        ),
        Mark(
            Purpose.PLAN,
            "opencode's agent that plans",
            words=(
                "<system-reminder>\n# Plan Mode - System Reminder",
                "<system-reminder>\nPlan mode is active",
            ),
            is_main=True,
        ),
    ),
)
