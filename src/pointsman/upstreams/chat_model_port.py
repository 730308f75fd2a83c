"""The ChatModel port: one method through which Pointsman itself asks a model."""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ["ChatModel", "Prompt"]


class Prompt(msgspec.Struct, frozen=True):
    """One question to a model: instructions, and the caller's text as delimited data."""

    system: str
    text: str
    max_tokens: int = 16
    labels: tuple[str, ...] = ()  # the only answers allowed, when constrained


class ChatModel(Protocol):
    """A model that can be asked. Implementations pass ``pointsman.testing.chat_model_checks``."""

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        """Return the model's text within ``timeout`` seconds.

        Raises:
            UpstreamError: the model could not be asked or gave no text; an empty string is never a failure
                in disguise.
        """
        ...
