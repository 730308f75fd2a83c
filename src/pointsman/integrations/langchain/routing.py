"""The middleware that chooses the model of each call by its tier."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage, convert_to_openai_messages
from msgspec.structs import replace

from pointsman.decision.decision import Decision
from pointsman.errors import UpstreamError, UpstreamTimeout
from pointsman.integrations.host import Host, chosen_model
from pointsman.integrations.langchain.middleware import thread_id
from pointsman.model_calls import AskingThread, ask_models
from pointsman.upstreams.chat_model import constrained, label_of
from pointsman.vocabulary import ModelQuery, ModelReply, Prompt

__all__ = ["LangChainModel", "RoutingMiddleware", "judged_by"]


class RoutingMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Replaces the model of a call. The session is the thread, else how the conversation begins."""

    def __init__(self, models: Mapping[str, BaseChatModel], host: Host) -> None:
        """Choose among models, by configured name or by tier in lower case."""
        super().__init__()
        self.host: Final = host
        self._models: Final = models

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Decide, and call the model that is chosen."""
        decision = self.host.decide_sync(_body(request), session=thread_id() or None)
        return handler(self._routed(request, decision))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Decide, and call the model that is chosen."""
        decision = await self.host.decide(_body(request), session=thread_id() or None)
        return await handler(self._routed(request, decision))

    def _routed(self, request: ModelRequest[Any], decision: Decision | None) -> ModelRequest[Any]:
        model = chosen_model(decision, self._models)
        return request if model is None else request.override(model=model)


def _body(request: ModelRequest[Any]) -> dict[str, Any]:
    said = [request.system_message] if request.system_message else []
    return {
        "model": "auto",
        "messages": convert_to_openai_messages([*said, *request.messages]),
        "tools": [{"type": "function", "function": {"name": name}} for name in _tools(request)],
    }


def _tools(request: ModelRequest[Any]) -> list[str]:
    """Names of the tools; of a provider's own, as a mapping, its type."""
    names = (tool.get("name") or tool.get("type") if isinstance(tool, dict) else tool.name
             for tool in request.tools)  # fmt: skip
    return [str(name) for name in names if name]


# A chat model of LangChain that answers the questions of model classifiers.

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
