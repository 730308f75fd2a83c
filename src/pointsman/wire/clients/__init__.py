"""Known marks of the clients' requests, one file for each: data, the same check for all, and its source."""

from __future__ import annotations

from typing import Final

from pointsman.wire.clients._client import Client, Mark
from pointsman.wire.clients.aider import AIDER
from pointsman.wire.clients.claude_code import CLAUDE_CODE
from pointsman.wire.clients.cline import CLINE
from pointsman.wire.clients.codex import CODEX
from pointsman.wire.clients.copilot import COPILOT
from pointsman.wire.clients.opencode import OPENCODE
from pointsman.wire.clients.qwen_code import QWEN_CODE

__all__ = ["CLIENTS", "Client", "Mark"]

CLIENTS: Final = (CLAUDE_CODE, CODEX, OPENCODE, AIDER, CLINE, COPILOT, QWEN_CODE)
