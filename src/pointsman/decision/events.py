"""Events that an agent reports of its run, read as the requests that it sends elsewhere.

An agent with hooks reports user messages and tool results, one event at a time and without the
history. Words are judged when they are sent; the agent's later actions belong to the same words.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from pointsman.decision.decision import Decision
from pointsman.decision.input import ReadRequest
from pointsman.decision.memory import Memory
from pointsman.guidance import Moment, Seen
from pointsman.trajectory import Event, ToolInvoked
from pointsman.trajectory.step import Step
from pointsman.vocabulary import AgentRequest, AgentRole, Evidence, Purpose, Reason, Stage, WireFormat
from pointsman.wire.request import request_from_text

__all__ = ["UNSEEN", "AgentEvent", "going_on", "prompt_of", "with_event"]

#: An agent that calls tools offers them with each of its requests.
_NEEDED = frozenset({"tools"})
#: Of an event whose tier no words of a person decided; it stands with that tier.
UNSEEN: Final = Reason("evidence.unseen", "no words of a person were reported in this session")


class AgentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of an agent's run."""

    name: str  # as the agent calls it: "PostToolUse"
    session: str
    arrived_at: float  # seconds since the epoch
    number: int  # among the events of the session, from 1
    format: WireFormat = WireFormat.MESSAGES  # that the agent speaks
    role: AgentRole = AgentRole.MAIN
    purpose: Purpose | None = None  # as the request would have that the event stands for
    project: str = ""  # key of what the agent works on
    project_name: str = ""  # of its folder
    prompt: str = ""  # what a person said
    happened: Event | None = None  # what joins the run
    before: tuple[Event, ...] = ()  # what joined it before and was not reported
    moment: Moment | None = None  # for configured providers; None: at no decision point


def prompt_of(event: AgentEvent) -> AgentRequest:
    """Return the words of an event as the request that they begin."""
    request = request_from_text(event.prompt, session=event.session, arrived_at=event.arrived_at)
    return replace(
        request,
        format=event.format,
        features=_NEEDED,
        role=event.role,
        role_mark=_mark(event),
        purpose=event.purpose,
        project=event.project,
        project_name=event.project_name,
    )


def going_on(event: AgentEvent, then: Decision, memory: Memory, evidence: Evidence) -> ReadRequest:
    """Return the reading of an event without a user message: that of the latest decision is reused.

    The words were not stored. The decisions made from them hold until the next user message.
    """
    by_role = (
        then.tier is not None and then.tier.stage is Stage.ROLE
    )  # of the prompt's purpose, not its words
    called = (event.happened.tool_name,) if isinstance(event.happened, ToolInvoked) else ()
    selected = then.capabilities and replace(then.capabilities, continued=True, command="", called=called)
    return ReadRequest(
        then.input,
        memory.message,
        bool(memory.message),
        evidence,
        searched=memory.searched,
        capabilities=selected,
        tier=None if by_role else then.tier,
        words_gone=True,
        role_mark=_mark(event),
        abstained=tuple(reason for reason in then.abstained if reason.code == UNSEEN.code),
    )


def with_event(
    reading: ReadRequest,
    event: AgentEvent,
    seen: Seen | None,
    run: tuple[int, tuple[Step, ...], bool],
    failed: tuple[Reason, ...],
) -> ReadRequest:
    """Replace a request's report of the run by that of an event.

    Args:
        reading: Of the words.
        event: The report of the agent.
        seen: The run up to the event; None where guidance is off, or failed.
        run: Number of the conversation, its new calls, and whether a person has spoken since.
        failed: What could not be read.
    """
    thread, steps, person_spoke = run
    asked = replace(
        reading.input,
        arrived_at=event.arrived_at,
        purpose=event.purpose,
        project=event.project,
        project_name=event.project_name,
        messages=event.number,
        in_tool_loop=not event.prompt,
        thread=thread,
        steps=steps,
        person_spoke=person_spoke,
        event=event.name,
    )
    unseen = (UNSEEN,) if reading.request is not None and not event.prompt else ()
    return replace(reading, input=asked, seen=seen, abstained=(*reading.abstained, *failed, *unseen))


def _mark(event: AgentEvent) -> str:
    """The mark of the role: ``AgentRequest.role_mark``."""
    return f"the hook {event.name}"
