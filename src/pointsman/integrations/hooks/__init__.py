"""Pointsman inside agents that run a command at their events (hooks): no gateway in between.

After every tool call Claude Code, Codex and the plugin of opencode run a command, with the event on its
standard input, and add the command's answer to the model's context.
"""

from __future__ import annotations

from pointsman.drivers import drive, no_model
from pointsman.guidance import Guide
from pointsman.integrations.hooks._events import (
    ClaudeCodeEvent,
    CodexEvent,
    HookEvent,
    HookState,
    OpencodeEvent,
    RunState,
    answer_of,
    ends,
    happened,
    moment_of_event,
    read_event,
    settings,
)
from pointsman.trajectory import Event

__all__ = [
    "ClaudeCodeEvent",
    "CodexEvent",
    "HookEvent",
    "HookState",
    "OpencodeEvent",
    "RunState",
    "answer_event",
    "read_event",
    "settings",
]


def answer_event(event: HookEvent, state: HookState, guide: Guide) -> dict[str, object] | None:
    """Take an event into its run, decide its guidance alone, and answer in the hook's format.

    No model is asked. ``decisions.decide_event`` decides every part; it imports the modules of a gateway.

    Args:
        event: The agent's event.
        state: The runs so far.
        guide: What decides.

    Returns:
        The answer; None when there is nothing to say.
    """
    joins, moment = happened(event), moment_of_event(event)
    if joins is None and (moment is None or not guide.reads_all):
        return None
    with state.session(event.run) as kept:
        before: tuple[Event, ...] = ()
        if guide.reads_ends and ends(event):
            from pointsman.integrations.hooks._transcripts import unreported  # the audit's readers of logs

            before = unreported(event, kept.memory.thread().trajectory.state.tool_call_count)
        seen = guide.follow(joins, kept.memory, moment, before=before)
        decision, kept.memory = drive(guide.proceed(seen, kept.memory, session=event.run), no_model)
        kept.saw(event.run, decision)
    added = [("guidance", decision.injection)] if decision.injection else []
    return answer_of(event, decision, added)
