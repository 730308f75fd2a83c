"""A chat model of LangChain that answers the questions of model classifiers."""

from __future__ import annotations

import asyncio
from typing import Final

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from msgspec.structs import replace

from pointsman.errors import UpstreamError, UpstreamTimeout
from pointsman.model_calls import AskingThread, ask_models
from pointsman.upstreams.chat_model import constrained, label_of
from pointsman.vocabulary import ModelQuery, ModelReply, Prompt

__all__ = ["LangChainModel", "judged_by"]

_JUDGE: Final = "judge"


class LangChainModel:
    """A ``ChatModel`` over one of LangChain's."""

    def __init__(self, model: BaseChatModel) -> None:
        self._model: Final = model

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        """Return the model's text; one of ``prompt.labels`` where the text names one.

        Raises:
            UpstreamError: the model failed, gave no text, or did not answer within ``timeout`` seconds.
        """
        asked = constrained(prompt)
        try:
            async with asyncio.timeout(timeout):
                said = await self._model.ainvoke([SystemMessage(asked.system), HumanMessage(asked.text)])
        except TimeoutError:
            raise UpstreamTimeout("the judge model did not answer in time") from None
        except Exception as error:
            raise UpstreamError(f"the judge model failed: {type(error).__name__}: {error}") from error
        if not (text := str(said.text).strip()):
            raise UpstreamError("the judge model gave no text")
        return label_of(text, prompt.labels)


def judged_by(model: BaseChatModel) -> AskingThread:
    """Return what asks a model whatever a query names: the model is the program's choice."""
    answer = ask_models({_JUDGE: LangChainModel(model)})

    async def ask(query: ModelQuery) -> ModelReply:
        return await answer(replace(query, model=_JUDGE))

    return AskingThread(ask, lambda: None)
