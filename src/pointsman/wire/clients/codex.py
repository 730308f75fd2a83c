"""Codex."""

from __future__ import annotations

from typing import Final

from pointsman.vocabulary import Purpose
from pointsman.wire.clients._client import Client, Mark

__all__ = ["CODEX"]

_METADATA: Final = b"x-codex-turn-metadata"  # JSON, as Codex writes it: without spaces
_SUBAGENT: Final = b"x-openai-subagent"

CODEX: Final = Client(
    name="Codex",
    read="version 0.169.0 of 22 November 2026: requests of `codex exec` recorded behind a base URL, with and "
    "without compaction, and the texts that the program holds for the others",
    subagents=(_SUBAGENT, b"x-codex-parent-thread-id"),
    headers=(_METADATA,),
    agent=b"codex",
    folders=("<cwd>",),
    marks=(
        Mark(Purpose.COMPACTION, "Codex compacts", header=(_METADATA, b'"request_kind":"compaction"')),
        Mark(Purpose.COMPACTION, "Codex compacts", header=(_SUBAGENT, b"compact")),
        Mark(
            Purpose.COMPACTION,
            "Codex compacts",
            words=("You are performing a CONTEXT CHECKPOINT COMPACTION.",),
        ),
        Mark(Purpose.SUMMARY, "Codex writes its memory", header=(_SUBAGENT, b"memory_consolidation")),
        Mark(
            Purpose.SUMMARY,
            "Codex writes its memory",
            system=("## Memory Writing Agent: Phase 1", "## Memory Writing Agent: Phase 2"),
        ),
        Mark(Purpose.CHECK, "Codex asks whether an action may run", header=(_SUBAGENT, b"guardian")),
        Mark(
            Purpose.CHECK,
            "Codex asks whether an action may run",
            system=("You are judging one planned coding-agent action.",),
        ),
        Mark(
            Purpose.PLAN,
            "Codex is in plan mode",
            notes=("<collaboration_mode># Plan Mode", "<collaboration_mode>\n# Plan Mode"),
            is_main=True,
        ),
    ),
)
