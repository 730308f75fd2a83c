"""Models of the OpenAI Agents SDK, chosen for each call, and hints in it (extra ``openai-agents``).

A provider gives agents with model ``auto``, or none, a model that delegates each call::

    provider = RoutingProvider({"simple": "gpt-5.6-mini", "complex": "gpt-5.6"})
    await Runner.run(agent, text, run_config=RunConfig(model_provider=provider))

The calls of one conversation are one session. Tried with openai-agents 0.24.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pointsman.api import Pointsman
from pointsman.decision.decision import Decision
from pointsman.errors import MissingExtra
from pointsman.integrations.host import (
    TIMEOUT,
    Host,
    added_texts,
    chosen_model,
    stop_text,
    with_added_texts,
)
from pointsman.vocabulary import WireFormat

try:
    from agents import Model, ModelProvider, ModelResponse, MultiProvider, Usage
    from agents.run_config import CallModelData, CallModelInputFilter, ModelInputData
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
        ResponseOutputMessage,
        ResponseOutputText,
    )
except ImportError as error:
    raise MissingExtra("openai-agents", needed_for="the provider for the OpenAI Agents SDK") from error

__all__ = ["RoutingModel", "RoutingProvider", "hint_filter"]

_HOST: Final = "OpenAI Agents SDK"
#: Names of a model that let the tier decide.
_AUTO: Final = frozenset({None, "", "auto"})
_RESPONSES: Final = WireFormat.RESPONSES


class RoutingProvider(ModelProvider):
    """Gives agents without a model one that is chosen for each call."""

    def __init__(
        self,
        models: Mapping[str, Model | str],
        points: Pointsman | Callable[[], Pointsman] | None = None,
        *,
        default: Model | str | None = None,
        base: ModelProvider | None = None,
        hints: bool = True,
        timeout: float = TIMEOUT,
    ) -> None:
        """Make ready; nothing is read before the first call.

        Args:
            models: By configured name or by tier; those that are names come from ``base``.
            points: What decides, or what makes it; by default ``Pointsman.from_config()``.
            default: Serves calls without a decision, or whose tier has no model; by default that of ``base``.
            base: Gives models by their names; by default the SDK's own provider.
            hints: Whether texts of the decision are added.
            timeout: Seconds after which a call continues without a decision.
        """
        self.host = Host(_HOST, points, timeout=timeout, texts=hints, models=models)
        self._base: Final = base or MultiProvider()
        self._models: Final = models
        self._default: Final = default
        self._hints: Final = hints

    def get_model(self, model_name: str | None) -> Model:
        """Return the model that chooses for ``auto`` and no name, else the model of this name."""
        if model_name not in _AUTO:
            return self._base.get_model(model_name)
        models = {name: self._named(model) for name, model in self._models.items()}
        return RoutingModel(models, self._named(self._default), self.host, hints=self._hints)

    async def aclose(self) -> None:
        """Close the provider behind it, and what decides if it was made here."""
        await self._base.aclose()
        self.host.close()

    def _named(self, model: Model | str | None) -> Model:
        return model if isinstance(model, Model) else self._base.get_model(model)


class _Asked(NamedTuple):
    """A call as it goes to the model that serves it."""

    model: Model
    input: Any  # as the SDK has it: a text, or items of Responses
    stop: str = ""  # words that end the run instead


class RoutingModel(Model):
    """Asks another model for each call."""

    def __init__(
        self, models: Mapping[str, Model], default: Model, host: Host, *, hints: bool = True
    ) -> None:
        """Choose among models, by configured name or by tier, as ``RoutingProvider`` does."""
        self._models: Final = models
        self._default: Final = default
        self._host: Final = host
        self._hints: Final = hints

    async def get_response(
        self, system_instructions: str | None, input: Any, model_settings: Any, tools: Any,  # noqa: A002
        output_schema: Any, handoffs: Any, tracing: Any, **more: Any,
    ) -> ModelResponse:  # fmt: skip
        """Decide a call, and return the chosen model's answer."""
        asked = await self._decide(system_instructions, input, [*tools, *handoffs], more)
        if asked.stop:
            return ModelResponse(output=[_said(asked.stop)], usage=Usage(), response_id=None)
        return await asked.model.get_response(
            system_instructions, asked.input, model_settings, tools, output_schema, handoffs, tracing, **more
        )

    async def stream_response(
        self, system_instructions: str | None, input: Any, model_settings: Any, tools: Any,  # noqa: A002
        output_schema: Any, handoffs: Any, tracing: Any, **more: Any,
    ) -> AsyncIterator[Any]:  # fmt: skip
        """Decide a call, and yield the chosen model's stream."""
        asked = await self._decide(system_instructions, input, [*tools, *handoffs], more)
        if asked.stop:
            yield _completed(asked.stop)
            return
        stream = asked.model.stream_response(
            system_instructions, asked.input, model_settings, tools, output_schema, handoffs, tracing, **more
        )
        async for event in stream:
            yield event

    async def _decide(
        self, instructions: str | None, given: Any, tools: Sequence[Any], more: Mapping[str, Any]
    ) -> _Asked:
        decision = await self._host.decide(
            _body(given, instructions, tools), format=_RESPONSES, session=more.get("conversation_id") or None
        )
        model = chosen_model(decision, self._models) or self._default
        if not self._hints:
            return _Asked(model, given)
        return _Asked(model, _with_hints(given, decision), stop_text(decision))


def hint_filter(
    points: Pointsman | Callable[[], Pointsman] | None = None, *, timeout: float = TIMEOUT
) -> CallModelInputFilter:
    """Return a ``call_model_input_filter`` that adds hints and leaves the model alone.

    Use it or ``RoutingProvider``, which adds them too: each decides. It does not see the conversation; the
    session is named by how that begins.
    """
    host = Host(_HOST, points, timeout=timeout, texts=True)

    async def add_hints(call: CallModelData[Any]) -> ModelInputData:
        data = call.model_data
        body = _body(data.input, data.instructions, call.agent.tools)
        decision = await host.decide(body, format=_RESPONSES)
        return ModelInputData(input=_with_hints(data.input, decision), instructions=data.instructions)

    return add_hints


def _body(given: Any, instructions: str | None, tools: Sequence[Any]) -> dict[str, Any]:
    names = (getattr(tool, "name", None) or getattr(tool, "tool_name", "") for tool in tools)
    return {
        "model": "auto",
        "input": given,
        "instructions": instructions or "",
        "tools": [{"type": "function", "name": name} for name in names if name],
    }


def _with_hints(given: Any, decision: Decision | None) -> Any:
    texts = added_texts(decision)
    if not texts:
        return given
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return with_added_texts(_RESPONSES, items, texts)


def _said(text: str) -> ResponseOutputMessage:
    words = ResponseOutputText(annotations=[], text=text, type="output_text")
    return ResponseOutputMessage(
        id="msg_pointsman", content=[words], role="assistant", status="completed", type="message"
    )


def _completed(text: str) -> ResponseCompletedEvent:
    response = Response(
        id="resp_pointsman", created_at=time.time(), model="pointsman", object="response",
        output=[_said(text)], parallel_tool_calls=False, tool_choice="none", tools=[], status="completed",
    )  # fmt: skip
    return ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")
