"""Qwen Code: it names no session, and sends helper requests after each turn."""

from __future__ import annotations

from typing import Final

from pointsman.vocabulary import Purpose
from pointsman.wire.clients._client import Client, Mark

__all__ = ["QWEN_CODE"]

QWEN_CODE: Final = Client(
    name="Qwen Code",
    read="version 0.15.10 of November 2026: requests of `qwen -p` recorded behind a base URL, and the texts "
    "that the program holds for the others",
    agent=b"QwenCode/",
    system=("You are Qwen Code,",),
    folders=("I'm currently working in the directory: ",),
    marks=(
        Mark(
            Purpose.SUMMARY,
            "Qwen Code updates its memory",
            system=(
                "You are now acting as the managed memory extraction subagent",
                "You are performing a managed memory dream",
                "You are reviewing this conversation to extract reusable skills.",
            ),
        ),
        Mark(
            Purpose.HELPER,
            "Qwen Code chooses memories",
            system=("You are selecting memories that will be useful to an AI coding assistant",),
        ),
        Mark(
            Purpose.TITLE,
            "Qwen Code asks for a title",
            system=(
                "Generate a concise, sentence-case title (3-7 words) that captures what this programming-",
                "Generate a short kebab-case name (2-4 words) that captures the main topic",
            ),
        ),
        Mark(
            Purpose.SUMMARY,
            "Qwen Code asks for a recap of a session",
            system=("You generate session recaps for a programming assistant CLI.",),
        ),
        Mark(
            Purpose.COMPACTION,
            "Qwen Code compacts the conversation",
            system=(
                "You are the component that summarizes internal chat history into a given structure.",
                "You are a specialized context summarizer that creates a comprehensive markdown summary",
            ),
        ),
        Mark(
            Purpose.SIDE,
            "Qwen Code asks beside the conversation",
            words=(
                "[SUGGESTION MODE: ",
                "Analyze *only* the content and structure of your immediately preceding response",
            ),
        ),
    ),
)
