"""The middleware: decides before each model call, and adds to that call only.

Session memory is part of the agent's state, in plain values: a checkpointer stores it, and a run
that is resumed or forked carries on from the earlier hints.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
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
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.config import get_config
from langgraph.runtime import Runtime

from pointsman.config.applications import load_classes
from pointsman.drivers import drive, drive_async, no_model
from pointsman.guidance import GuidanceDecision, GuidanceMemory, GuidancePolicy, Guide, Mode
from pointsman.model_calls import AskingThread, ask_nobody
from pointsman.vocabulary import Message, ModelQuery, ModelReply, Role, ToolCall, ToolResult
from pointsman.wire.items import mark

__all__ = ["GuidanceMiddleware", "GuidanceState", "read_message", "thread_id"]


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
            ToolCall(call["id"] or "", call["name"], msgspec.json.encode(call["args"], enc_hook=str).decode())
            for call in message.tool_calls
        ]
        broken = [
            ToolCall(call["id"] or "", call["name"] or "", call["args"] or "")
            for call in message.invalid_tool_calls
        ]
        return Message(Role.ASSISTANT, (text,), (*calls, *broken))
    return Message(Role.USER if isinstance(message, HumanMessage) else Role.SYSTEM, (text,))
