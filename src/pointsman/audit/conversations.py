"""The requests of a logged session as its client would have sent them, decided one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Final

from pointsman.audit.session import Request, Session
from pointsman.decision.engine import Decided, Engine
from pointsman.decision.memory import Memory
from pointsman.drivers import drive, no_model
from pointsman.vocabulary import (
    OF_SUBAGENT,
    AgentRequest,
    AgentRole,
    Message,
    Purpose,
    Role,
    ToolCall,
    ToolResult,
    WireFormat,
)
from pointsman.wire.project import named_project

__all__ = ["Conversations"]

#: Bytes of a token, as the engine estimates a request's length from its size.
_BYTES: Final = 4
_FORMATS: Final[Mapping[str, WireFormat]] = {
    "claude-code": WireFormat.MESSAGES,
    "codex": WireFormat.RESPONSES,
}
#: Requests of the main conversation; the others are helper calls.
_MAIN: Final = frozenset({Purpose.MESSAGE, Purpose.TOOL_ITERATION, Purpose.PLAN, Purpose.EDIT})


class _Messages(list[Message]):
    """The messages of a conversation so far."""

    def role(self, index: int, /) -> Role:
        return self[index].role


class Conversations:
    """Puts the requests of one session to the engine, as its client would have sent them.

    Args:
        engine: What decides. No model is asked.
        session: Messages are cut to ``session.KEPT`` characters each.
        new_id: Makes the ids of decisions; by default numbers.
        unspoken: Whether also those are decided without known user messages before them.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        *,
        new_id: Callable[[], str] | None = None,
        unspoken: bool = False,
    ) -> None:
        self._engine = engine
        self._session = session
        self._project = named_project(session.project)
        self._format = _FORMATS.get(session.client, WireFormat.CHAT)
        has_tools = bool(session.tools_offered) or any(each.calls for each in session.requests)
        self._features = frozenset({"tools"}) if has_tools else frozenset()
        self._messages: dict[str, _Messages] = {}
        self._memories: dict[str, Memory] = {}
        self._spoken: set[str] = set()  # agents to whom somebody said something
        numbers = count()
        self._new_id = new_id or (lambda: str(next(numbers)))
        self._unspoken = unspoken

    def next(self, request: Request) -> Decided | None:
        """Decide the next request. None: no user message is known."""
        said = Message(Role.USER, (request.prompt or "",))
        if request.purpose not in _MAIN:
            return self._decide(request, _Messages([said]))
        messages = self._messages.setdefault(request.agent, _Messages())
        if request.prompt is not None:
            messages.append(said)
            self._spoken.add(request.agent)
        decided = self._decide(request, messages) if self._unspoken or request.agent in self._spoken else None
        messages.extend(_answer(request))
        return decided

    def _decide(self, request: Request, messages: _Messages) -> Decided:
        main = AgentRole.SUBAGENT if request.agent else AgentRole.MAIN
        role = main if request.purpose in _MAIN else AgentRole.HELPER
        memory = self._memories.get(request.agent, Memory())
        asked = AgentRequest(
            format=self._format,
            history=messages,
            session=(self._session.id + OF_SUBAGENT + request.agent if request.agent else self._session.id),
            arrived_at=request.at,
            size=_BYTES * request.usage.input_tokens,
            features=self._features,
            role=role,
            purpose=request.purpose,
            project=self._project,
            client=self._session.client,
        )
        found = drive(self._engine.decide(asked, memory, self._new_id()), no_model)
        self._memories[request.agent] = found.memory
        return found


def _answer(request: Request) -> Iterator[Message]:
    """Addition of a request to the conversation: the answer, and the results of its calls."""
    if request.text or request.calls:
        texts = (request.text,) if request.text else ()
        made = tuple(ToolCall(call.id, call.name, call.arguments) for call in request.calls)
        yield Message(Role.ASSISTANT, texts, made)
    results = tuple(
        ToolResult(call.id, call.result, call.is_error) for call in request.calls if call.result is not None
    )
    if results:
        yield Message(Role.TOOL, results=results)
