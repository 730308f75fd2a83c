"""Floor 6: the ChatModel port and its implementations."""

from __future__ import annotations

from pointsman.models.http import HttpModel, chat_models
from pointsman.models.port import ChatModel, Prompt

__all__ = ["ChatModel", "HttpModel", "Prompt", "chat_models"]
