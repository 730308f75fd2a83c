"""The ChatModel port: one method through which Pointsman itself asks a model."""

from __future__ import annotations

from typing import Protocol

from pointsman.vocabulary import Prompt

__all__ = ["ChatModel"]


class ChatModel(Protocol):
    """A model that can be asked. Implementations pass ``pointsman.testing.chat_model_checks``."""

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        """Return the model's text within ``timeout`` seconds.

        Raises:
            UpstreamError: the model could not be asked or gave no text; an empty string is never a failure
                in disguise.
        """
        ...
