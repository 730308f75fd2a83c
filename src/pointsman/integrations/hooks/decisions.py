"""The hook under a configuration: every part of a decision, and an entry of the ledger for each event."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from pointsman.decision.decision import Decision
from pointsman.decision.memory import Memory, without_content
from pointsman.decision.reader import UNSEEN, AgentEvent
from pointsman.drivers import no_model
from pointsman.integrations.hooks._events import (
    HookEvent,
    HookState,
    answer_of,
    ends,
    happened,
    moment_of_event,
)
from pointsman.runtime import Runtime
from pointsman.tiers import Spending
from pointsman.trajectory import Event
from pointsman.vocabulary import ModelQuery, ModelReply
from pointsman.wire.project import folder_name, named_project

__all__ = ["HookMemory", "decide_event"]


class HookMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of a run between two events: hashes and counters, and no words."""

    memory: Memory = Memory()
    then: Decision | None = None  # what stands of the latest decision
    events: int = 0


def decide_event(
    event: HookEvent,
    state: HookState,
    runtime: Runtime,
    ask: Callable[[ModelQuery], ModelReply] = no_model,
) -> dict[str, object] | None:
    """Decide at an event as the gateway decides a request, record it, and answer in the hook's format.

    Args:
        event: The agent's event.
        state: The runs so far; the cost of verification is stored there too.
        runtime: What decides and records.
        ask: Answers questions to models; by default no model is asked.

    Returns:
        The answer; None when there is nothing to say.
    """
    joins, moment = happened(event), moment_of_event(event)
    if joins is None and (moment is None or not runtime.engine.asks_at_events):
        return None
    with state.decided(event.run, HookMemory(), Spending()) as (kept, shared):
        runtime.questions.resume(shared.memory)
        before = kept.memory
        unseen: tuple[Event, ...] = ()
        if runtime.engine.reads_ends and ends(event):
            from pointsman.integrations.hooks._transcripts import unreported  # the audit's readers of logs

            unseen = unreported(event, before.memory.guidance.thread().trajectory.state.tool_call_count)
        # The directory in which the run began, as a gateway without callers' keys names it.
        then = before.then.input if before.then else None
        reported = AgentEvent(
            name=event.hook_event_name,
            session=event.run,
            arrived_at=state.now,
            number=before.events + 1,
            role=event.role,
            purpose=event.purpose,
            project=(then.project if then else "") or named_project(event.cwd),
            project_name=then.project_name if then and then.project else folder_name(event.cwd),
            prompt=event.prompt,
            happened=joins,
            before=unseen,
            moment=moment,
        )
        decision, memory = runtime.decide_event(reported, before.memory, before.then, ask)
        kept.memory = HookMemory(without_content(memory), _standing(decision), reported.number)
        shared.memory = runtime.questions.spending
        if decision.guidance:
            kept.saw(event.run, decision.guidance)
    added = [(each.source, each.text) for each in decision.injections]
    return answer_of(event, decision.guidance, added)


def _standing(decision: Decision) -> Decision:
    """The part of a decision that holds until the next user message, without quotations."""
    asked = replace(decision.input, steps=())
    selected = decision.capabilities
    return Decision(
        id=decision.id,
        input=asked,
        policy=decision.policy,
        tier=decision.tier,
        chain=decision.chain,
        abstained=tuple(reason for reason in decision.abstained if reason.code == UNSEEN.code),
        capabilities=selected and replace(selected, offered=(), asked_model=(), reasons=(), scores={}),
    )
