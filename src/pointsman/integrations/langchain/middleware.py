"""The middleware: decides before each model call, and adds to that call only.

Session memory is part of the agent's state, in plain values: a checkpointer stores it, and a run
that is resumed or forked carries on from the earlier hints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Annotated, Any, Final, NotRequired

import msgspec
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ModelRequest,
    ModelResponse,
    hook_config,
)
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_messages,
)
from langgraph.config import get_config
from langgraph.runtime import Runtime
from msgspec.structs import replace

from pointsman.config.applications import load_classes
from pointsman.decision.decision import Decision
from pointsman.decoding import encoded
from pointsman.drivers import drive, drive_async, no_model
from pointsman.errors import UpstreamError, UpstreamTimeout
from pointsman.guidance import GuidanceDecision, GuidanceMemory, GuidancePolicy, Guide, Mode
from pointsman.integrations.host import Host, chosen_model
from pointsman.model_calls import AskingThread, ask_models, ask_nobody
from pointsman.upstreams.chat_model import constrained, label_of
from pointsman.vocabulary import Message, ModelQuery, ModelReply, Prompt, Role, ToolCall, ToolResult
from pointsman.wire.items import mark

__all__ = [
    "GuidanceMiddleware",
    "GuidanceState",
    "LangChainModel",
    "RoutingMiddleware",
    "judged_by",
    "read_message",
    "thread_id",
]


class GuidanceState(AgentState[Any]):
    """The agent's state, and guidance's memory in it."""

    pointsman_memory: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]  # a ``GuidanceMemory``
    pointsman_injection: NotRequired[Annotated[str, PrivateStateAttr]]  # for the next model call
    pointsman_raised: NotRequired[Annotated[bool, PrivateStateAttr]]


class GuidanceMiddleware(AgentMiddleware[GuidanceState, Any, Any]):
    """Gives a stuck agent a hint, once. Without a model, model classifiers abstain."""

    state_schema = GuidanceState

    def __init__(
        self,
        policy: GuidancePolicy | None = None,
        stronger_model: BaseChatModel | None = None,
        asking: AskingThread | None = None,
    ) -> None:
        super().__init__()
        policy = policy or GuidancePolicy(mode=Mode.ON)
        self._guide: Final = Guide(policy, own=load_classes(policy))
        self._stronger_model: Final = stronger_model
        self._asking: Final = asking

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: GuidanceState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002 - the framework's shape
        """Decide for the call that comes next."""
        return _update(*drive(self._turn(state), self._asking.ask if self._asking else no_model))

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: GuidanceState, runtime: Runtime[Any]) -> dict[str, Any] | None:  # noqa: ARG002 - as above
        """Decide for the call that comes next, without blocking the event loop."""
        ask = self._asking.ask_async if self._asking else ask_nobody
        return _update(*await drive_async(self._turn(state), ask))

    def _turn(
        self, state: GuidanceState
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        memory = msgspec.convert(state.get("pointsman_memory", {}), GuidanceMemory, str_keys=True)
        return self._guide.turn(_Messages(state["messages"]), memory, session=thread_id())

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Apply the decision to this call."""
        return handler(self._with_guidance(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Apply the decision to this call."""
        return await handler(self._with_guidance(request))

    def _with_guidance(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        state: dict[str, Any] = {**request.state}
        if text := state.get("pointsman_injection"):
            request = request.override(messages=_appended(request.messages, mark("guidance", text)))
        if state.get("pointsman_raised") and self._stronger_model is not None:
            request = request.override(model=self._stronger_model)
        return request


def _update(decision: GuidanceDecision, memory: GuidanceMemory) -> dict[str, Any]:
    """Changes of the agent's state by a decision."""
    update: dict[str, Any] = {
        "pointsman_memory": msgspec.to_builtins(memory, str_keys=True),
        "pointsman_injection": decision.injection,
        "pointsman_raised": decision.raise_tier,
    }
    if decision.stop and decision.firing:
        said = AIMessage(f"Stopped by Pointsman: still stuck ({decision.firing.reason}).")
        return {**update, "jump_to": "end", "messages": [said]}
    return update


def _appended(messages: Sequence[AnyMessage], text: str) -> list[AnyMessage]:
    """Inside a copy of the last message: strict providers refuse a user's message after a tool's."""
    if not messages or isinstance(messages[-1], AIMessage):
        return list(messages)
    last = messages[-1]
    content: str | list[Any] = (
        f"{last.content}\n\n{text}"
        if isinstance(last.content, str)
        else [*last.content, {"type": "text", "text": text}]
    )
    return [*messages[:-1], last.model_copy(update={"content": content})]


def thread_id() -> str:
    """Id of the conversation, which decides its side of the experiment; "" outside a checkpointed run."""
    try:
        return str(get_config().get("configurable", {}).get("thread_id", ""))
    except RuntimeError:  # called outside a graph
        return ""


class _Messages:
    """LangChain's messages as Pointsman's, each converted when it is read."""

    def __init__(self, messages: Sequence[AnyMessage]) -> None:
        self._messages: Final = messages

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: int, /) -> Message:
        return read_message(self._messages[index])


def read_message(message: BaseMessage) -> Message:
    """Read one message. A tool's message without an error status may still say that it failed."""
    text = str(message.text)
    if isinstance(message, ToolMessage):
        failed = True if message.status == "error" else None
        return Message(Role.TOOL, results=(ToolResult(message.tool_call_id, text, failed),))
    if isinstance(message, AIMessage):
        calls = [
            ToolCall(call["id"] or "", call["name"], encoded(call["args"], str).decode())
            for call in message.tool_calls
        ]
        broken = [
            ToolCall(call["id"] or "", call["name"] or "", call["args"] or "")
            for call in message.invalid_tool_calls
        ]
        return Message(Role.ASSISTANT, (text,), (*calls, *broken))
    return Message(Role.USER if isinstance(message, HumanMessage) else Role.SYSTEM, (text,))


# The middleware that chooses the model of each call by its tier.


class RoutingMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Replaces the model of a call. The session is the thread, else how the conversation begins."""

    def __init__(self, models: Mapping[str, BaseChatModel], host: Host) -> None:
        """Choose among models, by configured name or by tier."""
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
