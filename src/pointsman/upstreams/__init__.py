"""Floor 5: providers: the port, the HTTP client, the built-in demo, and asking a model a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from pointsman.vocabulary import Prompt

if TYPE_CHECKING:
    from pointsman.wire.conversation import Usage

__all__ = ["ChatModel", "MeteredModel", "ModelAnswer", "ask_metered"]


class ChatModel(Protocol):
    """A model that can be asked. Implementations pass ``pointsman.testing.chat_model_checks``."""

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        """Return the model's text within ``timeout`` seconds.

        Raises:
            UpstreamError: the model could not be asked or gave no text; an empty string is never a failure
                in disguise.
        """


class ModelAnswer(NamedTuple):
    """A model's text, and the tokens it took."""

    text: str
    usage: Usage | None = None  # as the upstream reported them; None: the model does not say


@runtime_checkable
class MeteredModel(Protocol):
    """A chat model that also reports its usage."""

    async def ask(self, prompt: Prompt, *, timeout: float) -> ModelAnswer:
        """Return the text and the usage; raises as ``ChatModel.complete``."""


async def ask_metered(model: ChatModel, prompt: Prompt, *, timeout: float) -> ModelAnswer:
    """Return a model's text, with its usage where the model reports it; raises as ``ChatModel.complete``."""
    if isinstance(model, MeteredModel):
        return await model.ask(prompt, timeout=timeout)
    return ModelAnswer(await model.complete(prompt, timeout=timeout))
