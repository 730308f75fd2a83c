"""A model for each step of a Pydantic AI agent, and hints before it is asked (extra ``pydantic-ai``).

One capability does both, so that each step is one decision::

    Agent(large, capabilities=[Routing({"simple": small, "complex": large})])

Tried with pydantic-ai-slim 2.68.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from pointsman.api import Pointsman
from pointsman.decision.decision import Decision
from pointsman.errors import MissingExtra
from pointsman.integrations.host import TIMEOUT, Host, added_texts, chosen_model, stop_text

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        BaseToolCallPart,
        BaseToolReturnPart,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import KnownModelName, Model, ModelRequestContext, infer_model
except ImportError as error:
    raise MissingExtra("pydantic-ai", needed_for="the Pydantic AI capability") from error

__all__ = ["Routing"]


class Routing(AbstractCapability[Any]):
    """Chooses the model of each step by its tier, and adds hints to the request.

    The history of the run stays without the hints; they are added again at the same message of every later
    step, so that a provider's prompt cache holds. The session is the run's ``conversation_id``.
    """

    def __init__(
        self,
        models: Mapping[str, Model | KnownModelName | str],
        points: Pointsman | Callable[[], Pointsman] | None = None,
        *,
        hints: bool = True,
        timeout: float = TIMEOUT,
    ) -> None:
        """Make ready; nothing is read before the first step.

        Args:
            models: By configured name or by tier. A step of a tier without one is served by the
                agent's own model.
            points: What decides, or what makes it; by default ``Pointsman.from_config()``.
            hints: Whether texts of the decision are added. They speak where the policy lets them
                (``[guidance] mode = "on"``).
            timeout: Seconds after which a step continues without a decision.
        """
        self.host = Host("Pydantic AI", points, timeout=timeout, texts=hints, models=models)
        self._models: Final = {name: infer_model(model) for name, model in models.items()}
        self._hints: Final = hints

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """No name: it holds models and an open ledger."""
        return None

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: Any
    ) -> ModelResponse:
        """Decide a step, and ask the model that is chosen; a run that guidance stops ends with its words."""
        step = _read(request_context)
        decision = await self.host.decide(step.body, session=ctx.conversation_id)
        if self._hints and (text := stop_text(decision)):
            return ModelResponse(parts=[TextPart(text)], model_name="pointsman")
        response: ModelResponse = await handler(self._decided(request_context, decision, step.places))
        return response

    def _decided(
        self, asked: ModelRequestContext, decision: Decision | None, places: Sequence[int]
    ) -> ModelRequestContext:
        model = chosen_model(decision, self._models)
        if model is not None:
            asked = replace(asked, model=model, model_id=None)
        texts = added_texts(decision) if self._hints else {}
        if not texts:
            return asked
        messages = list(asked.messages)
        for index, text in texts.items():
            if (place := places[index]) >= 0:
                messages[place] = _with_text(messages[place], text)
        return replace(asked, messages=messages)


class _Step(NamedTuple):
    """A step as a request of chat completions: Pydantic AI has one message for several of these."""

    body: dict[str, Any]
    places: list[int]  # of each message of the body, among those of Pydantic AI; -1: the instructions


def _read(asked: ModelRequestContext) -> _Step:
    parameters = asked.model_request_parameters
    instructions = "\n\n".join(part.content for part in parameters.instruction_parts or ())
    found = [(-1, {"role": "system", "content": instructions})] if instructions else []
    for place, message in enumerate(asked.messages):
        found += [(place, each) for each in _messages(message)]
    tools = [{"type": "function", "function": {"name": tool.name}} for tool in parameters.function_tools]
    body = {"model": "auto", "messages": [message for _, message in found], "tools": tools}
    return _Step(body, [place for place, _ in found])


def _messages(message: ModelMessage) -> Iterator[dict[str, Any]]:
    if isinstance(message, ModelRequest):
        yield from filter(None, map(_sent, message.parts))
        return
    said = [part.content for part in message.parts if isinstance(part, TextPart)]
    calls = [_call(part) for part in message.parts if isinstance(part, BaseToolCallPart)]
    yield {"role": "assistant", "content": "\n".join(said), **({"tool_calls": calls} if calls else {})}


def _call(part: BaseToolCallPart[Any]) -> dict[str, Any]:
    named = {"name": part.tool_name, "arguments": part.args_as_json_str()}
    return {"id": part.tool_call_id, "type": "function", "function": named}


def _sent(part: object) -> dict[str, Any] | None:
    """A part of a model's request; None for other than text and tool results."""
    if isinstance(part, BaseToolReturnPart):
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response_str()}
    if isinstance(part, UserPromptPart):
        said = [part.content] if isinstance(part.content, str) else part.content
        return {"role": "user", "content": "\n".join(each for each in said if isinstance(each, str))}
    return {"role": "system", "content": part.content} if isinstance(part, SystemPromptPart) else None


def _with_text(message: ModelMessage, text: str) -> ModelMessage:
    """A copy of a message with a text at its end: inside its last part, or as a separate part.

    A model's own words stay as they are.
    """
    if not isinstance(message, ModelRequest) or not message.parts:
        return message
    *before, last = message.parts
    if isinstance(last, ToolReturnPart) and isinstance(last.content, str):
        result: ToolReturnPart[Any] = cast("ToolReturnPart[Any]", last)  # the others hold no text
        return replace(message, parts=[*before, replace(result, content=f"{result.content}\n\n{text}")])
    if isinstance(last, UserPromptPart):
        return replace(message, parts=[*before, replace(last, content=_joined(last.content, text))])
    return replace(message, parts=[*message.parts, UserPromptPart(text)])


def _joined(content: str | Sequence[Any], text: str) -> str | list[Any]:
    return f"{content}\n\n{text}" if isinstance(content, str) else [*content, text]
