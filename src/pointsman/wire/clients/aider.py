"""aider: it offers no tools and names no session."""

from __future__ import annotations

from typing import Final

from pointsman.vocabulary import Purpose
from pointsman.wire.clients._client import Client, Mark

__all__ = ["AIDER"]

AIDER: Final = Client(
    name="aider",
    read="version 0.86.2 of February 2026: requests recorded behind a base URL, and its prompts",
    marks=(
        Mark(
            Purpose.SUMMARY,
            "aider asks for a commit message",
            system=("You are an expert software engineer that generates concise, one-line Git commit",),
            without_tools=True,
        ),
        Mark(
            Purpose.COMPACTION,
            "aider compacts the conversation",
            system=("*Briefly* summarize this partial conversation about programming.",),
            without_tools=True,
        ),
        Mark(
            Purpose.PLAN,
            "aider's architect",
            system=("Act as an expert architect engineer and provide direction to your editor engineer.",),
            without_tools=True,
            is_main=True,
        ),
        Mark(
            Purpose.EDIT,
            "aider's editor",
            system=(
                "Act as an expert software developer who edits source code.",
                "Act as an expert software developer and make changes to source code.",
            ),
            without_tools=True,
            is_main=True,
        ),
        Mark(
            Purpose.MESSAGE,
            "aider's conversation",
            system=("Act as an expert software developer.", "Act as an expert code analyst."),
            without_tools=True,
            is_main=True,
        ),
    ),
)
